"""Prompts for the first frame of training clips: points, boxes and masks from the truth."""

import random

import torch
from torch.nn import functional as F

KINDS = ("point", "points", "box", "mask")
SHARES = (0.68, 0.08, 0.13, 0.11)
SEVERAL = 3


def share_out(clips, seed):
    """How many of `clips` clips get each kind of prompt, in the order of KINDS."""
    drawn = random.Random(seed).choices(range(len(KINDS)), SHARES, k=clips)
    return [drawn.count(i) for i in range(len(KINDS))]


def random_points(draw, mask, count):
    """Uniformly random pixels of masks [B,S,S] (bool) -> float [B,count,2] (x, y)."""
    b, side = mask.shape[0], mask.shape[-1]
    noise = draw.between(0, 1, b, count, side * side) + mask.reshape(b, 1, -1)
    place = noise.argmax(dim=2)
    return torch.stack([place % side, place // side], dim=2).float()


def inner_point(mask):
    """The pixel with most of the object around it -> [B,1,2]: deep inside, like a careful click."""
    b, side = mask.shape[0], mask.shape[-1]
    around = mask[:, None].float()
    for window in (31, 15, 7):
        half = window // 2
        rows = F.avg_pool2d(around, (1, window), stride=1, padding=(0, half))
        around = around + F.avg_pool2d(rows, (window, 1), stride=1, padding=(half, 0))
    place = (around[:, 0] * mask).reshape(b, -1).argmax(dim=1)
    return torch.stack([place % side, place // side], dim=1)[:, None].float()


def boxes(draw, mask, jitter=0.05):
    """Corner points [B,2,2] of masks, moved by up to `jitter` of the box's size."""
    b, side = mask.shape[0], mask.shape[-1]
    columns, rows = mask.any(dim=1).float(), mask.any(dim=2).float()

    def ends(line):
        return line.argmax(dim=1), side - 1 - line.flip(1).argmax(dim=1)

    (x0, x1), (y0, y1) = ends(columns), ends(rows)
    corners = torch.stack([torch.stack([x0, y0], 1), torch.stack([x1, y1], 1)], 1).float()
    extent = corners[:, 1:] - corners[:, :1] + 1
    moved = corners + draw.between(-jitter, jitter, b, 2, 2) * extent
    return moved.clamp(0, side - 1)


def clicks(draw, mask):
    """One click for each mask: deep inside or anywhere, by a coin -> [B,1,2]."""
    anywhere = draw.chance(0.5, mask.shape[0], 1, 1)
    point = torch.where(anywhere, random_points(draw, mask, 1), inner_point(mask))
    return point + draw.between(-0.5, 0.5, *point.shape)
