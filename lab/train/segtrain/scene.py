"""Random scenes in the manner of `crates/vos/src/synth/scene.rs`, rendered in batches.

A drifting, zooming background of noise and up to four shaded, textured, turning objects whose
paths cross. Sizes are in pixels of a source video 360 px high; the frame is sampled at the
network's square input, twice as finely across, where a wide frame is squeezed most. `plain`
scenes are what `segtrt synth` draws. Training adds what the original does not have: other
aspects, targets that vanish, jittered starts, stars, slight blur and sensor noise. In `alike`
scenes all objects share outline, size and texture, so that only the click tells them apart.
In `hard` scenes all objects meet in the middle at about the same time and hide one another there.
"""

import torch
from torch.nn import functional as F

from .noise import fractal, lattices, value_noise
from .outline import DIRECTIONS, TURN, Outlines, Wave

OBJECTS = 4
ACROSS = 2  # samples of a pixel's width
HEIGHT = 360.0
TEXTURE = 128  # side of an object's texture
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Scenes:
    """B random scenes; `count` [B] objects are in each, back to front."""

    def __init__(self, draw, clips, plain=False, alike=None, counts=(1, 2, 2, 3, 3, 4), hard=0.0):
        """`plain`: as `segtrt synth` draws them; `alike` bool [B]: by default none.

        `hard`: share of the scenes whose objects meet.
        """
        b, k, dev = clips, OBJECTS, draw.device
        self.draw, self.plain = draw, plain
        aspects = draw.constant((16 / 9,) * 3 + (() if plain else (1.5, 4 / 3, 1.0)))
        self.width = HEIGHT * aspects[draw.below(len(aspects), b)]
        counts = draw.constant(counts)
        self.count = counts[draw.below(len(counts), b)]
        self.alike = torch.zeros(b, dtype=torch.bool, device=dev) if alike is None else alike
        self.meeting = draw.chance(hard, b, 1) if hard else torch.zeros(b, 1, dtype=torch.bool, device=dev)
        self._place(draw, b, k)
        self.outlines = Outlines(draw, b, k, stars=not plain)
        self.outlines.share(self._shared)
        self.breath = Wave(draw, torch.ones(b, k, device=dev), 0.08)
        self.breath.share(self._shared)
        self.period = draw.between(24, 56, b, k)
        together = self.period[:, :1] * draw.between(0.85, 1.15, b, k) if hard else self.period
        self.period = torch.where(self.meeting, together, self.period)
        self.angle = draw.between(0, 1, b, k)
        self.spin = draw.sign(b, k) * draw.between(0.003, 0.015, b, k)
        self.colours = self._shared(draw.between(20, 255, b, k, 2, 3))
        self.striped = self._shared(draw.chance(0.5, b, k))
        self.textures = self._shared(_textures(draw, b, k))
        # Background.
        self.lattice = lattices(draw, b)
        low, high = draw.between(40, 120, b, 1, 3), draw.between(110, 200, b, 1, 3)
        self.back = torch.cat([low, high], dim=1)
        self.drift = torch.stack([draw.between(-1.5, 1.5, b), draw.between(-0.7, 0.7, b)], dim=1)
        self.zoom = Wave(draw, torch.ones(b, device=dev), 0.06)
        self.blur = draw.between(0, 1, b) * draw.chance(0.5, b)
        self.grain = draw.between(0, 4, b) * draw.chance(0.5, b)

    def _shared(self, each):
        """What belongs to each object [B,K,...]; where objects are alike, all have the first one's.
        """
        alike = self.alike.reshape(-1, *[1] * (each.dim() - 1))
        return torch.where(alike, each[:, :1], each)

    def _place(self, draw, b, k):
        """Objects start apart in the cells of a grid and travel towards the middle and back."""
        count, width = self.count.float(), self.width
        columns = torch.ceil(torch.sqrt(count * width / HEIGHT))
        columns = torch.minimum(columns.clamp(min=1), count)
        rows = torch.ceil(count / columns)
        cell_w, cell_h = width / columns, HEIGHT / rows
        largest = torch.minimum(0.48 * torch.minimum(cell_w, cell_h), 0.26 * width.clamp(max=HEIGHT))
        size = draw.between(0.8, 0.92, b, k)
        other = 0.0 if self.plain else 0.3
        size = size * torch.where(draw.chance(other, b, k), draw.between(0.6, 1.3, b, k), 1.0)
        self.radius = largest[:, None] * self._shared(size)
        # Slots are drawn back to front, so the cell of a slot must be random.
        slot = torch.arange(k, device=draw.device)
        cell = (slot + draw.below(OBJECTS, b, 1)) % self.count[:, None]
        column, row = cell % columns[:, None], torch.div(cell, columns[:, None], rounding_mode="floor")
        start = torch.stack([(column + 0.5) * cell_w[:, None], (row + 0.5) * cell_h[:, None]], dim=2)
        frame = torch.stack([width, torch.full_like(width, HEIGHT)], dim=1)[:, None]
        goal = draw.between(0.3, 0.7, b, k, 2)
        if not self.plain:
            start = start + draw.between(-0.2, 0.2, b, k, 2) * draw.chance(0.3, b, 1, 1) * frame
            # Some objects leave the picture on their way.
            outside = 0.5 + draw.sign(b, k, 2) * draw.between(0.7, 1.0, b, k, 2)
            goal = torch.where(draw.chance(0.1, b, k, 1) & ~self.meeting[..., None], outside, goal)
            goal = torch.where(self.meeting[..., None], 0.5 + 0.4 * (goal - 0.5), goal)
        self.start, self.goal = start, goal * frame

    @torch.no_grad()
    def render(self, t, side, shown=None):
        """Times t [B,T], `shown` [B,K,T] False where an object is taken away.

        -> normalised images [B,T,3,S,S] and each object's visible share of each pixel [B,K,T,S,S].
        """
        wide = side * ACROSS
        step = self.width[:, None, None] / wide
        shake = 0.008 * self.width.clamp(max=HEIGHT)[:, None]
        shake_x, shake_y = (shake * torch.sin(TURN * rate * t) for rate in (0.11, 0.073))
        x = (torch.arange(wide, device=t.device) + 0.5) * step - shake_x[..., None]  # [B,T,W]
        y = (torch.arange(side, device=t.device) + 0.5) * (HEIGHT / side) - shake_y[..., None]
        image = self._background(x, y, t)
        tables = self.outlines.table(t)
        along = (1 - torch.cos(TURN * t[:, None] / self.period[:, :, None])) / 2
        centre = self.start[:, :, None] + (self.goal - self.start)[:, :, None] * along[..., None]
        radius = self.radius[:, :, None] * self.breath.at(t)
        turn = TURN * (self.angle[:, :, None] + self.spin[:, :, None] * t[:, None])
        pixel = torch.sqrt(wide * side / (self.width * HEIGHT))[:, None]
        there = torch.arange(OBJECTS, device=t.device)[:, None] < self.count[:, None, None]
        there = there.expand(-1, -1, t.shape[1]) if shown is None else there & shown
        shares = []
        for k in range(OBJECTS):
            r = radius[:, k, :, None]
            dx, dy = (x - centre[:, k, :, :1]) / r, (y - centre[:, k, :, 1:]) / r
            cos, sin = torch.cos(turn[:, k])[..., None], torch.sin(turn[:, k])[..., None]
            u = (dx * cos)[..., None, :] + (dy * sin)[..., None]
            v = (dy * cos)[..., None] - (dx * sin)[..., None, :]
            away = torch.sqrt((dx * dx)[..., None, :] + (dy * dy)[..., None])
            sharp = (radius[:, k] * pixel)[..., None, None]
            cover = ((_edge(tables[:, k], u, v) - away) * sharp + 0.5).clamp_(0, 1)
            cover = cover * there[:, k, :, None, None]
            shares = [share * (1 - cover) for share in shares] + [cover]
            light = 1 - 0.25 * (dx[..., None, :] + dy[..., None])
            image = torch.lerp(image, self._paint(k, u, v, light), cover[:, :, None])
        shares = torch.stack([_squeeze(share) for share in shares], dim=1)
        return self._finish(_squeeze(image)), shares

    def _background(self, x, y, t):
        """Two colours mixed by noise, with grain: x [B,T,W], y [B,T,H] -> [B,T,3,H,W] in 0..255."""
        scale = (self.zoom.at(t) / (self.width.clamp(max=HEIGHT) / 5)[:, None])[..., None]
        u = (x + self.drift[:, :1, None] * t[..., None]) * scale
        v = (y + self.drift[:, 1:, None] * t[..., None]) * scale
        mixed = _blend(self.back[:, None], fractal(self.lattice, u, v)[:, :, None])
        return (mixed + 30 * (value_noise(self.lattice, u * 14, v * 14) - 0.5)[:, :, None]).clamp_(0, 255)

    def _paint(self, k, u, v, light):
        """Colours [B,T,3,H,W] of object k at its own coordinates u, v [B,T,H,W]."""
        b, frames, h, w = u.shape
        grid = torch.stack([u, v], dim=-1).reshape(b, frames * h, w, 2)
        grain = F.grid_sample(
            self.textures[:, k, None], grid, align_corners=True, padding_mode="border"
        ).reshape(b, frames, h, w)
        stripe = torch.where((u * 3 + grain) % 1 < 0.5, 0.15, 0.85)
        amount = torch.where(self.striped[:, k, None, None, None], stripe, grain)
        return (_blend(self.colours[:, k, None], amount[:, :, None]) * light[:, :, None]).clamp_(0, 255)

    def _finish(self, image):
        """Blur and noise of a camera, then the network's normalisation."""
        b, frames, _, h, w = image.shape
        flat = image.reshape(b, frames * 3, h, w)
        if not self.plain:
            soft = F.pad(flat, (1, 1, 1, 1), mode="replicate")
            soft = (soft[..., :-2] + 2 * soft[..., 1:-1] + soft[..., 2:]) / 4
            soft = (soft[..., :-2, :] + 2 * soft[..., 1:-1, :] + soft[..., 2:, :]) / 4
            flat = torch.lerp(flat, soft, self.blur[:, None, None, None])
            flat = flat + self.draw.normal(b, frames * 3, h, w) * self.grain[:, None, None, None]
        flat = flat.clamp(0, 255).round_()
        mean = self.draw.constant(MEAN)[:, None, None]
        std = self.draw.constant(STD)[:, None, None]
        return (flat.reshape(b, frames, 3, h, w) / 255 - mean) / std


def _squeeze(samples):
    """Means of a pixel's samples: [...,S,S*ACROSS] -> [...,S,S]."""
    return samples.unflatten(-1, (-1, ACROSS)).mean(dim=-1)


def _textures(draw, b, k):
    """Object textures [B,K,TEXTURE,TEXTURE] over -1..1 in both directions."""
    at = (torch.linspace(-1, 1, TEXTURE, device=draw.device) * 3 + 9).expand(b * k, 1, TEXTURE)
    return fractal(lattices(draw, b * k), at, at).reshape(b, k, TEXTURE, TEXTURE)


def _edge(table, u, v):
    """Radius of the outline in the direction of each pixel: table [B,T,D], u, v [B,T,H,W]."""
    direction = (torch.atan2(v, u) * (DIRECTIONS / TURN) + (DIRECTIONS + 0.5)).long() % DIRECTIONS
    return table.gather(2, direction.flatten(2)).reshape(u.shape)


def _blend(colours, amount):
    """colours [B,1,2,3], amount [B,T,1,H,W] -> [B,T,3,H,W]."""
    first, second = colours[:, :, 0, :, None, None], colours[:, :, 1, :, None, None]
    return first + (second - first) * amount
