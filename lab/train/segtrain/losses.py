"""What a frame's answer costs: SAM 2's losses and weights (its training/loss_fns.py).

Focal and dice loss on the masks (20 and 1), L1 on the predicted IoUs and cross-entropy
on the object score (1 each). All four masks are taught the same. SAM 2 teaches the best of
three alone: then each comes to outline some shape, and none the one that was clicked. Frames
without the object teach the score alone.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

FOCAL_WEIGHT, FOCAL_ALPHA, FOCAL_GAMMA = 20.0, 0.25, 2.0
LEAST_AREA = 10.0  # pixels of the input image; less counts as absent
SCALE = 2  # masks are compared at twice the logits' resolution, half of the image's


@dataclass
class Truth:
    """One frame's target: `mask` [B,1,h,w] share of each pixel, `present` [B,1] 0 or 1."""

    mask: torch.Tensor
    present: torch.Tensor


def truth_of(masks):
    """Masks [B,S,S] of one frame -> Truth at the losses' resolution."""
    present = (masks.sum(dim=(1, 2)) >= LEAST_AREA).float()[:, None]
    return Truth(F.avg_pool2d(masks[:, None], 2), present)


def mask_losses(logits, target):
    """Focal and dice loss and true IoU of each mask: logits [B,m,h,w], target [B,1,h,w] -> [B,m].
    """
    target = target.expand_as(logits)
    chance = torch.sigmoid(logits)
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    # |target - chance| is 1 - p of the true class; this form also takes mixed pixels.
    weight = FOCAL_ALPHA * target + (1 - FOCAL_ALPHA) * (1 - target)
    focal = (weight * (target - chance).abs() ** FOCAL_GAMMA * entropy).mean(dim=(2, 3))
    overlap = (chance * target).sum(dim=(2, 3))
    dice = 1 - (2 * overlap + 1) / (chance.sum(dim=(2, 3)) + target.sum(dim=(2, 3)) + 1)
    with torch.no_grad():
        seen, real = logits > 0, target > 0.5
        union = (seen | real).sum(dim=(2, 3)).float()
        iou = (seen & real).sum(dim=(2, 3)).float() / union.clamp(min=1)
    return focal, dice, iou


def frame_loss(answer, truth, given=None):
    """Losses [B] of one frame by name; `given` [B]: 1 for clips whose mask was the prompt.

    Those teach the object score alone, as frames without the object do.
    """
    logits = F.interpolate(
        answer.logits, scale_factor=float(SCALE), mode="bilinear", align_corners=False
    )
    focal, dice, iou = mask_losses(logits, truth.mask)
    score = F.binary_cross_entropy_with_logits(answer.score, truth.present, reduction="none")
    taught = truth.present[:, 0] if given is None else truth.present[:, 0] * (1 - given)
    return {
        "mask": taught * (FOCAL_WEIGHT * focal + dice).mean(dim=1),
        "iou": taught * (answer.ious - iou).abs().mean(dim=1),
        "score": score[:, 0],
    }
