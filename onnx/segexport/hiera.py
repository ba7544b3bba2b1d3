"""Hiera trunk (SAM 2.1's image backbone) for one fixed image size.

Same function as Meta's `Hiera.forward`, with every window count a Python number
(no Shape or Mod nodes), the positional table baked and 1/sqrt(d) folded into the
query projection. Queries, keys and values have a projection each: slices of a common
one cost TensorRT 8.6 a copy of all three (SAM2.1-tiny on an H200: 3.09 ms with slices,
2.81 without, and 248 instead of 416 MiB to run in).
"""

import torch
from torch import nn
from torch.nn import functional as F

from .layers import linear, pad_end


class HieraTrunk(nn.Module):
    """image [n,3,S,S] -> maps at 1/4, 1/8, 1/16, 1/32, each [n,C,H,W]; n images do not mix."""

    def __init__(self, trunk, side):
        super().__init__()
        self.patch = trunk.patch_embed.proj
        grid = side // 4
        with torch.no_grad():
            self.register_buffer("pos", trunk._get_pos_embed((grid, grid)).detach().clone())
        self.blocks = nn.ModuleList()
        for block in trunk.blocks:
            self.blocks.append(HieraBlock(block, grid))
            grid = self.blocks[-1].grid_out
        self.ends = list(trunk.stage_ends)

    def forward(self, image):
        x = self.patch(image).permute(0, 2, 3, 1) + self.pos
        maps = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in self.ends:
                maps.append(x.permute(0, 3, 1, 2))
        return maps


class HieraBlock(nn.Module):
    """One block on channels-last data [n, grid, grid, dim] -> [n, grid_out, grid_out, dim_out]."""

    def __init__(self, block, grid):
        super().__init__()
        self.norm1, self.norm2 = block.norm1, block.norm2
        self.pooled = block.q_stride is not None
        self.grid, self.grid_out = grid, grid // 2 if self.pooled else grid
        self.dim = block.dim
        self.skip = block.proj if block.dim != block.dim_out else None
        attn = block.attn
        self.heads, self.depth = attn.num_heads, attn.proj.in_features // attn.num_heads
        # 0 = global attention: one window of the whole map.
        self.is_global = not block.window_size
        self.window = block.window_size or grid
        self.padded = -(-grid // self.window) * self.window
        weights, biases = attn.qkv.weight.chunk(3), attn.qkv.bias.chunk(3)
        scales = (self.depth**-0.5, 1.0, 1.0)
        self.q, self.k, self.v = (linear(w * s, b * s) for w, b, s in zip(weights, biases, scales))
        self.proj = attn.proj
        self.up, self.down = block.mlp.layers
        self.act = block.mlp.act

    def forward(self, x):
        normed = self.norm1(x)
        if self.skip is not None:
            x = self.skip(normed)
            if self.pooled:
                x = _pool(x)
        return self.finish(x, self._attend(normed))

    def finish(self, x, attended):
        """What follows the attention's output projection; both [n, grid_out, grid_out, dim_out]."""
        x = x + attended
        return x + self.down(self.act(self.up(self.norm2(x))))

    def _attend(self, x):
        gap, w, d = self.padded - self.grid, self.window, self.depth
        if gap:
            x = pad_end(x, gap)
        images, across = int(x.shape[0]), self.padded // w
        rows, windows, dim = images * across, images * across * across, self.heads * d
        x = x.reshape(rows, w, across, w, self.dim).transpose(1, 2)
        x = x.reshape(windows, w * w, self.dim)
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.pooled:
            q = _pool(q.reshape(windows, w, w, dim))
            w //= 2
        q = q.reshape(windows, w * w, self.heads, d).transpose(1, 2)
        k = k.reshape(windows, self.window**2, self.heads, d).permute(0, 2, 3, 1)
        v = v.reshape(windows, self.window**2, self.heads, d).transpose(1, 2)
        x = (torch.softmax(q @ k, dim=-1) @ v).transpose(1, 2)
        x = self.proj(x.reshape(windows, w * w, dim))
        side = across * w
        x = x.reshape(rows, across, w, w, dim).transpose(1, 2).reshape(images, side, side, dim)
        return x[:, : self.grid_out, : self.grid_out] if side > self.grid_out else x


def _pool(x):
    """2x2 max pooling of channels-last data."""
    return F.max_pool2d(x.permute(0, 3, 1, 2), 2, 2).permute(0, 2, 3, 1)
