"""Mean IoU on the held-out clips: one click at the centroid, then 48 frames in closed loop."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from . import prompts
from .clips import HELD_OUT_FRAMES, held_out_clips
from .losses import LEAST_AREA

SHOWN_FRAMES = (0, 1, 4, 8, 16, 24, 32, 40, 47)
PART = 8  # clips that are in the network at once


@dataclass
class HeldOut:
    """Fixed clips; `alike`: of two objects that only the click tells apart."""

    clips: object
    side: int
    alike: bool

    @classmethod
    def make(cls, device, count, side, alike=False):
        """`count` clips on the device."""
        return cls(held_out_clips(device, count, side, alike), side, alike)

    @torch.no_grad()
    def masks(self, unroll, kind="point"):
        """Predicted masks bool [N,T,S,S] from a "point" or a "box"."""
        made, seen = self.clips, []
        size = (self.side, self.side)
        for begin in range(0, len(made.images), PART):
            mine = (made.scene >= begin) & (made.scene < begin + PART)
            first = made.masks[mine, 0] > 0.5
            coords = prompts.centroids(first)[0].floor() if kind == "point" else prompts.tight_boxes(first)
            labels = (1,) if kind == "point" else (2, 3)
            start = lambda f: unroll.prompt(f, coords, labels)
            answers = unroll.clip(made.images[begin : begin + PART], start, made.scene[mine] - begin)
            low = [
                F.interpolate(a.low, size, mode="bilinear", align_corners=False)[:, 0] > 0 for a in answers
            ]
            seen.append(torch.stack(low, dim=1))
        return torch.cat(seen)[made.scene.argsort(stable=True).argsort()]

    def ious(self, seen):
        """IoU [N,T] of predicted masks; a rightly empty mask counts 1."""
        real = self.clips.masks > 0.5
        union = (seen | real).sum(dim=(2, 3)).float()
        iou = (seen & real).sum(dim=(2, 3)).float() / union.clamp(min=1)
        absent = self.clips.masks.sum(dim=(2, 3)) < LEAST_AREA
        return torch.where(absent, (seen.sum(dim=(2, 3)) == 0).float(), iou)

    def line(self, unroll, kind="point"):
        """One line of text: mean IoU of all frames, their curve, and how many targets were lost."""
        iou = self.ious(self.masks(unroll, kind))
        curve = iou.mean(dim=0)
        told = " ".join(f"{t}:{curve[t]:.3f}" for t in SHOWN_FRAMES if t < HELD_OUT_FRAMES)
        lost = (iou.mean(dim=1) < 0.5).float().mean()
        name = "alike" if self.alike else "usual"
        return float(iou.mean()), (
            f"{name} {kind}: IoU {iou.mean():.4f} over {iou.shape[1]} frames of {iou.shape[0]} targets, "
            f"median {iou.mean(dim=1).median():.3f}, below 0.5 {100 * lost:.0f} %, by frame {told}"
        )
