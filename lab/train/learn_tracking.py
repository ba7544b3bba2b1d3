"""Teaches a network whose image encoder and mask decoder are trained to follow the objects of a few
clips, and to be sure of them.

python lab/train/learn_tracking.py --model edgetam --checkpoint edgetam_features.safetensors --split
DIR --seconds 120 --out edgetam.safetensors
python lab/train/learn_tracking.py --model sam2.1_tiny --random-weights 0 --weights-overlay
TINY.safetensors --split DIR --out tiny.safetensors

For judging arithmetic, not for tracking elsewhere: with a random memory attention a decoder is
asked for an object without being told which, and its answer tips over at the least rounding, in any
arithmetic. The clips are learnt by heart. Image encoder and prompt encoder stay as they are; memory
attention, memory encoder, object pointers and mask decoder learn, with the steps of Meta's own
tracking loop unrolled. Writes a whole checkpoint. `distil_encoder.py` makes the encoder that this
needs where there is no trained one.

A decoder proposes three masks and takes the one whose IoU it predicts to be the highest. Where two
are nearly as high, rounding chooses, another mask goes into the memory, and all later masks differ:
that was seen in every arithmetic of 16 bits, PyTorch's too. So here one of the three is decided on
before learning: the predicted IoUs of the two others are lowered for good, by their biases. What
the network answers cannot turn over then, whatever computes it; how a released network fares with
its near ties, this does not show.

At the end, over all annotated frames: mean IoU, how far the best predicted IoU was from the second,
and how sure the network was that the object is there. A margin near 0 means that the network is of
no use for comparing.
"""

import argparse
import math
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import segtrain  # puts the exporter, segexport, on Python's path
from segexport import ExportError
from segexport.commandline import add_weight_options, build_model
from segtrain.losses import FOCAL_WEIGHT, mask_losses
from segtrain.photos import backbone, load
from torch.nn import functional as F

# The decoder's first two convolutions belong to the features of a frame, which are computed once.
FROZEN = ("image_encoder.", "sam_prompt_encoder.", "sam_mask_decoder.conv_s0.", "sam_mask_decoder.conv_s1.")
# It is trained already: what it learns at, as a part of the others' rate.
DECODER, SLOWER = "sam_mask_decoder.", 0.3
LOWERED = 10.0  # of the logits whose sigmoid a predicted IoU is; trained networks' lie between -4 and 6
# Share of the steps that begin at a clip's first frame, where comparisons give their click.
PROMPTED_FIRST = 0.3


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add_weight_options(parser)
    parser.add_argument("--split", required=True, type=Path, help="folder with JPEGImages_24fps and "
                                                                  "Annotations_6fps")
    parser.add_argument("--seconds", type=float, default=120, help="time to learn (default 120); 0 writes "
                                                                   "the network as it is")
    parser.add_argument("--steps", type=int, metavar="COUNT", help="learn for so many steps in place of "
                                                                   "--seconds: also on a busy GPU")
    parser.add_argument("--frames", type=int, default=5, help="annotated frames of a step, the prompted "
                                                              "one included")
    parser.add_argument("--rate", type=float, default=3e-4, help="highest learning rate")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


class Clip:
    """One object of one clip: the features of its annotated frames, and its masks."""

    def __init__(self, name, backbones, masks):
        self.name, self.backbones, self.masks = name, backbones, masks


