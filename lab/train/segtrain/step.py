"""One training step's forward pass: clips, mixed prompts, the unrolled loop, the loss."""

import torch

from . import prompts
from .clips import training_clips
from .losses import frame_loss, truth_of


def clip_loss(unroll, draw, scenes, frames, quiet):
    """Mean loss of fresh clips and its parts (all tensors on the device)."""
    made = training_clips(draw, scenes, frames, unroll.side)
    first = made.masks[:, 0] > 0.5
    counts = prompts.share_out(len(first))
    kind = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    given = (kind == prompts.KINDS.index("mask")).float().to(first.device, non_blocking=True)
    quiet = min(quiet, frames - 2) if frames > 2 else 0
    weight = made.usable / made.usable.sum().clamp(min=1) / (frames - quiet)

    def start(features):
        return first_answers(unroll, draw, features, first, counts)

    total, parts = 0.0, {}
    for t, answer in enumerate(unroll.clip(made.images, start, made.scene, quiet)):
        if 0 < t <= quiet:
            continue
        losses = frame_loss(answer, truth_of(made.masks[:, t]), given if t == 0 else None)
        for name, loss in losses.items():
            mean = (loss * weight).sum()
            total = total + mean
            parts[name] = parts.get(name, 0.0) + mean.detach()
    return total, parts


def first_answers(unroll, draw, features, mask, counts):
    """Answers of the prompted frame; clips are grouped by the kind of prompt."""
    answers, begin = [], 0
    for name, count in zip(prompts.KINDS, counts):
        if count == 0:
            continue
        part = slice(begin, begin + count)
        answers.append(_first(unroll, draw, [f[part] for f in features], mask[part], name))
        begin += count
    first = answers[0]
    if len(answers) == 1:
        return first
    fields = first.__dataclass_fields__
    return type(first)(**{f: torch.cat([getattr(a, f) for a in answers]) for f in fields})


def _first(unroll, draw, features, mask, name):
    if name == "mask":
        return unroll.mask_prompt(features, mask[:, None].float())
    if name == "box":
        return unroll.prompt(features, prompts.boxes(draw, mask), (2, 3))
    if name == "points":
        count = prompts.SEVERAL
        return unroll.prompt(features, prompts.random_points(draw, mask, count), (1,) * count)
    return unroll.prompt(features, prompts.clicks(draw, mask), (1,))
