#!/usr/bin/env python3
"""Writes what is other in the small bundle of tests/data/fused where its memories are SAM 2.1's: a
whole memory encoder of the widths that this program's kernels take, in a graph of a few kilobytes.

    pip install onnx==1.23.2 safetensors && python3 make_bundle.py

Its weights are no constants but sines, which the graph works out: element i of tensor t, in the
order in which they are asked for, is scale * sin(0.1 * (i mod 1009)^2 + t), and of a norm's weight
1 more. `tests/memory_encoder.rs` makes the kernels' file of the same numbers.
"""
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fused"))

import make_bundle as fused  # noqa: E402

GRID, WIDTH, DEPTH, TOKENS = fused.GRID, fused.WIDTH, fused.NARROW, fused.TOKENS
PERIOD, STEP = 1009, 0.1
SCALE, OFFSET = 20.0, -10.0  # of the mask in front of its convolutions
STEPS = (1, 4, 16, 64, 256)
HIDDEN, SPREAD, BLOCKS = 4 * WIDTH, 7, 2
BIAS, NORM = 0.2, 0.3


class Drawn(fused.Graph):
    """A graph that works out its weights, each once, in the order in which they are asked for."""

    drawn = 0

    def to(self, x, kind):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node("Cast", [x], [name], to=kind))
        return name

    def draw(self, scale, *shape, half=False, centre=0.0):
        at = self.op("Range", np.int64(0), np.int64(np.prod(shape)), np.int64(1))
        at = self.to(self.op("Mod", at, np.int64(PERIOD)), TensorProto.DOUBLE)
        at = self.op("Add", self.op("Mul", self.op("Mul", at, at), np.float64(STEP)), np.float64(self.drawn))
        value = self.op("Add", self.op("Mul", self.op("Sin", at), np.float64(scale)), np.float64(centre))
        value = self.to(value, TensorProto.FLOAT)
        if half:
            value = self.to(self.to(value, TensorProto.FLOAT16), TensorProto.FLOAT)
        self.drawn += 1
        return self.reshape(value, *shape)

    def product(self, x, rows, columns, bias=True):
        """x [..., columns] to [..., rows]."""
        weight = self.draw((2 / columns) ** 0.5, rows, columns, half=True)
        x = self.op("MatMul", x, self.op("Transpose", weight, perm=[1, 0]))
        return self.op("Add", x, self.draw(BIAS, rows)) if bias else x

    def norm(self, x, columns):
        """Over the last axis."""
        weight, bias = self.draw(NORM, columns, centre=1.0), self.draw(BIAS, columns)
        return self.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-6)

    def gelu(self, x):
        erf = self.op("Erf", self.op("Mul", x, np.float32(0.5**0.5)))
        return self.op("Mul", self.op("Mul", x, np.float32(0.5)), self.op("Add", erf, np.float32(1.0)))

    def last(self, x):
        """[B,C,h,w] to [B,h,w,C]."""
        return self.op("Transpose", x, perm=[0, 2, 3, 1])

    def first(self, x):
        """[B,h,w,C] to [B,C,h,w]."""
        return self.op("Transpose", x, perm=[0, 3, 1, 2])


def memory():
    g = Drawn([fused.FEATURES[0], fused.ANSWER[0], fused.ANSWER[3], fused.port("binar", "f32", 1)],
              [fused.port("mem", "f32", "B", TOKENS, DEPTH)])
    high = g.op("Resize", "low", "", np.array([1, 1, 4, 4], np.float32), mode="linear")
    hard = g.to(g.op("Greater", high, np.float32(0)), TensorProto.FLOAT)
    mask = g.op("Where", g.op("Greater", "binar", np.float32(0.5)), hard, g.op("Sigmoid", high))
    x = g.op("Add", g.op("Mul", mask, np.float32(SCALE)), np.float32(OFFSET))
    for step, (columns, rows) in enumerate(zip(STEPS, STEPS[1:])):
        # The kernels have the places between rows and columns.
        weight = g.draw((2 / (9 * columns)) ** 0.5, rows, 3, 3, columns, half=step > 1)
        x = g.op("Conv",
                 x,
                 g.first(weight),
                 g.draw(BIAS, rows),
                 kernel_shape=[3, 3],
                 pads=[1] * 4,
                 strides=[2, 2])
        x = g.gelu(g.norm(g.last(x), rows))
        x = g.first(x) if rows < WIDTH else x
    x = g.product(x, WIDTH, WIDTH, bias=False)
    x = g.op("Add", x, g.op("Add", g.product(g.last("feat"), WIDTH, WIDTH, bias=False), g.draw(BIAS, WIDTH)))
    for _ in range(BLOCKS):
        weight = g.op("Transpose", g.draw((2 / SPREAD**2) ** 0.5, SPREAD**2, WIDTH), perm=[1, 0])
        weight = g.reshape(weight, WIDTH, 1, SPREAD, SPREAD)
        y = g.op("Conv",
                 g.first(x),
                 weight,
                 g.draw(BIAS, WIDTH),
                 kernel_shape=[SPREAD] * 2,
                 pads=[SPREAD // 2] * 4,
                 group=WIDTH)
        y = g.gelu(g.product(g.norm(g.last(y), WIDTH), HIDDEN, WIDTH))
        x = g.op("Add", x, g.product(y, WIDTH, HIDDEN))
    x = g.product(x, DEPTH, WIDTH)
    gone = g.to(g.op("LessOrEqual", "score", np.float32(0)), TensorProto.FLOAT)
    x = g.op("Add", x, g.op("Mul", g.reshape(gone, -1, 1, 1, 1), g.draw(BIAS, DEPTH)))
    g.op("Reshape", x, np.array([-1, TOKENS, DEPTH], np.int64), to="mem")
    return g


def main():
    fused.HERE = HERE
    graphs = dict([("encoder", fused.encoder()), *fused.steps(), ("memory", memory())])
    entries = {role: fused.write(role, graph) for role, graph in graphs.items()}
    fused.write_manifest(entries.values(), "tests/data/remembered/make_bundle.py")
    for role in graphs.keys() - {"memory"}:
        (HERE / f"{role}.onnx").unlink()  # as tests/data/fused has it


if __name__ == "__main__":
    main()
