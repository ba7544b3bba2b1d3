"""A block of Hiera that is cut at its attention over the whole map, for the program's own kernel to compute it.

`Before` ends in q, k and v, `Behind` begins with o = softmax(q k^T) v, head by head. All four are [heads, tokens, W] with
W the width that a kernel has (WIDTHS): a head's columns first, zeros behind them. The zeros are rows of the projections
that make q, k and v, and columns of the one that takes o, so nothing is padded when the graphs run, and whatever stands
in o's padding does not count.

The projections are plain products with constant weights, as in the whole encoder, to heads * W columns; after them a
reshape, which is free, and one transpose of the tokens with the heads. One product a head would give that order without
a copy, but with an axis for the heads in its weights; such products TensorRT 8.6 has got wrong before (memory_attention.py).
"""

import torch
from torch import nn

from . import ExportError
from .layers import linear

WIDTHS = (64, 128)  # of the kernels' heads


def width_of(block):
    """W of a block: the least width of a kernel that takes its heads."""
    width = next((width for width in WIDTHS if block.depth <= width), None)
    if width is None:
        raise ExportError(f"heads of {block.depth} columns: the attention kernels take {WIDTHS[-1]} at most")
    return width


class Before(nn.Module):
    """x [1,h,w,C], the tokens before a block -> its q (scaled), k and v, each [heads, tokens, W]."""

    def __init__(self, block):
        super().__init__()
        self.norm1, self.heads, self.width = block.norm1, block.heads, width_of(block)
        self.tokens, self.dim = block.grid**2, block.dim
        self.q, self.k, self.v = (self._wide(layer, block.depth) for layer in (block.q, block.k, block.v))

    def _wide(self, layer, depth):
        """A projection to heads * W columns, those behind each head's own zero."""
        weight = torch.zeros(self.heads, self.width, self.dim)
        bias = torch.zeros(self.heads, self.width)
        weight[:, :depth] = layer.weight.detach().reshape(self.heads, depth, self.dim)
        bias[:, :depth] = layer.bias.detach().reshape(self.heads, depth)
        return linear(weight.flatten(0, 1), bias.flatten())

    def forward(self, x):
        normed = self.norm1(x).reshape(1, self.tokens, self.dim)
        return tuple(
            layer(normed).reshape(self.tokens, self.heads, self.width).transpose(0, 1) for layer in (self.q, self.k, self.v)
        )


class Behind(nn.Module):
    """x [1,h,w,C], the tokens before a block, and o [heads, tokens, W] of its attention -> what the block gives [1,h,w,C]."""

    def __init__(self, block):
        super().__init__()
        self.block, self.columns = block, block.heads * width_of(block)
        self.tokens = block.grid**2
        rows = block.proj.out_features
        weight = torch.zeros(rows, block.heads, width_of(block))
        weight[:, :, : block.depth] = block.proj.weight.detach().reshape(rows, block.heads, block.depth)
        self.proj = linear(weight.flatten(1), block.proj.bias)

    def forward(self, x, o):
        attended = self.proj(o.transpose(0, 1).reshape(1, self.tokens, self.columns))
        return self.block.finish(x, attended.reshape(x.shape))
