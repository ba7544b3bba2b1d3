"""Counts a graph's floating-point work from the ONNX file itself.

2 * multiply-accumulates of convolutions and matrix products, at one object, one point
and a full memory bank; everything else (normalisation, softmax, resizing) is left out,
as is usual.
"""

import math

import onnx

from .graphs import FULL


def count(model):
    """FLOPs of an onnx.ModelProto (int)."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for info in list(model.graph.input) + list(model.graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_value = FULL[dim.dim_param]
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    shapes = {i.name: list(i.dims) for i in model.graph.initializer}
    for info in list(model.graph.value_info) + list(model.graph.input) + list(model.graph.output):
        shapes[info.name] = [d.dim_value for d in info.type.tensor_type.shape.dim]
    return sum(_work(node, shapes) for node in model.graph.node)


def _work(node, shapes):
    if node.op_type not in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
        return 0
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
