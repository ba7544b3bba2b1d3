"""Writes a bundle directory: its graphs and `manifest.toml`."""

import hashlib
import platform
import shutil
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import onnx

from . import ExportError, __version__, attention_weights, decoder_weights, keys, memory_weights, operators
from . import stem_neck, trunk
from .encoder import Encoder
from .graphs import contract_of, graphs_of
from .fp16 import to_fp16
from .head import Track
from .memory_attention import MemoryAttention
from .memory_encoder import MemoryEncoder
from .models import spec_of
from .onnx_write import OPSET, check, to_onnx
from .work import count

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def bundle_name(model, side, precision):
    """Directory name of a bundle."""
    return f"{model}_{side}_{precision}"


def write_bundle(
    model, name, side, precision, weights, reference, out, padded_track=False, segments=False, batches=(),
    say=print, encoder="engine", mask_decoder="engine", memory_encoder="engine",
    memory_attention="engine",
):
    """Exports every graph into `out`/<bundle name>; returns that directory.

    `encoder` "trunk" writes the weights of the trunk's blocks for segtrt's CUDA kernels, and a RepViT's
    stem and neck, in fp16 only;
    `mask_decoder` "cuda" writes those of the mask decoder, `memory_attention` "cuda" those between its
    attentions, `memory_encoder` "cuda" those of the memory encoder. The directory appears whole or
    not at all (written beside, then renamed).
    """
    if encoder == "trunk" and precision != "fp16":
        raise ExportError(f"the CUDA kernels of the encoder's trunk take fp16, found {precision}: export "
                          f"with --precision fp16")
    if mask_decoder == "cuda" and (precision != "fp16" or not segments):
        raise ExportError("the CUDA kernels of the mask decoder need segments in fp16: export with "
                          "--segments --precision fp16")
    if memory_attention == "cuda" and mask_decoder != "cuda":
        raise ExportError("the CUDA kernels of the memory attention's layers need those of the mask decoder "
                          "behind them: export with --mask-decoder cuda")
    if memory_encoder == "cuda" and precision != "fp16":
        raise ExportError(f"the CUDA kernels of the memory encoder take fp16, found {precision}: export "
                          f"with --precision fp16")
    final = Path(out) / bundle_name(name, side, precision)
    folder = final.with_name(final.name + ".partial")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    entries, beside = [], {}
    if mask_decoder == "cuda":  # these first of all, for they refuse more models than the graphs do
        decoder_weights.check_tracking(model)
        track = Track(model, side)
        beside["mask_decoder"] = decoder_weights.write(track, folder)
        if memory_attention == "cuda":
            beside["memory_attention"] = attention_weights.write(track.memory, folder)
    if memory_encoder == "cuda":
        beside["memory_encoder"] = memory_weights.write(MemoryEncoder(model, side), folder)
    for table in beside.values():
        say(f"{table['file']}: {table['bytes'] / 1e6:.1f} MB, {table['flops'] / 1e9:.2f} GFLOP")
    for graph in graphs_of(model, side, padded_track, segments, batches, encoder, mask_decoder):
        proto = to_onnx(graph)
        work = count(proto, precision)
        if precision == "fp16":
            proto = to_fp16(proto, graph)
            check(proto, graph.role)
        operators.check(proto, graph.role)
        data = proto.SerializeToString()
        (folder / f"{graph.role}.onnx").write_bytes(data)
        entries.append(_graph_entry(graph, precision, hashlib.sha256(data).hexdigest(), work))
        say(f"{graph.role}: {len(proto.graph.node)} nodes, {len(data) / 1e6:.1f} MB, {work.flops / 1e9:.2f} GFLOP")
    if encoder == "trunk":
        made = None
        if segments:
            made = MemoryAttention(model, side // 16, 0.0)
        whole = Encoder(model, side)
        blocks = trunk.blocks_of(whole.trunk, side)
        both = stem_neck.of(whole, blocks, say)
        more = (keys.tensors_of(made) if made else {}) | (both.tensors() if both else {})
        table = trunk.write(blocks, folder, more)
        if made:
            table["keys"] = keys.table_of(made, model.max_obj_ptrs_in_encoder)
        table |= both.tables() if both else {}
        entries.append(_trunk_entry(table))
        say(f"{table['file']}: {len(table[blocks.KEY])} blocks, "
            f"{(folder / table['file']).stat().st_size / 1e6:.1f} MB, "
            f"{table['flops'] / 1e9:.2f} GFLOP")
    entries += [_table_entry(title, table) for title, table in beside.items()]
    head = _head(model, name, side, precision, weights, reference)
    (folder / "manifest.toml").write_text(head + "\n" + "\n".join(entries))
    shutil.rmtree(final, ignore_errors=True)
    folder.rename(final)
    return final


def _head(model, name, side, precision, weights, reference):
    contract = asdict(contract_of(model, side)) | {"mean": MEAN, "std": STD}
    tables = {
        "model": {
            "name": name,
            "family": spec_of(name).family,
            "imgsz": side,
            "precision": precision,
            "parameters": sum(p.numel() for p in model.parameters()),
        },
        "weights": weights,
        "contract": contract,
        "export": {
            "exporter": f"segexport {__version__}",
            "opset": OPSET,
            "python": platform.python_version(),
            "torch": version("torch"),
            "timm": version("timm"),
            "onnx": onnx.__version__,
            "reference": reference,
        },
    }
    if spec_of(name).family != "edgetam":
        del tables["export"]["timm"]
    parts = ["format = 1"]
    for title, table in tables.items():
        parts.append(f"\n[{title}]")
        parts += [f"{key} = {_toml(value)}" for key, value in table.items()]
    return "\n".join(parts) + "\n"


def _graph_entry(graph, precision, digest, work):
    lines = [
        "[[graph]]",
        f"role = {_toml(graph.role)}",
        f"file = {_toml(graph.role + '.onnx')}",
        f"sha256 = {_toml(digest)}",
        *work.lines(),
    ]
    for title, ports in (("input", graph.inputs), ("output", graph.outputs)):
        for port in ports:
            dtype = {"f": {"fp32": "f32", "fp16": "f16"}[precision], "cast":
                     "f32"}.get(port.dtype, port.dtype)
            lines += [
                f"[[graph.{title}]]",
                f"name = {_toml(port.name)}",
                f"dtype = {_toml(dtype)}",
                f"shape = {_toml(list(port.shape))}",
            ]
    return "\n".join(lines) + "\n"


def _trunk_entry(table):
    listed = {key: value for key, value in table.items() if key in ("block", "repvit")}
    inner = {key: value for key, value in table.items() if key in ("keys", "stem", "neck")}
    entry = _table_entry("trunk", {key: value for key, value in table.items() if key not in listed | inner})
    entry += "".join(_table_entry(f"trunk.{key}", value) for key, value in inner.items())
    return entry + "".join(
        _table_entry(f"[trunk.{key}]", block) for key, blocks in listed.items() for block in blocks)


def _table_entry(title, table):
    return "\n".join([f"[{title}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]) + "\n"


def _toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if any(ord(c) < 32 or c in '"\\' for c in value):
        raise ExportError(f"{value!r} cannot be written to the manifest")
    return f'"{value}"'
