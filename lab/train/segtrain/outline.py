"""Deforming outlines as tables: the distance of the edge from the centre for each direction.

All kinds of `crates/vos/src/synth/shape.rs` (polygon, ellipse, blob) and a star are star-shaped
around their centre, so one table of radii per shape and frame describes any of them and
a pixel is inside when it is nearer than its direction's entry.
"""

import math

import torch

DIRECTIONS = 512
CORNERS = 14
POLYGON, ELLIPSE, BLOB, STAR = range(4)
TURN = 2 * math.pi


class Wave:
    """A breathing amount: mean + swing * sin(rate * t + phase), angles in turns."""

    def __init__(self, draw, mean, swing):
        """`mean` is a tensor; `swing` a number or a tensor of its shape."""
        self.mean, self.swing = mean, swing
        self.rate = draw.between(0.015, 0.04, *mean.shape)
        self.phase = draw.between(0, 1, *mean.shape)

    def share(self, shared):
        """Passes all that was drawn through `shared`, which may give objects one another's."""
        self.mean, self.rate, self.phase = map(shared, (self.mean, self.rate, self.phase))

    def at(self, t):
        """Amounts [*shape, T] at times t [B, T]; B is the first axis of the shape."""
        t = t.reshape(t.shape[0], *[1] * (self.mean.dim() - 1), t.shape[1])
        swing = self.swing if isinstance(self.swing, float) else self.swing[..., None]
        angle = self.rate[..., None] * t + self.phase[..., None]
        return self.mean[..., None] + swing * torch.sin(TURN * angle)


class Outlines:
    """Random outlines of B clips with K objects each."""

    def __init__(self, draw, clips, objects, stars=True):
        shape = (clips, objects)
        kinds = draw.constant((POLYGON, ELLIPSE, BLOB) * 3 + (STAR,) * stars)
        self.kind = kinds[draw.below(len(kinds), *shape)]
        self.minor = Wave(draw, draw.between(0.55, 0.8, *shape), 0.15)
        self.corners = 3 + draw.below(5, *shape)
        self.corners = torch.where(self.kind == STAR, 2 * self.corners.clamp(min=4), self.corners)
        reach = draw.between(0.7, 0.88, *shape, CORNERS)
        inward = torch.arange(CORNERS, device=draw.device) % 2 == 1
        depth = draw.between(0.45, 0.65, *shape, 1)
        star = (self.kind == STAR)[..., None] & inward
        self.reach = Wave(draw, torch.where(star, reach * depth, reach), 0.12)
        harmonic = torch.arange(2.0, 6.0, device=draw.device)
        self.cosine = Wave(draw, draw.between(-0.05, 0.05, *shape, 4) / harmonic, 0.1 / harmonic)
        self.sine = Wave(draw, draw.between(-0.05, 0.05, *shape, 4) / harmonic, 0.1 / harmonic)

    def share(self, shared):
        """Passes all that was drawn through `shared`, as `Wave.share` does."""
        self.kind, self.corners = shared(self.kind), shared(self.corners)
        for wave in (self.minor, self.reach, self.cosine, self.sine):
            wave.share(shared)

    def table(self, t):
        """Times [B,T] -> radii [B,K,T,DIRECTIONS]."""
        angle = torch.arange(DIRECTIONS, device=t.device) / DIRECTIONS
        kind = self.kind[:, :, None, None]
        radius = torch.where(kind == ELLIPSE, self._ellipse(t, angle), self._polygon(t, angle))
        return torch.where(kind == BLOB, self._blob(t, angle), radius)

    def _ellipse(self, t, angle):
        minor = self.minor.at(t)[..., None]
        cos, sin = torch.cos(TURN * angle), torch.sin(TURN * angle)
        return 1 / torch.sqrt(cos**2 + (sin / minor) ** 2)

    def _polygon(self, t, angle):
        """Where the ray meets the edge between its two neighbouring corners."""
        reach = self.reach.at(t).transpose(2, 3)  # [B,K,T,CORNERS]
        count = self.corners[:, :, None, None]
        step = 1 / count
        first = torch.floor(angle / step).long().clamp(max=CORNERS - 1)
        first = torch.minimum(first, count - 1).expand(*reach.shape[:3], -1)
        a, b = reach.gather(3, first), reach.gather(3, (first + 1) % count)
        behind, ahead = angle - first * step, (first + 1) * step - angle
        across = a * torch.sin(TURN * behind) + b * torch.sin(TURN * ahead)
        return a * b * torch.sin(TURN * step) / across

    def _blob(self, t, angle):
        k = torch.arange(2, 6, device=t.device)[:, None, None]
        cos, sin = torch.cos(TURN * k * angle), torch.sin(TURN * k * angle)
        radius = 0.72 + (self.cosine.at(t)[..., None] * cos + self.sine.at(t)[..., None] * sin).sum(2)
        return radius.clamp(0.3, 1.0)
