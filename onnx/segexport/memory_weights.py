"""The weights of the memory encoder, for segtrt to compute it itself in place of the graph `memory`.

One file, `memory_encoder.safetensors`, and the manifest's table [memory_encoder]. onnx/README.md
lists the tensors; what is computed of them is, as a program, memory_run.py.

Each of EdgeTAM's latents of a window is one query, so no token needs a key or a value there: the
query is multiplied through the keys' weight (`ask`), the normalised tokens are summed as they are,
and the sum is multiplied with values and output in one (`answer`).
"""

import hashlib
import math

import numpy as np
import torch
from safetensors.numpy import save
from torch import nn
from torch.nn import functional as F

from . import ExportError
from .layers import NormChannels

FILE = "memory_encoder.safetensors"
# What segtrt's kernels take: the mask's channels from layer to layer, blocks and what they have,
# memories, latents and what they have.
CHANNELS, BLOCKS, WIDTH, HIDDEN, SPREAD, DEPTH, LEAST_GRID = (1, 4, 16, 64, 256), 2, 256, 1024, 7, 64, 4
LATENTS, SQUARE, LAYERS, LATENT_HIDDEN = 256, 16, 2, 256
CHANNELS_EPS, LATENTS_EPS = 1e-6, 1e-5
LARGEST_HALF = 65504.0
INSTEAD = "export with --memory-encoder engine"


