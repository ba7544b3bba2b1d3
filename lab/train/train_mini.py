"""Trains edgetam_mini on synthetic clips made on the fly; writes a safetensors checkpoint.

    python lab/train/train_mini.py --seconds 1500 --out edgetam_mini.safetensors
python onnx/export.py --model edgetam_mini --checkpoint edgetam_mini.safetensors --padded-track
--encoder-batches 2 --out onnx/bundles

Beside FILE.safetensors it writes FILE.resume.pt. A training may be cut into several runs:
`--plan` says how long all of them take together, `--resume FILE.resume.pt` continues.
`--init FILE.safetensors --begin 0.45` starts another training from these weights, without the
first 45 % of the schedule.
"""

import argparse
import sys
from pathlib import Path

import segtrain  # puts the exporter, segexport, on Python's path
from segexport import ExportError


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=1500, help="training time of this run")
    parser.add_argument("--plan", type=float, metavar="SECONDS", help="training time of all runs together "
                                                                      "(default: of those so far)")
    parser.add_argument("--seed", type=int, default=0, help="start weights and clips")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--out", type=Path, default=Path("edgetam_mini.safetensors"))
    parser.add_argument("--resume", type=Path, metavar="FILE.resume.pt")
    parser.add_argument("--init", type=Path, metavar="FILE.safetensors", help="weights to begin with "
                                                                              "instead of fresh ones")
    parser.add_argument("--begin",
                        type=float,
                        default=0.0,
                        metavar="SHARE",
                        help="share of the schedule to skip, for --init")
    parser.add_argument("--finish", action="store_true", help="schedule for a trained network: long clips "
                                                              "only, for --init")
    parser.add_argument("--mix",
                        default="usual",
                        choices=("usual", "hard"),
                        help="hard: objects meet more often, and time jumps")
    parser.add_argument("--imgsz", type=int, default=256, help="image side; 128 for a quick trial")
    parser.add_argument("--batch", type=float, default=1.0, help="factor on the scenes of a step")
    parser.add_argument("--lr-single", type=float, default=2e-3, help="highest learning rate of single "
                                                                      "frames")
    parser.add_argument("--lr", type=float, default=1e-3, help="highest learning rate of clips")
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=1.0, help="largest gradient norm")
    parser.add_argument("--bf16", action="store_true", help="run the network in bfloat16 (autocast); "
                                                            "weights and losses stay float32")
    parser.add_argument("--eager", action="store_true", help="record no step as a CUDA graph (for "
                                                             "comparison; much slower)")
    parser.add_argument("--ema", type=float, default=0.998, help="decay of the averaged weights")
    parser.add_argument("--held-out", type=int, default=32, help="clips of each held-out set")
    parser.add_argument("--log-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--eval-seconds", type=float, default=120)
    parser.add_argument("--save-seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, help="CPU threads of PyTorch; 1 is best on a busy machine")
    parser.add_argument("--edgetam-src", type=Path, help="folder with EdgeTAM's `sam2` package")
    options = parser.parse_args()
    if not 0 <= options.begin < 1:
        parser.error(f"--begin {options.begin}: a share from 0 to 1 is expected")
    if options.init and options.resume:
        parser.error("--resume continues with its own weights: leave --init out")
    return options


def main():
    options = parse()
    import torch

    from segexport.models import build
    from segtrain import state
    from segtrain.start import prepare

    if options.device == "cuda" and not torch.cuda.is_available():
        raise ExportError("--device cuda: PyTorch sees no CUDA device; use --device cpu")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(options.seed)
    model, reference = build("edgetam_mini", options.imgsz, options.edgetam_src)
    prepare(model)
    if options.init:
        state.read_weights(model, options.init)

    # Meta asks for flash attention and falls back with a warning; float32 has no such kernel.
    import sam2.modeling.sam.transformer as transformer

    transformer.ALLOW_ALL_KERNELS = True
    from segtrain.loop import Training

    count = sum(p.numel() for p in model.parameters())
    print(f"edgetam_mini, {count} parameters, {reference}, torch {torch.__version__} on {options.device}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    Training(model, options.imgsz, options).run()
    print(f"written: {options.out}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ExportError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the last saved files stay")
