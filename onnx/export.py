"""Exports a promptable video segmentation network as a bundle of static ONNX graphs.

    python onnx/export.py --model edgetam --imgsz 1024 --checkpoint edgetam.pt --out bundles

See onnx/README.md for the models, the graphs and what --verify prints.
"""

import argparse
import sys
from pathlib import Path

INSTALL = """; the exporter's packages are missing in this Python. Install them from the folder of segtrt's sources:
    pip install -r onnx/requirements.txt
    SAM2_BUILD_CUDA=0 pip install --no-build-isolation --no-deps -r pytorch/requirements-sam2.txt
    pip install --no-deps --target onnx/.edgetam -r pytorch/requirements-edgetam.txt"""

try:
    from segexport import ExportError
    from segexport.commandline import add_weight_options, build_model
    from segexport.models import spec_of
except ModuleNotFoundError as missing:
    sys.exit(f"error: {missing}{INSTALL}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_weight_options(parser)
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--out", required=True, help="directory that gets <model>_<imgsz>_<precision>/")
    parser.add_argument("--padded-track", action="store_true", help="also write track_padded")
    parser.add_argument(
        "--segments",
        action="store_true",
        help="also write the track step split at its attentions (track_keys, track_seg*) and the encoder "
             "in parts (encoder_cut*): in fp16 as --encoder says, in fp32 SAM 2.1's where it has more than 24 "
             "blocks",
    )
    parser.add_argument(
        "--encoder",
        choices=("trunk", "engine"),
        help="what computes the image encoder. trunk: CUDA kernels; needs --precision fp16 (default with "
             "--segments). engine: TensorRT",
    )
    parser.add_argument(
        "--mask-decoder",
        choices=("cuda", "engine"),
        help="what computes the mask decoder of the track step. cuda: CUDA kernels; adds a weights file "
             "and the graph track_image; "
        "needs --precision fp16 (default with --segments). engine: TensorRT, in "
        "the last segment",
    )
    parser.add_argument(
        "--memory-attention",
        choices=("cuda", "engine"),
        help="what computes norms, projections and MLPs between the track step's attentions. cuda: CUDA "
             "kernels; adds a weights file; needs --mask-decoder cuda (default with it). engine: TensorRT, "
             "from the graphs track_seg*",
    )
    parser.add_argument(
        "--memory-encoder",
        choices=("cuda", "engine"),
        help="what computes the memory encoder. cuda: CUDA kernels; adds a weights file; needs --precision "
             "fp16 (default with --segments). engine: TensorRT, from the graph memory",
    )
    parser.add_argument(
        "--encoder-batches",
        type=batch_sizes,
        default=(),
        metavar="N,...",
        help="also write the encoder for batches of 2, 4, 8 or 16 frames, for bench --encode-batch",
    )
    parser.add_argument("--verify", metavar="CLIP", help="directory of JPEG frames to compare on")
    parser.add_argument("--frames", type=int, default=24, help="frames of the clip to verify (default 24)")
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt-point", metavar="X,Y", help="click in pixels of the video")
    prompt.add_argument("--prompt-mask", metavar="PNG", help="mask whose interior point is clicked")
    parser.add_argument(
        "--memory-rounding",
        choices=("bf16", "none"),
        default="bf16",
        help="how the graphs' memories are stored while verifying; the original stores bf16",
    )
    args = parser.parse_args()
    family = spec_of(args.model).family
    if args.encoder == "trunk" and args.precision != "fp16":
        parser.error("--encoder trunk needs --precision fp16: the CUDA kernels compute in fp16; for fp32 "
                     "leave --encoder out")
    if args.mask_decoder == "cuda" and not (args.segments and args.precision == "fp16"):
        parser.error("--mask-decoder cuda needs --segments --precision fp16: its CUDA kernels follow the "
                     "segments and compute in fp16")
    if args.memory_encoder == "cuda" and args.precision != "fp16":
        parser.error("--memory-encoder cuda needs --precision fp16: its CUDA kernels compute in fp16")
    # edgetam_mini has other widths than those that the kernels are made for.
    kernels_fit = args.model != "edgetam_mini" and args.segments and args.precision == "fp16"
    args.encoder = args.encoder or ("trunk" if kernels_fit else "engine")
    args.mask_decoder = args.mask_decoder or ("cuda" if kernels_fit else "engine")
    args.memory_encoder = args.memory_encoder or ("cuda" if kernels_fit else "engine")
    fits = kernels_fit and args.mask_decoder == "cuda"
    args.memory_attention = args.memory_attention or ("cuda" if fits else "engine")
    if args.memory_attention == "cuda" and args.mask_decoder != "cuda":
        parser.error("--memory-attention cuda needs --mask-decoder cuda: the mask decoder's kernels follow")
    if args.verify and not (args.prompt_point or args.prompt_mask):
        parser.error("--verify needs --prompt-point or --prompt-mask")
    if args.verify and args.frames < 20:
        parser.error("--verify needs at least 20 frames, so that memories and pointers fill up")
    return args


def main():
    args = parse()
    from segexport.manifest import write_bundle

    model, weights, reference = build_model(args)
    folder = write_bundle(
        model,
        args.model,
        args.imgsz,
        args.precision,
        weights,
        reference,
        args.out,
        args.padded_track,
        args.segments,
        args.encoder_batches,
        encoder=args.encoder,
        mask_decoder=args.mask_decoder,
        memory_encoder=args.memory_encoder,
        memory_attention=args.memory_attention,
    )
    print(f"written: {folder}")
    return 0 if not args.verify or verify(args, model, folder) else 1


def verify(args, model, folder):
    """Runs the comparison; True when it passed."""
    from segexport import prompts, verify
    from segexport.ort_driver import Bundle
    from segexport.reference_run import PromptInput, run_clip

    if args.prompt_point:
        prompt = PromptInput("points", points=[point(args.prompt_point)])
    else:
        mask = prompts.read_mask(args.prompt_mask)
        prompt = prompts.prompt_from_mask(mask, "points", interior=True)
    print(f"click at {prompt.points[0]}, {args.frames} frames of {Path(args.verify).name}")
    run = run_clip(model, args.verify, prompt, args.frames)
    if len(run.frames) < 20:
        raise ExportError(f"clip {args.verify} has {len(run.frames)} frames; --verify needs 20 or more")
    good = verify.verify(Bundle(folder), run, prompt, args.memory_rounding)
    if args.padded_track:
        print("the same with track_padded:")
        good &= verify.verify(Bundle(folder), run, prompt, args.memory_rounding, padded=True)
    # Half precision is reported, not judged: its own error limits belong to the engines.
    return good or args.precision == "fp16"


def batch_sizes(text):
    """"2,8" -> (2, 8)."""
    known = ("2", "4", "8", "16")
    parts = [part.strip() for part in text.split(",")]
    if not set(parts) <= set(known) or len(set(parts)) < len(parts):
        raise argparse.ArgumentTypeError(f"{text!r}: expected some of {', '.join(known)}, each once")
    return tuple(sorted(int(part) for part in parts))


def point(text):
    """"x,y" -> [x, y]."""
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ExportError(f"--prompt-point {text!r} is not of the form X,Y") from error
    return [x, y]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ExportError as error:
        sys.exit(f"error: {error}")
    except ModuleNotFoundError as error:
        sys.exit(f"error: {error}{INSTALL}")
