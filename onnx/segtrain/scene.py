"""Random scenes in the manner of `src/synth/scene.rs`, rendered in batches.

A drifting, zooming background of noise and up to three shaded, textured, turning
objects whose paths cross. Sizes are in pixels of a source video 360 px high; the frame
is sampled straight at the network's square input. What the original does not have and
training needs: targets that vanish, jittered starts, slight blur and sensor noise.
"""

import torch
from torch.nn import functional as F

from .noise import fractal, lattices, value_noise
from .outline import DIRECTIONS, TURN, Outlines, Wave

OBJECTS = 3
HEIGHT = 360.0
TEXTURE = 128  # side of an object's texture
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Scenes:
    """B random scenes; `target` [B] is the number of the object to follow."""

    def __init__(self, draw, clips):
        b, k, dev = clips, OBJECTS, draw.device
        self.draw, self.clips = draw, clips
        aspects = torch.tensor([16 / 9, 16 / 9, 16 / 9, 1.5, 4 / 3, 1.0], device=dev)
        self.width = HEIGHT * aspects[draw.below(len(aspects), b)]
        # One object alone teaches foreground; telling objects apart needs company.
        counts = torch.tensor([1, 2, 2, 3, 3], device=dev)
        self.count = counts[draw.below(len(counts), b)]
        self.target = draw.below(self.count, b)
        self._place(draw, b, k)
        self.outlines = Outlines(draw, b, k)
        self.breath = Wave(draw, torch.ones(b, k, device=dev), 0.08)
        self.period = draw.between(24, 56, b, k)
        self.angle = draw.between(0, 1, b, k)
        self.spin = draw.sign(b, k) * draw.between(0.003, 0.015, b, k)
        self.colours = draw.between(20, 255, b, k, 2, 3)
        self.striped = draw.chance(0.5, b, k)
        self.textures = _textures(draw, b, k)
        # Background.
        self.lattice = lattices(draw, b)
        low, high = draw.between(40, 120, b, 1, 3), draw.between(110, 200, b, 1, 3)
        self.back = torch.cat([low, high], dim=1)
        self.drift = torch.stack([draw.between(-1.5, 1.5, b), draw.between(-0.7, 0.7, b)], dim=1)
        self.zoom = Wave(draw, torch.ones(b, device=dev), 0.06)
        self.blur = draw.between(0, 1, b) * draw.chance(0.5, b)
        self.grain = draw.between(0, 4, b) * draw.chance(0.5, b)

    def _place(self, draw, b, k):
        """Objects start apart in the cells of a grid and travel towards the middle and back."""
        count, width = self.count.float(), self.width
        columns = torch.ceil(torch.sqrt(count * width / HEIGHT))
        columns = torch.minimum(columns.clamp(min=1), count)
        rows = torch.ceil(count / columns)
        cell_w, cell_h = width / columns, HEIGHT / rows
        largest = torch.minimum(0.48 * torch.minimum(cell_w, cell_h), 0.26 * width.clamp(max=HEIGHT))
        other_sizes = torch.where(draw.chance(0.3, b, k), draw.between(0.6, 1.3, b, k), 1.0)
        self.radius = largest[:, None] * draw.between(0.8, 0.92, b, k) * other_sizes
        # Slots are drawn back to front, so the cell of a slot must be random.
        slot = torch.arange(k, device=draw.device)
        cell = (slot + draw.below(OBJECTS, b, 1)) % self.count[:, None]
        column, row = cell % columns[:, None], torch.div(cell, columns[:, None], rounding_mode="floor")
        start = torch.stack([(column + 0.5) * cell_w[:, None], (row + 0.5) * cell_h[:, None]], dim=2)
        size = torch.stack([width, torch.full_like(width, HEIGHT)], dim=1)[:, None]
        jitter = draw.between(-0.2, 0.2, b, k, 2) * draw.chance(0.3, b, 1, 1)
        self.start = start + jitter * size
        goal = draw.between(0.3, 0.7, b, k, 2)
        # Some objects leave the picture on their way.
        outside = 0.5 + draw.sign(b, k, 2) * draw.between(0.7, 1.0, b, k, 2)
        goal = torch.where(draw.chance(0.15, b, k, 1), outside, goal)
        self.goal = goal * size

    @torch.no_grad()
    def render(self, t, side, shown):
        """Times t [B,T], `shown` [B,T] False where the target is taken away.

        -> normalised images [B,T,3,S,S] and the target's visible share of each pixel [B,T,S,S].
        """
        b, frames = t.shape
        centres = (torch.arange(side, device=t.device) + 0.5) / side
        x = (centres * self.width[:, None]).reshape(b, 1, 1, side)
        y = (centres * HEIGHT).reshape(1, 1, side, 1)
        shake = 0.008 * self.width.clamp(max=HEIGHT)[:, None, None, None]
        tt = t[:, :, None, None]
        shake_x, shake_y = shake * torch.sin(TURN * 0.11 * tt), shake * torch.sin(TURN * 0.073 * tt)
        image = self._background(x - shake_x, y - shake_y, tt, t)
        target = torch.zeros(b, frames, side, side, device=t.device)
        tables = self.outlines.table(t)
        along = (1 - torch.cos(TURN * t[:, None] / self.period[:, :, None])) / 2
        centre = self.start[:, :, None] + (self.goal - self.start)[:, :, None] * along[..., None]
        radius = self.radius[:, :, None] * self.breath.at(t)
        turn = TURN * (self.angle[:, :, None] + self.spin[:, :, None] * t[:, None])
        pixel = side / torch.sqrt(self.width * HEIGHT)[:, None, None, None]
        for k in range(OBJECTS):
            r = radius[:, k, :, None, None]
            dx = (x - shake_x - centre[:, k, :, 0, None, None]) / r
            dy = (y - shake_y - centre[:, k, :, 1, None, None]) / r
            cos, sin = torch.cos(turn[:, k])[..., None, None], torch.sin(turn[:, k])[..., None, None]
            u, v = dx * cos + dy * sin, dy * cos - dx * sin
            cover = ((_edge(tables[:, k], u, v) - torch.sqrt(u * u + v * v)) * r * pixel + 0.5).clamp(0, 1)
            cover = cover * (k < self.count).float()[:, None, None, None]
            mine = (self.target == k)[:, None]
            cover = cover * (shown | ~mine).float()[:, :, None, None]
            target = target * (1 - cover) + cover * mine.float()[:, :, None, None]
            painted = self._paint(k, u, v, 1 - 0.25 * (dx + dy))
            image = image + (painted - image) * cover[:, :, None]
        return self._finish(image), target

    def _background(self, x, y, tt, t):
        """Two colours mixed by noise, with grain: [B,T,3,S,S] in 0..255."""
        scale = (self.zoom.at(t) / (self.width.clamp(max=HEIGHT) / 5)[:, None])[..., None, None]
        u = (x + self.drift[:, :1, None, None] * tt) * scale
        v = (y + self.drift[:, 1:, None, None] * tt) * scale
        u, v = torch.broadcast_tensors(u, v)
        b, frames, h, w = u.shape
        u, v = u.reshape(b, frames * h, w), v.reshape(b, frames * h, w)
        amount = fractal(self.lattice, u, v).reshape(b, frames, 1, h, w)
        grain = 30 * (value_noise(self.lattice, u * 14, v * 14) - 0.5)
        mixed = _blend(self.back[:, None], amount)
        return (mixed + grain.reshape(b, frames, 1, h, w)).clamp(0, 255)

    def _paint(self, k, u, v, light):
        """Colours [B,T,3,S,S] of object k at its own coordinates u, v [B,T,S,S]."""
        b, frames, h, w = u.shape
        grid = torch.stack([u, v], dim=-1).reshape(b, frames * h, w, 2)
        grain = F.grid_sample(
            self.textures[:, k, None], grid, align_corners=True, padding_mode="border"
        ).reshape(b, frames, h, w)
        stripe = torch.where((u * 3 + grain) % 1 < 0.5, 0.15, 0.85)
        amount = torch.where(self.striped[:, k, None, None, None], stripe, grain)
        colours = _blend(self.colours[:, k, None], amount[:, :, None])
        return (colours * light[:, :, None]).clamp(0, 255)

    def _finish(self, image):
        """Blur and noise of a camera, then the network's normalisation."""
        b, frames, _, h, w = image.shape
        flat = image.reshape(b, frames * 3, h, w)
        kernel = torch.tensor([1.0, 2.0, 1.0], device=image.device) / 4
        soft = F.pad(flat, (1, 1, 1, 1), mode="replicate")
        soft = soft[..., :-2] * kernel[0] + soft[..., 1:-1] * kernel[1] + soft[..., 2:] * kernel[2]
        soft = soft[..., :-2, :] * kernel[0] + soft[..., 1:-1, :] * kernel[1] + soft[..., 2:, :] * kernel[2]
        flat = flat + (soft - flat) * self.blur[:, None, None, None]
        flat = flat + self.draw.normal(b, frames * 3, h, w) * self.grain[:, None, None, None]
        flat = flat.clamp(0, 255).round()
        mean = torch.tensor(MEAN, device=image.device)[:, None, None]
        std = torch.tensor(STD, device=image.device)[:, None, None]
        return (flat.reshape(b, frames, 3, h, w) / 255 - mean) / std


