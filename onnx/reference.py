"""Runs the ORIGINAL PyTorch predictor on a clip and stores what it gives.

    python onnx/reference.py --model edgetam --checkpoint edgetam.pt --clip FRAMES \\
        --prompt-mask 00000.png --prompt points --frames 40 --out run.npz

The file holds `low` f32 [n,4g,4g], `masks` (bool [n,H,W] packed along the last axis),
`scores`, `ious`, `milliseconds` (frame 0: prompt and its memory, without the image
encoder; others: the whole frame) and the prompt.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from segexport import ExportError
from segexport.commandline import add_weight_options, build_model


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_weight_options(parser)
    parser.add_argument("--clip", required=True, help="directory of JPEG frames")
    parser.add_argument("--prompt-mask", required=True, help="mask of the first frame (PNG)")
    parser.add_argument("--prompt", choices=("points", "bbox", "mask"), default="points")
    parser.add_argument("--interior", action="store_true", help="click the innermost point instead")
    parser.add_argument("--frames", type=int, default=0, help="frames to run (0 = all)")
    parser.add_argument("--out", required=True, help=".npz file")
    return parser.parse_args()


def main():
    args = parse()
    from segexport import prompts
    from segexport.reference_run import run_clip

    model, weights, reference = build_model(args)
    mask = prompts.read_mask(args.prompt_mask)
    prompt = prompts.prompt_from_mask(mask, args.prompt, args.interior)
    run = run_clip(model, args.clip, prompt, args.frames)
    about = {
        "model": args.model,
        "imgsz": args.imgsz,
        "weights": weights,
        "reference": reference,
        "prompt": args.prompt,
        "points": prompt.points,
        "box": prompt.box,
        "height": run.height,
        "width": run.width,
    }
    np.savez_compressed(
        args.out,
        about=json.dumps(about),
        low=np.stack([f.low[0, 0] for f in run.frames]),
        masks=np.packbits(np.stack([f.mask for f in run.frames]), axis=-1),
        scores=np.array([f.score for f in run.frames]),
        ious=np.array([f.iou for f in run.frames]),
        milliseconds=np.array([f.milliseconds for f in run.frames]),
    )
    per_frame = [f.milliseconds for f in run.frames[1:]]
    if per_frame:
        print(f"{len(run.frames)} frames, {np.mean(per_frame):.0f} ms a tracked frame -> {Path(args.out)}")


if __name__ == "__main__":
    try:
        main()
    except ExportError as error:
        sys.exit(f"error: {error}")
