"""Pictures of what is learnt from: look at them before believing a loss."""

import torch
from PIL import Image
from torch.nn import functional as F

from .collage import clicks, collage
from .scene import MEAN, STD


def sheet(draw, bank, side, clips=4, frames=8, width=192):
    """One row for each target of a few clips: every frame, its mask in green, the click in red."""
    made = collage(draw, bank, clips, frames, side)
    points = clicks(draw, made.first)[:, 0] * (width / side)
    mean, std = (torch.tensor(v, device=made.images.device)[:, None, None] for v in (MEAN, STD))
    rows = []
    for target, scene in enumerate(made.scene.tolist()):
        picture = F.interpolate(made.images[scene] * std + mean, (width, width), mode="area").clamp(0, 1)
        mask = F.interpolate(made.masks[target][:, None], (width, width), mode="bilinear")
        green = torch.tensor((0.0, 1.0, 0.0), device=mask.device)[:, None, None]
        picture = torch.lerp(picture, green.expand_as(picture), 0.5 * mask)
        x, y = (int(v) for v in points[target])
        picture[0, :, max(0, y - 3) : y + 3, max(0, x - 3) : x + 3] = 1 - made.usable[target]
        picture[0, 0, max(0, y - 3) : y + 3, max(0, x - 3) : x + 3] = 1
        rows.append(torch.cat(list(picture), dim=2))
    whole = torch.cat(rows, dim=1).mul(255).byte().permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(whole)
