"""An image encoder around its trunk: `encoder_cut0` (stem) and `encoder_cut1` (neck), and the
weights of the blocks between them.

segtrt computes Hiera's blocks itself, on an H200 faster than TensorRT 8.6.0 does. The stem makes y,
the tokens [1,g,g,C] with their positions; the neck takes m0 to m3, the tokens behind the last block
of each stage, and makes the features. Tokens are f32 on either side, because what a block adds to
them is small. What a block computes is written in onnx/README.md and, as a program, in
trunk_run.py.
"""

import hashlib

import numpy as np
import torch
from safetensors.numpy import save
from torch import nn
from torch.nn import functional as F

from . import ExportError
from .layers import linear, map_of

FILE = "encoder_trunk.safetensors"
STAGES = ("m0", "m1", "m2", "m3")
# What segtrt's kernels take (crates/vos/src/bundle/trunk.rs).
STEP, DEEPEST, WIDEST = 8, 96, 16
LARGEST_HALF = 65504.0


class Stem(nn.Module):
    """image [1,3,S,S] -> y [1,g,g,C], g = S/4."""

    def __init__(self, encoder):
        super().__init__()
        self.patch = encoder.trunk.patch
        self.register_buffer("pos", encoder.trunk.pos)

    def forward(self, image):
        return self.patch(image).permute(0, 2, 3, 1) + self.pos


class Neck(nn.Module):
    """m0..m3, the tokens behind each stage -> feat, hr0, hr1 (encoder.py).

    The 1x1 convolutions are products of the tokens as they lie, and only their narrow results are transposed.
    """

    def __init__(self, encoder):
        super().__init__()
        convolutions = (encoder.hr0, encoder.hr1, encoder.middle, encoder.coarse)
        self.products = nn.ModuleList(linear(layer.weight[:, :, 0, 0], layer.bias) for layer in convolutions)

    def forward(self, *stages):
        hr0, hr1, middle, coarse = (_project(layer, x) for layer, x in zip(self.products, stages))
        return middle + F.interpolate(coarse, scale_factor=2.0, mode="nearest"), hr0, hr1


def _project(layer, x):
    """[1,h,w,C] -> [1,columns,h,w]."""
    height, width, columns = (int(n) for n in x.shape[1:])
    return map_of(layer(x.reshape(1, height * width, columns)), layer.out_features, height, width)


def shapes_of(trunk):
    """The shapes of y and of m0..m3, by name."""
    first = trunk.blocks[0]
    last = [trunk.blocks[end] for end in trunk.ends]
    behind = {
        name: (1, block.grid_out, block.grid_out, width_out(block))
        for name, block in zip(STAGES, last)
    }
    return {"y": (1, first.grid, first.grid, first.dim)} | behind


def width_out(block):
    """Columns of the tokens that a block gives."""
    return block.proj.out_features


def check(trunk):
    """Raises ExportError where the program's kernels do not take the trunk; the program checks the
    same when it reads a manifest."""
    if len(trunk.ends) != len(STAGES) or trunk.ends[-1] + 1 != len(trunk.blocks):
        raise ExportError(f"a trunk of {len(trunk.blocks)} blocks whose stages end at {trunk.ends}: "
                          f"expected four stages")
    for at, block in enumerate(trunk.blocks):
        window = 0 if block.is_global else block.window
        wrong = None
        if block.depth % STEP or block.depth > DEEPEST:
            wrong = f"heads of {block.depth} columns, expected a multiple of {STEP} up to {DEEPEST}"
        elif block.dim % STEP or width_out(block) % STEP:
            wrong = f"{block.dim} columns to {width_out(block)}, expected multiples of {STEP}"
        elif window > WIDEST:
            wrong = f"windows of {window} tokens a side, expected {WIDEST} at most"
        elif not block.pooled == (block.skip is not None) == (at - 1 in trunk.ends):
            wrong = "pooling or more columns elsewhere than in the first block of a later stage"
        elif block.pooled and (not window or window % 2 or block.grid % 2):
            wrong = f"pooling in windows of {window} in a map of {block.grid}, expected even numbers and no whole map"
        elif (block.up.out_features, block.down.out_features) != (4 * width_out(block), width_out(block)):
            wrong = f"a hidden layer of {block.up.out_features} columns, expected four times {width_out(block)}"
        elif not (block.norm1.eps == block.norm2.eps == 1e-6):
            wrong = f"norms with {block.norm1.eps} and {block.norm2.eps} below the root, expected 1e-6"
        elif not isinstance(block.act, nn.GELU) or block.act.approximate != "none":
            wrong = f"{block.act} in its hidden layer, expected the exact GELU"
        if wrong:
            raise ExportError(f"segtrt's kernels for a trunk do not take block {at}: {wrong}; export with "
                              f"--encoder engine")


def tensors_of(trunk):
    """Name -> array of the weights' file: products in f16, what is added to f32 tokens or
    normalizes in f32."""
    check(trunk)
    found = {}

    def put(name, weight, bias, kinds):
        for part, value, kind in zip(("weight", "bias"), (weight, bias), kinds):
            value = value.detach().float().numpy()
            if kind == np.float16 and np.abs(value).max() > LARGEST_HALF:
                raise ExportError(f"{name}.{part} has values beyond f16's largest, {LARGEST_HALF}; export "
                                  f"with --encoder engine")
            found[f"{name}.{part}"] = np.ascontiguousarray(value.astype(kind))

    wide, half, mixed = (np.float32, np.float32), (np.float16, np.float16), (np.float16, np.float32)
    for at, block in enumerate(trunk.blocks):
        qkv = (block.q, block.k, block.v)  # q's with depth^-0.5 in it
        put(f"blocks.{at}.norm1", block.norm1.weight, block.norm1.bias, wide)
        if block.skip is not None:
            put(f"blocks.{at}.skip", block.skip.weight, block.skip.bias, half)
        put(f"blocks.{at}.qkv", torch.cat([p.weight for p in qkv]), torch.cat([p.bias for p in qkv]), half)
        put(f"blocks.{at}.proj", block.proj.weight, block.proj.bias, mixed)
        put(f"blocks.{at}.norm2", block.norm2.weight, block.norm2.bias, wide)
        put(f"blocks.{at}.up", block.up.weight, block.up.bias, half)
        put(f"blocks.{at}.down", block.down.weight, block.down.bias, mixed)
    return found


def table_of(block):
    """A block's [[trunk.block]] entry."""
    return {
        "dim": block.dim,
        "dim_out": width_out(block),
        "heads": block.heads,
        "grid": block.grid,
        "window": 0 if block.is_global else block.window,
        "pooled": block.pooled,
    }


def work_of(block):
    """2 * multiply-accumulates of a block as segtrt computes it: products of the map's own tokens,
    attention to whole windows."""
    taken, given, columns = block.grid**2, block.grid_out**2, width_out(block)
    skip = taken * block.dim * columns if block.skip is not None else 0
    products = taken * block.dim * 3 * columns + given * columns * columns * (1 + 4 + 4) + skip
    return 2 * (products + 2 * given * block.window**2 * columns)


def write(trunk, folder, more=None):
    """Writes the file of weights, with `more` tensors, into `folder`; returns the manifest's
    [trunk] table, with its blocks as "block"."""
    data = save(tensors_of(trunk) | (more or {}))
    (folder / FILE).write_bytes(data)
    return {
        "file": FILE,
        "sha256": hashlib.sha256(data).hexdigest(),
        "flops": sum(work_of(block) for block in trunk.blocks),
        "ends": list(trunk.ends),
        "block": [table_of(block) for block in trunk.blocks],
    }
