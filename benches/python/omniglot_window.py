#!/usr/bin/env python3
"""What a PyTorch user would write: OUPN training windows on RoamingOmniglot's shapes (Conv-4, 150 frames, two views).

pip install torch
usage: omniglot_window.py [--windows 20] [--threads 2]

The straightforward loop: one encoder pass over 300 images of 28x28, then frame by frame the E-step, the decision, the
M-step and both predictions on a memory of 150 prototypes, all under autograd, then backward and Adam. Images are random:
only time is measured. Prints one JSON line with seconds per window (each, and the best). Run it alternately with
`oupn-edge train --stream omniglot` and compare the best of each: machines are noisy.
"""
import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

FRAMES, SLOTS, DECAY, RATIO = 150, 150, 0.995, 0.2


class Conv4(nn.Module):
    def __init__(self):
        super().__init__()
        blocks, channels = [], 1
        for index in range(4):
            blocks += [nn.Conv2d(channels, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64, eps=1e-3)]
            blocks += [nn.ReLU()] if index < 3 else []
            blocks += [nn.MaxPool2d(2)]
            channels = 64
        self.blocks = nn.Sequential(*blocks)

    def forward(self, images):
        return self.blocks(images).flatten(1)


def logits(z, prototypes, counts, inv_tau):
    used = counts > 0
    # An unused slot is a zero vector, whose norm has no gradient: a unit vector stands in for it.
    safe = torch.where(used[:, None], prototypes, torch.ones_like(prototypes))
    cosine = (safe / (safe.norm(dim=1, keepdim=True) + 1e-5)) @ (z / (z.norm() + 1e-5))
    return torch.where(used, inv_tau * cosine, torch.full_like(cosine, -1e6))


def window_loss(first, second, prototypes, counts, inv_tau, beta, gamma):
    teach, entropy, new = [], [], []
    for z, other in zip(first, second):
        v = logits(z, prototypes, counts, inv_tau)
        y = v.softmax(0)
        u = torch.sigmoid((-v.detach().max() - beta) / gamma)
        entropy.append(-(y * y.clamp_min(1e-30).log()).sum())
        new.append(u)
        if u > 0.5:
            write = F.one_hot(counts.argmin(), SLOTS).to(z)
            kept = 1 - write
            prototypes = prototypes * kept[:, None] + write[:, None] * z
            counts = counts * kept + write
        else:
            write = y * (1 - u)
            total = (counts + write).clamp_min(1e-6)
            prototypes = (counts[:, None] * prototypes + write[:, None] * z) / total[:, None]
            counts = counts + write
        counts = counts * DECAY
        label = (logits(z, prototypes, counts, inv_tau).detach() / RATIO).softmax(0)
        teach.append(-(label * logits(other, prototypes, counts, inv_tau).log_softmax(0)).sum())
    mean_new = torch.stack(new).mean().clamp(1e-3, 1 - 1e-3)
    creation = -(mean_new.log() + (1 - mean_new).log() + torch.tensor(6.0).log())
    loss = torch.stack(teach).mean() + torch.stack(entropy).mean() + creation
    return loss, prototypes.detach(), counts.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    encoder = Conv4().train()
    control = [nn.Parameter(torch.tensor(value)) for value in (10.0, -9.0, 1.0)]
    optimiser = torch.optim.Adam([*encoder.parameters(), *control], 1e-3)
    prototypes, counts = torch.zeros(SLOTS, 64), torch.zeros(SLOTS)
    seconds = []
    for _ in range(arguments.windows):
        images = torch.rand(2 * FRAMES, 1, 28, 28)
        start = time.perf_counter()
        first, second = encoder(images).split(FRAMES)
        loss, prototypes, counts = window_loss(first, second, prototypes, counts, *control)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({
        "peer": "pytorch " + torch.__version__, "threads": arguments.threads, "windows": arguments.windows,
        "window_s": [round(s, 3) for s in seconds], "best_window_s": round(min(seconds), 3),
        "windows_per_s": round(1 / min(seconds), 2),
    }))


if __name__ == "__main__":
    main()
