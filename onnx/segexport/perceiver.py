"""EdgeTAM's spatial perceiver: a memory map becomes a fixed number of latent tokens.

`PerceiverResampler` of EdgeTAM's perceiver.py, one head. The one-dimensional latents
attend to all tokens; each two-dimensional latent attends to its own square window and,
being alone, its self-attention is a plain linear layer (values, then output).

TensorRT 8.6 failed on this attention: its fusion matched two products around a softmax
only in part and asserted (mha_fusion.cpp, DCHECK fc1_ && fc2_ && softmax_). So no
Softmax node stands between two products here: the numerator exp(s - max) goes into the
second product and the division by the row sum comes after it (exact, and 64 columns are
divided instead of N); the windows use elementwise products and sums, as one query per
window is no matrix product anyway. They are laid out with the place in the window first:
with the windows first, Myelin multiplied every latent with every token (788 instead of
28 MiB to run in, 0.58 instead of 0.37 ms for the memory graph on an H200).
"""

import torch
from torch import nn

from .layers import linear


class Perceiver(nn.Module):
    """Memory tokens [B,N,Cm] -> latents [B,T,Cm], one-dimensional ones first."""

    def __init__(self, original, position, grid):
        """`position` [1,Cm,g,g] is added to keys and values of the one-dimensional part."""
        super().__init__()
        self.square = round(original.num_latents_2d**0.5)
        self.window, self.depth = grid // self.square, original.latents.shape[1]
        self.register_buffer("flat", original.latents.detach()[None])
        self.register_buffer("map", original.latents_2d.detach()[None])
        self.register_buffer("pos", position.flatten(2).transpose(1, 2).contiguous())
        self.layers = nn.ModuleList(_Layer(layer) for layer in original.layers)
        self.norm = original.norm

    def forward(self, x):
        s, w, d = self.square, self.window, self.depth
        flat, grid = self.flat, self.map
        # [B, (sy wy)(sx wx), d] -> [B, (wy wx), (sy sx), d]
        windows = x.reshape(-1, w, s, w * d).transpose(1, 2).reshape(-1, s * s, w * w, d)
        windows = windows.transpose(1, 2)
        for layer in self.layers:
            flat = layer.all_tokens(flat, x, self.pos)
            grid = layer.own_window(grid, windows)
        return self.norm(torch.cat([flat, grid], dim=1))


class _Layer(nn.Module):
    def __init__(self, layer):
        super().__init__()
        attn, own = layer.attn, layer.self_attn
        if attn.heads != 1 or own.heads != 1:
            raise ValueError("the perceiver is expected to have one head")
        self.norm_x, self.norm_latents = attn.norm_x, attn.norm_latents
        self.q, self.k, self.v, self.out = _projections(attn)
        self.ff, self.self_ff = layer.ff, layer.self_ff
        self.norm_self = own.norm
        self.q_self, self.k_self, self.v_self, self.out_self = _projections(own)
        # One latent attending to itself: softmax is 1, output(value(x)).
        self.alone = linear((own.to_out.weight.double() @ self.v_self.weight.double()).float(), None)

    def all_tokens(self, latents, x, pos):
        """Latents [B or 1,L,d] attend to all tokens x [B,N,d], then to each other."""
        y = self.norm_x(x)
        q, k, v = self.q(self.norm_latents(latents)), self.k(y) + pos, self.v(y) + pos
        latents = latents + self.out(_attend(q, k, v))
        latents = latents + self.ff(latents)
        y = self.norm_self(latents)
        y = _attend(self.q_self(y), self.k_self(y), self.v_self(y))
        latents = latents + self.out_self(y)
        return latents + self.self_ff(latents)

    def own_window(self, latents, windows):
        """Latents [B or 1,L,d] each attend to their window of [B,w*w,L,d]; no positions."""
        y = self.norm_x(windows)
        q, k, v = self.q(self.norm_latents(latents))[:, None], self.k(y), self.v(y)
        weight = torch.softmax((q * k).sum(dim=-1, keepdim=True), dim=1)
        latents = latents + self.out((weight * v).sum(dim=1))
        latents = latents + self.ff(latents)
        latents = latents + self.alone(self.norm_self(latents))
        return latents + self.self_ff(latents)


def _attend(q, k, v):
    """softmax(q k^T) v with the division after the second product (see the module's text)."""
    scores = q @ k.transpose(1, 2)
    weight = torch.exp(scores - torch.amax(scores, dim=-1, keepdim=True))
    return (weight @ v) / weight.sum(dim=-1, keepdim=True)


def _projections(attention):
    """Query (scaled), key, value and output layers of a perceiver attention."""
    key, value = attention.to_kv.weight.chunk(2, dim=0)
    query = linear(attention.to_q.weight * attention.scale, None)
    return query, linear(key, None), linear(value, None), attention.to_out
