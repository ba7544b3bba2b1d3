"""J and F of a network on a split with masks: one click in the first frame, SA-V's and DAVIS 2017's
rules.

As `crates/vos/src/metrics` and `tests/data/metrics/reference.py` compute them, with distances
instead of dilations.
"""

import math

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F

from .photos import load
from .real import normalised

TOLERANCE = 0.008


def boundary(mask):
    """Pixels that differ from their right, lower or lower right neighbour."""
    edge = np.zeros_like(mask)
    edge[:, :-1] |= mask[:, :-1] ^ mask[:, 1:]
    edge[:-1] |= mask[:-1] ^ mask[1:]
    edge[:-1, :-1] |= mask[:-1, :-1] ^ mask[1:, 1:]
    return edge


def frame_score(truth, found):
    """(J, F) of two masks bool [H,W]."""
    from scipy.ndimage import distance_transform_edt

    union = np.count_nonzero(truth | found)
    j = np.count_nonzero(truth & found) / union if union else 1.0
    reach = math.ceil(TOLERANCE * np.linalg.norm(truth.shape))
    edges = boundary(truth), boundary(found)
    counts = [np.count_nonzero(e) for e in edges]
    if counts == [0, 0]:
        return j, 1.0
    if 0 in counts:
        return j, 0.0
    near = [np.count_nonzero(a & (distance_transform_edt(~b) <= reach)) for a, b in (edges, edges[::-1])]
    recall, precision = (n / c for n, c in zip(near, counts))
    return j, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def clip_score(truths, found):
    """Mean (J, F) over the annotated frames but the first and the last; lists of bool [H,W]."""
    scores, appeared = [], False
    for truth, mask in list(zip(truths, found))[1:-1]:
        appeared |= bool(truth.any() or mask.any())
        if appeared:
            scores.append(frame_score(truth, mask))
    return tuple(np.mean(scores, axis=0))


class Clip:
    """One object of one clip: frames as the network takes them, and its annotated masks by frame
    number."""

    def __init__(self, split, video, target, side, limit=None):
        self.name = f"{video}/{target}"
        paths = sorted((split / "JPEGImages_24fps" / video).glob("*.jpg"))[:limit]
        self.images = torch.stack([load(path, side) for path in paths])
        known = {p.stem: p for p in (split / "Annotations_6fps" / video / target).glob("*.png")}
        self.masks = {
            t: np.array(Image.open(known[p.stem])) > 0
            for t, p in enumerate(paths)
            if p.stem in known
        }


def read_split(split, side, limit=None):
    """All objects that the first frame shows."""
    found = []
    for folder in sorted((split / "Annotations_6fps").glob("*/*")):
        clip = Clip(split, folder.parent.name, folder.name, side, limit)
        if 0 in clip.masks and clip.masks[0].any():
            found.append(clip)
    return found


@torch.no_grad()
def run_clip(loop, clip, side, device, points):
    """Masks bool [T,H,W] that follow from `points` (x, y in the video's pixels) in the first frame.
    """
    height, width = clip.masks[0].shape
    scale = torch.tensor([side / width, side / height])
    # A pixel's place is kept as Meta's predictor keeps it: no half pixels are added before the
    # scaling.
    coords = (torch.tensor(points).float() * scale)[None].to(device)
    maps, positions = loop.features(normalised(clip.images.to(device).float()), part=16)
    scene = torch.zeros(1, dtype=torch.long, device=device)
    masks = []
    for answer in loop.clip(maps, positions, len(clip.images), scene, points=coords):
        full = F.interpolate(answer.taken, (height, width), mode="bilinear", align_corners=False)
        masks.append((full[0, 0] > 0).cpu().numpy())
    return masks


def judge(loop, clips, side, device):
    """One line for each clip, and the mean J, F and J&F of 100; the click is the point farthest
    from the object's edge."""
    from segexport.prompts import interior_point

    rows, lines = [], []
    for clip in clips:
        found = run_clip(loop, clip, side, device, [interior_point(clip.masks[0])])
        numbers = sorted(clip.masks)
        j, f = clip_score([clip.masks[t] for t in numbers], [found[t] for t in numbers])
        first = frame_score(clip.masks[0], found[0])[0]
        rows.append((j, f))
        lines.append(f"{clip.name}: J {100 * j:.1f} F {100 * f:.1f} J&F {50 * (j + f):.1f}, clicked "
                     f"frame's J {100 * first:.1f}")
    j, f = (100 * float(v) for v in np.mean(rows, axis=0))
    lines.append(f"mean of {len(rows)}: J {j:.1f} F {f:.1f} J&F {(j + f) / 2:.1f}")
    return lines, (j + f) / 2
