"""Makes drawings.safetensors: OpenCV's own reduction and quarter turns of drawings like Omniglot's.

    pip install opencv-python-headless numpy safetensors && python make_drawings.py

The calls are those of the paper's released code, in its order. OpenCV 4.5.5 and 5.0.0 give the same file.
"""
import cv2
import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(105)
turn = cv2.getRotationMatrix2D((14, 14), 90, 1)
drawings, reduced, turned = [], [], []
for number in range(4):
    # Thin strokes of one bit, some of which touch the border; the last one is noise in all levels.
    drawing = np.full((105, 105, 3), 255, np.uint8)
    for points in rng.integers(-5, 110, (3, 5, 2)):
        cv2.polylines(drawing, [points.astype(np.int32)], False, (0, 0, 0), 2)
    if number == 3:
        drawing = np.repeat(rng.integers(0, 256, (105, 105, 1), dtype=np.uint8), 3, 2)
    small = cv2.resize(drawing, (28, 28), interpolation=cv2.INTER_CUBIC)
    small = 255 - small[:, :, 0:1]
    picture, turns = small, []
    for _ in range(4):
        picture = cv2.warpAffine(picture, turn, (28, 28))
        turns.append(picture)
    drawings.append(drawing[:, :, 0])
    reduced.append(small[:, :, 0])
    turned.append(turns)
save_file(
    {name: np.array(value, np.float32) for name, value in (("drawings", drawings), ("reduced", reduced), ("turned", turned))},
    "drawings.safetensors",
    {"opencv": cv2.__version__},
)
