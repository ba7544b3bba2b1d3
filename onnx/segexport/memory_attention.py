"""Memory attention: conditions the frame's features on memories and object pointers.

Exact rewrites of Meta's `MemoryAttention` for graphs (one attention head):
  - rotary encoding in real numbers (rope.py), 1/sqrt(d) folded into the queries;
  - rows of a softmax sum to 1, so softmax(QK^T)(M Wv + bv) Wo + bo
    = (softmax(QK^T) M)(Wv Wo) + (bv Wo + bo): the second product runs in the
    64-wide memory and the value projection vanishes; in self-attention the value
    and output projections become one matrix;
  - products have no axis for their one head: with it TensorRT 8.6 takes less memory
    (EdgeTAM's track: 131 instead of 303 MiB), but was seen with relative errors of 4e-2,
    as was the perceiver (2e-1) before its attention was written out;
  - positions are added in the graph from baked tables, so that memories can be
    overwritten in place and only `tidx` changes.
"""

import torch
from torch import nn

from .layers import linear, reshape
from .rope import axial_tables, halves_order, rotate, without_rotation


class MemoryAttention(nn.Module):
    """feat tokens [1,N,C] + memory bank -> conditioned tokens [B,N,C]."""

    def __init__(self, model, grid, no_mask_bias):
        """`no_mask_bias` [C] is added to the result (the decoder's "no mask prompt" term)."""
        super().__init__()
        original = model.memory_attention
        channels = original.d_model
        self.bank = MemoryBank(model, grid)
        position = model.image_encoder.neck.position_encoding(torch.zeros(1, 1, grid, grid))
        self.register_buffer("pos", 0.1 * position.flatten(2).transpose(1, 2).contiguous())
        cos, sin = axial_tables(grid, grid, channels)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.layers = nn.ModuleList(_Layer(layer, channels) for layer in original.layers)
        self.norm = nn.LayerNorm(channels, eps=original.norm.eps)
        self.norm.weight = nn.Parameter(original.norm.weight.detach().clone())
        self.norm.bias = nn.Parameter((original.norm.bias + no_mask_bias).detach().clone())

    def forward(self, feat, mem, tidx, ptrs, ptr_t=None, bias=None):
        keys, values, rotation = self.bank(mem, tidx, ptrs, ptr_t)
        x = feat + self.pos
        for layer in self.layers:
            x = layer(x, keys, values, rotation, (self.cos, self.sin), bias)
        return self.norm(x)


class MemoryBank(nn.Module):
    """Lays out mem [B,F,T,Cm] and ptrs [B,N,C] as attention keys and values.

    Keys carry positions: a spatial table per memory token, `maskmem_tpos_enc[tidx]`
    per memory frame and, in SAM 2.1, a projected sine of `ptr_t` per pointer.
    """

    def __init__(self, model, grid):
        super().__init__()
        self.depth = model.mem_dim
        self.split = model.hidden_dim // model.mem_dim
        width = model.hidden_dim
        perceiver = getattr(model, "spatial_perceiver", None)
        if perceiver is None:
            cos, sin = axial_tables(grid, grid, width)
            position = model.memory_encoder.position_encoding(torch.zeros(1, 1, grid, grid))
            spatial = position.flatten(2).transpose(1, 2)[0]
        else:
            # One-dimensional latents come first and have neither position nor rotation;
            # two-dimensional ones form a fixed square map, whatever the image size.
            flat = perceiver.num_latents
            square = round(perceiver.num_latents_2d**0.5)
            plain, turned = without_rotation(flat, width), axial_tables(square, square, width)
            cos, sin = (torch.cat(pair) for pair in zip(plain, turned))
            position = perceiver.position_encoding(torch.zeros(1, 1, square, square))
            latents = position.flatten(2).transpose(1, 2)[0]
            spatial = torch.cat([torch.zeros(flat, self.depth), latents])
        self.tokens = spatial.shape[0]
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.register_buffer("spatial", spatial.contiguous())
        self.register_buffer("ages", model.maskmem_tpos_enc.detach().reshape(-1, 1, self.depth))
        if model.add_tpos_enc_to_obj_ptrs:
            self.pointer_pos = PointerTime(model.obj_ptr_tpos_proj, width)
        else:
            self.pointer_pos = None

    def forward(self, mem, tidx, ptrs, ptr_t):
        age = torch.index_select(self.ages, 0, tidx)
        mem_keys = mem + (self.spatial + age)
        pointers = reshape(ptrs, 0, 0, self.split, self.depth)
        ptr_keys = pointers
        if self.pointer_pos is not None:
            ptr_keys = pointers + self.pointer_pos(ptr_t)
        flat = reshape(mem, 0, -1, self.depth)
        values = torch.cat([flat, reshape(pointers, 0, -1, self.depth)], dim=1)
        return (mem_keys, reshape(ptr_keys, 0, -1, self.depth)), values, (self.cos, self.sin)


