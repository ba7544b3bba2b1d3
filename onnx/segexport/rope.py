"""Rotary position encoding without complex numbers.

The original rotates interleaved channel pairs (2i, 2i+1) as complex numbers
(`compute_axial_cis`, `apply_rotary_enc` in Meta's position_encoding.py), which no
ONNX exporter takes. Permuting the output channels of the projection that feeds the
rotation puts all first components in the first half and all second ones in the
second: the rotation then is two slices, four products and one concatenation.
Queries and keys are permuted alike, so their products do not change.
"""

import torch


def halves_order(channels):
    """Channel order that moves pairs (2i, 2i+1) to (i, i + channels/2)."""
    return torch.cat([torch.arange(0, channels, 2), torch.arange(1, channels, 2)])


def axial_tables(width, height, channels, theta=10000.0):
    """cos and sin, each [width*height, channels/2], of an axial (x then y) rotation.

    Token n sits at x = n % width, y = n // width; the first channels/4 pairs turn
    with x, the others with y, at frequencies theta^(-4i/channels).
    """
    n = torch.arange(width * height, dtype=torch.float32)
    x, y = n % width, torch.div(n, width, rounding_mode="floor")
    steps = torch.arange(0, channels, 4)[: channels // 4].float() / channels
    freq = 1.0 / theta**steps
    angle = torch.cat([torch.outer(x, freq), torch.outer(y, freq)], dim=-1)
    return angle.cos(), angle.sin()


def without_rotation(tokens, channels):
    """Tables that leave `tokens` tokens as they are."""
    return torch.ones(tokens, channels // 2), torch.zeros(tokens, channels // 2)


def rotate(x, cos, sin):
    """Rotates x [..., tokens, channels] (channels in halves order) by tables [tokens, channels/2]."""
    half = int(cos.shape[-1])
    a, b = x.split([half, half], dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
