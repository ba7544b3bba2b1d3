"""The operators of exported graphs that NVIDIA's ONNX parser supports, with the types of their data.

From docs/operators.md of https://github.com/onnx/onnx-tensorrt: branches release/8.5-GA (TensorRT
8.5, JetPack 5) and release/10.1-GA. TensorRT 10.3 (JetPack 6) comes after 10.1, and each release
keeps the operators of the one before. docs/reference/operators.md shows this list with the
restrictions; a test holds it to this file.

8.5 lists neither INT64 nor DOUBLE, but its parser casts INT64 down to INT32, so INT64 counts as INT32 there.
"""

import onnx

from . import ExportError

# Operator: types of TensorRT 8.5 (none: not supported), of 10.1.
PARSED = {
    "Add": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "ArgMax": ("FP32 FP16", "FP32 FP16 BF16 INT32 INT64"),
    "AveragePool": ("FP32 FP16 INT8 INT32", "FP32 FP16 BF16"),
    "Cast": ("FP32 FP16 INT32 INT8 BOOL", "FP32 FP16 BF16 INT32 INT64 UINT8 BOOL"),
    "Clip": ("FP32 FP16 INT8", "FP32 FP16 BF16"),
    "Concat": ("FP32 FP16 INT32 INT8 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
    "Constant": ("FP32 FP16 INT32 INT8 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
    "Conv": ("FP32 FP16 INT8", "FP32 FP16 BF16"),
    "ConvTranspose": ("FP32 FP16 INT8", "FP32 FP16 BF16"),
    "Cos": ("FP32 FP16", "FP32 FP16 BF16"),
    "Div": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "Equal": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "Erf": ("FP32 FP16", "FP32 FP16 BF16"),
    "Exp": ("FP32 FP16", "FP32 FP16 BF16"),
    "Gather": ("FP32 FP16 INT8 INT32 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
    "Gemm": ("FP32 FP16 INT8", "FP32 FP16 BF16"),
    "Greater": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "GreaterOrEqual": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "LayerNormalization": (None, "FP32 FP16 BF16"),
    "Less": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "LessOrEqual": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "MatMul": ("FP32 FP16", "FP32 FP16 BF16"),
    "MaxPool": ("FP32 FP16 INT8", "FP32 FP16 BF16"),
    "Mul": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "Not": ("BOOL", "BOOL"),
    "Or": ("BOOL", "BOOL"),
    "Pad": ("FP32 FP16 INT8 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "ReduceMax": ("FP32 FP16", "FP32 FP16 BF16 INT32 INT64"),
    "ReduceMean": ("FP32 FP16", "FP32 FP16 BF16 INT32 INT64"),
    "ReduceSum": ("FP32 FP16", "FP32 FP16 BF16 INT32 INT64"),
    "Relu": ("FP32 FP16 INT8", "FP32 FP16 BF16 INT32 INT64"),
    "Reshape": ("FP32 FP16 INT32 INT8 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
    "Resize": ("FP32 FP16", "FP32 FP16 BF16"),
    "Sigmoid": ("FP32 FP16 INT8", "FP32 FP16 BF16"),
    "Sin": ("FP32 FP16", "FP32 FP16 BF16"),
    "Slice": ("FP32 FP16 INT32 INT8 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
    "Softmax": ("FP32 FP16", "FP32 FP16 BF16"),
    "Split": ("FP32 FP16 INT32 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
    "Sub": ("FP32 FP16 INT32", "FP32 FP16 BF16 INT32 INT64"),
    "Transpose": ("FP32 FP16 INT32 INT8 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
    "Unsqueeze": ("FP32 FP16 INT32 INT8 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
    "Where": ("FP32 FP16 INT32 BOOL", "FP32 FP16 BF16 INT32 INT64 BOOL"),
}
OPSETS = {"8.5": 17, "10.1": 20}
_TYPES = {
    1: "FP32", 2: "UINT8", 3: "INT8", 6: "INT32", 7: "INT64", 9: "BOOL", 10: "FP16", 11: "DOUBLE", 16:
    "BF16"
}
# Operators whose second and further inputs have to be constants, and the first of these inputs.
_CONSTANTS = {
    "Slice": 1, "Unsqueeze": 1, "ReduceSum": 1, "ReduceMax": 1, "ReduceMean": 1, "Pad": 1, "Resize": 1
}
_RESIZE = ({"nearest", "linear"},
           {"half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn", "asymmetric",
            "align_corners"}, {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"})


def check(model, role):
    """Refuses a graph that TensorRT 10's parser does not take.

    Raises ExportError, which names the graph, the node and the operator.
    """
    found = problems(model, "10.1")
    if found:
        raise ExportError(f"{role}: TensorRT's parser does not take it: " + "; ".join(found))


def problems(model, release):
    """Why the parser of that release ("8.5" or "10.1") does not take an onnx.ModelProto: sentences,
    none if it does."""
    found = [f"opset {one.version} of {one.domain or 'ai.onnx'}" for one in model.opset_import
             if one.domain or one.version > OPSETS[release]]
    typed = onnx.shape_inference.infer_shapes(model).graph
    types = {i.name: i.data_type for i in typed.initializer}
    for info in [*typed.value_info, *typed.input, *typed.output]:
        types[info.name] = info.type.tensor_type.elem_type
    constants = {i.name
                 for i in typed.initializer} | {n.output[0]
                                                for n in typed.node
                                                if n.op_type == "Constant"}
    for node in typed.node:
        found += [
            f"{node.op_type} ({node.name}): {why}" for why in _problems(node, release, types, constants)
        ]
    return found


def _problems(node, release, types, constants):
    listed = PARSED.get(node.op_type, (None, None))[list(OPSETS).index(release)]
    if node.domain or listed is None:
        yield f"no operator of TensorRT {release}'s parser"
        return
    listed = set(listed.split())
    # Data, not indices and axes: the first input, or the only output of a constant.
    data = {"Constant": node.output, "Where": node.input[1:]}.get(node.op_type, node.input)[0]
    kind = _TYPES.get(types.get(data), "an unknown type")
    if kind not in listed and not (release == "8.5" and kind == "INT64" and "INT32" in listed):
        yield f"{kind}, supported are {', '.join(sorted(listed))}"
    first = _CONSTANTS.get(node.op_type)
    if first and any(name and name not in constants for name in node.input[first:]):
        yield "its parameters have to be constants"
    values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type in ("AveragePool", "MaxPool") and (len(values["kernel_shape"]) not in (2, 3)
                                                       or len(node.output) > 1):
        yield "two or three dimensions and one output are supported"
    if node.op_type == "LayerNormalization" and len(node.output) > 1:
        yield "one output is supported"
    if node.op_type == "Resize":
        names = ("mode", "nearest"), ("coordinate_transformation_mode",
                                      "half_pixel"), ("nearest_mode", "round_prefer_floor")
        for (name, usual), known in zip(names, _RESIZE):
            value = values.get(name, usual.encode()).decode()
            if value not in known:
                yield f"{name} {value}, supported are {', '.join(sorted(known))}"
