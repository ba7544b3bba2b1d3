"""An image encoder around its trunk: `encoder_cut0` (stem) and `encoder_cut1` (neck), and the
weights of the blocks between them.

segtrt computes the blocks of a Hiera (trunk_hiera.py) and of a RepViT (trunk_repvit.py) itself. The
stem makes y, the tokens [1,g,g,C]; the neck takes m0 to m3, the tokens behind the last block of each
stage, and makes the features. What a block computes is written in onnx/README.md and, as programs,
in trunk_run.py. Stem and neck have kernels, too (stem_neck.py).
"""

import hashlib

from safetensors.numpy import save
from torch import nn
from torch.nn import functional as F

from . import ExportError
from .hiera import HieraTrunk
from .layers import linear, map_of
from .trunk_hiera import HieraBlocks
from .trunk_repvit import RepVitBlocks, is_repvit

FILE = "encoder_trunk.safetensors"
STAGES = ("m0", "m1", "m2", "m3")


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


def blocks_of(trunk, side):
    """The blocks of an `Encoder`'s trunk for images of this side; ExportError where segtrt has no
    kernels for them. The program checks the same when it reads a manifest."""
    if isinstance(trunk, HieraTrunk):
        return HieraBlocks(trunk)
    if is_repvit(trunk):
        return RepVitBlocks(trunk, side)
    raise ExportError(f"a {type(trunk).__name__} has no blocks that segtrt's kernels compute; export with "
                      f"--encoder engine")


def shapes_of(blocks):
    """The shapes of y and of m0..m3, by name."""
    tables = blocks.tables()
    grid, dim = tables[0]["grid"], tables[0]["dim"]
    return {"y": (1, grid, grid, dim)} | {
        name: (1, blocks.grid_out(end), blocks.grid_out(end), tables[end]["dim_out"])
        for name, end in zip(STAGES, blocks.ends)
    }


def write(blocks, folder, more=None):
    """Writes the file of weights, with `more` tensors, into `folder`; returns the manifest's
    [trunk] table, with its blocks under `blocks.KEY`."""
    data = save(blocks.tensors() | (more or {}))
    (folder / FILE).write_bytes(data)
    return {
        "file": FILE,
        "sha256": hashlib.sha256(data).hexdigest(),
        "flops": blocks.flops(),
        "ends": list(blocks.ends),
        blocks.KEY: blocks.tables(),
    }