def _textures(draw, b, k):
    """Object textures [B,K,TEXTURE,TEXTURE] over -1..1 in both directions."""
    at = torch.linspace(-1, 1, TEXTURE, device=draw.device) * 3 + 9
    u = at[None, None, :].expand(b * k, TEXTURE, TEXTURE)
    lattice = lattices(draw, b * k)
    return fractal(lattice, u, u.transpose(1, 2)).reshape(b, k, TEXTURE, TEXTURE)


def _edge(table, u, v):
    """Radius of the outline in the direction of each pixel: table [B,T,D+1], u, v [B,T,S,S]."""
    b, frames, h, w = u.shape
    direction = (torch.atan2(v, u) / TURN % 1) * DIRECTIONS
    low = direction.floor().clamp(max=DIRECTIONS - 1)
    part = direction - low
    low = low.long().reshape(b, frames, h * w)
    near, far = table.gather(2, low), table.gather(2, low + 1)
    return near.reshape(u.shape) * (1 - part) + far.reshape(u.shape) * part


def _blend(colours, amount):
    """colours [B,1,2,3], amount [B,T,1,S,S] -> [B,T,3,S,S]."""
    first, second = colours[:, :, 0, :, None, None], colours[:, :, 1, :, None, None]
    return first + (second - first) * amount