def check(encoder):
    """Raises ExportError where segtrt's kernels do not compute what a MemoryEncoder computes;
    shapes are `tensors_of`'s to check."""
    layers, grid = list(encoder.downsample), round(encoder.pixels**0.5)
    kinds, steps = [nn.Conv2d, NormChannels, nn.GELU], len(CHANNELS) - 1
    projections = [encoder.feature, layers[-1], encoder.out]
    wrong = None
    if [type(layer) for layer in layers] != steps * kinds + [nn.Conv2d]:
        wrong = f"a mask that does not go through {steps} times convolution, norm and GELU, then a convolution"
    elif not all(_is_convolution(layer, 3, 2, 1) for layer in layers[:-1:3]):
        wrong = "a mask's convolution that is not 3x3 at every second pixel with zeros around"
    elif not all(_is_convolution(layer, 1, 1, 0) for layer in projections):
        wrong = "a projection of the mask, the features or the memory that is no 1x1 convolution"
    elif len(encoder.fuser) != BLOCKS:
        wrong = f"{len(encoder.fuser)} blocks, expected {BLOCKS}"
    elif not all(_is_convolution(block.dw, SPREAD, 1, SPREAD // 2, WIDTH) for block in encoder.fuser):
        wrong = f"a block whose convolution is not {SPREAD}x{SPREAD} in each of {WIDTH} channels"
    elif not all(map(_is_exact_gelu, [*layers[2::3], *(block.act for block in encoder.fuser)])):
        wrong = "an activation that is not the exact GELU"
    elif away := [
            norm.eps for norm in [*layers[1::3], *(block.norm
                                                   for block in encoder.fuser)] if norm.eps != CHANNELS_EPS
    ]:
        wrong = f"norms of channels with {away[0]} below the root, expected {CHANNELS_EPS}"
    elif grid < LEAST_GRID or grid % 2:
        wrong = f"a map of {grid} tokens a side, expected an even number from {LEAST_GRID} on"
    elif not (math.isfinite(encoder.scale) and math.isfinite(encoder.offset)):
        wrong = f"a mask times {encoder.scale} plus {encoder.offset}, expected numbers"
    elif encoder.perceiver is not None:
        wrong = _wrong_with_latents(encoder.perceiver, grid)
    if wrong:
        raise ExportError(f"segtrt's kernels for a memory encoder do not take this one: {wrong}; {INSTEAD}")


def _wrong_with_latents(perceiver, grid):
    """What a Perceiver has that the kernels do not compute, or None."""
    layers, counts = perceiver.layers, (perceiver.flat.shape[1], perceiver.map.shape[1])
    networks = [network for layer in layers for network in (layer.ff, layer.self_ff)]
    if counts != (LATENTS, LATENTS) or perceiver.square != SQUARE:
        return f"{counts[0]} latents of all tokens and {counts[1]} of windows, expected {LATENTS} of each"
    if len(layers) != LAYERS:
        return f"{len(layers)} layers of latents, expected {LAYERS}"
    if grid % SQUARE:
        return f"a map of {grid} tokens a side, which are no {SQUARE} windows"
    if any([type(part)
            for part in network] != [nn.LayerNorm, nn.Linear, nn.GELU, nn.Linear]
           for network in networks):
        return "a hidden layer of latents that is not norm, linear, GELU, linear"
    if not all(_is_exact_gelu(network[2]) for network in networks):
        return "an activation of latents that is not the exact GELU"
    products = [network[at]
                for network in networks
                for at in (1, 3)] + [out for layer in layers for out in (layer.out, layer.out_self)]
    if any(product.bias is not None for product in products):
        return "a product of latents with a bias"
    norms = [norm for layer in layers
             for norm in (layer.norm_x, layer.norm_latents, layer.norm_self)] + [perceiver.norm]
    away = [norm.eps for norm in norms + [network[0] for network in networks] if norm.eps != LATENTS_EPS]
    return f"norms of latents with {away[0]} below the root, expected {LATENTS_EPS}" if away else None


def _is_convolution(layer, taps, stride, padding, groups=1):
    """Whether a layer is a convolution of these sizes in both directions, with zeros around and a bias."""
    if type(layer) is not nn.Conv2d or layer.padding_mode != "zeros" or layer.bias is None:
        return False
    sizes = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.groups)
    return sizes == ((taps, taps), (stride, stride), (padding, padding), (1, 1), groups)


def _is_exact_gelu(layer):
    return type(layer) is nn.GELU and layer.approximate == "none"


def tensors_of(encoder):
    """Name -> array of the file, for a MemoryEncoder: f16 what products are made with on tensor
    cores, and positions; f32 all else."""
    check(encoder)
    found, half, wide = {}, np.float16, np.float32

    def put(name, value, kind, *shape):
        value = value.detach().numpy()
        if value.shape != shape:
            raise ExportError(f"{name} has the shape {list(value.shape)}, of which segtrt's kernels take "
                              f"{list(shape)}; {INSTEAD}")
        if kind == half and not np.abs(value).max() <= LARGEST_HALF:
            raise ExportError(f"{name} has values beyond f16's largest, {LARGEST_HALF}; {INSTEAD}")
        found[name] = np.ascontiguousarray(value.astype(kind))

    def put_norm(name, norm, width):
        put(f"{name}.weight", norm.weight, wide, width)
        put(f"{name}.bias", norm.bias, wide, width)

    convolutions, norms = encoder.downsample[::3], encoder.downsample[1::3]
    names = ["mask.{}1", "mask.{}2", "widen.{}", "join.{}"]
    for at, (name, before, after) in enumerate(zip(names, CHANNELS, CHANNELS[1:])):
        name = f"memory.{name}"
        shape = [after, 9, before][: 3 if at else 2]  # the mask itself has no channels
        put(name.format("weight"), _by_tap(convolutions[at]).squeeze(-1), half if at > 1 else wide, *shape)
        put(name.format("bias"), convolutions[at].bias, wide, after)
        put_norm(name.format("norm"), norms[at], after)
    put("memory.join.mask", _flat(convolutions[4]), half, WIDTH, WIDTH)
    put("memory.join.feature", _flat(encoder.feature), half, WIDTH, WIDTH)
    put("memory.join.sum_bias", convolutions[4].bias + encoder.feature.bias, wide, WIDTH)
    for at, block in enumerate(encoder.fuser):
        name = f"memory.blocks.{at}"
        put(f"{name}.spread", block.dw.weight.flatten(1).T, wide, SPREAD**2, WIDTH)
        put(f"{name}.spread_bias", block.dw.bias, wide, WIDTH)
        put_norm(f"{name}.norm", block.norm, WIDTH)
        put(f"{name}.up", block.up.weight, half, HIDDEN, WIDTH)
        put(f"{name}.up_bias", block.up.bias, wide, HIDDEN)
        put(f"{name}.down", block.down.weight, half, WIDTH, HIDDEN)
        put(f"{name}.down_bias", block.down.bias, wide, WIDTH)
    put("memory.out", _flat(encoder.out), half, DEPTH, WIDTH)
    put("memory.out_bias", encoder.out.bias, wide, DEPTH)
    put("memory.absent",
        torch.zeros(DEPTH) if encoder.absent is None else encoder.absent.flatten(), wide, DEPTH)
    if encoder.perceiver is not None:
        _put_latents(put, put_norm, encoder.perceiver, encoder.pixels)
    return found


def _put_latents(put, put_norm, perceiver, pixels):
    half, wide, square = np.float16, np.float32, (DEPTH, DEPTH)
    put("latents.flat", perceiver.flat[0], wide, LATENTS, DEPTH)
    put("latents.map", perceiver.map[0], wide, LATENTS, DEPTH)
    put("latents.positions", perceiver.pos[0], half, pixels, DEPTH)
    put("latents.first", _first_queries(perceiver), half, LATENTS, DEPTH)
    for at, layer in enumerate(perceiver.layers):
        name = f"latents.layers.{at}"
        put_norm(f"{name}.norm", layer.norm_x, DEPTH)
        put(f"{name}.kv", torch.cat([layer.k.weight, layer.v.weight]), half, 2 * DEPTH, DEPTH)
        put(f"{name}.out", layer.out.weight, half, *square)
        if at:
            put_norm(f"{name}.query.norm", layer.norm_latents, DEPTH)
            put(f"{name}.query.weight", layer.q.weight, half, *square)
        put_norm(f"{name}.self.norm", layer.norm_self, DEPTH)
        put(f"{name}.self.qkv",
            torch.cat([part.weight for part in (layer.q_self, layer.k_self, layer.v_self)]), half,
            3 * DEPTH, DEPTH)
        put(f"{name}.self.out", layer.out_self.weight, half, *square)
        for part, network in (("ff", layer.ff), ("self_ff", layer.self_ff)):
            put_norm(f"{name}.{part}.norm", network[0], DEPTH)
            put(f"{name}.{part}.up", network[1].weight, half, LATENT_HIDDEN, DEPTH)
            put(f"{name}.{part}.down", network[3].weight, half, DEPTH, LATENT_HIDDEN)
    put_norm("latents.last", perceiver.norm, DEPTH)
    # What the windows' kernel reads lies together; the shapes of all parts were checked above.
    halves, norms = [], []
    for layer in perceiver.layers:
        products = (_composed(layer.k.weight.T, layer.q.weight), _composed(layer.out.weight, layer.v.weight))
        halves += [
            *products, layer.ff[1].weight, layer.ff[3].weight, layer.alone.weight, layer.self_ff[1].weight,
            layer.self_ff[3].weight
        ]
        norms += [layer.norm_x, layer.norm_latents, layer.ff[0], layer.norm_self, layer.self_ff[0]]
    floats = [part for norm in [*norms, perceiver.norm] for part in (norm.weight, norm.bias)]
    put("latents.windows.halves", torch.cat([part.flatten() for part in halves]), half,
        LAYERS * DEPTH * (3 * DEPTH + 4 * LATENT_HIDDEN))
    put("latents.windows.floats", torch.cat(floats), wide, (LAYERS * 5 + 1) * 2 * DEPTH)


def _by_tap(convolution):
    """A convolution's weight [out, in, dy, dx] as [out, (dy, dx), in]."""
    return convolution.weight.flatten(2).transpose(1, 2)


def _flat(convolution):
    """A 1x1 convolution's weight as [out, in]."""
    return convolution.weight.flatten(1)


def _composed(after, before):
    """The weight of before, then after."""
    return (after.double() @ before.double()).float()


def _first_queries(perceiver):
    """The first layer's queries of all tokens, which are constants."""
    layer, norm = perceiver.layers[0], perceiver.layers[0].norm_latents
    normed = F.layer_norm(perceiver.flat[0].double(), (DEPTH, ), norm.weight.double(), norm.bias.double(),
                          norm.eps)
    return (normed @ layer.q.weight.double().T).float()


def work_of(grid, latents):
    """2 * multiply-accumulates for one object as segtrt computes them."""
    tokens = grid**2
    # Each of the mask's convolutions makes a quarter of the pixels before: 64, 16, 4, 1 for a token.
    mask = sum(4**(3 - at) * 9 * before * after
               for at, (before, after) in enumerate(zip(CHANNELS, CHANNELS[1:])))
    block = SPREAD**2 * WIDTH + 2 * WIDTH * HIDDEN
    work = tokens * (mask + 2 * WIDTH * WIDTH + BLOCKS * block + WIDTH * DEPTH)
    if latents:
        attended = tokens * 2 * DEPTH * DEPTH + 2 * tokens * LATENTS * DEPTH + LATENTS * DEPTH * DEPTH
        own = LATENTS * 4 * DEPTH * DEPTH + 2 * LATENTS * LATENTS * DEPTH
        hidden = 2 * LATENTS * 2 * DEPTH * LATENT_HIDDEN
        windows = 2 * tokens * DEPTH + LATENTS * 3 * DEPTH * DEPTH
        work += LAYERS * (attended + own + windows + 2 * hidden) + (LAYERS - 1) * LATENTS * DEPTH * DEPTH
    return 2 * work


def table_of(encoder):
    """The manifest's [memory_encoder] without the fields of the file."""
    grid, latents = round(encoder.pixels**0.5), encoder.perceiver is not None
    return {
        "flops": work_of(grid, latents),
        "grid": grid,
        "scale": float(encoder.scale),
        "offset": float(encoder.offset),
        "latents": latents,
    }


def write(encoder, folder):
    """Writes the file of weights into `folder`; returns the manifest's [memory_encoder] table."""
    data = save(tensors_of(encoder))
    (folder / FILE).write_bytes(data)
    return {"file": FILE, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} | table_of(encoder)
