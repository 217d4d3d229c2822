"""Makes timm.safetensors: the names and shapes of timm's MobileNet-V2 networks, and the features that timm computes.

    pip install timm==1.0.31 torch safetensors && python make_timm.py

The weights are not stored: each number is a function of the tensor's name and its position, which the test
(crates/encoder/src/timm.rs) computes, too. timm runs in evaluation mode and in double precision, on one picture.
"""
import json
from pathlib import Path

import numpy as np
import timm
import torch
from safetensors.numpy import save_file

SIDE = 64
COMPUTED = ["mobilenetv2_050.lamb_in1k", "mobilenetv2_100.ra_in1k", "mobilenetv2_140.ra_in1k"]
NAMED = ["mobilenetv2_110d.ra_in1k"]


def numbers(name, count):
    """Numbers from -1 to 1: SplitMix64 of the name's FNV-1a hash and the position, 24 bits of it."""
    start = 0xCBF29CE484222325
    for byte in name.encode():
        start = (start ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        bits = np.uint64(start) + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((bits ^ (bits >> np.uint64(31))) >> np.uint64(40)).astype(np.float64) / 2**23 - 1


def tensor(name, shape):
    if len(shape) == 4:
        centre, spread = 0.0, np.sqrt(6.0 / (shape[1] * shape[2] * shape[3]))
    elif name.endswith("num_batches_tracked"):
        centre, spread = 0.0, 0.0
    elif name.endswith("running_var") or name.endswith("weight"):
        centre, spread = 1.0, 0.5
    else:
        centre, spread = 0.0, 0.5
    values = centre + spread * numbers(name, int(np.prod(shape, dtype=int)))
    return values.astype(np.float32).reshape(shape)


image = numbers("image", SIDE * SIDE * 3).astype(np.float32).reshape(1, SIDE, SIDE, 3)
image = torch.from_numpy(image).permute(0, 3, 1, 2).double()
metadata, features = {"side": str(SIDE), "timm": timm.__version__}, {}
for name in COMPUTED + NAMED:
    # The whole network has the published file's names; the one without a classifier gives features.
    model = timm.create_model(name, pretrained=False).eval()
    shapes = {key: list(value.shape) for key, value in model.state_dict().items()}
    # What belongs to no encoder need not be large.
    shapes = {key: [1] if key.startswith("classifier.") else shape for key, shape in shapes.items()}
    metadata[name] = json.dumps(shapes, separators=(",", ":"))
    if name in COMPUTED:
        model.reset_classifier(0)
        state = {key: torch.from_numpy(tensor(key, tuple(value.shape))) for key, value in model.state_dict().items()}
        model.load_state_dict(state, strict=True)
        with torch.no_grad():
            found = model.double()(image)[0].numpy()
        print(name, found.shape, "features from", found.min(), "to", found.max())
        features[f"{name}.features"] = found.astype(np.float32)
save_file(features, Path(__file__).with_name("timm.safetensors"), metadata)
