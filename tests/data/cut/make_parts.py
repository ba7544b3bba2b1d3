#!/usr/bin/env python3
"""Writes the encoder of tests/data/fused in four parts, as the exporter cuts deep ones, and their
lines for its manifest.

    pip install onnx==1.23.2 && python3 make_parts.py

The parts pool in steps what the whole pools at once, so that they give the same but for rounding.
Tokens lie as a transformer has them, channels last, and shrink on their way. `m` passes over two
parts: half of what `feat` is made of comes by it, on its side and with other signs, so that whoever
mixes up tensors or writes over them too early gets other masks.
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "fused"))
import make_bundle as whole  # noqa: E402
from make_bundle import ENCODER, FEATURES, GRID, LOW, SIDE, Graph, port  # noqa: E402

FEAT, HR0, HR1 = FEATURES
HALF = np.float32(0.5)
# Powers of two: taking them back is exact.
SIGNS = np.array([4, -2, -0.5], np.float32)


def tokens(name, side):
    return port(name, "f32", 1, side, side, 3)


def pool(g, x, size):
    return g.op("AveragePool", x, kernel_shape=[size, size], strides=[size, size])


def as_tokens(g, x, to="y"):
    g.op("Transpose", x, perm=[0, 2, 3, 1], to=to)


def as_image(g, x="x"):
    return g.op("Transpose", x, perm=[0, 3, 1, 2])


def parts():
    g = Graph([port("image", "f32", 1, 3, SIDE, SIDE)], [HR0, tokens("y", LOW), tokens("m", GRID)])
    small = pool(g, "image", 4)
    g.op("Conv", small, ENCODER["hr0"], to="hr0")
    as_tokens(g, small)
    aside = g.op("Transpose", pool(g, "image", 16), perm=[0, 3, 2, 1])
    g.op("Mul", aside, SIGNS, to="m")
    yield g
    g = Graph([tokens("x", LOW)], [HR1, tokens("y", 2 * GRID)])
    small = pool(g, as_image(g), 2)
    g.op("Conv", small, ENCODER["hr1"], to="hr1")
    as_tokens(g, small)
    yield g
    g = Graph([tokens("x", 2 * GRID)], [tokens("y", GRID)])
    as_tokens(g, g.op("Mul", pool(g, as_image(g), 2), HALF))
    yield g
    g = Graph([tokens("x", GRID), tokens("m", GRID)], [FEAT])
    upright = g.op("Mul", g.op("Transpose", "m", perm=[0, 2, 1, 3]), HALF / SIGNS)
    g.op("Conv", as_image(g, g.op("Add", "x", upright)), ENCODER["feat"], to="feat")
    yield g


def main():
    whole.HERE = HERE
    lines = [whole.write(f"encoder_cut{at}", g) for at, g in enumerate(parts())]
    (HERE / "parts.toml").write_text("\n\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
