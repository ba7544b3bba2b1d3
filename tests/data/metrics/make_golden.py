"""Makes golden.json.gz: random masks with the scores that Python gives them.

    pip install numpy opencv-python-headless scikit-image pycocotools
    python tests/data/metrics/make_golden.py
"""

import gzip
import hashlib
import json
import pathlib
import sys
from importlib.metadata import version

import cv2
import numpy as np
import skimage
from pycocotools import mask as coco

from reference import official_frame, official_sequence, predecessor_frame, predecessor_sequence

SIZES = [(1, 1), (1, 9), (7, 1), (2, 3), (5, 64), (64, 5), (33, 63), (40, 65), (31, 127), (48, 128),
         (90, 129), (120, 213), (160, 90), (240, 427), (300, 200), (480, 854)]


def blob(rng, height, width):
    """A smooth random shape; the threshold varies from specks to nearly everything."""
    noise = rng.standard_normal((height, width)).astype(np.float32)
    noise = cv2.GaussianBlur(noise, (0, 0), max(0.8, min(height, width) / rng.integers(5, 20)))
    return noise > np.quantile(noise, rng.choice([0.3, 0.6, 0.8, 0.9, 0.97]))


def moved(rng, mask):
    """What a tracker might have made of it: shifted, grown or shrunk, frayed."""
    height, width = mask.shape
    reach = max(1, min(height, width) // 12)
    dy, dx = rng.integers(-reach, reach + 1, 2)
    shift = np.float32([[1, 0, dx], [0, 1, dy]])
    out = cv2.warpAffine(mask.astype(np.uint8), shift, (width, height))
    kernel = np.ones((3, 3), np.uint8)
    out = [cv2.dilate, cv2.erode, lambda m, _: m][rng.integers(3)](out, kernel) > 0
    return out ^ (rng.random(mask.shape) < rng.choice([0, 0.002]))


def special_pairs(rng):
    for height, width in [(3, 3), (37, 70), (60, 128)]:
        empty, full = np.zeros((height, width), bool), np.ones((height, width), bool)
        shape, corner, last = blob(rng, height, width), empty.copy(), empty.copy()
        corner[: height // 2, : width // 2] = True
        last[-1, -1] = True
        frame = full.copy()
        frame[1:-1, 1:-1] = False
        for pair in [(empty, empty), (full, full), (empty, full), (full, empty), (empty, shape),
                     (shape, empty), (full, shape), (corner, shape), (corner, corner[::-1, ::-1]),
                     (last, last), (last, empty), (last, full), (frame, full), (frame, corner)]:
            yield pair


def rle(mask):
    if mask is None:
        return None
    found = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    return {"size": found["size"], "counts": found["counts"].decode()}


def scores(frame, truth, prediction):
    j, f = frame(truth, prediction)
    return {"j": j, "f": f}


def main():
    rng = np.random.default_rng(20261121)
    pairs = list(special_pairs(rng))
    for height, width in SIZES:
        for _ in range(2 if height * width > 50_000 else 5):
            truth = blob(rng, height, width)
            prediction = moved(rng, truth) if rng.random() < 0.8 else blob(rng, height, width)
            pairs.append((truth, prediction))
    sequences = []
    for _ in range(24):
        height, width = rng.integers(8, 80, 2)
        empty = np.zeros((height, width), bool)
        frames = []
        for _ in range(rng.integers(0, 9)):
            truth = blob(rng, height, width) if rng.random() < 0.6 else empty
            prediction = moved(rng, truth)
            if rng.random() < 0.3:
                prediction = None if rng.random() < 0.5 else empty
            frames.append((truth if rng.random() < 0.9 else None, prediction))
        sequences.append(frames)
    golden = {
        "made_with": {
            "python": sys.version.split()[0], "numpy": np.__version__, "opencv": cv2.__version__,
            "scikit-image": skimage.__version__, "pycocotools": version("pycocotools"),
        },
        "pairs": [
            {
                "truth": rle(truth),
                "prediction": rle(prediction),
                # Rows of 0 and 1 bytes: checks the decoding apart from the encoding.
                "truth_sha256": hashlib.sha256(truth.astype(np.uint8).tobytes()).hexdigest(),
                "predecessor": scores(predecessor_frame, truth, prediction),
                "official": scores(official_frame, truth, prediction),
            }
            for truth, prediction in pairs
        ],
        "sequences": [
            {
                "frames": [[rle(truth), rle(prediction)] for truth, prediction in frames],
                "predecessor": predecessor_sequence(frames),
                "official": official_sequence(frames),
            }
            for frames in sequences
        ],
    }
    path = pathlib.Path(__file__).with_name("golden.json.gz")
    text = json.dumps(golden, separators=(",", ":"))
    text = text.replace('{"truth":', '\n{"truth":').replace('{"frames":', '\n{"frames":') + "\n"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{path.name}: {len(pairs)} pairs, {len(sequences)} sequences, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
