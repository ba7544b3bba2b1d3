"""Clips with exact masks from objects without labels: cutouts that move over frames of other
videos.

Backgrounds are crops of consecutive frames, or one frame under a moving camera: there an object of
the frame itself can be the target too, with its own surroundings. Cutouts turn, grow, bend, hide
one another, vanish and leave the picture; some have a twin, which only the click tells apart.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from .real import LEAST_SHARE, normalised

LAYERS = 3
TURN = 2 * math.pi
# Shares of clips with one frame as background, with twins; of objects that vanish.
STILL, TWIN, VANISH = 0.4, 0.25, 0.2
LEAST_START = 4e-3  # share of the picture that a target shows on its first frame
TARGETS = 2  # of a clip


@dataclass
class Collage:
    """`images` [B,T,3,S,S] normalised; N targets: `scene` [N], `masks` [N,T,S/4,S/4] shares of
    pixels, `first` [N,S,S] the mask of the first frame, `usable` [N] 0 where there is nothing to
    click."""

    images: torch.Tensor
    scene: torch.Tensor
    masks: torch.Tensor
    first: torch.Tensor
    usable: torch.Tensor


@torch.no_grad()
def collage(draw, bank, clips, frames, side):
    """Random clips from a Bank."""
    device = bank.frames.device
    t = torch.linspace(0, frames / 8, frames, device=device)  # one second is eight frames
    x = (torch.arange(side, device=device) + 0.5) * (2 / side) - 1
    place = torch.stack(torch.meshgrid(x, x, indexing="xy"), dim=-1)  # [S,S,2] as (x, y)
    image, glued = _background(draw, bank, clips, t, place)
    shares = [glued]
    chosen = [_pick(draw, bank.whole, clips) for _ in range(LAYERS)]
    twin = draw.chance(TWIN, clips)
    chosen[1] = torch.where(twin, chosen[0], chosen[1])
    count = 1 + draw.below(LAYERS, clips)
    count = torch.where(twin, count.clamp(min=2), count)
    for layer in range(LAYERS):
        there = (layer < count)[:, None] & _shown(draw, clips, frames)
        paint, cover = _cutout(draw, bank, chosen[layer], t, place)
        cover = cover * there[:, :, None, None]
        image = torch.lerp(image, paint, cover[:, :, None])
        shares = [share * (1 - cover) for share in shares] + [cover]
    image = (image + draw.normal(*image.shape) * draw.between(0, 4, clips, 1, 1, 1, 1)).clamp(0, 255)
    shares = torch.stack(shares, dim=1)  # [B,1+LAYERS,T,S,S]
    shown = (shares[:, :, 0].mean(dim=(2, 3)) >= max(LEAST_START, LEAST_SHARE)).flatten().float()
    picked = (shown + draw.between(0, 1, len(shown))).topk(TARGETS * clips).indices
    each = shares.shape[1]
    flat = shares.flatten(0, 1)[picked]
    return Collage(normalised(image), picked // each, F.avg_pool2d(flat, 4), flat[:, 0], shown[picked])


def clicks(draw, first):
    """A point of each mask [N,S,S], well inside where the mask is thick enough: [N,1,2] in pixels.
    """
    small = F.avg_pool2d(first[:, None], 4) > 0.5
    inner = -F.max_pool2d(-small.float(), 5, 1, 2) > 0.5
    deep = inner.flatten(1).any(dim=1) & draw.chance(0.8, len(first))
    mask = torch.where(deep[:, None, None], inner[:, 0], small[:, 0])
    side = mask.shape[-1]
    best = (draw.between(0, 1, len(first), side * side) + mask.flatten(1)).argmax(dim=1)
    return torch.stack([best % side, best // side], dim=1)[:, None].float() * 4 + 2


def _pick(draw, allowed, count):
    """Indices of allowed ones, each as likely."""
    places = allowed.nonzero()[:, 0]
    return places[draw.below(len(places), count)]


def _background(draw, bank, clips, t, place):
    """-> images [B,T,3,S,S] of 0 to 255, and the mask [B,T,S,S] of an object that is part of them,
    empty for moving ones."""
    frames, side = len(t), place.shape[0]
    still = draw.chance(STILL, clips)
    mask = draw.below(len(bank.masks), clips)
    begin = torch.where(still, bank.owner[mask], draw.below(len(bank.frames), clips))
    step = torch.arange(frames, device=t.device)
    forward = begin + frames - 1 <= bank.last[begin]
    number = begin[:, None] + torch.where(forward, 1, -1)[:, None] * step
    number = torch.where(still[:, None], begin[:, None], number)
    number = torch.minimum(torch.maximum(number, bank.first[begin][:, None]), bank.last[begin][:, None])
    # Where the camera looks: a window of the frame that wanders and zooms.
    zoom = draw.between(0.55, 0.95, clips, 1) * (
        1 + 0.06 * torch.sin(TURN * (draw.between(0, 0.5, clips, 1) * t + draw.between(0, 1, clips, 1))))
    reach = (1 - zoom).clamp(min=0)
    wander = torch.stack([_wander(draw, clips, t) for _ in range(2)], dim=-1)
    middle = wander.clamp(-1, 1) * reach[..., None]
    turn = 0.12 * torch.sin(TURN * (draw.between(0, 0.4, clips, 1) * t + draw.between(0, 1, clips, 1)))
    grid = _turned(place, turn) * zoom[..., None, None, None] + middle[:, :, None, None]
    mirror = torch.where(draw.chance(0.5, clips), -1.0, 1.0)
    grid = torch.stack([grid[..., 0] * mirror[:, None, None, None], grid[..., 1]], dim=-1)
    flat = grid.flatten(0, 1)
    image = F.grid_sample(bank.frames[number.flatten()].float(),
                          flat,
                          padding_mode="reflection",
                          align_corners=False)
    image = _tinted(draw, image.unflatten(0, (clips, frames)))
    cover = _mask_at(bank, mask, grid)
    return image, cover * still[:, None, None, None]


def _cutout(draw, bank, mask, t, place):
    """Colours [B,T,3,S,S] and cover [B,T,S,S] of one moving cutout."""
    clips, frames = len(mask), len(t)
    centre, extent = bank.box[mask, :2], bank.box[mask, 2:].amax(dim=1)
    half = (extent * draw.between(0.6, 1.7, clips)).clamp(0.15, 0.75)
    swing = 1 + 0.25 * torch.sin(TURN *
                                 (draw.between(0.05, 0.4, clips, 1) * t + draw.between(0, 1, clips, 1)))
    scale = (extent / half)[:, None] / swing
    at = torch.stack([_wander(draw, clips, t) for _ in range(2)], dim=-1)  # [B,T,2]
    # From small trembling to crossing the picture and leaving it.
    at = at * draw.between(0.1, 0.7, clips, 1, 1) + draw.between(-0.75, 0.75, clips, 1, 2)
    turn = draw.between(-0.4, 0.4, clips, 1) + draw.between(-0.35, 0.35, clips, 1) * t
    away = _turned(place[None, None] - at[:, :, None, None], turn) * scale[..., None, None, None]
    # Bending, as a part of the cutout's size.
    bend = draw.between(0, 0.10, clips, 1, 1, 1, 1) * extent[:, None, None, None, None]
    wave = draw.between(2, 5, clips, 1, 1, 1, 1) / extent[:, None, None, None, None]
    phase = TURN * (draw.between(0, 0.8, clips, 1) * t + draw.between(0, 1, clips, 1))
    away = away + bend * torch.sin(wave * away.flip(-1) + phase[..., None, None, None])
    mirror = torch.where(draw.chance(0.5, clips), -1.0, 1.0)[:, None, None, None]
    away = torch.stack([away[..., 0] * mirror, away[..., 1]], dim=-1)
    grid = away + centre[:, None, None, None]
    # Frame by frame of a clip the source is the same: one sample of [frames * S, S].
    tall = grid.flatten(1, 2)
    paint = F.grid_sample(bank.frames[bank.owner[mask]].float(),
                          tall,
                          padding_mode="border",
                          align_corners=False)
    paint = paint.unflatten(2, (frames, -1)).transpose(1, 2)
    return _tinted(draw, paint), _mask_at(bank, mask, grid)


def _mask_at(bank, mask, grid):
    """Cover [B,T,S,S] of masks [B] at places [B,T,S,S,2] of their frames; edges about a pixel wide.
    """
    frames = grid.shape[1]
    source = bank.masks[mask][:, None].float() / 255
    cover = F.grid_sample(source, grid.flatten(1, 2), padding_mode="zeros", align_corners=False)
    return ((cover[:, 0].unflatten(1, (frames, -1)) - 0.5) * 3 + 0.5).clamp(0, 1)


def _wander(draw, clips, t):
    """A smooth walk [B,T], about -1 to 1: a drift and two waves."""
    walk = draw.between(-0.8, 0.8, clips, 1) * t
    for rate in (0.35, 0.9):
        amount, phase = draw.between(0, 0.5, clips, 1), draw.between(0, 1, clips, 1)
        walk = walk + amount * (torch.sin(TURN * (rate * t + phase)) - torch.sin(TURN * phase))
    return walk + draw.between(-0.5, 0.5, clips, 1)


def _turned(vector, angle):
    """Vectors [...,S,S,2] turned by angles [B,T]."""
    cos, sin = torch.cos(angle)[..., None, None], torch.sin(angle)[..., None, None]
    x, y = vector[..., 0], vector[..., 1]
    return torch.stack([x * cos + y * sin, y * cos - x * sin], dim=-1)


def _tinted(draw, image):
    """Other light: a gain and a shift of each clip's colours."""
    clips = len(image)
    gain = draw.between(0.75, 1.25, clips, 1, 1, 1, 1) * draw.between(0.92, 1.08, clips, 1, 3, 1, 1)
    return (image * gain + draw.between(-12, 12, clips, 1, 1, 1, 1)).clamp(0, 255)


def _shown(draw, clips, frames):
    """False [B,T] where an object is gone: for some frames, never on the first."""
    first = 1 + draw.below(max(frames - 1, 1), clips, 1)
    last = first + 1 + draw.below(4, clips, 1)
    frame = torch.arange(frames, device=draw.device)
    return ~(draw.chance(VANISH, clips, 1) & (frame >= first) & (frame < last))
