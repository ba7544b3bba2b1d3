"""The track step cut at its attentions: contract graphs `track_keys` and `track_seg0`, `track_seg1`, ...

TensorRT writes an attention's scores to memory where it does not fuse it: 4096 x 28736 of them in
each layer of SAM 2.1. Between two segments the attention is computed by a kernel of the program
instead. Any TensorRT runs the segments, for they are ordinary graphs. Their ports say what comes
between them:

  - a segment that ends in q, k and v is followed by o = softmax(q k^T) v, the frame's attention to itself;
  - one that ends in q alone by o = softmax(q k_l^T + bias) m, the l-th attention to the bank, with k_l of
    `track_keys` and m [K, Cm] the memories' tokens and then the pointers cut into pieces as wide as they;
  - the last one ends in what `track` ends in.

Where segtrt is to compute the mask decoder itself (decoder_weights.py) a further graph,
`track_image`, stands for the last segment: it ends in y, the tokens behind the memory attention's
last norm. Whoever builds engines takes the one or the other.

x and y are the tokens on their way through the layers: what one segment gives as y the next one takes as x.
"""

from torch import nn

from .layers import tokens_of


class Keys(nn.Module):
    """The bank -> keys k0, k1, ... of each layer's attention to it, [B,K,C] each."""

    def __init__(self, track):
        super().__init__()
        self.bank, self.layers = track.memory.bank, track.memory.layers

    def forward(self, mem, tidx, ptrs, ptr_t=None):
        keys, _, rotation = self.bank(mem, tidx, ptrs, ptr_t)
        return tuple(layer.cross_keys(keys, rotation) for layer in self.layers)


class Start(nn.Module):
    """feat -> y, and q, k, v of the first layer."""

    def __init__(self, track):
        super().__init__()
        self.memory, self.width, self.pixels = track.memory, track.width, track.pixels

    def forward(self, feat):
        x = tokens_of(feat, self.width, self.pixels) + self.memory.pos
        return x, *self.memory.layers[0].self_attention(x, (self.memory.cos, self.memory.sin))


class Query(nn.Module):
    """x and o of a layer's self-attention -> y, and q of its attention to the bank."""

    def __init__(self, track, index):
        super().__init__()
        self.memory, self.layer = track.memory, track.memory.layers[index]

    def forward(self, x, o):
        x = x + o
        return x, self.layer.cross_query(x, (self.memory.cos, self.memory.sin))


class Finish(nn.Module):
    """x and o of a layer's attention to the bank -> y, and q, k, v of the next layer."""

    def __init__(self, track, index):
        super().__init__()
        self.memory = track.memory
        self.layer, self.following = track.memory.layers[index], track.memory.layers[index + 1]

    def forward(self, x, o):
        x = self.layer.finish(x, o)
        return x, *self.following.self_attention(x, (self.memory.cos, self.memory.sin))


class Decode(nn.Module):
    """x and o of the last attention to the bank, and the finer features -> low, iou, ptr, score, ious."""

    def __init__(self, track):
        super().__init__()
        self.track, self.layer = track, track.memory.layers[-1]

    def forward(self, x, o, hr0, hr1):
        return self.track.decode(self.track.memory.norm(self.layer.finish(x, o)), hr0, hr1)


class Normed(nn.Module):
    """x and o of the last attention to the bank -> y, the image that the mask decoder takes."""

    def __init__(self, track):
        super().__init__()
        self.layer, self.norm = track.memory.layers[-1], track.memory.norm

    def forward(self, x, o):
        return self.norm(self.layer.finish(x, o))


def modules(track):
    """The segments in order; each ends in front of an attention, the last one in the answer."""
    yield Start(track)
    count = len(track.memory.layers)
    for index in range(count):
        yield Query(track, index)
        if index + 1 < count:
            yield Finish(track, index)
        else:
            yield Decode(track)
