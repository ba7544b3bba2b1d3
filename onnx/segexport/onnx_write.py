"""Writes one graph as ONNX at opset 17 and checks what came out.

Opset 17, because TensorRT 8.6 misreads 18 (ReduceMean's axes became an input). The
TorchScript-based exporter is used because it writes opset 17 directly; the modules
avoid everything that makes its output clumsy (symbolic sizes, complex numbers).
"""

import io
import logging
import warnings

import onnx

from . import ExportError

OPSET = 17
FORBIDDEN = frozenset(
    "If Loop Scan NonZero ScatterND ScatterElements GatherND GatherElements Shape Size "
    "ConstantOfShape Range Mod Einsum Unique Compress SequenceAt".split()
)
_ELEMENT = {"f32": onnx.TensorProto.FLOAT, "f16": onnx.TensorProto.FLOAT16, "i32": onnx.TensorProto.INT32}


def to_onnx(graph):
    """An fp32 onnx.ModelProto of `graph`, checked against its ports."""
    import torch  # not above: tests of committed graphs do without it

    # Odd sizes keep an accidental constant from looking like a symbolic axis.
    example = graph.example({"B": 2, "P": 3, "F": 5, "N": 6})
    axes = {
        port.name: {i: n for i, n in enumerate(port.shape) if isinstance(n, str)}
        for port in graph.inputs + graph.outputs
    }
    buffer = io.BytesIO()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            graph.module.eval(),
            example,
            buffer,
            dynamo=False,
            opset_version=OPSET,
            input_names=[port.name for port in graph.inputs],
            output_names=[port.name for port in graph.outputs],
            dynamic_axes={name: dims for name, dims in axes.items() if dims},
            do_constant_folding=True,
        )
    model = onnx.load_model_from_string(buffer.getvalue())
    _tidy(model, graph)
    check(model, graph.role)
    return model


def _tidy(model, graph):
    """Removes traces of the exporting machine and states the contract's exact shapes."""
    model.producer_name, model.producer_version = "segexport", ""
    model.graph.name = graph.role
    for node in model.graph.node:
        node.doc_string = ""
    _drop_identities(model.graph)
    for ports, infos in ((graph.inputs, model.graph.input), (graph.outputs, model.graph.output)):
        # mask_prompt needs neither hr0 nor hr1; they stay declared, so that the three
        # segmentation graphs are fed alike.
        lost = {i.name for i in infos} - {p.name for p in ports}
        if lost:
            raise ExportError(f"graph {graph.role}: ports {sorted(lost)} are not in the contract")
        del infos[:]
        for port in ports:
            element = _ELEMENT["f32" if port.dtype in ("f", "cast") else port.dtype]
            infos.append(onnx.helper.make_tensor_value_info(port.name, element, port.shape))
    del model.graph.value_info[:]


def _drop_identities(graph):
    """Removes Identity nodes (shared weights); graph outputs keep their names."""
    outputs = {info.name for info in graph.output}
    alias = {
        n.output[0]: n.input[0]
        for n in graph.node
        if n.op_type == "Identity" and n.output[0] not in outputs
    }
    kept = [n for n in graph.node if n.output[0] not in alias]
    for node in kept:
        for i, name in enumerate(node.input):
            while name in alias:
                name = alias[name]
            node.input[i] = name
    del graph.node[:]
    graph.node.extend(kept)


def check(model, role):
    """Raises ExportError unless the graph is static enough for every backend."""
    onnx.checker.check_model(model)
    version = {o.domain: o.version for o in model.opset_import}
    if version.get("", 0) != OPSET or set(version) - {""}:
        raise ExportError(f"graph {role}: opset {version}, expected {OPSET} and no other domain")
    bad = sorted({n.op_type for n in model.graph.node} & FORBIDDEN)
    if bad:
        raise ExportError(f"graph {role} contains {', '.join(bad)}: not static")
