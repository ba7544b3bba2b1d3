"""Prompts for the first frame of training clips: points, boxes and masks from the truth."""

import torch

KINDS = ("point", "points", "box", "mask")
SHARES = (0.6, 0.08, 0.22, 0.1)
SEVERAL = 3


def share_out(targets):
    """How many of `targets` get each kind of prompt, in the order of KINDS.

    The same on every step: convolutions are tuned anew for every batch size.
    """
    counts = [round(share * targets) for share in SHARES[1:]]
    return [targets - sum(counts), *counts]


def random_points(draw, mask, count):
    """Uniformly random pixels of masks [B,S,S] (bool) -> float [B,count,2] (x, y)."""
    b, side = mask.shape[0], mask.shape[-1]
    noise = draw.between(0, 1, b, count, side * side) + mask.reshape(b, 1, -1)
    place = noise.argmax(dim=2)
    return torch.stack([place % side, place // side], dim=2).float()


def centroids(mask):
    """Where segtrt clicks: the mean of a mask's pixels -> [B,1,2] and whether it lies inside [B].
    """
    b, side = mask.shape[0], mask.shape[-1]
    at = torch.arange(side, device=mask.device, dtype=torch.float32)
    share = mask.float() / mask.sum(dim=(1, 2), keepdim=True).clamp(min=1)
    x, y = (share.sum(dim=1) * at).sum(dim=1), (share.sum(dim=2) * at).sum(dim=1)
    inside = mask[torch.arange(b, device=mask.device), y.long(), x.long()]
    return torch.stack([x, y], dim=1)[:, None], inside


def boxes(draw, mask, jitter=0.05):
    """Corner points [B,2,2] of masks; half of them moved by up to `jitter` of the box's size."""
    moved = draw.between(-jitter, jitter, mask.shape[0], 2, 2) * draw.chance(0.5, mask.shape[0], 1, 1)
    corners = tight_boxes(mask)
    extent = corners[:, 1:] - corners[:, :1] + 1
    return (corners + moved * extent).clamp(0, mask.shape[-1] - 1)


def tight_boxes(mask):
    """First and last column and row of masks [B,S,S] -> corner points [B,2,2]."""
    side = mask.shape[-1]
    columns, rows = mask.any(dim=1).float(), mask.any(dim=2).float()

    def ends(line):
        return line.argmax(dim=1), side - 1 - line.flip(1).argmax(dim=1)

    (x0, x1), (y0, y1) = ends(columns), ends(rows)
    return torch.stack([torch.stack([x0, y0], 1), torch.stack([x1, y1], 1)], 1).float()


def clicks(draw, mask):
    """One click for each mask, at its centroid or anywhere, by a coin -> [B,1,2]."""
    middle, inside = centroids(mask)
    anywhere = draw.chance(0.5, mask.shape[0]) | ~inside
    point = torch.where(anywhere[:, None, None], random_points(draw, mask, 1), middle)
    return point + draw.between(-0.5, 0.5, *point.shape)
