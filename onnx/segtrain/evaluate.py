"""Mean IoU on the held-out clips: one click, then 16 frames in closed loop."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from . import prompts
from .clips import held_out_clips
from .losses import LEAST_AREA
from .scene import MEAN, STD


@dataclass
class HeldOut:
    """Fixed clips and the masks that a model made of them."""

    clips: object
    side: int

    @classmethod
    def make(cls, device, count, side):
        """`count` clips on the device."""
        return cls(held_out_clips(device, count, side), side)

    @torch.no_grad()
    def masks(self, unroll):
        """Predicted masks bool [B,T,S,S]."""
        first = prompts.inner_point(self.clips.masks[:, 0] > 0.5)
        answers = unroll.clip(self.clips.images, lambda f: unroll.prompt(f, first, (1,)))
        size = (self.side, self.side)
        grown = [F.interpolate(a.low, size, mode="bilinear", align_corners=False)[:, 0] > 0 for a in answers]
        return torch.stack(grown, dim=1)

    def ious(self, seen):
        """IoU [B,T] of predicted masks; a rightly empty mask counts 1."""
        real = self.clips.masks > 0.5
        union = (seen | real).sum(dim=(2, 3)).float()
        iou = (seen & real).sum(dim=(2, 3)).float() / union.clamp(min=1)
        absent = self.clips.masks.sum(dim=(2, 3)) < LEAST_AREA
        return torch.where(absent, (seen.sum(dim=(2, 3)) == 0).float(), iou)

    def score(self, unroll):
        """(IoU on the clicked frame, mean IoU on the 15 later ones, IoU on the last), floats."""
        iou = self.ious(self.masks(unroll)).mean(dim=0)
        return float(iou[0]), float(iou[1:].mean()), float(iou[-1])

    def sheet(self, unroll, path, rows=8, step=3):
        """A picture of some clips: prediction in green, truth's missed part in red."""
        from torchvision.utils import make_grid, save_image

        seen = self.masks(unroll)[:rows, ::step, None]
        real = self.clips.masks[:rows, ::step, None] > 0.5
        device = seen.device
        mean, std = (torch.tensor(v, device=device)[:, None, None] for v in (MEAN, STD))
        picture = (self.clips.images[:rows, ::step] * std + mean).clamp(0, 1)
        green = torch.tensor([0.0, 1.0, 0.0], device=device)[:, None, None]
        red = torch.tensor([1.0, 0.0, 0.0], device=device)[:, None, None]
        picture = torch.where(seen, 0.55 * picture + 0.45 * green, picture)
        picture = torch.where(real & ~seen, 0.55 * picture + 0.45 * red, picture)
        small = F.avg_pool2d(picture.flatten(0, 1), 2)
        save_image(make_grid(small, nrow=seen.shape[1]), path)
