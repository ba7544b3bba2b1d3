"""Checks that training's tracking loop computes what Meta's predictor computes.

    python lab/train/check_unroll.py [--checkpoint edgetam_mini.safetensors]

Both run edgetam_mini over 20 synthetic frames in closed loop from a point, a box and a
mask; the loop gets two equal clips, so that its batching is checked too. Memories are
rounded to bfloat16 in both, as the predictor stores them. Fails above 1e-3.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

import segtrain  # puts the exporter, segexport, on Python's path
from segexport import ExportError, synthetic
from segexport.commandline import build_model
from segexport.reference_run import PromptInput, run_tensor
from segtrain.unroll import Unroll

SIDE, FRAMES, LARGEST = 256, 20, 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--checkpoint", type=Path, help="default: seeded random weights")
    parser.add_argument("--edgetam-src", type=Path)
    args = parser.parse_args()
    args.model, args.imgsz, args.weights_overlay = "edgetam_mini", SIDE, None
    args.random_weights = None if args.checkpoint else 0
    model, _, _ = build_model(args)

    images = synthetic.images(SIDE, FRAMES)
    x, y = synthetic.centre(SIDE, 0)
    reach = SIDE // 6
    box = [x - reach, y - reach, x + reach, y + reach]
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    disc = (columns - x) ** 2 + (rows - y) ** 2 <= reach**2

    loop = Rounded(model, SIDE)
    corners = torch.tensor(box).float().reshape(1, 2, 2).repeat(2, 1, 1)
    click = torch.tensor([[[x, y]]] * 2).float()
    given = torch.from_numpy(disc).float()[None, None].repeat(2, 1, 1, 1)
    cases = (
        (PromptInput("points", points=[[x, y]]), lambda f: loop.prompt(f, click, (1,))),
        (PromptInput("bbox", box=box), lambda f: loop.prompt(f, corners, (2, 3))),
        (PromptInput("mask", mask=disc), lambda f: loop.mask_prompt(f, given)),
    )
    good = True
    for prompt, start in cases:
        run = run_tensor(model, images, SIDE, SIDE, prompt)
        worst = largest_error(loop, torch.stack([images, images]), start, run)
        good &= worst <= LARGEST
        print(f"{prompt.kind}: largest error of logits and pointers over {FRAMES} frames {worst:.1e}")
    return 0 if good else 1


class Rounded(Unroll):
    """The loop with memories stored as the predictor stores them."""

    def remember(self, *args):
        return super().remember(*args).to(torch.bfloat16).float()


@torch.no_grad()
def largest_error(loop, images, start, run):
    """Over all frames and both clips."""
    worst = 0.0
    for answer, truth in zip(loop.clip(images, start), run.frames):
        for ours, theirs in ((answer.low, truth.low), (answer.ptr, truth.ptr)):
            worst = max(worst, float((ours - torch.from_numpy(theirs)).abs().max()))
    return worst


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ExportError as error:
        sys.exit(f"error: {error}")
