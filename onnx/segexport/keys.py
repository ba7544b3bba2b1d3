"""The weights of the memory attention's keys, for segtrt to compute them itself in place of the
graph `track_keys`.

They lie in the file of the encoder's trunk (trunk.py), under `keys.`; the manifest's table
[trunk.keys] has their sizes. What is made of them, for layer l, all rounded where it says f16:

    x   = mem + (positions + ages[tidx])                f16, of a memory's token
x   = ptr + (waves times.weight + times.bias)       f16, of a quarter of a pointer; waves: sines,
then cosines, of ptr_t * frequencies
    k   = x weight_l^T + bias_l                         f32
    k_l = k turned by turns, pointers' not at all       f16; columns i and i + 128 make a pair
"""

import numpy as np
import torch

from . import ExportError

TOKEN, KEY = 64, 256  # of segtrt's kernel
LARGEST_HALF = 65504.0


def tensors_of(memory):
    """Name -> array of the file, for a MemoryAttention."""
    bank, layers = memory.bank, [layer.k_cross for layer in memory.layers]
    if bank.depth != TOKEN or any(tuple(layer.weight.shape) != (KEY, TOKEN) for layer in layers):
        raise ExportError(f"memories of {bank.depth} channels: segtrt's kernel makes keys of {KEY} columns "
                          f"of {TOKEN}; export with --encoder engine")
    found = {}

    def put(name, value, kind):
        value = value.detach().float().numpy()
        if kind == np.float16 and np.abs(value).max() > LARGEST_HALF:
            raise ExportError(f"keys.{name} has values beyond f16's largest, {LARGEST_HALF}; export with "
                              f"--encoder engine")
        found[f"keys.{name}"] = np.ascontiguousarray(value.astype(kind))

    put("weight", torch.stack([layer.weight for layer in layers]), np.float16)
    put("bias", torch.stack([layer.bias for layer in layers]), np.float32)
    put("positions", bank.spatial, np.float16)
    put("ages", bank.ages.reshape(-1, TOKEN), np.float16)
    put("turns", torch.stack([bank.cos, bank.sin], dim=-1), np.float16)
    if bank.pointer_pos is not None:
        put("times.frequencies", 1.0 / bank.pointer_pos.period, np.float32)
        put("times.weight", bank.pointer_pos.projection.weight.T, np.float32)
        put("times.bias", bank.pointer_pos.projection.bias, np.float32)
    return found


def table_of(memory, pointers):
    """The manifest's [trunk.keys], for a full bank of so many pointers."""
    bank = memory.bank
    return {
        "layers": len(memory.layers),
        "memories": len(bank.ages),
        "tokens": bank.tokens,
        "pointers": pointers,
        "pointer_times": bank.pointer_pos is not None,
    }


def compute(tensors, mem, tidx, ptrs, ptr_t=None):
    """The keys [layers, keys, 256] as segtrt's kernel makes them, f16; mem [F,T,64], ptrs [N,256]."""
    get = lambda name: tensors[f"keys.{name}"]
    half = lambda x: np.asarray(x).astype(np.float16)
    tokens = half(half(mem) + half(get("positions") + get("ages")[np.asarray(tidx)][:, None]))
    pieces = half(ptrs).reshape(-1, KEY // TOKEN, TOKEN)
    if ptr_t is not None:
        angles = np.asarray(ptr_t, np.float32)[:, None] * get("times.frequencies")
        waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
        pieces = half(pieces + half(waves @ get("times.weight") + get("times.bias"))[:, None])
    project = lambda x: x.reshape(-1, TOKEN).astype(np.float32) @ get("weight").astype(np.float32).swapaxes(
        1, 2) + get("bias")[:, None]
    cos, sin = (np.tile(get("turns")[..., i].astype(np.float32), (len(tokens), 1)) for i in (0, 1))
    a, b = np.split(project(tokens), 2, axis=-1)
    turned = np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    return half(np.concatenate([turned, project(pieces)], axis=1))
