"""Writes the few fp32 products of a typed fp16 graph as multiplications and sums.

TensorRT for RTX has no matrix products in fp32 for Turing (sm_75): 1.7.1 refuses a graph with one, earlier releases
build it. What fp16 graphs keep in fp32 are the click's angles, what is read from the decoder's tokens (token_heads.py)
and the pointers' times: at most 256 x 256 weights a row, for which a product kernel is not needed. x W + b becomes
sum(x * W^T) + b, the same in exact arithmetic; only the order of the sum is the implementation's.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import ExportError

_PRODUCTS = ("MatMul", "Gemm", "Einsum")


def write_out(model):
    """Replaces, in place, every product of `model` that computes in fp32; returns how many there were."""
    kinds = _kinds(model)
    constants = {i.name: i for i in model.graph.initializer}
    nodes, count = [], 0
    for node in model.graph.node:
        if node.op_type in _PRODUCTS and kinds.get(node.output[0]) == TensorProto.FLOAT:
            nodes.extend(_sums(node, constants, model.graph))
            count += 1
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [i for i in model.graph.initializer if i.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    return count


def _kinds(model):
    """Element type of every tensor."""
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    return {i.name: i.type.tensor_type.elem_type for i in [*graph.value_info, *graph.output]}


def _sums(node, constants, graph):
    """The nodes that stand for the product `node`: x [..., K] and constant weights [K, N] -> [..., N].

    Weights [R, K, N] of a batched product multiply a row each, x [..., R, 1, K] (token_heads.py).
    """
    told = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    plain = told.get("alpha", 1.0) == told.get("beta", 1.0) == 1.0 and not told.get("transA")
    weight = constants.get(node.input[1])
    batched = weight is not None and len(weight.dims) == 3
    if node.op_type == "Einsum" or not plain or weight is None or not (len(weight.dims) == 2 or batched):
        raise ExportError(
            f"{node.op_type} {node.name} computes in fp32 and is not a plain product with constant weights; "
            "it cannot be written as sums for sm_75"
        )
    rows = numpy_helper.to_array(weight)
    rows = np.ascontiguousarray(rows if told.get("transB") else np.swapaxes(rows, -1, -2))

    def constant(suffix, value):
        name = f"{node.name}/{suffix}"
        graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def step(op, inputs, output=None, **attributes):
        name = f"{node.name}/{op}"
        made.append(helper.make_node(op, inputs, [output or f"{name}_output_0"], name=name, **attributes))
        return made[-1].output[0]

    made, biased = [], len(node.input) > 2 and bool(node.input[2])
    before = constant("before", np.array([-2], np.int64))
    wide = node.input[0] if batched else step("Unsqueeze", [node.input[0], before])
    terms = step("Mul", [wide, constant("rows", rows)])
    last = constant("last", np.array([-1], np.int64))
    total = step("ReduceSum", [terms, last], None if biased or batched else node.output[0], keepdims=0)
    if batched:
        step("Unsqueeze", [total, before], node.output[0])
    if biased:
        step("Add", [total, node.input[2]], node.output[0])
    return made
