"""Drives the exported graphs and the original PyTorch predictor side by side.

Closed loop: the graphs live on their own memories and pointers, so rounding may grow
from frame to frame. Teacher-forced: at every frame memories, pointers and logits come
from PyTorch, so each graph is judged alone. Memories are rounded to bfloat16 in both,
because that is how the original stores them (`--memory-rounding none` shows the rest).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from .bank import select
from .ort_driver import closed_loop

LEAST_IOU = 0.999


@dataclass
class FrameReport:
    """Errors of one frame: closed loop, teacher-forced, and the mask's size for scale."""

    frame: int
    area: int  # foreground pixels of the PyTorch mask at video resolution
    largest: float  # largest absolute PyTorch logit
    closed_error: float  # max |logit - logit|
    closed_iou: float  # at video resolution
    forced_error: float
    forced_iou: float
    forced_ptr: float  # max |pointer - pointer|
    forced_mem: float  # max |memory - memory|, before any rounding differs: 1 bf16 ulp is normal


def iou(a, b):
    """Intersection over union of two boolean masks; two empty ones agree fully."""
    union = np.logical_or(a, b).sum()
    return 1.0 if union == 0 else float(np.logical_and(a, b).sum() / union)


def video_mask(low, height, width):
    """Low-resolution logits [1,1,4g,4g] -> bool mask [H,W] as the predictor makes it."""
    big = F.interpolate(torch.from_numpy(low).float(), (height, width), mode="bilinear")
    return (big[0, 0] > 0).numpy()


def compare(bundle, run, prompt, rounding="bf16", padded=False):
    """Yields a FrameReport for each frame of a finished ReferenceRun."""
    images = run.images.numpy()
    n = len(run.frames)
    history = {t: (f.mem, f.ptr) for t, f in enumerate(run.frames)}
    loop = closed_loop(bundle, images[:n], prompt, run.height, run.width, rounding, padded)
    for t, (features, closed) in enumerate(loop):
        truth = run.frames[t]
        forced = closed
        if t > 0:
            forced = bundle.track(features, history, select(t, [0], n), padded)
        score = np.array([[truth.score]], np.float32)
        mem = bundle.remember(features, truth.low, score, t == 0, rounding)
        yield FrameReport(
            frame=t,
            area=int(truth.mask.sum()),
            largest=float(np.abs(truth.low).max()),
            closed_error=_error(closed["low"], truth.low),
            closed_iou=iou(video_mask(closed["low"], run.height, run.width), truth.mask),
            forced_error=_error(forced["low"], truth.low),
            forced_iou=iou(video_mask(forced["low"], run.height, run.width), truth.mask),
            forced_ptr=_error(forced["ptr"], truth.ptr),
            forced_mem=_error(mem, truth.mem),
        )


def _error(a, b):
    return float(np.abs(a.astype(np.float32) - b).max())


HEADER = (
    "frame  area_px  max|logit|  closed:max_err  closed:IoU  forced:max_err  forced:IoU  "
    "forced:ptr_err  forced:mem_err"
)


def row(r):
    """One line of the printed table."""
    return (
        f"{r.frame:5d} {r.area:8d} {r.largest:11.3f} {r.closed_error:15.2e} {r.closed_iou:11.6f} "
        f"{r.forced_error:15.2e} {r.forced_iou:11.6f} {r.forced_ptr:15.2e} {r.forced_mem:15.2e}"
    )


def verify(bundle, run, prompt, rounding="bf16", padded=False, say=print):
    """Prints the table; True when every IoU is at least LEAST_IOU."""
    say(HEADER)
    worst = 1.0
    for report in compare(bundle, run, prompt, rounding, padded):
        say(row(report))
        worst = min(worst, report.closed_iou, report.forced_iou)
    good = worst >= LEAST_IOU
    say(f"lowest IoU {worst:.6f}, {'passed' if good else 'FAILED'}: {LEAST_IOU} is the least")
    return good
