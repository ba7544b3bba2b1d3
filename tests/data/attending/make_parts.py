#!/usr/bin/env python3
"""Writes an encoder that attends over its whole map twice, whole and cut there, for the bundle of tests/data/fused in the place of
its own, with the lines for its manifest.

    pip install onnx==1.23.2 && python3 make_parts.py

As the exporter cuts Hiera (`onnx/export.py --encoder attention`): a part ends with q, k and v of a block beside the tokens before it,
f16[heads, tokens, 64 or 128] with zeros behind each head's own columns, the next one begins with its output projection. The first
attention has heads of 40 columns, so that the kernel for 64 takes them, the second of 72 for that for 128; their numbers of heads and
tokens differ too. Behind both comes a cut without attention. All else is fp32, as in the bundle.
"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "fused"))
import make_bundle as whole  # noqa: E402
from make_bundle import ENCODER, FEATURES, GRID, LOW, SIDE, Graph, port  # noqa: E402

FEAT, HR0, HR1 = FEATURES
CHANNELS = 3
# Features as large as those of the bundle's own encoder: the memory of larger ones runs away, and roundings with it.
SCALE = np.float32(0.6)
random = np.random.default_rng(11)


class Block:
    """Attention over a map of side x side tokens: projections with columns [heads * width], of which `depth` a head are not zero."""

    def __init__(self, side, heads, depth, width):
        self.side, self.heads, self.depth, self.width = side, heads, depth, width
        # Wide scores: who attends to all alike gives something else.
        spread = {"q": 1.6 / np.sqrt(depth), "k": 1.0, "v": 0.7}
        self.into = {name: self.padded(random.standard_normal((CHANNELS, heads, depth)) * size) for name, size in spread.items()}
        back = random.standard_normal((CHANNELS, heads, depth)) * 0.5 / np.sqrt(heads * depth)
        self.back = np.ascontiguousarray(self.padded(back).T)

    def padded(self, matrix):
        full = np.zeros((CHANNELS, self.heads, self.width), np.float32)
        full[..., : self.depth] = matrix
        return full.reshape(CHANNELS, -1)

    def shape(self):
        return self.heads, self.side**2, self.width

    def before(self, g, x, to=None):
        """q, k and v of tokens [1, side, side, c]."""
        rows = g.reshape(x, self.side**2, CHANNELS)
        for name in "qkv":
            heads = g.reshape(g.op("MatMul", rows, self.into[name]), self.side**2, self.heads, self.width)
            heads = g.op("Transpose", heads, perm=[1, 0, 2])
            yield cast(g, heads, TensorProto.FLOAT16, name) if to else heads

    def behind(self, g, x, o):
        rows = g.reshape(g.op("Transpose", o, perm=[1, 0, 2]), self.side**2, self.heads * self.width)
        rows = g.op("MatMul", rows, self.back)
        both = g.op("Add", x, g.reshape(rows, 1, self.side, self.side, CHANNELS))
        return g.op("Mul", both, SCALE)


def cast(g, x, dtype, to=None):
    to = to or f"t{len(g.nodes)}"
    g.nodes.append(helper.make_node("Cast", [x], [to], to=dtype))
    return to


FIRST, SECOND = Block(LOW, 2, 40, 64), Block(2 * GRID, 3, 72, 128)


def tokens(name, side):
    return port(name, "f32", 1, side, side, CHANNELS)


def halves(block, names):
    return [port(name, "f16", *block.shape()) for name in names]


def pool(g, x, size):
    return g.op("AveragePool", x, kernel_shape=[size, size], strides=[size, size])


def as_tokens(g, x, to=None):
    return g.op("Transpose", x, perm=[0, 2, 3, 1], to=to)


def as_image(g, x):
    return g.op("Transpose", x, perm=[0, 3, 1, 2])


def start(g, to=None):
    small = pool(g, "image", 4)
    g.op("Conv", small, ENCODER["hr0"], to="hr0")
    return as_tokens(g, small, to)


def middle(g, x, to=None):
    small = pool(g, as_image(g, x), 2)
    g.op("Conv", small, ENCODER["hr1"], to="hr1")
    return as_tokens(g, small, to)


def shrink(g, x, to=None):
    return as_tokens(g, pool(g, as_image(g, x), 2), to)


def end(g, x):
    g.op("Conv", as_image(g, x), ENCODER["feat"], to="feat")


def encoder():
    g = Graph([port("image", "f32", 1, 3, SIDE, SIDE)], FEATURES)
    x = middle(g, attend(g, start(g), FIRST))
    end(g, shrink(g, attend(g, x, SECOND)))
    return g


def attend(g, x, block):
    q, k, v = block.before(g, x)
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1]))
    return block.behind(g, x, g.op("MatMul", g.op("Softmax", scores, axis=-1), v))


def parts():
    g = Graph([port("image", "f32", 1, 3, SIDE, SIDE)], [HR0, tokens("y", LOW), *halves(FIRST, "qkv")])
    list(FIRST.before(g, start(g, "y"), "qkv"))
    yield g
    g = Graph([tokens("x", LOW), *halves(FIRST, "o")], [HR1, tokens("y", 2 * GRID), *halves(SECOND, "qkv")])
    list(SECOND.before(g, middle(g, FIRST.behind(g, "x", cast(g, "o", TensorProto.FLOAT)), "y"), "qkv"))
    yield g
    g = Graph([tokens("x", 2 * GRID), *halves(SECOND, "o")], [tokens("y", GRID)])
    shrink(g, SECOND.behind(g, "x", cast(g, "o", TensorProto.FLOAT)), "y")
    yield g
    g = Graph([tokens("x", GRID)], [FEAT])
    end(g, "x")
    yield g


def main():
    whole.HERE = HERE
    whole_line = whole.write("encoder", encoder())
    lines = [whole_line, *(whole.write(f"encoder_cut{at}", g) for at, g in enumerate(parts()))]
    (HERE / "graphs.toml").write_text("\n\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
