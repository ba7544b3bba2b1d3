"""Rounds a checkpoint to float16, which halves the file. An export from the rounded file has
exactly its weights.

python lab/train/to_float16.py edgetam_mini.safetensors --out rounded.safetensors --training
"COMMAND, seed 0"

`--training` becomes the file's metadata; `onnx/export.py` copies it into the manifest.
"""

import argparse
import sys
from pathlib import Path

import segtrain  # puts the exporter, segexport, on Python's path
from segexport import ExportError


def rounded(state):
    """The tensors in float16; ExportError names a tensor that float16 cannot hold."""
    import torch

    half = {name: tensor.half().contiguous() for name, tensor in state.items()}
    for name, tensor in half.items():
        if bool(torch.isinf(tensor).any()):
            raise ExportError(f"{name} has values above 65504, the largest of float16")
    return half


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("checkpoint", type=Path, metavar="FILE.safetensors")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.safetensors")
    parser.add_argument("--training", metavar="TEXT", help="command and seed of the training")
    args = parser.parse_args()

    from safetensors import safe_open
    from segtrain import state

    with safe_open(args.checkpoint, "pt") as file:
        about = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    state.write_tensors(rounded(tensors), args.out,
                        about | ({"training": args.training} if args.training else {}))
    print(f"written: {args.out}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ExportError as error:
        sys.exit(f"error: {error}")
