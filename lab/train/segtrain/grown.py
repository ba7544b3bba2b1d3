"""Spreads a small Hiera's function over a wider and deeper one: weights from which it need not be
learnt from nothing.

The wide trunk's channels repeat the small one's, what reads them takes a share of each repetition,
and every block of the small one is a block of the same kind and stage in the deep one. The
remaining blocks, hidden units and values of heads stay as they were initialised; what they add
begins small. Nothing is exact: layer normalisation weighs repeated channels more, a narrower head
holds the strongest part of a query's product with its keys, and windows may be of another size.
Learning mends that.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

# What blocks and units without a counterpart add at the beginning, as a part of what they were
# initialised to.
ADDED = 0.1
# Of two repetitions of a channel each is read at this weight or more: equal ones would learn the
# same.
LEAST_SHARE = 0.3


def counterparts(small, large):
    """Block of `large` for every block of `small`: first to first within a stage, global to global,
    the others evenly between."""
    found, small_begin, large_begin = {}, 0, 0
    for small_end, large_end in zip(small.stage_ends, large.stage_ends):
        ours = [k for k in small.global_att_blocks if small_begin < k <= small_end]
        theirs = [k for k in large.global_att_blocks if large_begin < k <= large_end]
        fixed = [(small_begin, large_begin), *zip(ours, theirs), (small_end + 1, large_end + 1)]
        for (a, b), (c, d) in zip(fixed, fixed[1:]):
            found |= {k: b + round((k - a) * (d - b) / (c - a)) for k in range(a, c)}
        small_begin, large_begin = small_end + 1, large_end + 1
    return found


@dataclass
class Spread:
    """Where each channel of a wider stage comes from, and the share of what is read of it there."""

    source: torch.Tensor
    share: torch.Tensor

    @staticmethod
    def of(width, wider, generator):
        source = torch.arange(wider) % width
        share = LEAST_SHARE + (1 - 2 * LEAST_SHARE) * torch.rand(width, generator=generator)
        if wider > 2 * width:
            raise ValueError(f"{wider} channels hold {width} more than twice")
        repeated = source < wider - width
        first = torch.arange(wider) < width
        weight = torch.where(first, share[source], 1 - share[source])
        return Spread(source, torch.where(repeated, weight, torch.ones(())))

    def read(self, weight):
        """A matrix [out,in] for the wider input."""
        return weight[:, self.source] * self.share


def _norm(into, own, spread):
    into.weight.copy_(own.weight[spread.source])
    into.bias.copy_(own.bias[spread.source])


def _products(query, key, rank, pooled, norm):
    """Weights and biases [r,in+1] of a head's queries and keys whose products are nearly those of
    the given ones [n,in+1].

    Pooled queries keep their channels (a maximum does not turn with them): the strongest are taken.
    Otherwise the products' matrix is cut to its largest singular values, for inputs as the layer
    normalisation in front leaves them.
    """
    wide = torch.cat([norm.weight.abs().clamp(min=1e-3), torch.ones(1)])
    if rank >= len(query):
        return query, key
    if pooled:
        strength = (query * wide).norm(dim=1) * (key * wide).norm(dim=1)
        kept = strength.topk(rank).indices.sort().values
        return query[kept], key[kept]
    # The matrix has no more singular values than a head has channels: those of the product of two
    # small triangles.
    (left, upper), (right, lower) = (torch.linalg.qr((x * wide).T) for x in (query, key))
    inner, strength, outer = torch.linalg.svd(upper @ lower.T)
    root = strength[:rank].sqrt()
    return (left @ inner[:, :rank] * root).T / wide, (right @ outer[:rank].T * root).T / wide


def _attention(into, own, norm, before, after):
    """Each head of the small block becomes as many heads as there are times more, with its values
    shared out among them."""
    times, rest = divmod(into.num_heads, own.num_heads)
    if rest:
        raise ValueError(f"{into.num_heads} heads are no multiple of {own.num_heads}")
    narrow, wide = own.proj.weight.shape[0] // own.num_heads, into.proj.weight.shape[0] // into.num_heads
    each = -(-narrow // times)  # values of the small head that one of the large heads holds
    if each > wide:
        raise ValueError(f"{times} heads of {wide} do not hold one of {narrow}")
    weight = own.qkv.weight.reshape(3, own.num_heads, narrow, -1)
    bias = own.qkv.bias.reshape(3, own.num_heads, narrow, 1)
    taught = torch.cat([weight, bias], dim=3)
    matrix, shift = into.qkv.weight.reshape(3, into.num_heads, wide,
                                            -1), into.qkv.bias.reshape(3, into.num_heads, wide)
    into.proj.weight.mul_(ADDED)
    proj = into.proj.weight.reshape(-1, into.num_heads, wide)
    out = own.proj.weight[after.source].reshape(-1, own.num_heads, narrow)
    # Products are divided by the root of the head's width.
    scale = (wide / narrow) ** 0.25
    for head in range(into.num_heads):
        k, part = divmod(head, times)
        query, key = _products(taught[0, k], taught[1, k], min(wide, narrow), own.q_pool is not None, norm)
        for place, rows in ((0, query * scale), (1, key * scale),
                            (2, taught[2, k, part * each:(part + 1) * each])):
            matrix[place, head, : len(rows)] = before.read(rows[:, :-1])
            shift[place, head, : len(rows)] = rows[:, -1]
        held = min(each, narrow - part * each)
        proj[:, head, :held] = out[:, k, part * each : part * each + held]
    into.proj.bias.copy_(own.proj.bias[after.source])


def _block(into, own, before, after):
    _norm(into.norm1, own.norm1, before)
    _norm(into.norm2, own.norm2, after)
    _attention(into.attn, own.attn, own.norm1, before, after)
    if hasattr(own, "proj"):
        into.proj.weight.copy_(before.read(own.proj.weight)[after.source])
        into.proj.bias.copy_(own.proj.bias[after.source])
    (wide_in, wide_out), (first, second) = into.mlp.layers, own.mlp.layers
    hidden = len(first.bias)
    wide_in.weight[:hidden] = after.read(first.weight)
    wide_in.bias[:hidden] = first.bias
    wide_out.weight.mul_(ADDED)
    wide_out.weight[:, :hidden] = second.weight[after.source]
    wide_out.bias.copy_(second.bias[after.source])


def positions_as_parameters(trunk, table):
    """Finds the parameters whose table of positions comes nearest to `table` [h,w,C]; returns how
    far it is off.

    The table is the sum of a bicubically enlarged map and of a repeated window, both linear in the
    parameters: a least-squares problem of 113 unknowns a channel (SAM 2.1 tiny, small and large).
    """
    high, wide, channels = table.shape
    coarse, window = trunk.pos_embed, trunk.pos_embed_window
    cells, places = coarse[0, 0].numel(), window[0, 0].numel()
    low = F.interpolate(torch.eye(cells, dtype=torch.float64).reshape(cells, 1, *coarse.shape[2:]),
                        size=(high, wide),
                        mode="bicubic")
    tile = torch.eye(places, dtype=torch.float64).reshape(places, 1, *window.shape[2:])
    tile = tile.tile(1, 1, high // window.shape[2], wide // window.shape[3])
    columns = torch.cat([low, tile]).flatten(1).T
    wanted = table.double().cpu().reshape(-1, channels)
    # Least norm: a constant may be in either part.
    solved = torch.linalg.lstsq(columns, wanted, driver="gelsd").solution
    with torch.no_grad():
        coarse.copy_(solved[:cells].T.reshape(coarse.shape))
        window.copy_(solved[cells:].T.reshape(window.shape))
    return (columns @ solved - wanted).abs().max().item()


def grow(encoder, small, table, seed=0):
    """Gives Meta's image encoder `encoder`, initialised, what `small` computes; `table` [h,w,C] is
    the small one's of positions.

    On one processor, seconds for the largest: beside other work threads of many small
    decompositions wait for each other; on twenty processors that four networks shared, 230 s were
    not enough.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        _grow(encoder, small, table, seed)
    finally:
        torch.set_num_threads(threads)