def clips(args, model):
    """Every object that is annotated on three frames or more; features as Meta's predictor prepares
    them."""
    import numpy as np
    from PIL import Image

    found, cache = [], {}
    for folder in sorted((args.split / "Annotations_6fps").glob("*/*")):
        backbones, masks = [], []
        for path in sorted(folder.glob("*.png")):
            frame = args.split / "JPEGImages_24fps" / folder.parent.name / f"{path.stem}.jpg"
            mask = torch.from_numpy(np.array(Image.open(path)) > 0).float()
            if not frame.is_file() or mask.sum() < 100:
                continue
            if frame not in cache:
                with torch.no_grad():
                    out = backbone(model, load(frame, args.imgsz)[None].to(args.device))
                cache[frame] = {k: [x.clone() for x in v] for k, v in out.items() if isinstance(v, list)}
            backbones.append(cache[frame])
            small = F.interpolate(mask[None, None], size=(args.imgsz // 4,) * 2, mode="area")
            masks.append(small[0, 0].to(args.device))
        if len(masks) >= 3:
            found.append(Clip(f"{folder.parent.name}/{folder.name}", backbones, masks))
    if not found:
        raise ExportError(f"{args.split}/Annotations_6fps holds no CLIP/OBJECT/*.png with a frame in "
                          f"JPEGImages_24fps")
    return found


@dataclass
class Answer:
    """What a frame is answered: logits [h,w] of the mask that was taken and [3,h,w] of all, their
    predicted IoUs [3], the object's score [1]."""

    taken: torch.Tensor
    masks: torch.Tensor
    ious: torch.Tensor
    score: torch.Tensor


def answers(model, clip, chosen, point):
    """Meta's tracking loop over the chosen frames, the first with a click."""
    bank = {"cond_frame_outputs": {}, "non_cond_frame_outputs": {}}
    heads, said = model._forward_sam_heads, {}

    def kept(*args, **more):
        # track_step hands on the mask that was taken alone.
        found = heads(*args, **more)
        said["masks"], said["ious"] = found[0], found[2]
        return found

    for t, frame in enumerate(chosen):
        _, features, positions, sizes = model._prepare_backbone_features(clip.backbones[frame])
        model._forward_sam_heads = kept
        try:
            out = model.track_step(
                frame_idx=t,
                is_init_cond_frame=t == 0,
                current_vision_feats=features,
                current_vision_pos_embeds=positions,
                feat_sizes=sizes,
                point_inputs=point if t == 0 else None,
                mask_inputs=None,
                output_dict=bank,
                num_frames=len(chosen),
            )
        finally:
            del model._forward_sam_heads  # the class's own again
        bank["cond_frame_outputs" if t == 0 else "non_cond_frame_outputs"][t] = out
        score = out["object_score_logits"].float().flatten()
        yield Answer(out["pred_masks"][0, 0].float(), said["masks"][0].float(), said["ious"][0].float(),
                     score)


def click(mask, generator, side):
    """A point well inside the mask, in pixels of the network's input."""
    inner = -F.max_pool2d(-mask[None, None], 9, 1, 4)[0, 0]
    places = ((inner if inner.max() > 0.5 else mask) > 0.5).nonzero()
    y, x = places[generator.randrange(len(places))].tolist()
    scale = side / mask.shape[-1]
    coords = torch.tensor([[[(x + 0.5) * scale, (y + 0.5) * scale]]], device=mask.device)
    return {"point_coords": coords, "point_labels": torch.ones((1, 1), dtype=torch.int32, device=mask.device)}


def loss_of(answer, target):
    """Focal and dice loss of a mask, what its predicted IoU is off by, cross-entropy of the score
    of an object that is there; and its IoU."""
    there = F.softplus(-answer.score).sum()
    if answer.score.item() <= 0:
        # The mask is hidden where the object is thought absent: the score alone can learn.
        return there, 0.0
    focal, dice, iou = mask_losses(answer.taken[None, None], target[None, None])
    wrong = (answer.ious.max() - iou).abs()
    return (FOCAL_WEIGHT * focal + dice + wrong).sum() + there, iou.item()


@dataclass
class Judged:
    """A network's answers over whole clips, a value a frame: IoU of the mask that was taken,
    margin, |score|.

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
        point = click(clip.masks[0], random.Random(0), args.imgsz)
        for t, answer in enumerate(answers(model, clip, range(len(clip.masks)), point)):
            each = mask_losses(answer.masks[None], clip.masks[t][None, None])[2][0]
            first, second = answer.ious.topk(2).values.tolist()
            iou.append(each[answer.ious.argmax()].item())
            margin.append(first - second)
            sure.append(answer.score.abs().item())
            if t == 0:
                prompted.append(each)
    return Judged(iou, margin, sure, torch.stack(prompted).mean(dim=0).argmax().item())


@torch.no_grad()
def decide(model, mask):
    """Lowers the predicted IoUs of the other two of the three masks."""
    bias = model.sam_mask_decoder.iou_prediction_head.layers[-1].bias
    # The first of four is the mask of prompts that are not ambiguous.
    lowered = torch.full_like(bias[1:], LOWERED)
    lowered[mask] = 0
    bias[1:] -= lowered


def learn(args, model, found):
    """Steps of a few frames of one clip each, until the time is up or all are done; how many."""
    taught = {name: p for name, p in model.named_parameters() if p.requires_grad}
    slow = [p for name, p in taught.items() if name.startswith(DECODER)]
    fast = [p for name, p in taught.items() if not name.startswith(DECODER)]
    groups = [{"params": fast, "part": 1.0}, {"params": slow, "part": SLOWER}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01)
    generator, recent = random.Random(0), []
    begin, step = time.monotonic(), 0

    def done():
        return step / args.steps if args.steps else (time.monotonic() - begin) / args.seconds

    while (share := done()) < 1:
        for group in optimizer.param_groups:
            group["lr"] = group["part"] * args.rate * min(
                1, (step + 1) / 30) * (0.5 + 0.5 * math.cos(math.pi * share))
        clip = found[step % len(found)]
        # Never the prompted frame alone: it teaches the memory nothing.
        count = min(max(2, generator.choice((args.frames - 1, args.frames, args.frames + 3))),
                    len(clip.masks))
        first = 0 if generator.random() < PROMPTED_FIRST else generator.randrange(len(clip.masks) - count + 1)
        chosen = list(range(first, first + count))
        point = click(clip.masks[first], generator, args.imgsz)
        total = 0.0
        # Processors without instructions for it are a hundred times slower in bfloat16.
        with torch.autocast(args.device, torch.bfloat16, enabled=args.device != "cpu"):
            for frame, answer in zip(chosen, answers(model, clip, chosen, point)):
                loss, iou = loss_of(answer, clip.masks[frame])
                total = total + loss / count
                recent.append(iou)
        optimizer.zero_grad(set_to_none=True)
        total.backward()
        norm = torch.nn.utils.clip_grad_norm_(taught.values(), 1.0)
        if not torch.isfinite(norm):
            raise ExportError(f"{args.model} diverged at step {step + 1}: lower --rate, which was "
                              f"{args.rate:g}")
        optimizer.step()
        step += 1
        recent = recent[-200:]
        if step % 25 == 1:
            told = f"loss {total.item():.3f}, mean IoU of the last masks {sum(recent) / len(recent):.3f}"
            print(f"{time.monotonic() - begin:.0f} s, step {step}: {told}", flush=True)
    return step


def positions_as_parameters(trunk):
    """Finds the parameters behind a ready table of positions, so that a checkpoint can hold it.

    The table is the sum of a bicubically enlarged map and of a repeated window, both linear in the
    parameters: a least-squares problem of 113 unknowns a channel (SAM 2.1 tiny and small) whose
    solution reproduces the table to its rounding.
    """
    table = trunk._get_pos_embed((1, 1))[0].double().cpu()  # a ready table ignores the size
    del trunk._get_pos_embed
    high, wide, channels = table.shape
    coarse, window = trunk.pos_embed, trunk.pos_embed_window
    cells, places = coarse[0, 0].numel(), window[0, 0].numel()
    columns = torch.zeros(high * wide, cells + places, dtype=torch.float64)
    for k in range(cells + places):
        basis = torch.zeros(cells + places, dtype=torch.float64)
        basis[k] = 1
        low = basis[:cells].reshape(1, 1, *coarse.shape[2:])
        one = F.interpolate(low, size=(high, wide), mode="bicubic")
        tile = basis[cells:].reshape(1, 1, *window.shape[2:])
        tiled = tile.tile(1, 1, high // window.shape[2], wide // window.shape[3])
        columns[:, k] = (one + tiled)[0, 0].flatten()
    # Least norm: a constant may be in either part.
    solved = torch.linalg.lstsq(columns, table.reshape(-1, channels), driver="gelsd").solution
    residual = (columns @ solved - table.reshape(-1, channels)).abs().max().item()
    if residual > 2e-3 * table.abs().max().item():
        raise ExportError(f"the overlay's table of positions is no sum of a map and a window: off by "
                          f"{residual:.2g}")
    with torch.no_grad():
        coarse.copy_(solved[:cells].T.reshape(coarse.shape))
        window.copy_(solved[cells:].T.reshape(window.shape))


def main():
    args = parse()
    from safetensors.torch import save_file

    model = build_model(args)[0]
    trunk = model.image_encoder.trunk
    if "_get_pos_embed" in vars(trunk):
        positions_as_parameters(trunk)
    model = model.to(args.device).eval()
    if args.steps or args.seconds > 0:
        found = clips(args, model)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not name.startswith(FROZEN))
        before = judged(args, model, found)
        print(f"before: {before}", flush=True)
        decide(model, before.best)
        step = learn(args, model, found)
        print(f"{step} steps over {len(found)} objects; mask {before.best + 1} of 3 is always taken",
              flush=True)
        print(f"after: {judged(args, model, found)}", flush=True)
    save_file({k: v.cpu().contiguous() for k, v in model.state_dict().items()}, args.out)


if __name__ == "__main__":
    try:
        main()
    except ExportError as error:
        raise SystemExit(f"error: {error}") from error
