#!/usr/bin/env python3
"""RoamingOmniglot's scores of a Conv-4, by an implementation that shares nothing with the program.

NumPy, OpenCV and scikit-learn, written from the paper and its released code: archives, pictures, episodes, network, memory, AMI and
AP. Pictures are reduced and turned by OpenCV itself, with the released code's calls. Its episodes are its own, drawn by NumPy, so its
figures differ from `oupn-edge eval` by chance, but not by more. Tensors are read by name and shape: blocks.{0..3}.conv.weight,
blocks.{i}.bn.{weight,bias,running_mean,running_var}, control.{inv_tau,beta,gamma}.

  pip install numpy opencv-python-headless scikit-learn
  tests/independent_eval.py --model models/conv4_omniglot.safetensors --data omniglot --split test --episodes 200
"""
import argparse
import json
import pathlib
import struct
import zipfile

import cv2
import numpy as np
from sklearn.metrics import adjusted_mutual_info_score, auc

FRAMES, CONTEXTS, IN_CONTEXT, CLASSES_IN_CONTEXT, OF_CLASS = 150, 5, 30, 10, 6
DISCOUNT, STRENGTH, SWITCH = 0.2, 1.0, 0.2
DECAY = 0.995


def read_tensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"]).astype(np.float64)
        for name, entry in header.items()
    }


TURN = cv2.getRotationMatrix2D((14, 14), 90, 1)
SPLITS = pathlib.Path(__file__).parent.parent / "crates/lab/src/streams/splits"


def read_split(folder, split):
    """Classes of 20 drawings, 28x28 with ink = 1, by super-class: every character at four turns, one after the other."""
    wanted = (SPLITS / f"omniglot_{split}.txt").read_text().split()
    files = {name: [] for name in wanted}
    for archive in ("images_background.zip", "images_evaluation.zip"):
        with zipfile.ZipFile(folder / archive) as zipped:
            for entry in sorted(zipped.namelist()):
                name = "/".join(entry.split("/")[1:3])
                if entry.endswith(".png") and name in files:
                    picture = cv2.imdecode(np.frombuffer(zipped.read(entry), np.uint8), cv2.IMREAD_COLOR)
                    files[name].append(255 - cv2.resize(picture, (28, 28), interpolation=cv2.INTER_CUBIC)[:, :, 0])
    supers = {}
    for name, drawings in files.items():
        for _ in range(4):
            drawings = [cv2.warpAffine(drawing, TURN, (28, 28)) for drawing in drawings]
            supers.setdefault(name.split("/")[0].split("_")[0], []).append(np.stack(drawings).astype(np.float32) / 255.0)
    return list(supers.values())


def restaurant(random):
    """The classes of one context's frames, by number."""
    counts, sequence = [], []
    while len(sequence) < IN_CONTEXT:
        mass = [count - DISCOUNT for count in counts] + [STRENGTH + DISCOUNT * len(counts)]
        table = random.choice(len(mass), p=np.array(mass) / (len(sequence) + STRENGTH))
        if table == len(counts):
            if len(counts) == CLASSES_IN_CONTEXT:
                break
            counts.append(0)
        elif counts[table] == OF_CLASS:
            continue
        counts[table] += 1
        sequence.append(table)
    return sequence


def episode(supers, random):
    """Pairs of a class (super-class, class in it) and a drawing."""
    contexts = [restaurant(random) for _ in range(CONTEXTS)]
    supers_order = random.permutation(len(supers))
    orders = [random.permutation(len(classes)) for classes in supers]
    drawings, frames, current = {}, [], 0
    while any(contexts):
        while not contexts[current]:
            current = random.integers(CONTEXTS)
        number = contexts[current].pop(0)
        group = supers_order[number % len(supers)]
        name = (group, orders[group][current])
        left = drawings.setdefault(name, list(random.permutation(20)))
        if left:
            frames.append((name, left.pop()))
        if random.random() < SWITCH:
            current = random.integers(CONTEXTS)
    return frames[:FRAMES]


