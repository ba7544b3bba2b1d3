"""The weights between the memory attention's attentions, for segtrt to compute norms, projections
and MLPs itself in place of the graphs `track_seg0`, `track_seg1`, ... and `track_image`.

One file, `memory_attention.safetensors`, and the manifest's table [memory_attention].
onnx/README.md lists the tensors; what is computed of them is, as a program, attention_run.py.
"""

import hashlib

import numpy as np
import torch
from safetensors.numpy import save

from . import ExportError

FILE = "memory_attention.safetensors"
# What segtrt's kernels take.
WIDTH, MEMORY, HIDDEN, TURNING, LEAST_GRID, MOST_LAYERS, EPS = 256, 64, 2048, 64, 4, 4, 1e-5
LARGEST_HALF = 65504.0
INSTEAD = "export with --memory-attention engine"


def check(memory):
    """Raises ExportError where segtrt's kernels do not compute what a MemoryAttention computes;
    shapes are `tensors_of`'s to check."""
    layers, grid = memory.layers, _grid(memory)
    norms = [norm for layer in layers for norm in (layer.norm1, layer.norm2, layer.norm3)] + [memory.norm]
    wrong = None
    if not 1 <= len(layers) <= MOST_LAYERS:
        wrong = f"{len(layers)} layers, expected 1 to {MOST_LAYERS}"
    elif away := [norm.eps for norm in norms if norm.eps != EPS]:
        wrong = f"norms with {away[0]} below the root, expected {EPS}"
    elif grid**2 != memory.pos.shape[1] or grid < LEAST_GRID or grid % 2:
        wrong = f"{memory.pos.shape[1]} tokens, expected the square of an even number from {LEAST_GRID} on"
    if wrong:
        raise ExportError(f"segtrt's kernels for a memory attention do not take this one: {wrong}; {INSTEAD}")


def tensors_of(memory):
    """Name -> array of the file, for a MemoryAttention: f16 what products are made with, and
    positions; f32 all else."""
    check(memory)
    found, half, wide, grid = {}, np.float16, np.float32, _grid(memory)

    def put(name, value, kind, *shape):
        name, value = f"attention.{name}", value.detach().float().numpy()
        if value.shape != shape:
            raise ExportError(f"{name} has the shape {list(value.shape)}, segtrt's kernels for a memory "
                              f"attention take {list(shape)}; {INSTEAD}")
        if kind == half and np.abs(value).max() > LARGEST_HALF:
            raise ExportError(f"{name} has values beyond f16's largest, {LARGEST_HALF}; {INSTEAD}")
        found[name] = np.ascontiguousarray(value.astype(kind))

    def product(name, layers, rows, columns):
        put(name, torch.cat([layer.weight for layer in layers]), half, rows, columns)
        put(f"{name}_bias", torch.cat([layer.bias for layer in layers]), wide, rows)

    put("positions", memory.pos[0].T, half, WIDTH, grid**2)
    put("turns", turns_of(memory.cos, memory.sin, grid), wide, grid, TURNING, 2)
    for at, layer in enumerate(memory.layers):
        name = f"layers.{at}"
        product(f"{name}.qkv", [layer.q_self, layer.k_self, layer.v_self], 3 * WIDTH, WIDTH)
        product(f"{name}.query", [layer.q_cross], WIDTH, WIDTH)
        product(f"{name}.value", [layer.v_cross], WIDTH, MEMORY)
        product(f"{name}.up", [layer.up], HIDDEN, WIDTH)
        product(f"{name}.down", [layer.down], WIDTH, HIDDEN)
        for norm in ("norm1", "norm2", "norm3"):
            put(f"{name}.{norm}.weight", getattr(layer, norm).weight, wide, WIDTH)
            put(f"{name}.{norm}.bias", getattr(layer, norm).bias, wide, WIDTH)
    put("norm.weight", memory.norm.weight, wide, WIDTH)
    put("norm.bias", memory.norm.bias, wide, WIDTH)
    return found


def turns_of(cos, sin, grid):
    """Cosine and sine [grid,64,2] of each coordinate, of tables [grid*grid,128] (rope.py) whose first
    half turns with a token's column and the second alike with its row."""
    turns = torch.stack([cos, sin], dim=-1)
    if tuple(turns.shape) != (grid**2, 2 * TURNING, 2):
        raise ExportError(f"angles of the shape {list(cos.shape)}, segtrt's kernels for a memory attention "
                          f"take {[grid**2, 2 * TURNING]}; {INSTEAD}")
    turns = turns.reshape(grid, grid, 2, TURNING, 2)
    one = turns[0, :, 0]
    if not (torch.equal(turns[:, :, 0], one.expand(grid, -1, -1, -1)) and
            torch.equal(turns[:, :, 1], one[:, None].expand(-1, grid, -1, -1))):
        raise ExportError(f"angles that do not depend on one coordinate each; {INSTEAD}")
    return one


def _grid(memory):
    return round(memory.pos.shape[1]**0.5)


def work_of(grid, layers):
    """2 * multiply-accumulates for one object, without the attentions'."""
    return 2 * grid**2 * layers * (4 * WIDTH * WIDTH + MEMORY * WIDTH + 2 * WIDTH * HIDDEN)


def table_of(memory):
    """The manifest's [memory_attention] without the fields of the file."""
    grid, layers = _grid(memory), len(memory.layers)
    return {"flops": work_of(grid, layers), "grid": grid, "layers": layers}


def write(memory, folder):
    """Writes the file of weights into `folder`; returns the manifest's [memory_attention] table."""
    data = save(tensors_of(memory))
    (folder / FILE).write_bytes(data)
    return {"file": FILE, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} | table_of(memory)
