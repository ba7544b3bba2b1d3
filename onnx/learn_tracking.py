"""Teaches a network whose image encoder and mask decoder are trained to follow the objects of a few clips, and to be sure of them.

    python onnx/learn_tracking.py --model edgetam --checkpoint edgetam_features.safetensors --split DIR --seconds 120 --out edgetam.safetensors
    python onnx/learn_tracking.py --model sam2.1_tiny --random-weights 0 --weights-overlay TINY.safetensors --split DIR --out tiny.safetensors

For judging arithmetic, not for tracking elsewhere: with a random memory attention a decoder is asked for an object without
being told which, and its answer tips over at the least rounding, in any arithmetic. The clips are learnt by heart. Image
encoder and prompt encoder stay as they are; memory attention, memory encoder, object pointers and mask decoder learn, with
the steps of Meta's own tracking loop unrolled. Writes a whole checkpoint. `distil_encoder.py` makes the encoder that this
needs where there is no trained one.

A decoder proposes three masks and takes the one whose IoU it predicts to be the highest. Where two are nearly as high, rounding
chooses, another mask goes into the memory, and all later masks differ: that was seen in every arithmetic of 16 bits, PyTorch's too.
So here one of the three is decided on before learning: the predicted IoUs of the two others are lowered for good, by their biases.
What the network answers cannot turn over then, whatever computes it; how a released network fares with its near ties, this does not show.

Two kinds of steps. First a few annotated frames each of several clips at once, from any frame on, which is what teaches most in a
second; clips and frames that are answered badly are taken more often. From `--walking-from` on, whole clips as a comparison runs them:
every frame in order behind one click, those between annotated ones too, so that late frames are met with the memories that they
will have, this network's own; gradients reach back over one step. A hinge on the logits away from the outline asks for being sure:
between two arithmetics those pixels change sides whose logits are near 0.

At the end, over all annotated frames: mean IoU, how far the best predicted IoU was from the second, and how sure the network was
that the object is there. A margin near 0 means that the network is of no use for comparing.
"""

import argparse
import math
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from segexport import ExportError
from segexport.commandline import add_weight_options, build_model
from segtrain.following import Answer, answer, answers, clicks, clips, empty_bank, losses_of
from segtrain.grown import positions_as_parameters
from segtrain.losses import mask_losses

# The decoder's first two convolutions belong to the features of a frame, which are computed once.
FROZEN = ("image_encoder.", "sam_prompt_encoder.", "sam_mask_decoder.conv_s0.", "sam_mask_decoder.conv_s1.")
DECODER, SLOWER = "sam_mask_decoder.", 0.3  # it is trained already: what it learns at, as a part of the others' rate
LOWERED = 10.0  # of the logits whose sigmoid a predicted IoU is; trained networks' lie between -4 and 6
PROMPTED_FIRST = 0.3  # share of the steps that begin at a clip's first frame, where comparisons give their click
RECALLED = 0.7  # of a frame's earlier cost, when its new one is known


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_weight_options(parser)
    parser.add_argument("--split", required=True, type=Path, help="folder with JPEGImages_24fps and Annotations_6fps")
    parser.add_argument("--seconds", type=float, default=120, help="time to learn (default 120); 0 writes the network as it is")
    parser.add_argument("--frames", type=int, default=5, help="annotated frames of a step, the prompted one included")
    parser.add_argument("--together", type=int, default=2, help="clips of a step (default 2): on a GPU they cost little more than one")
    parser.add_argument("--walking-from", type=float, default=0.6, help="share of the time after which whole clips are followed (default 0.6)")
    parser.add_argument("--rate", type=float, default=3e-4, help="highest learning rate")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


@dataclass
class Judged:
    """A network's answers over whole clips, a value a frame: IoU of the mask that was taken, margin, |score|.

    `best`: which of the three masks fits best where a click is.
    """

    iou: list
    margin: list
    sure: list
    best: int

    def __str__(self):
        def told(values):
            return f"smallest {min(values):.3f}, median {statistics.median(values):.3f}"

        low = f"IoU mean {statistics.fmean(self.iou):.4f}, lowest {min(self.iou):.4f}"
        return f"{len(self.iou)} frames: {low}; margin of the best predicted IoU {told(self.margin)}; |score| {told(self.sure)}"


