"""An image encoder in parts: contract graphs `encoder_cut0`, `encoder_cut1`, ...

What one part gives as y, the tokens on their way [1,h,w,c], the next one takes as x; hr0 and hr1
come from the parts in which their stages end, feat from the last. TensorRT 8.6 puts all 48 blocks
of SAM2.1-large into four regions of its own compiler and takes 240 to 350 s for them in half
precision, whatever was timed before. A part of twelve blocks is a quarter of that, and parts are
built beside each other.
"""

from torch import nn
from torch.nn import functional as F

MOST = 24  # blocks of a trunk that is not too deep
LONG = 12  # blocks of a part of one that is


def bounds_of(blocks):
    """The parts of a trunk of so many blocks: first block, and the one behind the last; one part
    where it stays whole."""
    count = 1 if blocks <= MOST else -(-blocks // LONG)
    inner = [round(k * blocks / count) for k in range(count + 1)]
    return list(zip(inner, inner[1:]))


class EncoderPart(nn.Module):
    """Blocks `first` to in front of `behind` of an `Encoder` with a Hiera trunk; `inputs` and
    `outputs` name its ports, in order."""

    def __init__(self, encoder, first, behind):
        super().__init__()
        trunk = encoder.trunk
        self.blocks, self.ends = trunk.blocks[first:behind], [end - first for end in trunk.ends]
        if first:
            self.patch = None
        else:
            self.patch = trunk.patch
            self.register_buffer("pos", trunk.pos)
        self.inputs = ["x" if self.patch is None else "image"]
        self.is_last = behind == len(trunk.blocks)
        if not self.is_last and behind > trunk.ends[2]:
            raise ValueError("the neck joins the two coarsest maps, so both must be the last part's")
        mine = [0 <= end < behind - first for end in self.ends]
        self.hr0, self.hr1 = (layer if there else None
                              for layer, there in zip((encoder.hr0, encoder.hr1), mine))
        self.middle, self.coarse = (encoder.middle, encoder.coarse) if self.is_last else (None, None)
        self.outputs = [name for name, there in zip(("hr0", "hr1"), mine) if there]
        self.outputs += ["feat"] if self.is_last else ["y"]

    def forward(self, x):
        if self.patch is not None:
            x = self.patch(x).permute(0, 2, 3, 1) + self.pos
        maps = {}
        for at, block in enumerate(self.blocks):
            x = block(x)
            if at in self.ends:
                maps[self.ends.index(at)] = x.permute(0, 3, 1, 2)
        given = [layer(maps[k]) for k, layer in enumerate((self.hr0, self.hr1)) if layer is not None]
        if self.is_last:
            top_down = F.interpolate(self.coarse(maps[3]), scale_factor=2.0, mode="nearest")
            x = self.middle(maps[2]) + top_down
        return (*given, x)
