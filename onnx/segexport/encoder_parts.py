"""An image encoder in parts: contract graphs `encoder_cut0`, `encoder_cut1`, ...

What one part gives as y, the tokens on their way [1,h,w,c], the next one takes as x; hr0 and hr1 come from the parts in
which their stages end, feat from the last. There are two reasons to cut, and both may hold for one encoder:

  - Depth. TensorRT 8.6 puts all 48 blocks of SAM2.1-large into four regions of its own compiler and takes 240 to 350 s
    for them in half precision, whatever was timed before. A part of twelve blocks is a quarter of that, and parts are
    built beside each other.
  - Attention over the whole map (attention_cut.py), of which TensorRT 8.6 writes the scores to memory. The part before
    it gives q, k and v beside y, y being the tokens before the block; the next one takes o = softmax(q k^T) v beside x.
"""

from typing import NamedTuple

from torch import nn
from torch.nn import functional as F

from .attention_cut import Before, Behind, width_of

MOST = 24  # blocks of a trunk that is not too deep
LONG = 12  # blocks of a part of one that is
PARTS = 8  # as many as there are roles for


class Part(NamedTuple):
    """Blocks `first` to in front of `behind`; at an attention the cut goes through the block itself."""

    first: int
    behind: int
    takes_o: bool = False  # begins with block `first`'s output projection
    gives_qkv: bool = False  # goes on until block `behind`'s queries, keys and values


def bounds_of(blocks, attentions=()):
    """The parts of a trunk of so many blocks, cut at the attentions of those named; one where it stays whole."""
    marks = [0, *attentions, blocks]
    parts = []
    for at, (first, behind) in enumerate(zip(marks, marks[1:])):
        count = 1 if blocks <= MOST else -(-(behind - first) // LONG)
        inner = [first + round(k * (behind - first) / count) for k in range(count + 1)]
        for a, b in zip(inner, inner[1:]):
            parts.append(Part(a, b, at > 0 and a == first, behind < blocks and b == behind))
    if len(parts) > PARTS:
        raise ValueError(f"{len(parts)} parts of an encoder, where there are roles for {PARTS}")
    return parts


def attentions_of(trunk):
    """The blocks of a Hiera trunk that attend over the whole map and may be cut there, in order."""
    # The neck joins the two coarsest maps, and both must be the last part's.
    early = enumerate(trunk.blocks[: trunk.ends[2] + 1])
    return [at for at, block in early if block.is_global and not block.pooled and block.skip is None]


class EncoderPart(nn.Module):
    """One `Part` of an `Encoder` with a Hiera trunk; `inputs` and `outputs` name what it takes and gives, in order."""

    def __init__(self, encoder, part):
        super().__init__()
        trunk, (first, behind, takes_o, gives_qkv) = encoder.trunk, part
        self.blocks, self.ends = trunk.blocks[first:behind], [end - first for end in trunk.ends]
        if takes_o:
            self.blocks[0] = Behind(self.blocks[0])
        if first or takes_o:
            self.patch = None
        else:
            self.patch = trunk.patch
            self.register_buffer("pos", trunk.pos)
        self.inputs = ["x" if self.patch is None else "image"] + ["o"] * takes_o
        self.attention = Before(trunk.blocks[behind]) if gives_qkv else None
        self.is_last = behind == len(trunk.blocks)
        if not self.is_last and behind > trunk.ends[2]:
            raise ValueError("the neck joins the two coarsest maps, so both must be the last part's")
        mine = [0 <= end < behind - first for end in self.ends]
        self.hr0, self.hr1 = (layer if there else None for layer, there in zip((encoder.hr0, encoder.hr1), mine))
        self.middle, self.coarse = (encoder.middle, encoder.coarse) if self.is_last else (None, None)
        self.outputs = [name for name, there in zip(("hr0", "hr1"), mine) if there]
        self.outputs += ["feat"] if self.is_last else ["y", *"qkv"] if gives_qkv else ["y"]

    def forward(self, x, *o):
        if self.patch is not None:
            x = self.patch(x).permute(0, 2, 3, 1) + self.pos
        maps = {}
        for at, block in enumerate(self.blocks):
            x = block(x) if at else block(x, *o)
            if at in self.ends:
                maps[self.ends.index(at)] = x.permute(0, 3, 1, 2)
        given = [layer(maps[k]) for k, layer in enumerate((self.hr0, self.hr1)) if layer is not None]
        if self.is_last:
            top_down = F.interpolate(self.coarse(maps[3]), scale_factor=2.0, mode="nearest")
            x = self.middle(maps[2]) + top_down
        return (*given, x, *(self.attention(x) if self.attention is not None else ()))


def shapes_between(trunk, part):
    """The shapes of x, and of o where there is one, by name: what a part takes that is not the first."""
    block = trunk.blocks[part.first]
    shapes = {"x": (1, block.grid, block.grid, block.dim)}
    if part.takes_o:
        shapes["o"] = (block.heads, block.grid**2, width_of(block))
    return shapes