@torch.no_grad()
def judged(args, model, found):
    """Every clip from its first annotated frame to its last, in fp32."""
    iou, margin, sure, prompted = [], [], [], []
    for clip in found:
        point = clicks(args, [clip], [0], random.Random(0))
        for t, given in enumerate(answers(model, clip, range(len(clip.masks)), point)):
            each = mask_losses(given.masks, clip.masks[t][None, None])[2][0]
            first, second = given.ious[0].topk(2).values.tolist()
            iou.append(each[given.ious[0].argmax()].item())
            margin.append(first - second)
            sure.append(given.score.abs().item())
            if t == 0:
                prompted.append(each)
    return Judged(iou, margin, sure, torch.stack(prompted).mean(dim=0).argmax().item())


@torch.no_grad()
def decide(model, mask):
    """Lowers the predicted IoUs of the other two of the three masks."""
    bias = model.sam_mask_decoder.iou_prediction_head.layers[-1].bias
    lowered = torch.full_like(bias[1:], LOWERED)  # the first of four is the mask of prompts that are not ambiguous
    lowered[mask] = 0
    bias[1:] -= lowered


@dataclass
class Told:
    """What the frames of a step cost: their mean with a gradient, then a value a frame with its clip and its number."""

    mean: torch.Tensor
    costs: torch.Tensor
    ious: torch.Tensor
    frames: list

    @staticmethod
    def of(parts):
        """From (losses [n], IoUs [n], [(clip, number)]) of each frame."""
        costs, ious = torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
        return Told(costs.mean(), costs.detach(), ious, [frame for p in parts for frame in p[2]])

    def remember(self):
        """Puts the costs where the next choice finds them; returns the IoUs."""
        for (clip, frame), cost in zip(self.frames, self.costs.tolist()):
            clip.costs[frame] = RECALLED * clip.costs[frame] + (1 - RECALLED) * cost
        return self.ious.tolist()


def window(args, model, found, generator):
    """A step from any frame on: clips and first frames by what they cost lately."""
    weights = [statistics.fmean(clip.costs) for clip in found]
    together = []
    for _ in range(min(args.together, len(found))):
        left = [clip for clip in found if clip not in together]
        together += generator.choices(left, [weights[found.index(clip)] for clip in left])
    # Never the prompted frame alone: it teaches the memory nothing.
    count = max(2, generator.choice((args.frames - 1, args.frames, args.frames + 3)))
    count = min(count, *(len(clip.masks) for clip in together))
    firsts = []
    for clip in together:
        begins = range(len(clip.masks) - count + 1)
        hard = [statistics.fmean(clip.costs[k : k + count]) for k in begins]
        firsts.append(0 if generator.random() < PROMPTED_FIRST else generator.choices(begins, hard)[0])
    point, bank, parts = clicks(args, together, firsts, generator), empty_bank(), []
    length = max(len(clip.walk) for clip in together)
    for t in range(count):
        frames = [(clip, first + t) for clip, first in zip(together, firsts)]
        given = answer(model, bank, t, [clip.backbones[frame] for clip, frame in frames], point, length)
        parts.append((*losses_of(given, torch.stack([clip.masks[frame] for clip, frame in frames])), frames))
    return Told.of(parts)


def only(value, kept):
    """The clips `kept` of what a bank holds, without its past."""
    if isinstance(value, torch.Tensor):
        return value.detach()[kept]
    if isinstance(value, dict):
        return {k: only(v, kept) for k, v in value.items()}
    return [only(v, kept) for v in value] if isinstance(value, list) else value


