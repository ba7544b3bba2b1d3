"""Compares segtrt's masks with the original predictor's, frame by frame.

    segtrt bench … --save-masks
    python onnx/reference.py … --out run.npz
    python onnx/compare_masks.py OUT_DIR/masks/CLIP__objOBJECT__TAG.json run.npz

Prints the IoU of each frame, their mean and minimum; ends with 1 below --min-iou.
"""

import argparse
import json
import sys

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("segtrt", help="mask file of segtrt (JSON)")
    parser.add_argument("reference", help="run of onnx/reference.py (.npz)")
    parser.add_argument("--min-iou", type=float, default=0.0, help="end with 1 below this")
    args = parser.parse_args()
    with open(args.segtrt) as file:
        ours = {f["frame"]: decode_mask(f["mask"]) for f in json.load(file)["frames"]}
    with np.load(args.reference) as run:
        width = json.loads(str(run["about"]))["width"]
        theirs = np.unpackbits(run["masks"], axis=-1, count=width).astype(bool)
    first = min(ours)
    pairs = [(i, ours[i + first], mask) for i, mask in enumerate(theirs) if i + first in ours]
    if not pairs:
        sys.exit(f"error: {args.segtrt} and {args.reference} have no frame in common")
    print("frame  area segtrt  area reference       IoU")
    for i, mask, other in pairs:
        print(f"{i:5} {mask.sum():12} {other.sum():15} {iou(mask, other):9.6f}")
    values = [iou(mask, other) for _, mask, other in pairs]
    print(f"{len(values)} frames: mean {np.mean(values):.6f}, minimum {min(values):.6f}")
    sys.exit(int(min(values) < args.min_iou))


if __name__ == "__main__":
    main()