@torch.no_grad()
def _grow(encoder, small, table, seed):
    into, own = encoder.trunk, small.trunk
    generator = torch.Generator().manual_seed(seed)
    begins = [0, *(end + 1 for end in own.stage_ends[:-1])]
    wider = [0, *(end + 1 for end in into.stage_ends[:-1])]
    stages = [
        Spread.of(own.blocks[a].dim_out, into.blocks[b].dim_out, generator) for a, b in zip(begins, wider)
    ]
    stem, first = into.patch_embed.proj, own.patch_embed.proj
    stem.weight.copy_(first.weight[stages[0].source])
    stem.bias.copy_(first.bias[stages[0].source])
    positions_as_parameters(into, table[..., stages[0].source])
    met = counterparts(own, into)
    for k, block in enumerate(own.blocks):
        stage = sum(k > end for end in own.stage_ends)
        before = stages[stage - 1] if stage and k == begins[stage] else stages[stage]
        _block(into.blocks[met[k]], block, before, stages[stage])
    for k in set(range(len(into.blocks))) - set(met.values()):
        for branch in (into.blocks[k].attn.proj, into.blocks[k].mlp.layers[1]):
            branch.weight.mul_(ADDED)
            branch.bias.mul_(ADDED)
    for lateral, taught, spread in zip(encoder.neck.convs, small.neck.convs, reversed(stages)):
        lateral.conv.weight.copy_(spread.read(taught.conv.weight[..., 0, 0])[..., None, None])
        lateral.conv.bias.copy_(taught.conv.bias)
