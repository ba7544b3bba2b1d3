"""Stem and neck for segtrt's kernels, which then compute the whole image encoder.

A RepViT's stem is two 3x3 convolutions with stride 2 and GELU between them. A Hiera's is the patch
embedding, a 7x7 convolution with stride 4, plus the positions of the whole map at the bundle's
image size. The neck is four 1x1 convolutions (encoder.py), into which those of the mask decoder are
folded. Their weights lie in the trunk's file; [trunk.stem] and [trunk.neck] of the manifest say
their sizes. The graphs encoder_cut0 and encoder_cut1 compute the same with TensorRT.
"""

from torch import nn

from .trunk_hiera import HieraBlocks
from .trunk_layers import MIXED, Layers

# What segtrt's kernels take (crates/vos/src/bundle/trunk/stem.rs and stem_neck.rs).
STEP, MOST_MIDDLE, MOST_TOKEN, MOST_EMBEDDED, MOST_FEATURE = 8, 24, 48, 192, 1024
NECK = ("hr0", "hr1", "middle", "coarse")


class Convolutions:
    """The stem of a RepViT, of an `Encoder`'s trunk."""

    def __init__(self, trunk):
        stem = trunk.body["stem"]
        self.first, self.act, self.second = stem.conv1, stem.act1, stem.conv2

    def why_not(self):
        """Why no kernel computes it; none where one does."""
        for layer in (self.first, self.second):
            place = (layer.kernel_size, layer.stride, layer.padding, layer.groups)
            if place != ((3, 3), (2, 2), (1, 1), 1):
                return f"the stem has {layer}, expected a 3x3 convolution with stride 2 and zeros around"
        if not isinstance(self.act, nn.GELU) or self.act.approximate != "none":
            return f"the stem has {self.act}, expected the exact GELU"
        for what, layer, most in (("between the stem's convolutions", self.first, MOST_MIDDLE),
                                  ("of the stem's tokens", self.second, MOST_TOKEN)):
            if layer.out_channels % STEP or layer.out_channels > most:
                return f"{layer.out_channels} columns {what}, expected a multiple of {STEP} up to {most}"
        return None

    def table(self):
        return {"middle": self.first.out_channels}

    def put(self, layers):
        for name, layer in (("first", self.first), ("second", self.second)):
            layers.put(f"stem.{name}", layer.weight.flatten(1), layer.bias, MIXED)


class Patches:
    """The stem of a Hiera, of an `Encoder`'s trunk."""

    def __init__(self, trunk):
        self.patch, self.pos = trunk.patch, trunk.pos

    def why_not(self):
        """Why no kernel computes it; none where one does."""
        layer = self.patch
        place = (layer.kernel_size, layer.stride, layer.padding, layer.groups, layer.in_channels)
        if place != ((7, 7), (4, 4), (3, 3), 1, 3):
            return f"the stem has {layer}, expected a 7x7 convolution with stride 4 and zeros around"
        columns, grid = layer.out_channels, self.pos.shape[1]
        if columns % STEP or columns > MOST_EMBEDDED:
            return (f"{columns} columns of the stem's tokens, expected a multiple of {STEP} up to "
                    f"{MOST_EMBEDDED}")
        return f"the stem makes a map of {grid} x {grid} tokens, expected an even side" if grid % 2 else None

    def table(self):
        return {"kernel": self.patch.kernel_size[0]}

    def put(self, layers):
        layers.put("stem.patch", self.patch.weight.flatten(1), self.patch.bias, MIXED)
        layers.put_half("stem.position", self.pos[0])


class StemAndNeck:
    """Those of an `Encoder` with these blocks."""

    def __init__(self, encoder, blocks):
        self.stem = (Patches if isinstance(blocks, HieraBlocks) else Convolutions)(encoder.trunk)
        self.neck = {name: getattr(encoder, name) for name in NECK}

    def why_not(self):
        """Why no kernel computes them; none where they do."""
        for name, layer in self.neck.items():
            if layer.out_channels > MOST_FEATURE:
                return f"{layer.out_channels} channels of the neck's {name}, expected {MOST_FEATURE} at the most"
        return self.stem.why_not()

    def tables(self):
        """The manifest's [trunk.stem] and [trunk.neck], by key."""
        hr0, hr1, feat = (self.neck[name].out_channels for name in NECK[:3])
        return {"stem": self.stem.table(), "neck": {"hr0": hr0, "hr1": hr1, "feat": feat}}

    def tensors(self):
        """Name -> array of the weights' file."""
        layers = Layers()
        self.stem.put(layers)
        for name, layer in self.neck.items():
            layers.put(f"neck.{name}", layer.weight.flatten(1), layer.bias, MIXED)
        return layers.found


def of(encoder, blocks, say=print):
    """Of an `Encoder` around these blocks; None where engines compute them, which is said."""
    both = StemAndNeck(encoder, blocks)
    if why := both.why_not():
        say(f"TensorRT computes stem and neck: {why}")
        return None
    return both
