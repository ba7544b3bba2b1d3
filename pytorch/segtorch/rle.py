"""Masks as COCO run lengths in pycocotools' string, as `segtrt bench --save-masks` writes them.

`onnx/compare_masks.py` decodes them.
"""

import numpy as np


def runs(mask):
    """Lengths of the runs down the columns of a bool [H,W], background first."""
    flat = np.asarray(mask, bool).ravel(order="F")
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths = np.diff(np.concatenate(([0], edges, [flat.size]))).tolist()
    return [0, *lengths] if flat.size and flat[0] else lengths


def compress(counts):
    """Run lengths as text: from the fourth on the difference to the one two before, in groups of
    five bits."""
    text = []
    for index, count in enumerate(counts):
        rest = count - counts[index - 2] if index > 2 else count
        while True:
            group, rest = rest & 31, rest >> 5
            # Done once what is left is nothing but the sign that the group's top bit already shows.
            done = rest == (-1 if group & 16 else 0)
            text.append(chr((group if done else group | 32) + 48))
            if done:
                break
    return "".join(text)


def encode(mask):
    """A mask bool [H,W] as COCO's {"size", "counts"}."""
    height, width = mask.shape
    return {"size": [height, width], "counts": compress(runs(mask))}
