"""The mask decoder: two-way transformer between prompt tokens and image tokens.

Follows Meta's `MaskDecoder` and `TwoWayTransformer`, with choices that keep graphs
static: image-side data may have batch 1 and broadcasts against B objects, masks are
chosen by one-hot products before the mask product (one mask instead of four), and
1/sqrt(d) lives in the query projections.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .layers import NormChannels, linear, map_of, reshape


class TokenAttention(nn.Module):
    """Multi-head attention of the decoder: q [Bq,nq,C], k, v [Bk,nk,C] -> [B,nq,C]."""

    def __init__(self, attention):
        super().__init__()
        self.heads = attention.num_heads
        self.depth = attention.internal_dim // self.heads
        scale = self.depth**-0.5
        self.q = linear(attention.q_proj.weight * scale, attention.q_proj.bias * scale)
        self.k, self.v, self.out = attention.k_proj, attention.v_proj, attention.out_proj

    def _heads(self, x):
        return reshape(x, 0, 0, self.heads, self.depth)

    def forward(self, q, k, v):
        q = self._heads(self.q(q)).transpose(1, 2)
        k = self._heads(self.k(k)).permute(0, 2, 3, 1)
        v = self._heads(self.v(v)).transpose(1, 2)
        x = (torch.softmax(q @ k, dim=-1) @ v).transpose(1, 2)
        return self.out(reshape(x, 0, 0, self.heads * self.depth))


class TwoWay(nn.Module):
    """Tokens [B,n,C] and image tokens [B or 1,N,C] attend to each other in turn."""

    def __init__(self, transformer, image_pe):
        super().__init__()
        self.register_buffer("pe", image_pe)
        self.blocks = nn.ModuleList(_Block(layer) for layer in transformer.layers)
        if not self.blocks[0].first:
            raise ValueError("the first block's self-attention is expected to have no positions")
        self.last = TokenAttention(transformer.final_attn_token_to_image)
        self.norm = transformer.norm_final_attn

    def start(self, tokens):
        """The first block's self-attention: it sees tokens only, so constants stay constant."""
        block = self.blocks[0]
        return block.norm1(block.self_attn(tokens, tokens, tokens))

    def forward(self, tokens, image, started):
        queries, keys = started, image
        for block in self.blocks:
            queries, keys = block(queries, keys, tokens, self.pe)
        queries = queries + self.last(queries + tokens, keys + self.pe, keys)
        return self.norm(queries), keys


class _Block(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.first = layer.skip_first_layer_pe
        self.self_attn = TokenAttention(layer.self_attn)
        self.to_image = TokenAttention(layer.cross_attn_token_to_image)
        self.to_tokens = TokenAttention(layer.cross_attn_image_to_token)
        self.norm1, self.norm2 = layer.norm1, layer.norm2
        self.norm3, self.norm4 = layer.norm3, layer.norm4
        self.up, self.down = layer.mlp.layers
        self.act = layer.mlp.act

    def forward(self, queries, keys, tokens, pe):
        if not self.first:
            q = queries + tokens
            queries = self.norm1(queries + self.self_attn(q, q, queries))
        queries = self.norm2(queries + self.to_image(queries + tokens, keys + pe, keys))
        queries = self.norm3(queries + self.down(self.act(self.up(queries))))
        keys = self.norm4(keys + self.to_tokens(keys + pe, queries + tokens, queries))
        return queries, keys


class Decoder(nn.Module):
    """Tokens and image -> what the tokens became, upscaled image; masks from both."""

    def __init__(self, model, grid):
        super().__init__()
        original = model.sam_mask_decoder
        self.channels, self.grid = original.transformer_dim, grid
        pe = model.sam_prompt_encoder.get_dense_pe().detach()
        self.two_way = TwoWay(original.transformer, pe.flatten(2).transpose(1, 2).contiguous())
        own = [original.obj_score_token, original.iou_token, original.mask_tokens]
        self.register_buffer("own_tokens", torch.cat([t.weight.detach() for t in own])[None])
        self.up1, norm, self.act, self.up2, _ = original.output_upscaling
        self.up_norm = NormChannels(norm)

    def attend(self, tokens, image):
        """-> tokens [B,6+n,C], image tokens [B,N,C]; token_heads.py reads the former.

        tokens [B or 1, 6+n, C] start with `own_tokens`; image [B or 1, N, C].
        """
        return self.two_way(tokens, image, self.two_way.start(tokens))

    def attend_constant(self, image):
        """`attend` with the tokens that `set_constant_tokens` fixed."""
        return self.two_way(self.tokens, image, self.started)

    def set_constant_tokens(self, prompt_tokens):
        """Fixes prompt tokens [1,n,C] and computes what depends on tokens alone."""
        with torch.no_grad():
            tokens = torch.cat([self.own_tokens, prompt_tokens], dim=1)
            self.register_buffer("tokens", tokens)
            self.register_buffer("started", self.two_way.start(tokens))

    def upscale(self, image, hr0, hr1):
        """Image tokens [B,N,C] -> mask features [B, C/8, 16*N]."""
        x = map_of(image, self.channels, self.grid, self.grid)
        x = self.act(self.up_norm(self.up1(x) + hr1))
        x = self.act(self.up2(x) + hr0)
        return x.reshape(-1, self.channels // 8, (4 * self.grid) ** 2)

    def mask(self, vectors, features, count=1):
        """Hyper vectors [B,count,C/8] x mask features -> logits [B,count,4g,4g]."""
        return (vectors @ features).reshape(-1, count, 4 * self.grid, 4 * self.grid)


def one_hot_best(iou, count):
    """Row-wise one-hot [B,count] of the largest of iou [B,count] (the first one of equals)."""
    best = torch.argmax(iou, dim=-1, keepdim=True)
    return (best == torch.arange(count)[None]).float()


def pick(choice, rows):
    """Selects rows [B,k,D] by one-hot choice [B,k] -> [B,1,D] (exact: x*1 + y*0)."""
    return choice[:, None] @ rows
