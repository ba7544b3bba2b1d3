"""The options that choose a model and its weights, shared by export.py and reference.py."""

from pathlib import Path

from .models import MODELS, build, spec_of


def add_weight_options(parser):
    """--model, --imgsz, --checkpoint | --random-weights [--weights-overlay], --edgetam-src."""
    parser.add_argument("--model", required=True, choices=tuple(MODELS))
    parser.add_argument("--imgsz", type=int, help="image side (default 1024; edgetam_mini 256)")
    weights = parser.add_mutually_exclusive_group(required=True)
    weights.add_argument("--checkpoint", type=Path, help="Meta's .pt or a .safetensors file")
    weights.add_argument("--random-weights", type=int, metavar="SEED")
    parser.add_argument(
        "--weights-overlay", type=Path, help="safetensors laid over random weights where names and shapes fit"
    )
    parser.add_argument("--edgetam-src", type=Path, help="folder with EdgeTAM's `sam2` package")


def build_model(args):
    """-> original predictor with weights, the manifest's [weights] entries, reference version."""
    from . import ExportError
    from .weights import load_checkpoint, load_random

    if args.imgsz is None:
        args.imgsz = 256 if args.model == "edgetam_mini" else 1024
    if args.weights_overlay and args.checkpoint:
        raise ExportError("--weights-overlay goes with --random-weights; a checkpoint is complete")
    spec = spec_of(args.model)
    model, reference = build(args.model, args.imgsz, args.edgetam_src)
    if args.checkpoint:
        weights = load_checkpoint(model, args.model, args.checkpoint)
    else:
        weights = load_random(
            model, args.random_weights, args.weights_overlay, spec.family, args.imgsz
        )
    return model, weights, reference
