"""Makes objectives.safetensors: the losses of all objectives but OUPN by PyTorch, with their gradients.

    pip install torch safetensors numpy && python make_objectives.py

Everything is computed in double precision by torch.autograd, from inputs that are numbers of 32 bits. Heads are small: an
embedding of D numbers, H hidden, O at the output, K prototypes, a queue of Q. The tests are
crates/learn/src/objective/tests.rs and crates/lab/src/taught/tests.rs.
"""
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

N, D, H, O, K, Q = 6, 8, 7, 5, 9, 10
torch.manual_seed(19)
torch.set_default_dtype(torch.float64)
out = {}


def given(*shape, scale=1.0):
    """Random numbers that 32 bits hold exactly."""
    return (scale * torch.randn(*shape)).float().double().requires_grad_()


def mlp(widths, end_norm):
    """Layers as a flat list of tensors: weight, bias, and where there is a norm its weight and bias."""
    layers = []
    for number, (before, after) in enumerate(zip(widths, widths[1:])):
        last = number == len(widths) - 2
        layers.append([given(after, before, scale=0.5), given(after, scale=0.3)])
        if not last or end_norm:
            layers[-1] += [given(after, scale=0.5), given(after, scale=0.3)]
    return layers


def forward(layers, x):
    for number, layer in enumerate(layers):
        x = F.linear(x, layer[0], layer[1])
        if len(layer) == 4:
            x = F.batch_norm(x, None, None, layer[2], layer[3], training=True, eps=1e-5)
        if number < len(layers) - 1:
            x = F.relu(x)
    return x


def keep(name, z, loss, weights, **more):
    flat = [w for layer in weights for w in (layer if isinstance(layer, list) else [layer])]
    gradients = torch.autograd.grad(loss, [z] + flat)
    whole = lambda tensors: torch.cat([t.detach().reshape(-1) for t in tensors])
    parts = dict(z=z, loss=loss.reshape(1), d_z=gradients[0], weights=whole(flat), d_weights=whole(gradients[1:]), **more)
    for part, value in parts.items():
        out[f"{name}.{part}"] = value.detach().float().contiguous()
    print(name, loss.item())


def simclr(name, end_norm):
    z, projector = given(2 * N, D), mlp([D, H, H, O], end_norm)
    a, b = F.normalize(forward(projector, z)).split(N)
    mask = 1e9 * torch.eye(N)
    labels = torch.arange(N)
    of_a = F.cross_entropy(torch.cat([a @ b.T / 0.5, a @ a.T / 0.5 - mask], 1), labels)
    of_b = F.cross_entropy(torch.cat([b @ a.T / 0.5, b @ b.T / 0.5 - mask], 1), labels)
    keep(name, z, of_a + of_b, projector)


def sinkhorn(scores):
    """As the SwAV paper lays it out: a column for each sample."""
    q = torch.exp(scores / 0.05).T
    q = q / q.sum(0, keepdim=True)
    for _ in range(3):
        q = q / q.sum(1, keepdim=True) / q.shape[0]
        q = q / q.sum(0, keepdim=True) / q.shape[1]
    return (q / q.sum(0, keepdim=True)).T.detach()


def swav(name, queued):
    z, projector, prototypes = given(2 * N, D), mlp([D, H, H, O], False), given(K, O, scale=0.5)
    queue = F.normalize(torch.randn(Q, O)).float().double()
    s1, s2 = (F.normalize(forward(projector, z)) @ prototypes.T).split(N)
    before = (queue @ prototypes.T).detach() if queued else torch.zeros(0, K)
    q1, q2 = (sinkhorn(torch.cat([before, s]).detach())[len(before):] for s in (s1, s2))
    cross = lambda q, s: -(q * F.log_softmax(s / 0.1, 1)).sum(1)
    keep(name, z, 0.5 * (cross(q1, s2) + cross(q2, s1)).mean(), projector + [prototypes], queue=queue)


def simsiam(name):
    z, projector, predictor = given(2 * N, D), mlp([D, H, H, H], True), mlp([H, O, H], False)
    h = forward(projector, z)
    (h1, h2), (p1, p2) = h.split(N), forward(predictor, h).split(N)
    loss = -0.5 * (F.cosine_similarity(h1.detach(), p2) + F.cosine_similarity(h2.detach(), p1)).mean()
    keep(name, z, loss, projector + predictor)


LABELS = [3, 1, 3, 0, 1, 3]


def cross_entropy(name):
    z, classifier = given(2 * N, D), mlp([D, 4], False)
    keep(name, z, F.cross_entropy(forward(classifier, z), torch.tensor(LABELS * 2)), classifier)


def prototypes(name):
    """Frame by frame, as an online learner does it: ask, then write."""
    z = given(2 * N, D)
    control = (1 + 0.2 * torch.randn(3)).float().double().requires_grad_()
    inv_tau, beta, gamma = 10 * control[0], -10 * control[1], control[2]
    loss = 0
    for view in z.split(N):
        seen, classes, unknown = {}, [], []
        for x, label in zip(view, LABELS):
            names = list(seen)
            cosines = [F.cosine_similarity(torch.stack(seen[name]).mean(0), x, dim=0) for name in names]
            nearest = torch.stack(cosines + [torch.zeros(())]).max()
            logit = (-inv_tau * nearest - beta) / gamma
            new = torch.tensor(0.0 if label in seen else 1.0)
            unknown.append(F.binary_cross_entropy_with_logits(logit, new))
            if label in seen:
                logits = inv_tau * torch.stack(cosines)
                classes.append(F.cross_entropy(logits[None], torch.tensor([names.index(label)])))
            seen.setdefault(label, []).append(x)
        loss = loss + 0.5 * (torch.stack(classes).mean() + torch.stack(unknown).mean())
    keep(name, z, loss, [control])


simclr("simclr", False)
simclr("simclr-normed", True)
swav("swav", False)
swav("swav-queue", True)
simsiam("simsiam")
cross_entropy("cross-entropy")
prototypes("prototypes")
save_file(out, Path(__file__).parent / "objectives.safetensors")
