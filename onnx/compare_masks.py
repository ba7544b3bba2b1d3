"""Compares segtrt's masks with the original predictor's, or with those of another run of segtrt,
frame by frame.

    segtrt bench … --save-masks
    python onnx/reference.py … --out run.npz
    python onnx/compare_masks.py OUT_DIR/masks/CLIP__objOBJECT__TAG.json run.npz
    python onnx/compare_masks.py OUT_DIR/masks OTHER_OUT_DIR/masks

Prints the IoU of each frame (with two folders one line a file), their mean and minimum; ends with 1
below --min-iou.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np


def decode_counts(text):
    """pycocotools' compressed run lengths as a list of integers."""
    counts, at = [], 0
    while at < len(text):
        value, shift, more = 0, 0, True
        while more:
            byte = ord(text[at]) - 48
            value |= (byte & 31) << shift
            more = bool(byte & 32)
            at, shift = at + 1, shift + 5
        if byte & 16:
            value -= 1 << shift
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts


def decode_mask(rle):
    """A COCO run-length mask as bool [H,W]."""
    height, width = rle["size"]
    counts = decode_counts(rle["counts"])
    runs = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return runs.reshape(width, height).T


def iou(a, b):
    """Intersection over union; two empty masks agree."""
    union = np.count_nonzero(a | b)
    return np.count_nonzero(a & b) / union if union else 1.0


def masks_of(path):
    """Masks by frame of a mask file of segtrt."""
    with open(path) as file:
        return {f["frame"]: decode_mask(f["mask"]) for f in json.load(file)["frames"]}


def reference_of(path, first):
    """Masks by frame of a mask file or of a run of onnx/reference.py, which counts from the
    prompted frame `first`."""
    if Path(path).suffix == ".json":
        return masks_of(path)
    with np.load(path) as run:
        width = json.loads(str(run["about"]))["width"]
        theirs = np.unpackbits(run["masks"], axis=-1, count=width).astype(bool)
    return {first + i: mask for i, mask in enumerate(theirs)}


def compare(ours, theirs, say=print):
    """The IoU of each frame that both have."""
    say("frame  area segtrt  area reference       IoU")
    values = []
    for i in sorted(ours.keys() & theirs.keys()):
        values.append(iou(ours[i], theirs[i]))
        say(f"{i:5} {ours[i].sum():12} {theirs[i].sum():15} {values[-1]:9.6f}")
    if not values:
        sys.exit("error: the two have no frame in common")
    return values


def summary(values):
    return f"{len(values)} frames: mean {np.mean(values):.6f}, minimum {min(values):.6f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("segtrt", type=Path, help="mask file of segtrt (JSON), or a folder of such")
    parser.add_argument("reference", type=Path, help="run of onnx/reference.py (.npz), mask file, or "
                                                     "folder of mask files")
    parser.add_argument("--min-iou", type=float, default=0.0, help="end with 1 below this")
    args = parser.parse_args()
    if args.segtrt.is_dir():
        names = sorted(path.name
                       for path in args.segtrt.glob("*.json")
                       if (args.reference / path.name).exists())
        if not names:
            sys.exit(f"error: {args.segtrt} and {args.reference} have no mask file of one name")
        values = []
        for name in names:
            found = compare(masks_of(args.segtrt / name), masks_of(args.reference / name), lambda line: None)
            print(f"{name}: {summary(found)}")
            values += found
    else:
        ours = masks_of(args.segtrt)
        values = compare(ours, reference_of(args.reference, min(ours)))
    print(summary(values))
    sys.exit(int(min(values) < args.min_iou))


if __name__ == "__main__":
    main()
