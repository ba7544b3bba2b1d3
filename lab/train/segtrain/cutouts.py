"""Objects without labels: masks that a real image encoder and mask decoder give for grids of clicks
on frames."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from .photos import load
from .real import normalised

GRID = 10  # clicks along each side
# As the decoder predicts it; how little the area depends on the threshold.
LEAST_IOU, LEAST_STABLE = 0.80, 0.88
AREAS = (0.004, 0.35)  # shares of the picture
SAME = 0.6  # IoU above which two masks are one object
MOST = 10  # objects of a frame
CUT = 0.08  # an object that touches the frame's edge along more of its own outline's box is cut off


@dataclass
class Bank:
    """`frames` bytes [n,3,S,S], in order within each video; `last` [n] is the last frame of a
    frame's video.

    `masks` bytes [m,G,G] of objects, `owner` [m] their frames, `box` [m,4] their centre and half
    extents in -1..1, `whole` [m] those that no edge cuts.
    """

    frames: torch.Tensor
    first: torch.Tensor
    last: torch.Tensor
    masks: torch.Tensor
    owner: torch.Tensor
    box: torch.Tensor
    whole: torch.Tensor


def read_frames(folder, side, every=1):
    """VIDEO/NUMBER.jpg below a folder -> bytes [n,3,S,S], the first and the last frame of each
    one's video."""
    paths, first, last = [], [], []
    for video in sorted(p for p in folder.iterdir() if p.is_dir()):
        found = sorted(video.glob("*.jpg"))[::every]
        first += [len(paths)] * len(found)
        last += [len(paths) + len(found) - 1] * len(found)
        paths += found
    with ThreadPoolExecutor(8) as pool:
        frames = torch.stack(list(pool.map(lambda p: load(p, side), paths)))
    return frames, torch.tensor(first), torch.tensor(last)


@torch.no_grad()
def find_masks(model, pixels, grid=GRID):
    """Masks [k,g,g] in 0..1 of the objects of one frame, bytes [3,S,S]; `model` takes images of
    that size."""
    side, device = pixels.shape[-1], next(model.parameters()).device
    out = model.forward_image(normalised(pixels[None].to(device).float()))
    fine, middle, feat = out["backbone_fpn"]
    feat = feat + model.no_mem_embed.reshape(1, -1, 1, 1)
    at = (torch.arange(grid, device=device) + 0.5) * (side / grid)
    points = torch.stack(torch.meshgrid(at, at, indexing="xy"), dim=-1).reshape(-1, 1, 2)
    labels = torch.ones(points.shape[:2], dtype=torch.int32, device=device)
    sparse, dense = model.sam_prompt_encoder(points=(points, labels), boxes=None, masks=None)
    logits, ious, _, _ = model.sam_mask_decoder(
        image_embeddings=feat,
        image_pe=model.sam_prompt_encoder.get_dense_pe(),
        sparse_prompt_embeddings=sparse,
        dense_prompt_embeddings=dense,
        multimask_output=True,
        repeat_image=True,
        high_res_features=[x.expand(len(points), -1, -1, -1) for x in (fine, middle)],
    )
    logits, ious = logits.float().flatten(0, 1), ious.float().flatten()
    area = (logits > 0).float().mean(dim=(1, 2))
    stable = (logits > 1).float().sum(dim=(1, 2)) / (logits > -1).float().sum(dim=(1, 2)).clamp(min=1)
    good = (ious > LEAST_IOU) & (stable > LEAST_STABLE) & (area > AREAS[0]) & (area < AREAS[1])
    logits, rank = logits[good], (ious + stable)[good]
    return torch.sigmoid(logits[_apart(logits > 0, rank)])


def _apart(masks, rank):
    """Indices of the best masks, none of which is another one's object."""
    if len(masks) == 0:
        return torch.zeros(0, dtype=torch.long, device=masks.device)
    flat = F.avg_pool2d(masks.float()[:, None], 4).flatten(1)
    both = flat @ flat.T
    size = (flat * flat).sum(dim=1)
    alike = (both / (size[:, None] + size[None] - both).clamp(min=1e-3)).cpu() > SAME
    kept = []
    for one in rank.argsort(descending=True).tolist():
        if len(kept) < MOST and not any(alike[one, other] for other in kept):
            kept.append(one)
    return torch.tensor(kept, dtype=torch.long, device=masks.device)


def find_all(model, folder, large, device, every=1, grid=GRID):
    """Masks bytes [m,g,g] of all frames below a folder, and whose they are [m]; `model` takes
    images of `large` px."""
    masks, owner = [], []
    frames = read_frames(folder, large, every)[0]
    for number, pixels in enumerate(frames):
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            found = find_masks(model, pixels, grid)
        masks.append((found * 255).round().byte())
        owner += [number] * len(found)
    return {"masks": torch.cat(masks), "owner": torch.tensor(owner, device=device)}


def make_bank(found, folder, side, device, every=1):
    """Frames of `side` px with the masks of `find_all`."""
    frames, first, last = (x.to(device) for x in read_frames(folder, side, every))
    masks = found["masks"].to(device)
    return Bank(frames, first, last, masks, found["owner"].to(device), *_boxes(masks))


def _boxes(masks):
    """Centres and half extents [m,4] in -1..1 of masks [m,G,G], and which of them no edge of the
    frame cuts."""
    inside, size = masks > 127, masks.shape[-1]
    columns, rows = inside.any(dim=1), inside.any(dim=2)

    def ends(line):
        line = line.float()
        return line.argmax(dim=1), size - line.flip(1).argmax(dim=1)

    (x0, x1), (y0, y1) = ends(columns), ends(rows)
    box = torch.stack([x0 + x1, y0 + y1, x1 - x0, y1 - y0], dim=1).float() / size
    box[:, :2] -= 1
    edge = inside[:, 0].sum(1) + inside[:, -1].sum(1) + inside[:, :, 0].sum(1) + inside[:, :, -1].sum(1)
    return box, edge < CUT * (x1 - x0 + y1 - y0)
