"""Clips for training and the fixed held-out clips: which moments of a scene are shown, and whom to
follow."""

from dataclasses import dataclass

import torch

from .draw import Draw
from .losses import LEAST_AREA
from .scene import OBJECTS, Scenes

HELD_OUT_SEED = 20_250_711
HELD_OUT_FRAMES = 48
TARGETS = 2  # prompts for each scene of a training step, on average
LEAST_START = 64 / 256**2  # share of the picture that a target covers on its first frame, or more


@dataclass(frozen=True)
class Mix:
    """Shares of training scenes that ask for something: `alike` objects, objects that meet
    (`hard`), a `jump` in time, after which only looks tell who is who."""

    alike: float = 0.4
    hard: float = 0.0
    jump: float = 0.0


# Run 5's network swapped objects where they met, and found them again where they had been
# at first: it knew them by their places. The hard mix asks for their looks.
MIXES = {"usual": Mix(), "hard": Mix(alike=0.25, hard=0.4, jump=0.25)}


@dataclass
class Clips:
    """images [B,T,3,S,S] normalised; N targets: `scene` [N] says in which clip each is,
    `masks` [N,T,S,S] its share of each pixel, `usable` [N] 0 where there is nothing to prompt."""

    images: torch.Tensor
    scene: torch.Tensor
    masks: torch.Tensor
    usable: torch.Tensor


def training_clips(draw, clips, frames, side, mix=MIXES["usual"]):
    """Random clips; half of them start where every object stands apart, as demo clips do.

    Scenes whose objects meet all start apart.

    Every visible object of a scene is a target: asked for each in turn, the network learns
    nothing from looks alone. Scenes have different numbers of them, so as many as TARGETS a
    scene are picked from all.
    """
    scenes = Scenes(draw, clips, alike=draw.chance(mix.alike, clips), hard=mix.hard)
    start = draw.between(0, 50, clips, 1) * draw.chance(0.5, clips, 1) * ~scenes.meeting
    stride = 1.0 + draw.below(3, clips, 1)
    t = start + stride * torch.arange(frames, device=draw.device)
    if mix.jump and frames > 2:
        t = t + _jumps(draw, scenes, frames, mix.jump)
    images, shares = scenes.render(t, side, _shown(draw, clips, frames))
    usable = (shares[:, :, 0].mean(dim=(2, 3)) >= LEAST_START).flatten().float()
    picked = (usable + draw.between(0, 1, clips * OBJECTS)).topk(TARGETS * clips).indices
    # Best keys come first: without this the last ones, which share one kind of prompt, would be the
    # unusable.
    picked = picked[draw.between(0, 1, len(picked)).argsort()]
    return Clips(images, picked // OBJECTS, shares.flatten(0, 1)[picked], usable[picked])


def held_out_clips(device, clips, side, alike=False):
    """The same clips on every device, as `segtrt synth` draws them: 48 frames, all objects."""
    draw = Draw(HELD_OUT_SEED + alike, device, on_cpu=True)
    same = torch.full((clips,), alike, device=device)
    scenes = Scenes(draw, clips, plain=True, alike=same, counts=(2,) if alike else (2, 3))
    t = torch.arange(HELD_OUT_FRAMES, device=device).float().expand(clips, -1)
    # In parts, or the samples of all frames would take tens of gigabytes.
    images, shares = zip(*(scenes.render(part, side) for part in t.split(4, dim=1)))
    images, shares = torch.cat(images, dim=1), torch.cat(shares, dim=2)
    first = shares[:, :, 0].sum(dim=(2, 3)).flatten() >= LEAST_AREA
    picked = first.nonzero()[:, 0]
    return Clips(images, picked // OBJECTS, shares.flatten(0, 1)[picked], first[picked].float())


def _shown(draw, clips, frames):
    """False [B,K,T] where an object is taken away for 1 to 4 frames, never on the first frame."""
    if frames < 2:
        return None
    shape = (clips, OBJECTS, 1)
    first = 1 + draw.below(frames - 1, *shape)
    last = first + 1 + draw.below(4, *shape)
    frame = torch.arange(frames, device=draw.device)
    return ~(draw.chance(0.08, *shape) & (frame >= first) & (frame < last))


def _jumps(draw, scenes, frames, share):
    """Times [B,T] to add: in a share of the scenes all that follows a frame is later, unless
    objects are alike."""
    clips = len(scenes.alike)
    frame = torch.arange(frames, device=draw.device)
    after = frame >= 2 + draw.below(frames - 2, clips, 1)
    chosen = draw.chance(share, clips, 1) & ~scenes.alike[:, None]
    return draw.between(8, 30, clips, 1) * (after & chosen)
