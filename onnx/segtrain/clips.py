"""Clips for training and the fixed held-out clips: which moments of a scene are shown."""

from dataclasses import dataclass

import torch

from .draw import Draw
from .scene import Scenes

HELD_OUT_SEED = 20_250_711
HELD_OUT_FRAMES = 16


@dataclass
class Clips:
    """images [B,T,3,S,S] normalised; `masks` [B,T,S,S]: share of the pixel that is the target."""

    images: torch.Tensor
    masks: torch.Tensor


def training_clips(draw, clips, frames, side):
    """Random clips; half of them start where every object stands apart, as demo clips do."""
    scenes = Scenes(draw, clips)
    start = draw.between(0, 50, clips, 1) * draw.chance(0.5, clips, 1)
    stride = 1.0 + draw.below(3, clips, 1)
    t = start + stride * torch.arange(frames, device=draw.device)
    return Clips(*scenes.render(t, side, _shown(draw, clips, frames)))


def held_out_clips(device, clips, side):
    """The same clips on every device: 16 frames from the beginning, every one or second frame."""
    draw = Draw(HELD_OUT_SEED, device, on_cpu=True)
    scenes = Scenes(draw, clips)
    stride = 1.0 + torch.arange(clips, device=device)[:, None] % 2
    t = stride * torch.arange(HELD_OUT_FRAMES, device=device)
    return Clips(*scenes.render(t, side, torch.ones_like(t, dtype=torch.bool)))


def _shown(draw, clips, frames):
    """False where a target is taken away for 1 to 4 frames, never on the first frame."""
    if frames < 2:
        return torch.ones(clips, frames, dtype=torch.bool, device=draw.device)
    first = 1 + draw.below(frames - 1, clips, 1)
    last = first + 1 + draw.below(4, clips, 1)
    frame = torch.arange(frames, device=draw.device)
    return ~(draw.chance(0.12, clips, 1) & (frame >= first) & (frame < last))
