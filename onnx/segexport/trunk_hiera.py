"""A Hiera's blocks for segtrt's kernels, which are on an H200 faster than TensorRT 8.6.0's.

Tokens are f32 on either side, because what a block adds to them is small.
"""

import torch
from torch import nn

from . import ExportError
from .trunk_layers import FLOAT, HALF, MIXED, Layers

STAGES = 4
# What segtrt's kernels take (crates/vos/src/bundle/trunk/hiera.rs).
STEP, DEEPEST, WIDEST = 8, 96, 16


class Stem(nn.Module):
    """image [1,3,S,S] -> y [1,g,g,C], tokens with their positions, g = S/4."""

    def __init__(self, trunk):
        super().__init__()
        self.patch = trunk.patch
        self.register_buffer("pos", trunk.pos)

    def forward(self, image):
        return self.patch(image).permute(0, 2, 3, 1) + self.pos


class HieraBlocks:
    """Those of a HieraTrunk: `KEY` is their list in the manifest, `PORT` the type of their tokens,
    `ends` the last block of each stage."""

    KEY, PORT, Stem = "block", "cast", Stem

    def __init__(self, trunk):
        self.blocks, self.ends = trunk.blocks, trunk.ends
        self._check()

    def grid_out(self, at):
        """Side of the map that block `at` gives."""
        return self.blocks[at].grid_out

    def tables(self):
        """The blocks' [[trunk.block]] entries."""
        return [
            {
                "dim": block.dim,
                "dim_out": _width_out(block),
                "heads": block.heads,
                "grid": block.grid,
                "window": 0 if block.is_global else block.window,
                "pooled": block.pooled,
            } for block in self.blocks
        ]

    def flops(self):
        """2 * multiply-accumulates of all blocks as segtrt computes them: products of the map's own
        tokens, attention to whole windows."""
        return sum(_flops(block) for block in self.blocks)

    def tensors(self):
        """Name -> array of the weights' file: products in f16, what is added to f32 tokens or
        normalizes in f32."""
        layers = Layers()
        for at, block in enumerate(self.blocks):
            qkv = (block.q, block.k, block.v)  # q's with depth^-0.5 in it

            def put(name, weight, bias, kinds):
                layers.put(f"blocks.{at}.{name}", weight, bias, kinds)

            put("norm1", block.norm1.weight, block.norm1.bias, FLOAT)
            if block.skip is not None:
                put("skip", block.skip.weight, block.skip.bias, HALF)
            put("qkv", torch.cat([p.weight for p in qkv]), torch.cat([p.bias for p in qkv]), HALF)
            put("proj", block.proj.weight, block.proj.bias, MIXED)
            put("norm2", block.norm2.weight, block.norm2.bias, FLOAT)
            put("up", block.up.weight, block.up.bias, HALF)
            put("down", block.down.weight, block.down.bias, MIXED)
        return layers.found

    def _check(self):
        if len(self.ends) != STAGES or self.ends[-1] + 1 != len(self.blocks):
            raise ExportError(f"a trunk of {len(self.blocks)} blocks whose stages end at {self.ends}: "
                              f"expected four stages")
        for at, block in enumerate(self.blocks):
            wrong = self._wrong(at, block)
            if wrong:
                raise ExportError(f"segtrt's kernels for a trunk do not take block {at}: {wrong}; export with "
                                  f"--encoder engine")

    def _wrong(self, at, block):
        window = 0 if block.is_global else block.window
        if block.depth % STEP or block.depth > DEEPEST:
            return f"heads of {block.depth} columns, expected a multiple of {STEP} up to {DEEPEST}"
        if block.dim % STEP or _width_out(block) % STEP:
            return f"{block.dim} columns to {_width_out(block)}, expected multiples of {STEP}"
        if window > WIDEST:
            return f"windows of {window} tokens a side, expected {WIDEST} at most"
        if not block.pooled == (block.skip is not None) == (at - 1 in self.ends):
            return "pooling or more columns elsewhere than in the first block of a later stage"
        if block.pooled and (not window or window % 2 or block.grid % 2):
            return f"pooling in windows of {window} in a map of {block.grid}, expected even numbers and no whole map"
        if (block.up.out_features, block.down.out_features) != (4 * _width_out(block), _width_out(block)):
            return f"a hidden layer of {block.up.out_features} columns, expected four times {_width_out(block)}"
        if not (block.norm1.eps == block.norm2.eps == 1e-6):
            return f"norms with {block.norm1.eps} and {block.norm2.eps} below the root, expected 1e-6"
        if not isinstance(block.act, nn.GELU) or block.act.approximate != "none":
            return f"{block.act} in its hidden layer, expected the exact GELU"
        return None


def _width_out(block):
    """Columns of the tokens that a block gives."""
    return block.proj.out_features


def _flops(block):
    taken, given, columns = block.grid**2, block.grid_out**2, _width_out(block)
    skip = taken * block.dim * columns if block.skip is not None else 0
    products = taken * block.dim * 3 * columns + given * columns * columns * (1 + 4 + 4) + skip
    return 2 * (products + 2 * given * block.window**2 * columns)
