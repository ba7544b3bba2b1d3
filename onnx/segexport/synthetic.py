"""Deterministic test frames by integer formula, easily repeated in any language.

Pixel (x, y) of frame t in an S x S image, all operations on non-negative integers:
    background  r = (2x + 3t) mod 128,  g = (x + 2y) mod 128,  b = ((x xor y) + 5t) mod 128
    object      where (x - cx)^2 + (y - cy)^2 <= R^2 with R = S/6 (integer division),
                cx = S/3 + 4t, cy = S/2 + 2t - (t*t)/8 (integer divisions):
                r = 200 + (3x + y) mod 48,  g = 40 + (x + 5y) mod 24,  b = 60
The click is the disc's centre on frame 0.
"""

import numpy as np
import torch

from .manifest import MEAN, STD

FORMULA = " ".join(__doc__.split("\n\n", 1)[1].split())


def frame(side, t):
    """uint8 [S,S,3] RGB."""
    y, x = np.mgrid[0:side, 0:side].astype(np.int64)
    back = [(2 * x + 3 * t) % 128, (x + 2 * y) % 128, ((x ^ y) + 5 * t) % 128]
    front = [200 + (3 * x + y) % 48, 40 + (x + 5 * y) % 24, np.full_like(x, 60)]
    cx, cy = centre(side, t)
    inside = (x - cx) ** 2 + (y - cy) ** 2 <= (side // 6) ** 2
    return np.stack([np.where(inside, f, b) for f, b in zip(front, back)], axis=-1).astype(np.uint8)


def centre(side, t):
    """The disc's centre (x, y) on frame t."""
    return side // 3 + 4 * t, side // 2 + 2 * t - (t * t) // 8


def images(side, count):
    """Normalised f32 [count,3,S,S]: (v / 255 - mean) / std per channel."""
    stack = np.stack([frame(side, t) for t in range(count)]).astype(np.float32) / np.float32(255)
    stack = (stack - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
    return torch.from_numpy(np.ascontiguousarray(stack.transpose(0, 3, 1, 2)))
