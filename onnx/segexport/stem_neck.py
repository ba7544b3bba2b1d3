"""Stem and neck of a RepViT for segtrt's kernels, which then compute the whole image encoder.

The stem is two 3x3 convolutions with stride 2 and GELU between them, the neck four 1x1 convolutions
(encoder.py). Their weights lie in the trunk's file; [trunk.stem] and [trunk.neck] of the manifest
say their columns. The graphs encoder_cut0 and encoder_cut1 compute the same with TensorRT.
"""

from torch import nn

from .trunk_layers import MIXED, Layers
from .trunk_repvit import RepVitBlocks

# What segtrt's kernels take (crates/vos/src/bundle/trunk/stem_neck.rs).
STEP, MOST_MIDDLE, MOST_TOKEN, MOST_FEATURE = 8, 24, 48, 1024
NECK = ("hr0", "hr1", "middle", "coarse")


class StemAndNeck:
    """Those of an `Encoder` with a RepViT."""

    def __init__(self, encoder):
        stem = encoder.trunk.body["stem"]
        self.first, self.act, self.second = stem.conv1, stem.act1, stem.conv2
        self.neck = {name: getattr(encoder, name) for name in NECK}

    def why_not(self):
        """Why no kernel computes them; none where they do."""
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
        for name, layer in self.neck.items():
            if layer.out_channels > MOST_FEATURE:
                return f"{layer.out_channels} channels of the neck's {name}, expected {MOST_FEATURE} at the most"
        return None

    def tables(self):
        """The manifest's [trunk.stem] and [trunk.neck], by key."""
        hr0, hr1, feat = (self.neck[name].out_channels for name in NECK[:3])
        return {"stem": {"middle": self.first.out_channels}, "neck": {"hr0": hr0, "hr1": hr1, "feat": feat}}

    def tensors(self):
        """Name -> array of the weights' file."""
        layers = Layers()
        named = {"stem.first": self.first, "stem.second": self.second}
        named |= {f"neck.{name}": layer for name, layer in self.neck.items()}
        for name, layer in named.items():
            layers.put(name, layer.weight.flatten(1), layer.bias, MIXED)
        return layers.found


def of(encoder, blocks, say=print):
    """Of an `Encoder` around these blocks; None where engines compute them, which is said where
    only other sizes are why."""
    if not isinstance(blocks, RepVitBlocks):
        return None
    both = StemAndNeck(encoder)
    if why := both.why_not():
        say(f"TensorRT computes stem and neck: {why}")
        return None
    return both