def embed(tensors, pictures):
    x = pictures[:, None].astype(np.float32)
    for block in range(4):
        weight = tensors[f"blocks.{block}.conv.weight"].astype(np.float32)
        norm = {part: tensors[f"blocks.{block}.bn.{part}"] for part in ("weight", "bias", "running_mean", "running_var")}
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        x = np.einsum("nchwij,ocij->nohw", patches, weight, optimize=True)
        scale = norm["weight"] / np.sqrt(norm["running_var"] + 1e-3)
        shift = norm["bias"] - norm["running_mean"] * scale
        x = x * scale[:, None, None].astype(np.float32) + shift[:, None, None].astype(np.float32)
        if block < 3:
            x = np.maximum(x, 0.0)
        side = x.shape[2] // 2
        x = x[:, :, : 2 * side, : 2 * side].reshape(*x.shape[:2], side, 2, side, 2).max((3, 5))
    return x.reshape(len(x), -1).astype(np.float64)


def unit(x):
    return x / (np.linalg.norm(x, axis=-1, keepdims=True) + 1e-5)


def clusters(z, control, threshold):
    """The category of every frame; none of the slots, as many as frames, is ever taken twice."""
    inv_tau, beta, gamma = control
    prototypes, counts, names = np.zeros_like(z), np.zeros(len(z)), []
    used = 0
    for frame in z:
        new = 1.0
        if used:
            logits = inv_tau * unit(prototypes[:used]) @ unit(frame)
            new = 1.0 / (1.0 + np.exp((logits.max() + beta) / gamma))
        if new > threshold:
            names.append(used)
            prototypes[used], counts[used] = frame, 1.0
            used += 1
        else:
            names.append(int(logits.argmax()))
            share = np.exp(logits - logits.max())
            share *= (1.0 - new) / share.sum()
            total = np.maximum(counts[:used] + share, 1e-6)
            prototypes[:used] = (counts[:used, None] * prototypes[:used] + share[:, None] * frame) / total[:, None]
            counts[:used] += share
        counts *= DECAY
    return names


def labelled(z, labels, control):
    """For every frame: how new it looks, whether it is known, whether it is named rightly; then it is told."""
    inv_tau, beta, gamma = control
    prototypes, counts, seen, rows = [], [], [], []
    for frame, label in zip(z, labels):
        logits = inv_tau * unit(np.array(prototypes)) @ unit(frame) if seen else np.array([-1e6])
        known = label in seen
        right = known and seen[int(logits.argmax())] == label
        rows.append(((-logits.max() - beta) / gamma, known, right))
        if not known:
            seen.append(label)
            prototypes.append(np.zeros_like(frame))
            counts.append(0.0)
        slot = seen.index(label)
        prototypes[slot] = (counts[slot] * prototypes[slot] + frame) / (counts[slot] + 1.0)
        counts[slot] += 1.0
        counts = [DECAY * count for count in counts]
    return rows


def average_precision(rows):
    rows = sorted(rows, key=lambda row: row[0])
    right = np.cumsum([row[2] for row in rows])
    recall = right / sum(row[1] for row in rows)
    precision = right / np.arange(1, len(rows) + 1)
    return auc(np.concatenate([[0.0], recall]), np.concatenate([[1.0], precision]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--split", default="test", choices=["train", "val", "test"])
    parser.add_argument("--episodes", default=200, type=int)
    parser.add_argument("--seed", default=0, type=int)
    args = parser.parse_args()
    tensors = read_tensors(args.model)
    control = [float(tensors[f"control.{name}"].ravel()[0]) for name in ("inv_tau", "beta", "gamma")]
    supers = read_split(args.data, args.split)
    random = np.random.default_rng(args.seed)
    streams, rows = [], []
    for _ in range(args.episodes):
        frames = episode(supers, random)
        z = embed(tensors, np.stack([supers[group][one][drawing] for (group, one), drawing in frames]))
        names = [name for name, _ in frames]
        streams.append((z, [names.index(name) for name in names]))
        rows += labelled(z, names, control)

    def ami(threshold, some):
        return [adjusted_mutual_info_score(labels, clusters(z, control, threshold)) for z, labels in some]

    threshold = max(np.linspace(0.01, 0.99, 100), key=lambda threshold: np.mean(ami(threshold, streams[:10])))
    scores = ami(threshold, streams)
    error = np.std(scores, ddof=1) / np.sqrt(len(scores)) if len(scores) > 1 else float("nan")
    classes = np.mean([len(set(labels)) for _, labels in streams])
    print(json.dumps({
        "ami": round(np.mean(scores), 4), "ami_error": round(error, 4), "ap": round(average_precision(rows), 4),
        "threshold": round(float(threshold), 4), "classes": round(classes, 2), "frames": sum(len(z) for z, _ in streams),
        "episodes": args.episodes, "split": args.split,
    }))


if __name__ == "__main__":
    main()
