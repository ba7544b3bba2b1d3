#!/usr/bin/env python3
"""Gives a bundle with this folder's trunk the weights of stem and neck, as `onnx/export.py
--encoder trunk` writes them.

    python3 tests/data/trunk/add_stem_neck.py BUNDLE

Needs onnx and NumPy, no PyTorch: the weights are those of encoder_cut0.onnx and encoder_cut1.onnx.
Image and features are then fp16 at the edge of all graphs; these compute in fp32, because the
tests' stand-in for TensorRT runs them so.
"""
import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "repvit")]
from make_bundle import FILE, halve_graphs, lines, sha256, write_safetensors  # noqa: E402

KINDS = {"F16": np.float16, "F32": np.float32}
NECK = ("hr0", "hr1", "middle", "coarse")


def main(bundle):
    path = bundle / FILE
    before, tensors = sha256(path), read_safetensors(path)
    stem = arrays_of(bundle / "encoder_cut0.onnx")
    patch = stem["patch.weight"]
    tensors["stem.patch.weight"] = patch.reshape(len(patch), -1).astype(np.float16)
    tensors["stem.patch.bias"] = stem["patch.bias"]
    tensors["stem.position"] = stem["pos"][0].astype(np.float16)
    neck = onnx.load(bundle / "encoder_cut1.onnx")
    found = arrays_of(bundle / "encoder_cut1.onnx")
    products = [found[node.input[1]].T for node in neck.graph.node if node.op_type == "MatMul"]
    for at, (name, weight) in enumerate(zip(NECK, products, strict=True)):
        tensors[f"neck.{name}.weight"] = np.ascontiguousarray(weight).astype(np.float16)
        tensors[f"neck.{name}.bias"] = found[f"products.{at}.bias"]
    write_safetensors(path, tensors)
    channels = {key: len(tensors[f"neck.{name}.bias"]) for key, name in zip(("hr0", "hr1", "feat"), NECK)}
    outer = lines("[trunk.stem]", {"kernel": patch.shape[-1]}) + lines("[trunk.neck]", channels)
    manifest = bundle / "manifest.toml"
    text = halve_graphs(bundle, manifest.read_text()).replace(before, sha256(path))
    manifest.write_text(text.replace("[[trunk.block]]", outer + "[[trunk.block]]", 1))


def arrays_of(path):
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}


def read_safetensors(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    of = lambda entry: data[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]]
    return {name: np.frombuffer(of(entry), KINDS[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in json.loads(data[8:start]).items() if name != "__metadata__"}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python3 tests/data/trunk/add_stem_neck.py BUNDLE")
    main(Path(sys.argv[1]))
