#!/usr/bin/env python3
"""Writes what is other in the small bundle of tests/data/decoded where kernels compute what lies
between its attentions: the whole track step, with norms, turned queries and keys, and MLPs.

    pip install onnx==1.23.2 safetensors && python3 make_bundle.py

Matrices have one factor a column, so that as a graph it takes a few kilobytes.
`tests/memory_attention.rs` makes the weights of the same numbers. The segments' graphs are those of
tests/data/fused, for nobody runs them.
"""
import importlib.util
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fused"))

import make_bundle as fused  # noqa: E402

spec = importlib.util.spec_from_file_location("decoded", HERE.parent / "decoded/make_bundle.py")
decoded = importlib.util.module_from_spec(spec)
spec.loader.exec_module(decoded)

GRID, WIDTH, NARROW, TOKENS, LAYERS = fused.GRID, fused.WIDTH, fused.NARROW, fused.TOKENS, fused.LAYERS
TIMES = 8  # hidden columns of a column


def wave(n):
    return ((37 * np.asarray(n) % 101) / 50 - 1).astype(np.float32)


def factors(step, layer, size):
    return wave(step * np.arange(WIDTH) + layer).astype(np.float16).astype(np.float32) * np.float32(size)


def of_hidden(step):
    """A factor for each of a column's hidden columns."""
    return wave(step * np.arange(TIMES)).reshape(TIMES, 1)


def norm(g, x, step):
    """Its step stands for the norm: of the layers 1 to 3, 4 of the last."""
    x = decoded.norm(g, x, 1e-5)
    return g.op("Add", g.op("Mul", x, 1 + factors(step, 0, 0.125)), factors(step, 1, 0.125))


def turned(g, x, to):
    pair, token = np.arange(WIDTH // 4), np.arange(TOKENS)
    angle = np.stack([token % GRID, token // GRID], 1)[:, :, None] * (pair + 1) * 0.05
    cos, sin = (f(angle.reshape(TOKENS, -1)).astype(np.float32) for f in (np.cos, np.sin))
    half = WIDTH // 2
    a, b = (g.op("Slice", x, np.array([at]), np.array([at + half]), np.array([2])) for at in (0, half))
    low = g.op("Sub", g.op("Mul", a, cos), g.op("Mul", b, sin))
    high = g.op("Add", g.op("Mul", a, sin), g.op("Mul", b, cos))
    return g.op("Concat", low, high, axis=2, to=to)


def start(g):
    positions = g.op("Mul", factors(1, 0, 0.25).reshape(-1, 1), wave(3 * np.arange(TOKENS)))
    return g.op("Transpose", g.op("Add", g.reshape("feat", 1, WIDTH, TOKENS), positions), perm=[0, 2, 1])


def own(g, x, layer, to=(None, None, None)):
    y = norm(g, x, 1)
    q, k = (g.op("Mul", y, factors(step, layer, size)) for step, size in ((3, 1 / 16), (5, 1.0)))
    q = g.op("Add", q, factors(3, layer, 0.25))
    v = g.op("Mul", y, factors(7, layer, 0.5), to=to[2])
    return [turned(g, q, to[0]), turned(g, k, to[1]), v]


def query(g, x, layer, to=None):
    return turned(g, g.op("Mul", norm(g, x, 2), factors(11, layer, 1 / 16)), to)


def finish(g, x, o, layer, to=None):
    x = g.op("Add", x, g.op("Mul", g.tile(o), factors(13, layer, 0.5)))
    y = norm(g, x, 3)
    hidden = g.op("Mul", y, factors(17, layer, 1.0))
    hidden = g.op("Mul", g.reshape(hidden, 1, -1, 1, WIDTH), of_hidden(23))
    hidden = g.op("Relu", g.op("Add", hidden, np.float32(0.125)))
    hidden = g.op("Mul", g.op("Mul", hidden, factors(19, layer, 0.25)), of_hidden(29))
    hidden = g.op("ReduceSum", hidden, np.array([2]), keepdims=0)
    x = g.op("Add", x, hidden, to=to if layer + 1 < LAYERS else None)
    return x if layer + 1 < LAYERS else norm(g, x, 4)


def put_once(g, value, put=fused.Graph.put):
    """Constants that are alike are one."""
    known = g.__dict__.setdefault("known", {})
    value = np.asarray(value)
    key = value.dtype.str, value.shape, value.tobytes()
    if key not in known:
        known[key] = put(g, value)
    return known[key]


def main():
    fused.HERE = HERE
    graphs = dict([("encoder", fused.encoder()), *fused.steps()])
    last = LAYERS - 1
    tokens = fused.Graph([fused.tokens("x"), fused.tokens("o", NARROW)], [fused.tokens("y")])
    fused.finish(tokens, "x", "o", last, to="y")
    graphs["track_image"] = tokens
    fused.decode = decoded.decode
    fused.SELECTED = [*fused.ANSWER, fused.port("ious", "f32", "B", len(decoded.IOUS))]
    graphs[f"track_seg{2 * last + 2}"] = dict(fused.segments())[f"track_seg{2 * last + 2}"]
    fused.start, fused.own, fused.query, fused.finish = start, own, query, finish
    fused.Graph.put = put_once
    graphs["track"] = fused.track()
    entries = {role: fused.write(role, graph) for role, graph in graphs.items()}
    fused.write_manifest(entries.values(), "tests/data/attended/make_bundle.py")
    for role in graphs.keys() - {"track"}:
        (HERE / f"{role}.onnx").unlink()  # as tests/data/fused and tests/data/decoded have it


if __name__ == "__main__":
    main()
