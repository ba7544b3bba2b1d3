"""What lies between the memory attention's attentions, in numpy, from its file of weights alone
(attention_weights.py).

For tests: nothing of the exporter's modules is used. What segtrt's kernels store in f16 is rounded
to f16 here: tokens behind each sum, normalised rows, hidden columns and results. N tokens, g a side.
"""

import numpy as np

EPS = 1e-5


def half(x):
    return np.asarray(x).astype(np.float16).astype(np.float32)


def start(tensors, feat):
    """feat [256,g,g] -> y, q, k, v, each [N,256]: as track_seg0."""
    positions = tensors["attention.positions"].astype(np.float32)
    y = half(half(feat).reshape(len(feat), -1) + positions).T
    return y, *_projected(tensors, "layers.0", "norm1", "qkv", y)


def query(tensors, layer, x, o):
    """Tokens and the result of a layer's self-attention -> y, q."""
    y = half(half(x) + half(o))
    return y, *_projected(tensors, f"layers.{layer}", "norm2", "query", y)


def finish(tensors, layer, x, o):
    """Tokens and what was attended to in the bank [N,64] -> y, q, k, v of the next layer."""
    y = _behind(tensors, layer, x, o)
    return y, *_projected(tensors, f"layers.{layer + 1}", "norm1", "qkv", y)


def last(tensors, layer, x, o):
    """The same of the last layer -> y: as track_image."""
    return half(_norm(tensors, "norm", _behind(tensors, layer, x, o)))


def _behind(tensors, layer, x, o):
    name = f"layers.{layer}"
    x = half(half(x) + _product(tensors, f"{name}.value", half(o)))
    hidden = half(np.maximum(_product(tensors, f"{name}.up", half(_norm(tensors, f"{name}.norm3", x))), 0))
    return half(x + _product(tensors, f"{name}.down", hidden))


def _projected(tensors, name, norm, product, y):
    rows = _product(tensors, f"{name}.{product}", half(_norm(tensors, f"{name}.{norm}", y)))
    made = np.split(rows, rows.shape[1] // 256, axis=1)
    return [half(_turned(tensors, section) if at < 2 else section) for at, section in enumerate(made)]


def _turned(tensors, rows):
    turns = tensors["attention.turns"]
    grid = len(turns)
    columns, lines = np.arange(grid**2) % grid, np.arange(grid**2) // grid
    cos, sin = (np.concatenate([turns[columns, :, i], turns[lines, :, i]], axis=1) for i in (0, 1))
    a, b = np.split(rows, 2, axis=1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=1)


def _product(tensors, name, x):
    return x @ tensors[f"attention.{name}"].astype(np.float32).T + tensors[f"attention.{name}_bias"]


def _norm(tensors, name, x):
    x = x - x.mean(axis=1, keepdims=True)
    x = x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + EPS)
    return x * tensors[f"attention.{name}.weight"] + tensors[f"attention.{name}.bias"]
