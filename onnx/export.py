"""Exports a promptable video segmentation network as a bundle of static ONNX graphs.

    python onnx/export.py --model edgetam --imgsz 1024 --checkpoint edgetam.pt --out bundles

See onnx/README.md for the models, the graphs and what --verify prints.
"""

import argparse
import sys
from pathlib import Path

from segexport import ExportError
from segexport.commandline import add_weight_options, build_model
from segexport.models import spec_of

# What --segments does to an encoder that segtrt's kernels take, where nobody says.
USUAL_ENCODER = "trunk"
# The models whose mask decoder and memory encoder segtrt's kernels compute by default: whole clips were measured with them.
MEASURED_WITHOUT_ENGINES = "edgetam"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_weight_options(parser)
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--out", required=True, help="directory that gets <model>_<imgsz>_<precision>/")
    parser.add_argument("--padded-track", action="store_true", help="also write track_padded")
    parser.add_argument(
        "--segments",
        action="store_true",
        help="also write what TensorRT takes better in pieces: the track step cut at its attentions (track_keys, "
        "track_seg*), SAM 2.1's encoder in parts (encoder_cut*): in fp16 as --encoder says, in fp32 cut for its depth",
    )
    parser.add_argument(
        "--encoder",
        choices=("trunk", "whole"),
        help="which of the image encoder's work is segtrt's own, beside the whole encoder: trunk, all of Hiera's blocks, TensorRT "
        "computes what comes before and behind (default with --segments); whole, none "
        "(with --segments trunks of more than 24 blocks are cut still, for their depth). trunk is for SAM 2.1 with "
        "--precision fp16 alone",
    )
    parser.add_argument(
        "--decoder",
        choices=("engine", "own"),
        help="who may compute the mask decoder of the track step that --segments cuts: engine, TensorRT alone, in the last segment; own, "
        "segtrt's kernels, too, with their weights in a file and a graph track_image for the last segment, for --precision fp16 alone "
        "(default: own for EdgeTAM, of which it was measured)",
    )
    parser.add_argument(
        "--memory",
        choices=("engine", "own"),
        help="who may compute the memory encoder: engine, TensorRT alone, as the graph memory; own, segtrt's kernels, too, with their "
        "weights in a file beside the graph, for --precision fp16 alone (default: own for EdgeTAM with --segments)",
    )
    parser.add_argument(
        "--encoder-batches",
        type=batch_sizes,
        default=(),
        metavar="N,...",
        help="also write the encoder for so many frames at once (of 2, 4, 8, 16), for bench --encode-batch",
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
    cut = args.encoder not in (None, "whole")
    family = spec_of(args.model).family
    if cut and family != "sam2.1":
        parser.error(
            f"--encoder {args.encoder} is for SAM 2.1: {args.model}'s encoder consists of convolutions and has no Hiera with attention"
        )
    if cut and args.precision != "fp16":
        parser.error(f"--encoder {args.encoder} needs --precision fp16: that is what segtrt's kernels take; write fp32 without it")
    if args.decoder == "own" and not (args.segments and args.precision == "fp16"):
        parser.error("--decoder own needs --segments --precision fp16: segtrt's kernels stand behind the track step's segments and take fp16")
    if args.memory == "own" and args.precision != "fp16":
        parser.error("--memory own needs --precision fp16: that is what segtrt's kernels take")
    if args.encoder is None:
        serves = family == "sam2.1" and args.precision == "fp16"
        args.encoder = USUAL_ENCODER if args.segments and serves else "whole"
    measured = args.model == MEASURED_WITHOUT_ENGINES and args.segments and args.precision == "fp16"
    args.decoder = args.decoder or ("own" if measured else "engine")
    args.memory = args.memory or ("own" if measured else "engine")
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
        decoder=args.decoder,
        memory=args.memory,
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
