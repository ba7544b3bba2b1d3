"""One training step's forward pass: drawn clips and prompts, the unrolled loop, the loss.

Drawing comes first and apart: what follows is a function of tensors alone, which neither waits
for the device nor copies to it, so that it can be recorded as a CUDA graph (`graphs.py`).
"""

from contextlib import nullcontext
from dataclasses import dataclass

import torch

from . import prompts
from .clips import MIXES, training_clips
from .losses import frame_loss, truth_of


@dataclass
class Batch:
    """What one step learns from: clips, whom to follow in them, and how they are asked for.

    Targets are sorted by their kind of prompt, in the order of `prompts.KINDS`.
    """

    images: torch.Tensor  # [B,T,3,S,S] normalised
    scene: torch.Tensor  # [N]: in which clip each target is
    masks: torch.Tensor  # [N,T,S,S]: a target's share of each pixel
    usable: torch.Tensor  # [N]: 0 where there is nothing to prompt
    coords: dict  # kind -> points [n,P,2]; masks need none

    def tensors(self):
        """All of them, always in the same order."""
        return [self.images, self.scene, self.masks, self.usable, *self.coords.values()]

    def clone(self):
        """A copy in memory of its own."""
        coords = {kind: points.clone() for kind, points in self.coords.items()}
        plain = (x.clone() for x in (self.images, self.scene, self.masks, self.usable))
        return Batch(*plain, coords)

    def fill(self, other):
        """Takes over the values of a batch of the same shape."""
        for mine, theirs in zip(self.tensors(), other.tensors(), strict=True):
            mine.copy_(theirs)


def draw_batch(draw, scenes, frames, side, mix="usual"):
    """A fresh Batch of one of `clips.MIXES`."""
    made = training_clips(draw, scenes, frames, side, MIXES[mix])
    first = made.masks[:, 0] > 0.5
    coords, begin = {}, 0
    for kind, count in zip(prompts.KINDS, prompts.share_out(len(first))):
        if count and kind != "mask":
            coords[kind] = _points(draw, first[begin : begin + count], kind)
        begin += count
    return Batch(made.images, made.scene, made.masks, made.usable, coords)


def _points(draw, mask, kind):
    if kind == "box":
        return prompts.boxes(draw, mask)
    if kind == "points":
        return prompts.random_points(draw, mask, prompts.SEVERAL)
    return prompts.clicks(draw, mask)


def clip_loss(unroll, batch, quiet, bf16=False):
    """Mean loss of a batch and its parts; the first `quiet` tracked frames are untaught.

    `bf16`: the network runs under autocast; clips and losses stay in float32.
    """
    frames = batch.images.shape[1]
    quiet = min(quiet, frames - 2) if frames > 2 else 0
    counts = prompts.share_out(len(batch.masks))
    answers = taught_answers(unroll, batch, counts, quiet, bf16)
    masks = batch.masks
    if quiet:
        masks = torch.cat([masks[:, :1], masks[:, quiet + 1 :]], dim=1)
    clips, taught = masks.shape[:2]
    # The prompted frame of clips whose mask was the prompt.
    given = masks.new_zeros(clips, taught)
    given[clips - counts[prompts.KINDS.index("mask")] :, :1].fill_(1.0)
    weight = batch.usable / batch.usable.sum().clamp(min=1) / taught
    # All frames at once: a frame's losses are a hundred small kernels.
    losses = frame_loss(answers, truth_of(masks.flatten(0, 1)), given.flatten())
    means = {name: (loss.view(clips, taught).sum(dim=1) * weight).sum() for name, loss in losses.items()}
    return sum(means.values()), {name: mean.detach() for name, mean in means.items()}


@dataclass
class Taught:
    """What the losses read of the taught frames' answers, clip by clip, in float32."""

    logits: torch.Tensor
    ious: torch.Tensor
    score: torch.Tensor


def taught_answers(unroll, batch, counts, quiet, bf16):
    """Runs the loop over the batch's clips; the answers of N targets in T frames as [N*T,...]."""
    frames = batch.images.shape[1]
    first = (batch.masks[:, 0] > 0.5).float()[:, None]

    def start(features):
        return first_answers(unroll, features, batch.coords, first, counts)

    answers = unroll.clip(batch.images, start, batch.scene, quiet)
    taught = []
    for part in (range(1), range(1, 1 + quiet), range(1 + quiet, frames)):
        # Autocast keeps the weights it has converted until it ends. Those that it converts without
        # gradients must not serve the frames that teach, so these have an autocast of their own.
        with torch.autocast(batch.images.device.type, torch.bfloat16) if bf16 else nullcontext():
            got = [next(answers) for _ in part]
        if not 0 < part.start <= quiet:
            taught += got
    fields = ("logits", "ious", "score")
    return Taught(*(torch.stack([getattr(a, f)
                                 for a in taught], dim=1).flatten(0, 1).float()
                    for f in fields))


def first_answers(unroll, features, coords, mask, counts):
    """Answers of the prompted frame; targets are grouped by the kind of prompt."""
    labels = {"point": (1,), "points": (1,) * prompts.SEVERAL, "box": (2, 3)}
    answers, begin = [], 0
    for kind, count in zip(prompts.KINDS, counts):
        if count == 0:
            continue
        part = slice(begin, begin + count)
        begin += count
        mine = [f[part] for f in features]
        if kind == "mask":
            answers.append(unroll.mask_prompt(mine, mask[part]))
        else:
            answers.append(unroll.prompt(mine, coords[kind], labels[kind]))
    first = answers[0]
    if len(answers) == 1:
        return first
    fields = first.__dataclass_fields__
    return type(first)(**{f: torch.cat([getattr(a, f) for a in answers]) for f in fields})
