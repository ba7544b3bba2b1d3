"""Trains edgetam_mini on synthetic clips made on the fly; writes a safetensors checkpoint.

    python onnx/train_mini.py --steps 6000 --minutes 9 --device cuda --out edgetam_mini.safetensors
    python onnx/export.py --model edgetam_mini --checkpoint edgetam_mini.safetensors --out onnx/bundles

Beside FILE.safetensors it writes FILE.resume.pt (for --resume) and FILE.png (held-out
masks). The same seed, device and number of steps give the same clips; --minutes makes
the learning rate depend on the clock.
"""

import argparse
import sys
from pathlib import Path

from segexport import ExportError


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--minutes", type=float, help="stop (and end the cosine) by then")
    parser.add_argument("--seed", type=int, default=0, help="start weights and clips")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--out", type=Path, default=Path("edgetam_mini.safetensors"))
    parser.add_argument("--resume", type=Path, metavar="FILE.resume.pt")
    parser.add_argument("--imgsz", type=int, default=256, help="image side; 128 for a quick trial")
    parser.add_argument("--frames-per-step", type=int, default=1024, help="clips x frames of a batch")
    parser.add_argument("--longest", type=int, default=16, help="frames of the longest clips")
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--warm-up", type=int, default=200, metavar="STEPS")
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=1.0, help="largest gradient norm")
    parser.add_argument("--ema", type=float, default=0.998, help="decay of the averaged weights")
    parser.add_argument("--held-out", type=int, default=48, help="clips of the held-out set")
    parser.add_argument("--log-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--eval-every", type=int, default=400, metavar="STEPS")
    parser.add_argument("--threads", type=int, help="CPU threads of PyTorch; 1 is best on a busy machine")
    parser.add_argument("--edgetam-src", type=Path, help="folder with EdgeTAM's `sam2` package")
    return parser.parse_args()


def main():
    options = parse()
    import torch

    from segexport.models import build
    from segexport.weights import load_random

    if options.device == "cuda" and not torch.cuda.is_available():
        raise ExportError("--device cuda: PyTorch sees no CUDA device; use --device cpu")
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    model, reference = build("edgetam_mini", options.imgsz, options.edgetam_src)
    load_random(model, options.seed)

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
