#!/usr/bin/env python3
"""Makes a bundle with a RepViT trunk of one whose encoder is a RepViT in one piece.

    python3 tests/data/repvit/make_bundle.py onnx/bundles/edgetam_mini_256_fp32 OUT [whole]

Needs onnx and NumPy, no PyTorch: OUT gets the bundle's other graphs and, out of its encoder.onnx,
stem, neck and the weights between them, as `onnx/export.py --encoder trunk` writes them. All graphs
compute in fp32, because the tests' stand-in for TensorRT runs them so; tokens are fp16 at the edge
of stem and neck. With `whole` OUT also has the weights of stem and neck; image and features are then
fp16 at the edge of all graphs.
"""
import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.utils import Extractor

LAYERS = {
    "token_mixer": "dw", "spatial_downsample": "dw", "channel_downsample": "pw", "down": "squeeze",
    "up": "excite", "conv1": "up", "conv2": "down"
}
# A block is what these have in common in front of their layers' names.
BLOCK = re.compile(r"trunk\.body\.(stages\.\d+\.(?:downsample\.pre_block|downsample|blocks\.\d+))\.")
FILE = "encoder_trunk.safetensors"
# Stem and neck: names in encoder.onnx, and in the file of weights.
OUTER = {"trunk.body.stem.conv1": "stem.first", "trunk.body.stem.conv2": "stem.second"}
OUTER |= {name: f"neck.{name}" for name in ("hr0", "hr1", "middle", "coarse")}
HALVED = {"image", "feat", "hr0", "hr1"}


def blocks_of(graph):
    """Each block's name and its convolutions' nodes by their layers, in order."""
    found = {}
    for node in graph.node:
        if node.op_type == "Conv" and (block := BLOCK.match(node.input[1])):
            found.setdefault(block[1], {})[LAYERS[node.input[1].split(".")[-2]]] = node
    return found


def main(source, out, whole=False):
    shutil.copytree(source, out)
    model = onnx.shape_inference.infer_shapes(onnx.load(out / "encoder.onnx"))
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    blocks = blocks_of(model.graph)
    grid, tables, tensors, ends = model.graph.input[0].type.tensor_type.shape.dim[-1].dim_value // 4, [], {}, []
    for at, (name, layers) in enumerate(blocks.items()):
        shape = lambda layer: arrays[layers[layer].input[1]].shape
        stride = next(a.ints[0] for a in layers["dw"].attribute if a.name == "strides")
        tables.append({
            "dim": shape("dw")[0], "dim_out": shape("down")[0], "grid": grid, "stride": stride,
            "squeeze": shape("squeeze")[0] if "squeeze" in layers else 0, "hidden": shape("up")[0]
        })
        for layer, node in layers.items():
            weight = arrays[node.input[1]].reshape(shape(layer)[0], -1)
            weight = weight.T if layer == "dw" else weight
            tensors[f"blocks.{at}.{layer}.weight"] = np.ascontiguousarray(weight).astype(np.float16)
            tensors[f"blocks.{at}.{layer}.bias"] = arrays[node.input[2]]
        grid //= stride
        stage = name.split(".")[1]
        if at + 1 == len(blocks) or list(blocks)[at + 1].split(".")[1] != stage:
            ends.append(at)
    outer = []
    if whole:
        for layer, name in OUTER.items():
            weight = arrays[f"{layer}.weight"]
            tensors[f"{name}.weight"] = weight.reshape(len(weight), -1).astype(np.float16)
            tensors[f"{name}.bias"] = arrays[f"{layer}.bias"]
        channels = {key: len(arrays[f"{layer}.bias"]) for key, layer in
                    (("hr0", "hr0"), ("hr1", "hr1"), ("feat", "middle"))}
        outer = [lines("[trunk.stem]", {"middle": len(arrays["trunk.body.stem.conv1.bias"])}),
                 lines("[trunk.neck]", channels)]
    write_safetensors(out / FILE, tensors)
    parts = [(role, halved(part) if whole else part) for role, part in parts_of(model, tables, ends)]
    entries = [write(out, *part) for part in parts]
    entries.append(lines("[trunk]", {"file": FILE, "sha256": sha256(out / FILE), "flops": 1, "ends": ends}))
    entries += outer + [lines("[[trunk.repvit]]", table) for table in tables]
    path = out / "manifest.toml"
    text = halve_graphs(out, path.read_text()) if whole else path.read_text()
    text = text.replace('precision = "fp32"', 'precision = "fp16"')
    path.write_text(text + "\n" + "\n".join(entries))


