"""Batched value noise, the same kind as `crates/vos/src/synth/noise.rs` makes.

A lattice of random numbers with smoothly blended cells. Bilinear sampling at
floor(x) + ease(x - floor(x)) is exactly that blend, so the GPU's texture-like
`grid_sample` does the work.
"""

import torch
from torch.nn import functional as F

CELLS = 128  # the lattice repeats after so many cells


def lattices(draw, *batch):
    """Random lattices [*batch, CELLS+1, CELLS+1]; the last row and column repeat the first."""
    values = draw.between(0, 1, *batch, CELLS, CELLS)
    values = torch.cat([values, values[..., :1]], dim=-1)
    return torch.cat([values, values[..., :1, :]], dim=-2)


def value_noise(lattice, x, y):
    """lattice [B,L,L], columns x [B,T,W] and rows y [B,T,H] in cells -> noise [B,T,H,W] in [0, 1).
    """
    b, frames, w = x.shape
    h = y.shape[2]
    grid = torch.empty(b, frames, h, w, 2, device=x.device)
    grid[..., 0], grid[..., 1] = _eased(x)[:, :, None, :], _eased(y)[..., None]
    grid = grid.reshape(b, frames * h, w, 2)
    return F.grid_sample(lattice[:, None], grid, align_corners=True).reshape(b, frames, h, w)


def _eased(a):
    a = a % CELLS
    cell = a.floor()
    part = a - cell
    # -1..1 spans the centres of the first and last lattice point (align_corners).
    return (cell + part * part * (3 - 2 * part)) * (2 / CELLS) - 1


def fractal(lattice, x, y):
    """Three octaves with the weights and offsets of `Noise::fractal`."""
    coarse = value_noise(lattice, x, y)
    middle = value_noise(lattice, x * 2.3 + 37.1, y * 2.3)
    fine = value_noise(lattice, x * 5.1, y * 5.1 + 71.7)
    return (4 * coarse + 2 * middle + fine) / 7
