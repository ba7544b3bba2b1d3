"""A RepViT's blocks for segtrt's kernels: TensorRT runs RepViT-M1 as 143 small kernels.

timm's blocks and down-samplings are of one kind here: a depthwise 3x3 convolution; then
squeeze-and-excite, or a product to other columns where the map shrinks; then a hidden layer whose
result is added. Their batch norms and parallel branches are already in the convolutions (encoder.py).
"""

from dataclasses import dataclass

from torch import nn

from . import ExportError
from .trunk_layers import MIXED, Layers

STAGES, STEM_STRIDE = 4, 4
# What segtrt's kernels take (crates/vos/src/bundle/trunk/repvit.rs).
STEP, MOST_COLUMNS, MOST_HIDDEN, MOST_SQUEEZE = 8, 1024, 2048, 256


class Stem(nn.Module):
    """image [1,3,S,S] -> y [1,g,g,C], g = S/4."""

    def __init__(self, trunk):
        super().__init__()
        self.stem = trunk.body["stem"]

    def forward(self, image):
        return self.stem(image).permute(0, 2, 3, 1)


@dataclass
class Block:
    """The layers of one block, in the order of their work; `grid` is the side of the map it takes."""

    grid: int
    depthwise: nn.Conv2d
    excite: nn.Module | None  # encoder.py's squeeze-and-excite
    pointwise: nn.Conv2d | None
    mixer: nn.Module  # timm's RepVitMlp

    @property
    def stride(self):
        return self.depthwise.stride[0]

    @property
    def dim(self):
        return self.depthwise.in_channels

    @property
    def dim_out(self):
        return (self.pointwise or self.depthwise).out_channels

    @property
    def hidden(self):
        return self.mixer.conv1.out_channels

    @property
    def squeeze(self):
        return self.excite.down.out_channels if self.excite else 0

    def layers(self):
        """Name and convolution of each layer with weights."""
        named = {"dw": self.depthwise, "pw": self.pointwise, "up": self.mixer.conv1, "down": self.mixer.conv2}
        if self.excite:
            named |= {"squeeze": self.excite.down, "excite": self.excite.up}
        return {name: layer for name, layer in named.items() if layer is not None}


class RepVitBlocks:
    """Those of an `Encoder`'s RepViT: `KEY` is their list in the manifest, `PORT` the type of their
    tokens, `ends` the last block of each stage."""

    KEY, PORT, Stem = "repvit", "f", Stem

    def __init__(self, trunk, side):
        self.blocks, self.ends, grid = [], [], side // STEM_STRIDE
        for stage in _stages(trunk):
            for block in _blocks(stage, grid):
                self.blocks.append(block)
                grid = block.grid // block.stride
            self.ends.append(len(self.blocks) - 1)
        self._check()

    def grid_out(self, at):
        """Side of the map that block `at` gives."""
        return self.blocks[at].grid // self.blocks[at].stride

    def tables(self):
        """The blocks' [[trunk.repvit]] entries."""
        names = ("dim", "dim_out", "grid", "stride", "squeeze", "hidden")
        return [{name: getattr(block, name) for name in names} for block in self.blocks]

    def flops(self):
        """2 * multiply-accumulates of all blocks."""
        return sum(_flops(block) for block in self.blocks)

    def tensors(self):
        """Name -> array of the weights' file."""
        layers = Layers()
        for at, block in enumerate(self.blocks):
            for name, layer in block.layers().items():
                # A depthwise kernel is [9,C], its places row by row; all else [columns out, columns in].
                weight = layer.weight.flatten(1)
                weight = weight.T if name == "dw" else weight
                layers.put(f"blocks.{at}.{name}", weight, layer.bias, MIXED)
        return layers.found

    def _check(self):
        if len(self.ends) != STAGES:
            raise ExportError(f"a RepViT of {len(self.ends)} stages, expected {STAGES}")
        for at, block in enumerate(self.blocks):
            wrong = _wrong(block)
            if wrong:
                raise ExportError(f"segtrt's kernels for a trunk do not take block {at}: {wrong}; export with "
                                  f"--encoder engine")


def is_repvit(trunk):
    """Whether the trunk is a timm RepViT without its branches, as `encoder.fused_timm` leaves it."""
    return hasattr(trunk, "body") and "stem" in dict(trunk.body.named_children()) and bool(_stages(trunk))


def _stages(trunk):
    """EdgeTAM has them beside the stem, edgetam_mini in a list of their own."""
    from timm.models.repvit import RepVitStage  # SAM 2.1 is exported without timm

    return [module for module in trunk.body.modules() if isinstance(module, RepVitStage)]


def _blocks(stage, grid):
    """A timm stage in blocks of one kind."""
    if not isinstance(stage.downsample, nn.Identity):
        before, down = stage.downsample.pre_block, stage.downsample
        yield _plain(before, grid)
        yield Block(grid, down.spatial_downsample, None, down.channel_downsample, down.ffn)
        grid //= 2
    for block in stage.blocks:
        yield _plain(block, grid)


def _plain(block, grid):
    excite = None if isinstance(block.se, nn.Identity) else block.se
    return Block(grid, block.token_mixer, excite, None, block.channel_mixer)


def _wrong(block):
    """Why no kernel computes the block; none where one does."""
    layers = block.layers()
    depthwise, dim = layers.pop("dw"), block.dim
    place = (depthwise.kernel_size, depthwise.padding, depthwise.groups, depthwise.out_channels)
    if place != ((3, 3), (1, 1), dim, dim):
        return f"{depthwise}, expected a 3x3 convolution in each column for itself, with zeros around"
    if block.stride not in (1, 2) or block.grid % block.stride:
        return f"a stride of {block.stride} in a map of {block.grid}, expected 1, or 2 in a map of an even side"
    if block.stride == 1 and block.pointwise is not None:
        return "other columns where the map keeps its side"
    if block.excite:
        steps = (block.excite.norm, block.excite.act, block.excite.gate)
        # timm has a sigmoid of its own.
        if [type(step).__name__ for step in steps] != ["Identity", "ReLU", "Sigmoid"]:
            return "a squeeze-and-excite that is not linear, ReLU, linear, sigmoid"
    if block.excite and block.grid < 2:
        return "squeeze-and-excite in a map of one token"
    if any(layer.kernel_size != (1, 1) or layer.groups != 1 for layer in layers.values()):
        return "a product that is no 1x1 convolution"
    for what, columns, most in (("columns", dim, MOST_COLUMNS), ("columns", block.dim_out, MOST_COLUMNS),
                                ("columns in its hidden layer", block.hidden, MOST_HIDDEN),
                                ("columns in its squeeze-and-excite", block.squeeze, MOST_SQUEEZE)):
        if columns % STEP or columns > most:
            return f"{columns} {what}, expected a multiple of {STEP} up to {most}"
    if not isinstance(block.mixer.act, nn.GELU) or block.mixer.act.approximate != "none":
        return f"{block.mixer.act} in its hidden layer, expected the exact GELU"
    return None


def _flops(block):
    given = (block.grid // block.stride)**2
    # Squeeze-and-excite has one token, the map's mean.
    rows = {"squeeze": 1, "excite": 1}
    return 2 * sum(rows.get(name, given) * layer.weight.numel() for name, layer in block.layers().items())
