#!/usr/bin/env python3
"""Writes the small bundle that tests of the cut track step run: two layers, heads of 256, memories
64 wide, 64 pixels.

    pip install onnx==1.23.2 safetensors && python3 make_bundle.py

The attention kernels take no other widths, which no small trained network has. So the graphs are
made by hand: where a network has matrices these have factors for each column, which keeps them at a
few kilobytes. Their ports, shapes and order are the exporter's (onnx/segexport); the whole `track`
and its segments are made by the same functions. `keys.safetensors` has what `track_keys` computes
with as the exporter writes it beside a trunk (onnx/segexport/keys.py).
"""
import hashlib
import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
SIDE, GRID, WIDTH, NARROW, LAYERS = 64, 4, 256, 64, 2
TOKENS, LOW, MEMORIES, POINTERS = GRID * GRID, 4 * GRID, 7, 16
SPLIT = WIDTH // NARROW
ALL_KEYS = MEMORIES * TOKENS + POINTERS * SPLIT
random = np.random.default_rng(4)


def factors(columns, size, mean=0.0):
    return (mean + size * random.standard_normal(columns)).astype(np.float32)


# The same in every graph that has them.
LAYER = [
    {
        "q": factors(WIDTH, 0.06), "k": factors(WIDTH, 1.0), "v": factors(WIDTH, 0.5),
        "cross_q": factors(WIDTH, 0.06), "cross_k": factors(WIDTH, 1.0), "cross_v": factors(WIDTH, 1.0),
    }
    for _ in range(LAYERS)
]
AGES = factors((MEMORIES, 1, NARROW), 0.7)
ENCODER = {"feat": factors((WIDTH, 3, 1, 1), 0.6), "hr0": factors((WIDTH // 8, 3, 1, 1), 0.6),
           "hr1": factors((WIDTH // 4, 3, 1, 1), 0.6)}
MASK, FINE, MEMORY = factors((WIDTH, 1), 0.1), factors((1, WIDTH // 8, 1, 1), 0.02), factors(NARROW, 1.0)


class Graph:
    def __init__(self, inputs, outputs):
        self.inputs, self.outputs, self.nodes, self.constants = inputs, outputs, [], []

    def put(self, value):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, kind, *inputs, to=None, **attributes):
        to = to or f"t{len(self.nodes)}"
        names = [name if isinstance(name, str) else self.put(name) for name in inputs]
        self.nodes.append(helper.make_node(kind, names, [to], **attributes))
        return to

    def reshape(self, x, *shape):
        return self.op("Reshape", x, np.array(shape, np.int64))

    def cast(self, x):
        # Its attribute is called `to` as well.
        to = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node("Cast", [x], [to], to=TensorProto.FLOAT))
        return to

    def tile(self, x):
        """Narrow columns four times over."""
        return self.op("Concat", x, x, x, x, axis=-1)


def port(name, dtype, *shape):
    return name, dtype, shape


FEATURES = [port("feat", "f32", 1, WIDTH, GRID, GRID), port("hr0", "f32", 1, WIDTH // 8, LOW, LOW),
            port("hr1", "f32", 1, WIDTH // 4, 2 * GRID, 2 * GRID)]
ANSWER = [port("low", "f32", "B", 1, LOW, LOW), port("iou", "f32", "B", 1), port("ptr", "f32", "B", WIDTH),
          port("score", "f32", "B", 1)]
SELECTED = ANSWER  # of the track step; as in exports without the candidate masks' IoUs


def bank(frames, pointers):
    return [port("mem", "f32", "B", frames, TOKENS, NARROW), port("tidx", "i32", frames),
            port("ptrs", "f32", "B", pointers, WIDTH), port("ptr_t", "f32", pointers)]


def tokens(name, columns=WIDTH, objects="B"):
    return port(name, "f32", objects, TOKENS, columns)


def start(g):
    return g.op("Transpose", g.reshape("feat", 1, WIDTH, TOKENS), perm=[0, 2, 1])


def own(g, x, layer, to=(None, None, None)):
    return [g.op("Mul", x, LAYER[layer][name], to=to) for name, to in zip("qkv", to)]


def keys(g, layer, to=None):
    rows = g.op("Add", "mem", g.op("Gather", AGES, "tidx"))
    rows = g.reshape(rows, 1, -1, NARROW)
    pieces = g.op("Add", g.reshape("ptrs", 1, -1, SPLIT, NARROW), g.reshape("ptr_t", -1, 1, 1))
    pieces = g.reshape(pieces, 1, -1, NARROW)
    return g.op("Mul", g.tile(g.op("Concat", rows, pieces, axis=1)), LAYER[layer]["cross_k"], to=to)


def query(g, x, layer, to=None):
    return g.op("Mul", x, LAYER[layer]["cross_q"], to=to)


def finish(g, x, o, layer, to=None):
    return g.op("Add", x, g.op("Mul", g.tile(o), LAYER[layer]["cross_v"]), to=to)


def attend(g, q, k, v):
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1]))
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), v)


def decode(g, x):
    """A mask that is positive where the tokens are above their mean."""
    level = g.op("MatMul", x, MASK)
    level = g.op("Sub", level, g.op("ReduceMean", level, axes=[1], keepdims=1))
    level = g.reshape(level, -1, 1, GRID, GRID)
    level = g.op("Resize", level, "", np.array([1, 1, 4, 4], np.float32), mode="linear")
    g.op("Add", level, g.op("Conv", "hr0", FINE), to="low")
    mean = g.op("ReduceMean", x, axes=[1], keepdims=0, to="ptr")
    mean = g.op("ReduceMean", mean, axes=[1], keepdims=1)
    g.op("Sigmoid", mean, to="iou")
    g.op("Add", mean, np.float32(5.0), to="score")


def encoder():
    g = Graph([port("image", "f32", 1, 3, SIDE, SIDE)], FEATURES)
    for name, size in [("feat", 16), ("hr0", 4), ("hr1", 8)]:
        small = g.op("AveragePool", "image", kernel_shape=[size, size], strides=[size, size])
        g.op("Conv", small, ENCODER[name], to=name)
    return g


def prompt():
    g = Graph(
        FEATURES +
        [port("coords", "f32", "B", "P", 2),
         port("labels", "i32", "B", "P"),
         port("multi", "f32", 1)], ANSWER)
    where = g.op("ReduceMean", "coords", axes=[1, 2], keepdims=0)
    kind = g.op("ReduceMean", g.cast("labels"), axes=[1], keepdims=0)
    some = g.op("Add", g.op("Mul", where, np.float32(0.01)), g.op("Add", kind, "multi"))
    decode(g, g.op("Add", start(g), g.reshape(some, -1, 1, 1)))
    return g


def track():
    g = Graph(FEATURES + bank("F", "N"), SELECTED)
    values = g.op("Concat", g.reshape("mem", 1, -1, NARROW), g.reshape("ptrs", 1, -1, NARROW), axis=1)
    x = start(g)
    for layer in range(LAYERS):
        x = g.op("Add", x, attend(g, *own(g, x, layer)))
        x = finish(g, x, attend(g, query(g, x, layer), keys(g, layer), values), layer)
    decode(g, x)
    return g


def segments():
    """As onnx/segexport/track_segments.py cuts them."""
    g = Graph(bank(MEMORIES, POINTERS), [port(f"k{i}", "f32", "B", ALL_KEYS, WIDTH) for i in range(LAYERS)])
    for layer in range(LAYERS):
        keys(g, layer, to=f"k{layer}")
    yield "track_keys", g
    g = Graph(FEATURES[:1], [tokens(name, objects=1) for name in "yqkv"])
    own(g, g.op("Identity", start(g), to="y"), 0, "qkv")
    yield "track_seg0", g
    for layer in range(LAYERS):
        # The first layer's segments see the frame alone, whatever the number of objects.
        of = 1 if layer == 0 else "B"
        g = Graph([tokens(name, objects=of) for name in "xo"], [tokens(name, objects=of) for name in "yq"])
        query(g, g.op("Add", "x", "o", to="y"), layer, "q")
        yield f"track_seg{2 * layer + 1}", g
        if layer + 1 < LAYERS:
            g = Graph([tokens("x", objects=of), tokens("o", NARROW)], [tokens(name) for name in "yqkv"])
            own(g, finish(g, "x", "o", layer, to="y"), layer + 1, "qkv")
        else:
            g = Graph([tokens("x"), tokens("o", NARROW), *FEATURES[1:]], SELECTED)
            decode(g, finish(g, "x", "o", layer))
        yield f"track_seg{2 * layer + 2}", g


def key_weights():
    """Products whose matrices have those factors in their four diagonals; a wave that is as long as
    1024 times add themselves."""
    diagonals = np.tile(np.eye(NARROW), (SPLIT, 1))
    cosines = np.stack([np.ones((TOKENS, WIDTH // 2)), np.zeros((TOKENS, WIDTH // 2))], axis=-1)
    frequencies, times = np.zeros(WIDTH // 2), np.zeros((WIDTH, NARROW))
    frequencies[0], times[0] = 1 / 1024, 1024
    halves = {
        "weight": np.stack([diagonals * layer["cross_k"][:, None] for layer in LAYER]),
        "positions": np.zeros((TOKENS, NARROW)), "ages": AGES[:, 0], "turns": cosines,
    }
    floats = {
        "bias": np.zeros((LAYERS, WIDTH)),
        "times.frequencies": frequencies,
        "times.weight": times,
        "times.bias": np.zeros(NARROW),
    }
    made = {name: value.astype(np.float16) for name, value in halves.items()}
    made |= {name: value.astype(np.float32) for name, value in floats.items()}
    save_file({f"keys.{name}": value for name, value in made.items()}, HERE / "keys.safetensors")


def memory():
    g = Graph(
        [FEATURES[0], ANSWER[0], ANSWER[3], port("binar", "f32", 1)],
        [port("mem", "f32", "B", TOKENS, NARROW)])
    mask = g.op("Sigmoid", g.op("AveragePool", "low", kernel_shape=[4, 4], strides=[4, 4]))
    mask = g.op("Add", mask,
                g.op("Add", "binar", g.op("Mul", g.reshape("score", -1, 1, 1, 1), np.float32(0.01))))
    part = g.op("Slice", "feat", np.array([0]), np.array([NARROW]), np.array([1]))
    mixed = g.op("Add", part, g.op("Mul", mask, MEMORY.reshape(1, -1, 1, 1)))
    g.op("Transpose", g.reshape(mixed, -1, NARROW, TOKENS), perm=[0, 2, 1], to="mem")
    return g


def write(role, g):
    types = {"f32": TensorProto.FLOAT, "f16": TensorProto.FLOAT16, "i32": TensorProto.INT32}
    info = [[helper.make_tensor_value_info(name, types[dtype], shape) for name, dtype, shape in ports]
            for ports in (g.inputs, g.outputs)]
    model = helper.make_model(helper.make_graph(g.nodes, role, *info, g.constants), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    save(model, HERE / f"{role}.onnx")
    lines = ["[[graph]]", f'role = "{role}"', f'file = "{role}.onnx"',
             f'sha256 = "{hashlib.sha256((HERE / f"{role}.onnx").read_bytes()).hexdigest()}"']
    for kind, ports in (("input", g.inputs), ("output", g.outputs)):
        for name, dtype, shape in ports:
            extents = ", ".join(f'"{extent}"' if isinstance(extent, str) else str(extent) for extent in shape)
            lines += [f"[[graph.{kind}]]", f'name = "{name}"', f'dtype = "{dtype}"', f"shape = [{extents}]"]
    return "\n".join(lines)


def steps():
    """What comes behind the encoder."""
    return [("prompt", prompt()), ("track", track()), *segments(), ("memory", memory())]


def write_manifest(entries, exporter):
    head = f"""format = 1

[model]
name = "edgetam_mini"
family = "sam2.1"
imgsz = {SIDE}
precision = "fp32"

[weights]
source = "random"
seed = 4

[contract]
grid = {GRID}
low_size = {LOW}
feature_channels = {WIDTH}
memory_tokens = {TOKENS}
memory_channels = {NARROW}
pointer_channels = {WIDTH}
max_memories = {MEMORIES}
max_pointers = {POINTERS}
pointer_times = true
mean = [0.485, 0.456, 0.406]
std = [0.229, 0.224, 0.225]

[export]
exporter = "{exporter}"
opset = 17
"""
    (HERE / "manifest.toml").write_text("\n\n".join([head, *entries]) + "\n")


def main():
    key_weights()
    graphs = [("encoder", encoder()), *steps()]
    write_manifest([write(role, g) for role, g in graphs], "tests/data/fused/make_bundle.py")


if __name__ == "__main__":
    main()
