"""The command line of run.py: the flags of `segtrt bench` where they make sense, and PyTorch's own."""

import argparse
from pathlib import Path

from . import RunError

# What `torch.compile(model)` means to most users; --mode vos_optimized is max-autotune with CUDA graphs.
DEFAULT_MODE = "default"
# Of --tuning (tuning.py).
HALF_WEIGHTS, CUDNN_BENCHMARK, CHANNELS_LAST = TUNING = ("half-weights", "cudnn-benchmark", "channels-last")
AUTO, NONE = "auto", "none"
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that the error can be told on stdout as an event."""

    def error(self, message):
        raise RunError(message, "run.py --help lists the options", usage=True)


def _count(least):
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return value

    return parse


def parser():
    """The parser; help is its own documentation."""
    p = _Parser(
        prog="run.py",
        # `segtrt compare` looks at flags by their whole names.
        allow_abbrev=False,
        description="Measures the original PyTorch predictors of SAM 2.1 and EdgeTAM as `segtrt bench` "
                    "measures graphs.",
        epilog="Example: python pytorch/run.py --split-dir demo/split --models edgetam_mini_points "
        "--bundle onnx/bundles --device cpu --out-dir demo/pytorch",
    )
    p.add_argument("--split-dir", type=Path, required=True, help="split in SA-V or DAVIS layout")
    p.add_argument("--split-name", default="sav_val", help="stem of the manifest in the split folder")
    p.add_argument("--models", required=True, help="tags such as sam2_tiny_points,sam2_tiny_bbox; of one "
                                                   "family")
    p.add_argument("--prompt",
                   choices=("points", "bbox", "mask"),
                   default="points",
                   help="of tags that name none")
    p.add_argument("--out-dir", type=Path, required=True, help="run folder to write")
    p.add_argument("--limit-videos", type=_count(0), default=0)
    p.add_argument("--limit-objects", type=_count(0), default=0)
    p.add_argument("--max-clip-frames", type=_count(0), default=0, help="frames from the prompted one on; "
                                                                        "0 for all")
    p.add_argument("--warmup-runs", type=_count(0), default=1, help="passes before each object's recorded "
                                                                    "ones")
    p.add_argument("--turn-warmup-seconds", type=float, default=2.0, help="with --interactive: least time "
                                                                          "of the warm-up passes before "
                   "the first object of a round; the program whose turn it was has just given its memory "
                   "back [2]")
    p.add_argument("--profile-runs", type=_count(1), default=1, help="recorded passes over each object")
    p.add_argument("--save-masks", action="store_true", help="write every mask as COCO RLE")

    l = p.add_mutually_exclusive_group()
    l.add_argument("--save-logits", action="store_true", help="write the low-resolution logits of every "
                                                              "frame, for "
                   "--teacher; such a run is no measurement of speed")
    l.add_argument("--teacher", type=Path, metavar="RUN_FOLDER", help="write every memory from the logits "
                                                                      "that this run "
                   "folder holds (made with --save-logits) instead of the run's own; no measurement of speed")

    w = p.add_argument_group("weights")
    w.add_argument(
        "--bundle", action="append", default=[], help="exported bundle (or folder of bundles): its model, "
                                                      "size, weights"
    )
    w.add_argument("--checkpoint", type=Path, help="Meta's .pt or a .safetensors file")
    w.add_argument("--random-weights", type=int, metavar="SEED")
    w.add_argument("--weights-overlay", type=Path, help="safetensors laid over random weights")
    w.add_argument("--imgsz", type=_count(32), help="image side [default: the bundle's, else 1024, "
                                                    "edgetam_mini 256]")
    w.add_argument("--edgetam-src", type=Path, help="folder with EdgeTAM's `sam2` package [default: "
                                                    "$EDGETAM_SRC]")
    w.add_argument("--implementation", choices=("meta", "transformers"), default="meta")

    r = p.add_argument_group("how it runs")
    r.add_argument("--mode", choices=("eager", "compile", "vos_optimized"), default="eager")
    r.add_argument("--compile-mode", choices=MODES, help=f"of --mode compile [default: {DEFAULT_MODE}]")
    r.add_argument("--kept-compiled", type=Path, metavar="FILE", help="read what torch.compile made from "
                                                                      "this file where it is there, and "
                   "write it where it is not: max-autotune then need not choose again, on any machine of "
                   "this kind")
    r.add_argument("--precision",
                   choices=("fp32", "fp16", "bf16"),
                   default="fp32",
                   help="fp16 and bf16 by autocast")
    r.add_argument("--tf32", action="store_true", help="let fp32 products use TF32")
    r.add_argument("--tuning", default=AUTO, metavar="auto|none|LIST", help="settings beside Meta's code "
                                                                            "that make it faster: "
                                                                            "half-weights, "
                   "and what is fastest of cudnn-benchmark and channels-last, tried on the image encoder "
                   "[auto]; none; or a list of these, taken untried")
    r.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    r.add_argument("--threads", type=_count(1), help="PyTorch's threads on the CPU [default: all processors]")
    r.add_argument("--preprocess", choices=("gpu", "cpu"), help="resize by PyTorch on the device, or by "
                                                                "Pillow exactly "
                   "[default: gpu with --device cuda, else cpu]; inside the latency either way")
    r.add_argument("--decode",
                   choices=("ahead", "inside"),
                   default="ahead",
                   help="JPEGs decoded before the pass into "
                   "memory, or inside the latency")
    r.add_argument("--telemetry-ms", type=_count(10), default=100, help="between two readings of the GPU's "
                                                                        "sensors")
    r.add_argument("--keep-memories", action="store_true", help="keep every frame's outputs on the device, "
                                                                "as Meta does")

    i = p.add_argument_group("rounds")
    i.add_argument("--rounds", type=_count(1), default=1, help="run folders OUT/round_0, round_1, … (one "
                                                               "round: OUT)")
    i.add_argument("--interactive", action="store_true", help="wait for `go` on stdin before each round")
    return p


def _tuning(text):
    """`auto`, or the tuple of settings that are on."""
    if text == AUTO:
        return AUTO
    words = () if text == NONE else tuple(word.strip() for word in text.split(","))
    if unknown := set(words) - set(TUNING):
        raise RunError(f"--tuning {text}: {min(unknown)!r} is unknown", f"it takes auto, none, or some of "
                                                                        f"{','.join(TUNING)}", usage=True)
    return words


def parse(argv=None):
    """The arguments, completed and checked."""
    args = parser().parse_args(argv)
    if args.compile_mode and args.mode != "compile":
        raise RunError("--compile-mode belongs to --mode compile", "leave one of them out", usage=True)
    if args.kept_compiled and args.mode == "eager":
        raise RunError("--kept-compiled belongs to modes that compile", "leave it out, or use --mode "
                                                                        "compile", usage=True)
    if args.mode == "compile":
        args.compile_mode = args.compile_mode or DEFAULT_MODE
    if args.implementation == "transformers":
        args.tuning = NONE if args.tuning == AUTO else args.tuning
        if args.tuning != NONE:
            raise RunError("--tuning is not there for transformers", "leave it out, or use "
                                                                     "--implementation meta", usage=True)
    args.settings = _tuning(args.tuning)
    if args.preprocess is None:
        args.preprocess = "gpu" if args.device == "cuda" else "cpu"
    if args.implementation == "transformers" and args.mode == "vos_optimized":
        raise RunError("vos_optimized is a class of Meta's",
                       "use --implementation meta or --mode compile",
                       usage=True)
    if args.implementation == "transformers" and (args.teacher or args.save_logits):
        flag = "--teacher" if args.teacher else "--save-logits"
        raise RunError(f"{flag} is not there for transformers", "use --implementation meta", usage=True)
    return args