def halve_graphs(out, text):
    """Rewrites all graphs of a manifest with image and features in fp16; the manifest's text."""
    for file in re.findall(r'file = "(\w+\.onnx)"', text):
        before = sha256(out / file)
        onnx.save(halved(onnx.load(out / file)), out / file)
        text = text.replace(before, sha256(out / file))
    names = "|".join(sorted(HALVED))
    return re.sub(rf'(name = "(?:{names})"\ndtype = )"f32"', r'\1"f16"', text)


def halved(model):
    """The graph with image and features in fp16 at its edge; it computes in fp32."""
    casts = {True: [], False: []}
    for ports, is_input in ((model.graph.input, True), (model.graph.output, False)):
        for port in ports:
            if port.name not in HALVED:
                continue
            name = f"{port.name}_f32"
            for node in model.graph.node:
                of = node.input if is_input else node.output
                of[:] = [name if each == port.name else each for each in of]
                if not is_input:
                    node.input[:] = [name if each == port.name else each for each in node.input]
            ends, kind = [port.name, name], TensorProto.FLOAT
            if not is_input:
                ends, kind = ends[::-1], TensorProto.FLOAT16
            casts[is_input].append(helper.make_node("Cast", ends[:1], ends[1:], to=kind))
            port.type.tensor_type.elem_type = TensorProto.FLOAT16
    nodes = [*casts[True], *model.graph.node, *casts[False]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def parts_of(model, tables, ends):
    """Role and model of stem and neck."""
    whole = Extractor(model)
    inputs = [node.input[0] for node in model.graph.node
              if node.op_type == "Conv" and node.input[1].split(".")[0] in ("hr0", "hr1", "middle", "coarse")]
    # As the file has the whole's results: coarse, middle, hr0, hr1.
    coarse, middle, first, second = inputs
    stem_end = next(node.input[0] for node in model.graph.node if "token_mixer.weight" in str(node.input))
    g, c = tables[0]["grid"], tables[0]["dim"]
    stem = whole.extract_model(["image"], [stem_end])
    stem.graph.node.extend([
        helper.make_node("Transpose", [stem_end], ["tokens"], perm=[0, 2, 3, 1]),
        helper.make_node("Cast", ["tokens"], ["y"], to=TensorProto.FLOAT16)
    ])
    del stem.graph.output[:]
    stem.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT16, [1, g, g, c]))
    neck = whole.extract_model([first, second, middle, coarse], ["feat", "hr0", "hr1"])
    del neck.graph.input[:]
    casts = []
    for stage, (name, end) in enumerate(zip((first, second, middle, coarse), ends)):
        side, port = tables[end]["grid"] // tables[end]["stride"], f"m{stage}"
        shape = [1, side, side, tables[end]["dim_out"]]
        neck.graph.input.append(helper.make_tensor_value_info(port, TensorProto.FLOAT16, shape))
        casts += [helper.make_node("Cast", [port], [f"{port}_f32"], to=TensorProto.FLOAT),
                  helper.make_node("Transpose", [f"{port}_f32"], [name], perm=[0, 3, 1, 2])]
    nodes = [*casts, *neck.graph.node]
    del neck.graph.node[:]
    neck.graph.node.extend(nodes)
    return ("encoder_cut0", stem), ("encoder_cut1", neck)


def write(out, role, model):
    """Writes a graph; its entry in the manifest."""
    del model.graph.value_info[:]
    onnx.checker.check_model(model)
    onnx.save(model, out / f"{role}.onnx")
    text = lines("[[graph]]", {"role": role, "file": f"{role}.onnx", "sha256": sha256(out / f"{role}.onnx"),
                               "flops": 1})
    kinds = {TensorProto.FLOAT: "f32", TensorProto.FLOAT16: "f16"}
    for title, ports in (("input", model.graph.input), ("output", model.graph.output)):
        for port in ports:
            of = port.type.tensor_type
            shape = [dim.dim_value for dim in of.shape.dim]
            text += lines(f"[[graph.{title}]]", {"name": port.name, "dtype": kinds[of.elem_type], "shape": shape})
    return text


def lines(title, entries):
    # JSON's strings, numbers and lists are TOML's.
    return "\n".join([title, *(f"{key} = {json.dumps(value)}" for key, value in entries.items())]) + "\n"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_safetensors(path, tensors):
    kinds, header, start = {np.dtype(np.float16): "F16", np.dtype(np.float32): "F32"}, {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": kinds[array.dtype], "shape": list(array.shape),
                        "data_offsets": [start, start + array.nbytes]}
        start += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(array.tobytes() for array in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["whole"]):
        sys.exit("usage: python3 tests/data/repvit/make_bundle.py BUNDLE OUT [whole]")
    main(Path(sys.argv[1]), Path(sys.argv[2]), bool(sys.argv[3:]))
