"""Small layers in the shape that static ONNX and TensorRT 8.6 like best.

All of them are ordinary differentiable PyTorch built from original modules.
"""

import torch
from torch import nn
from torch.nn import functional as F


class _Reshape(torch.autograd.Function):
    """Reshape that can keep a symbolic dimension with ONNX's 0 ("copy from the input").

    PyTorch's own reshape needs the size of a symbolic axis and drags Shape, Gather and
    Concat nodes into the graph.
    """

    @staticmethod
    def forward(ctx, x, shape):
        ctx.shape_before = x.shape
        return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])

    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape(ctx.shape_before), None

    @staticmethod
    def symbolic(g, x, shape):
        if -1 not in shape:  # the exporter's shape inference wants one -1 beside zeros
            last = len(shape) - 1 - shape[::-1].index(0)
            shape = [-1 if i == last else n for i, n in enumerate(shape)]
        return g.op("Reshape", x, g.op("Constant", value_t=torch.tensor(shape)))


class _PadEnd(torch.autograd.Function):
    """Zeros behind rows and columns of [1,H,W,C], as one Pad node with constant pads."""

    @staticmethod
    def forward(ctx, x, gap):
        ctx.gap = gap
        return F.pad(x, (0, 0, 0, gap, 0, gap))

    @staticmethod
    def backward(ctx, gradient):
        return gradient[:, : -ctx.gap, : -ctx.gap], None

    @staticmethod
    def symbolic(g, x, gap):
        pads = g.op("Constant", value_t=torch.tensor([0, 0, 0, 0, 0, gap, gap, 0]))
        return g.op("Pad", x, pads)


def pad_end(x, gap):
    """[1,H,W,C] -> [1,H+gap,W+gap,C]."""
    return _PadEnd.apply(x, gap)


def reshape(x, *shape):
    """Reshape with 0 for "the same as in x at this place" and -1 for "the rest"."""
    return _Reshape.apply(x, list(shape))


class ChannelsLastNorm(nn.Module):
    """LayerNorm2d over the last axis, one LayerNormalization node.

    The original (NCHW, mean/pow/sqrt) makes TensorRT 8.6 time thousands of pointwise
    kernels; on channels-last data it is the standard operator.
    """

    def __init__(self, norm):
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps
        self.width = tuple(norm.weight.shape)

    def forward(self, x):
        return F.layer_norm(x, self.width, self.weight, self.bias, self.eps)


class NormChannels(ChannelsLastNorm):
    """The same for a [B, C, H, W] map, between two transposes."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def linear(weight, bias):
    """nn.Linear from tensors: weight [out, in], bias [out] or None."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone())
    return layer


def compose_1x1(first, second):
    """One 1x1 convolution equal to second(first(x))."""
    a, b = first.weight.double()[:, :, 0, 0], second.weight.double()[:, :, 0, 0]
    merged = nn.Conv2d(a.shape[1], b.shape[0], 1)
    merged.weight = nn.Parameter((b @ a).float()[:, :, None, None])
    merged.bias = nn.Parameter((b @ first.bias.double() + second.bias.double()).float())
    return merged


def tokens_of(x, channels, tokens):
    """[B, C, H, W] -> [B, H*W, C]."""
    return x.reshape(-1, channels, tokens).transpose(1, 2)


def map_of(x, channels, height, width):
    """[B, H*W, C] -> [B, C, H, W]."""
    return x.transpose(1, 2).reshape(-1, channels, height, width)
