#!/usr/bin/env python3
"""Writes what is other in the small bundle of tests/data/fused where its track step ends in a mask
decoder of this program's kernels' kind.

    pip install onnx==1.23.2 safetensors && python3 make_bundle.py

Of the decoder's matrices all are zero but those that pick columns, so that as a graph it takes a
few kilobytes: tokens read the image's mean, nothing is written to the image, and upscaling sorts
columns into pixels. `tests/mask_decoder.rs` makes the weights of the same numbers.
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fused"))

import make_bundle as fused  # noqa: E402

GRID, WIDTH, TOKENS = fused.GRID, fused.WIDTH, fused.TOKENS
MIDDLE, NARROW, CROSS = WIDTH // 4, WIDTH // 8, WIDTH // 2
BEST = 4  # the token of the mask with the largest of the IoUs
IOUS, SCORE = (0.3, 0.9, 0.5), 5.0  # of masks 1 to 3
STEPS = (1.0, 1.0, 0.5, 0.5)  # of the second upscaling's four pixels
# Behind a token's reading of the image: norm2, norm3 of the first layer, three of the second, the
# last one.
NORMS = 6


def vector():
    return np.array([(7 * c % 11 - 5) / 10 for c in range(NARROW)], np.float32)


def started():
    return np.array([(5 * c % 13 - 6) / 6 for c in range(WIDTH)], np.float32) * (1 + BEST / 4)


def norm(g, x, epsilon):
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1], keepdims=1))
    square = g.op("ReduceMean", g.op("Mul", centred, centred), axes=[-1], keepdims=1)
    return g.op("Div", centred, g.op("Sqrt", g.op("Add", square, np.float32(epsilon))))


def gelu(g, x):
    erf = g.op("Erf", g.op("Mul", x, np.float32(0.5**0.5)))
    return g.op("Mul", g.op("Mul", x, np.float32(0.5)), g.op("Add", erf, np.float32(1.0)))


def spread(g, x, side, columns):
    """[B,side*side,4,columns] -> [B,2 side,2 side,columns]: the four are (dy, dx)."""
    x = g.op("Transpose", g.reshape(x, -1, side, side, 2, 2, columns), perm=[0, 1, 3, 2, 4, 5])
    return g.reshape(x, -1, 2 * side, 2 * side, columns)


def decode(g, x):
    """Image tokens [B,N,C] -> low, iou, ptr, score, ious."""
    image = norm(g, norm(g, x, 1e-5), 1e-5)
    fine = spread(g, g.reshape(image, -1, TOKENS, 4, MIDDLE), GRID, MIDDLE)
    fine = gelu(g, norm(g, g.op("Add", fine, g.op("Transpose", "hr1", perm=[0, 2, 3, 1])), 1e-6))
    halves = [
        g.op("Slice", fine, np.array([at]), np.array([at + NARROW]), np.array([3])) for at in (0, NARROW)
    ]
    four = [
        g.reshape(g.op("Mul", halves[e % 2], np.float32(STEPS[e])), -1, 4 * TOKENS, 1, NARROW)
        for e in range(4)
    ]
    fine = spread(g, g.op("Concat", *four, axis=2), 2 * GRID, NARROW)
    fine = gelu(g, g.op("Add", fine, g.op("Transpose", "hr0", perm=[0, 2, 3, 1])))
    g.op("Transpose", g.op("MatMul", fine, vector()[:, None]), perm=[0, 3, 1, 2], to="low")
    # Every token attends to all places alike; half of the columns reach it.
    mean = g.op("ReduceMean", x, axes=[1], keepdims=0)
    mask = (np.arange(WIDTH) < CROSS).astype(np.float32)
    token = g.op("Add", g.op("Mul", mean, mask), started())
    for _ in range(NORMS):
        token = norm(g, token, 1e-5)
    g.op("Relu", token, to="ptr")
    nothing = g.op("Mul", g.op("ReduceMean", token, axes=[1], keepdims=1), np.float32(0.0))
    g.op("Add", nothing, np.float32(max(IOUS)), to="iou")
    g.op("Add", nothing, np.float32(SCORE), to="score")
    g.op("Add", nothing, np.array([IOUS], np.float32), to="ious")


def main():
    fused.HERE = HERE
    last = fused.LAYERS - 1
    tokens = fused.Graph([fused.tokens("x"), fused.tokens("o", fused.NARROW)], [fused.tokens("y")])
    fused.finish(tokens, "x", "o", last, to="y")
    fused.decode = decode
    fused.SELECTED = [*fused.ANSWER, fused.port("ious", "f32", "B", len(IOUS))]
    graphs = dict([("encoder", fused.encoder()), *fused.steps()])
    graphs["prompt"] = original_prompt
    graphs["track_image"] = tokens
    entries = {role: fused.write(role, graph) for role, graph in graphs.items()}
    fused.write_manifest(entries.values(), "tests/data/decoded/make_bundle.py")
    for role in graphs.keys() - {"track", "track_image", f"track_seg{2 * last + 2}"}:
        (HERE / f"{role}.onnx").unlink()  # as tests/data/fused has it


original_prompt = fused.prompt()

if __name__ == "__main__":
    main()
