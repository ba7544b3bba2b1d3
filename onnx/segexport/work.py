"""Counts a graph's work from the ONNX file itself: FLOPs, bytes, launches, activations.

At one object, one point and a full memory bank. An implementation that fuses every element-wise
operator, norm, resize and copy into its neighbour, and keeps attention scores on chip, still has to
do this much. So time at the peaks of a GPU is a lower bound of what such an implementation reaches.

`python3 onnx/segexport/work.py BUNDLE …` adds the numbers to bundles of older exports. It needs no
PyTorch.
"""

import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import onnx

# Sizes that stand for "one object, one point, full bank".
FULL = {"B": 1, "P": 1, "F": 7, "N": 16}
WIDTH = {"fp32": 4, "fp16": 2}
# Operators with matmuls, and those whose result lies where their largest input lay.
_MATMULS = frozenset("Conv ConvTranspose MatMul Gemm".split())
_IN_PLACE = frozenset("Add Cast Clip Div Equal Erf Exp Flatten Greater GreaterOrEqual "
                      "LayerNormalization Less LessOrEqual Mul Neg Not Or Pow Relu Reshape Sigmoid Softmax Sqrt Squeeze Sub Transpose Unsqueeze "
                      "Where".split())
# What may lie between the two matmuls of an attention.
_SCORES = _IN_PLACE - {"LayerNormalization", "Relu", "Erf"}
_EXPONENTIALS = frozenset({"Softmax", "Exp"})


@dataclass(frozen=True)
class Work:
    """What a graph has to do for one run."""

    flops: int  # 2 * multiply-accumulates of convolutions and matmuls
    bytes: int  # read and written by them: inputs, weights and outputs once each, without scores
    launches: int  # fewest kernels: one for each convolution, matmul or attention
    activation_bytes: int  # most bytes of results alive at once, without weights and scores

    def lines(self):
        """As lines of a manifest's [[graph]] entry."""
        return [
            f"flops = {self.flops}",
            f"bytes = {self.bytes}",
            f"launches = {self.launches}",
            f"activation_bytes = {self.activation_bytes}",
        ]


def count(model, precision="fp32"):
    """The Work of an onnx.ModelProto, all of whose floats have this precision ("fp32" or "fp16")."""
    graph, shapes = _shaped(model)
    width = WIDTH[precision]
    producers = {output: node for node in graph.node for output in node.output}
    attentions = dict(_attentions(graph, producers))
    scores = set(attentions.values())
    flops = moved = launches = 0
    for node in graph.node:
        if node.op_type not in _MATMULS:
            continue
        flops += _flops(node, shapes)
        launches += node.output[0] not in scores
        inputs = list(node.input)
        if node.output[0] in attentions:  # the second matmul of an attention reads its scores on chip
            inputs = inputs[1:]
        outputs = [name for name in node.output if name not in scores]
        moved += width * sum(math.prod(shapes[name]) for name in [*inputs, *outputs] if name)
    return Work(flops, moved, launches, width * _alive(graph, shapes, producers, scores))


def _shaped(model):
    """The graph, and the shape of each of its tensors."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for info in list(model.graph.input) + list(model.graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = FULL[dim.dim_param]
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    shapes = {i.name: list(i.dims) for i in model.graph.initializer}
    for info in list(model.graph.value_info) + list(model.graph.input) + list(model.graph.output):
        shapes[info.name] = [d.dim_value for d in info.type.tensor_type.shape.dim]
    return model.graph, shapes


def _flops(node, shapes):
    a, b, out = shapes[node.input[0]], shapes[node.input[1]], shapes[node.output[0]]
    if 0 in out or 0 in a:
        raise ValueError(f"shape inference left {node.name} with unknown sizes {a} -> {out}")
    if node.op_type == "Conv":  # weight [out, in/groups, kh, kw]
        return 2 * math.prod(out) * math.prod(b[1:])
    if node.op_type == "ConvTranspose":  # weight [in, out/groups, kh, kw]
        return 2 * math.prod(a) * math.prod(b[1:])
    if node.op_type == "MatMul":
        return 2 * math.prod(out) * a[-1]
    transposed = any(x.name == "transA" and x.i for x in node.attribute)
    return 2 * math.prod(out) * (a[0] if transposed else a[-1])


def _attentions(graph, producers):
    """For each attention: what its second matmul gives, and what its first one gives (the scores)."""
    for node in graph.node:
        if node.op_type != "MatMul":
            continue
        name, exponential = node.input[0], False
        while (before := producers.get(name)) is not None and before.op_type in _SCORES:
            exponential |= before.op_type in _EXPONENTIALS
            name = next((n for n in before.input if n in producers
                         and producers[n].op_type in _SCORES | {"MatMul"}), "")
        if exponential and before is not None and before.op_type == "MatMul":
            yield node.output[0], name


def _alive(graph, shapes, producers, scores):
    """The most elements of results that are needed at the same time."""
    constants = {i.name for i in graph.initializer} | {
        n.output[0] for n in graph.node if n.op_type == "Constant"
    }
    place = {info.name: info.name for info in graph.input}
    for node in graph.node:
        if node.op_type == "Constant":
            continue
        there = [name for name in node.input if name in place]
        largest = max(there, key=lambda name: math.prod(shapes[name]), default=None)
        for output in node.output:
            fits = largest and math.prod(shapes.get(output, [0])) <= math.prod(shapes[largest])
            reuses = node.op_type in _IN_PLACE and fits
            place[output] = place[largest] if reuses else output
    last = {}
    for step, node in enumerate(graph.node):
        for name in [*node.input, *node.output]:
            if name in place:
                last[place[name]] = step
    last |= {place[info.name]: len(graph.node) for info in graph.output if info.name in place}
    size = lambda name: 0 if name in scores or name in constants else math.prod(shapes.get(name, [0]))
    alive = {info.name: size(info.name) for info in graph.input}
    most = now = sum(alive.values())
    for step, node in enumerate(graph.node):
        for output in node.output:
            if place.get(output) == output:
                alive[output] = size(output)
                now += alive[output]
        most = max(most, now)
        for name in [name for name in alive if last.get(name, -1) <= step]:
            now -= alive.pop(name)
    return most


def add(folder):
    """Writes the numbers into the manifest of an exported bundle; True where it lacked them."""
    path = Path(folder) / "manifest.toml"
    text = path.read_text()
    precision = re.search(r'^precision = "(\w+)"$', text, re.M).group(1)
    head, *entries = text.split("[[graph]]\n")
    for at, entry in enumerate(entries):
        file = re.search(r'^file = "([^"]+)"$', entry, re.M).group(1)
        work = count(onnx.load(Path(folder) / file), precision)
        numbers, mark, ports = entry.partition("[[graph.")
        lines = re.sub(r"^(bytes|launches|activation_bytes) = \d+\n", "", numbers, flags=re.M)
        counted = re.sub(r"^flops = \d+$", "\n".join(work.lines()), lines, count=1, flags=re.M)
        entries[at] = counted + mark + ports
    made = "[[graph]]\n".join([head, *entries])
    if made == text:
        return False
    path.write_text(made)
    return True


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python3 onnx/segexport/work.py BUNDLE …")
    for bundle in sys.argv[1:]:
        print(f"{bundle}: {'written' if add(bundle) else 'unchanged'}")