class PointerTime(nn.Module):
    """ptr_t [N] (distance over the largest distance) -> position [N,1,Cm]; f32 inside.

    `get_1d_sine_pe` of Meta's sam2_utils.py: all sines first, then all cosines.
    """

    def __init__(self, projection, width):
        super().__init__()
        half = width // 2
        index = torch.arange(half, dtype=torch.float32)
        self.register_buffer("period", 10000.0 ** (2 * torch.div(index, 2, rounding_mode="floor") / half))
        self.projection = projection

    def forward(self, ptr_t):
        angle = ptr_t[:, None] / self.period
        wave = torch.cat([angle.sin(), angle.cos()], dim=-1)
        return self.projection(wave)[:, None]


class _Layer(nn.Module):
    """Self-attention, cross-attention to the bank, feed-forward; all pre-norm."""

    def __init__(self, layer, channels):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = layer.norm1, layer.norm2, layer.norm3
        self.up, self.down = layer.linear1, layer.linear2
        self.q_self, self.k_self = _rotated_projections(layer.self_attn, channels)
        self.v_self = _value_and_output(layer.self_attn)
        self.q_cross, self.k_cross = _rotated_projections(layer.cross_attn_image, channels)
        self.v_cross = _value_and_output(layer.cross_attn_image)
        self.channels = channels

    def forward(self, x, keys, values, key_rotation, rotation, bias):
        x = x + attend(*self.self_attention(x, rotation))
        k = self.cross_keys(keys, key_rotation)
        return self.finish(x, attend(self.cross_query(x, rotation), k, values, bias))

    def self_attention(self, x, rotation):
        """Query, key, and value-and-output of the frame's attention to itself, each [B,N,C]."""
        y = self.norm1(x)
        return rotate(self.q_self(y), *rotation), rotate(self.k_self(y), *rotation), self.v_self(y)

    def cross_query(self, x, rotation):
        """Query of the attention to the bank [B,N,C]."""
        return rotate(self.q_cross(self.norm2(x)), *rotation)

    def cross_keys(self, keys, key_rotation):
        """The bank's keys for this layer [B,K,C]: the memories' tokens, then the pointers'."""
        mem_keys, ptr_keys = keys
        frames = reshape(rotate(self.k_cross(mem_keys), *key_rotation), 0, -1, self.channels)
        return torch.cat([frames, self.k_cross(ptr_keys)], dim=1)

    def finish(self, x, attended):
        """Adds what was attended to [B,N,Cm] (in memory width) and the feed-forward part."""
        x = x + self.v_cross(attended)
        return x + self.down(torch.relu(self.up(self.norm3(x))))


def attend(q, k, v, bias=None):
    """softmax(q k^T + bias) v for q [B,N,C], k [B,K,C], v [B,K,D], bias [1,1,K] -> [B,N,D]."""
    scores = q @ k.transpose(1, 2)
    if bias is not None:
        scores = scores + bias
    return torch.softmax(scores, dim=-1) @ v


def _rotated_projections(attention, channels):
    """Query (scaled) and key projections with output channels in halves order."""
    order = halves_order(channels)
    scale = channels**-0.5
    q, k = attention.q_proj, attention.k_proj
    return (
        linear(q.weight[order] * scale, q.bias[order] * scale),
        linear(k.weight[order], k.bias[order]),
    )


def _value_and_output(attention):
    """One linear layer for the value projection followed by the output projection."""
    v, o = attention.v_proj, attention.out_proj
    weight = (o.weight.double() @ v.weight.double()).float()
    bias = (o.weight.double() @ v.bias.double() + o.bias.double()).float()
    return linear(weight, bias)