class Walk:
    """Clips that are followed from their first frame to their last, a few annotated frames a step."""

    def __init__(self, args, together, generator):
        self.args, self.together, self.t = args, together, 0
        self.length = max(len(clip.walk) for clip in together)
        self.point, self.bank = clicks(args, together, [0] * len(together), generator), empty_bank()

    def step(self, model):
        """Up to `--frames` frames that are annotated in a clip at least, and those between them; None at the end."""
        parts, self.bank = [], self._bank()
        while len(parts) < self.args.frames:
            kept = [k for k, clip in enumerate(self.together) if self.t < len(clip.walk)]
            if not kept:
                break
            if len(kept) < len(self.together):
                if parts:
                    break  # the others go on in a step of their own
                self.together, self.bank = [self.together[k] for k in kept], self._bank(kept)
            met = [clip.walk[self.t] for clip in self.together]
            taught = [k for k, (_, mask) in enumerate(met) if mask is not None]
            with torch.set_grad_enabled(bool(taught)):
                given = answer(model, self.bank, self.t, [features for features, _ in met], self.point, self.length)
            if not taught:
                torch.clear_autocast_cache()  # weights that were rounded without a gradient would have none later
            else:
                frames = [(self.together[k], met[k][1]) for k in taught]
                part = Answer(given.taken[taught], given.masks[taught], given.ious[taught], given.score[taught])
                parts.append((*losses_of(part, torch.stack([clip.masks[frame] for clip, frame in frames])), frames))
            self.t += 1
        return Told.of(parts) if parts else None

    def _bank(self, kept=slice(None)):
        """What later frames may still ask for: the prompted frame, and pointers' sixteen."""
        late = {t: out for t, out in self.bank["non_cond_frame_outputs"].items() if t >= self.t - 16}
        return only({"cond_frame_outputs": self.bank["cond_frame_outputs"], "non_cond_frame_outputs": late}, kept)


def learn(args, model, found):
    """Steps of a few frames of some clips each, until the time is up; returns how many."""
    taught = {name: p for name, p in model.named_parameters() if p.requires_grad}
    slow = [p for name, p in taught.items() if name.startswith(DECODER)]
    fast = [p for name, p in taught.items() if not name.startswith(DECODER)]
    groups = [{"params": fast, "part": 1.0}, {"params": slow, "part": SLOWER}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01, fused=args.device == "cuda")
    generator, recent, walk = random.Random(0), [], None
    begin, step = time.monotonic(), 0
    while (share := (time.monotonic() - begin) / args.seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["part"] * args.rate * min(1, (step + 1) / 30) * (0.5 + 0.5 * math.cos(math.pi * share))
        # Processors without instructions for it are a hundred times slower in bfloat16.
        with torch.autocast(args.device, torch.bfloat16, enabled=args.device != "cpu"):
            told = walk.step(model) if walk else None
            if told is None and share >= args.walking_from:
                walk = Walk(args, generator.sample(found, min(args.together, len(found))), generator)
                told = walk.step(model)
            told = told or window(args, model, found, generator)
        optimizer.zero_grad(set_to_none=True)
        told.mean.backward()
        norm = torch.nn.utils.clip_grad_norm_(taught.values(), 1.0)
        if not torch.isfinite(norm):
            raise ExportError(f"{args.model} diverged at step {step + 1}: lower --rate, which was {args.rate:g}")
        optimizer.step()
        step += 1
        recent = (recent + told.remember())[-200:]
        if step % 25 == 1:
            kind = "followed" if walk else "windows"
            line = f"loss {told.mean.item():.3f}, mean IoU of the last masks {sum(recent) / len(recent):.3f} ({kind})"
            print(f"{time.monotonic() - begin:.0f} s, step {step}: {line}", flush=True)
    return step


def ready_table_as_parameters(trunk):
    """Finds the parameters behind a ready table of positions, to its rounding, so that a checkpoint can hold it."""
    table = trunk._get_pos_embed((1, 1))[0]  # a ready table ignores the size
    del trunk._get_pos_embed
    residual = positions_as_parameters(trunk, table)
    if residual > 2e-3 * table.abs().max().item():
        raise ExportError(f"the overlay's table of positions is no sum of a map and a window: off by {residual:.2g}")


def main():
    args = parse()
    from safetensors.torch import save_file

    model = build_model(args)[0]
    trunk = model.image_encoder.trunk
    if "_get_pos_embed" in vars(trunk):
        ready_table_as_parameters(trunk)
    model = model.to(args.device).eval()
    if args.seconds > 0:
        found = clips(args, model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not name.startswith(FROZEN))
        before = judged(args, model, found)
        print(f"before: {before}", flush=True)
        decide(model, before.best)
        step = learn(args, model, found)
        print(f"{step} steps over {len(found)} objects; mask {before.best + 1} of 3 is always taken", flush=True)
        print(f"after: {judged(args, model, found)}", flush=True)
    save_file({k: v.cpu().contiguous() for k, v in model.state_dict().items()}, args.out)


if __name__ == "__main__":
    try:
        main()
    except ExportError as error:
        raise SystemExit(f"error: {error}") from error
