"""One pass over one object: every frame timed from its pixels to its mask in host memory.

A frame's latency begins with its RGB pixels in host memory (or with its file, with --decode inside)
and ends when its mask lies in host memory at the video's resolution and its memory is in the bank:
the host waits for the device. Scores and margins stay on the device until the pass is over.
"""

import gc
import time
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Pass:
    """What a pass yields."""

    frames: list  # {frame, latency_ms, stages, gpu_ms}; stages_apart where the last two are of another pass
    masks: list  # packed bits, where they were wanted
    extra: dict  # objectness, chosen_mask, iou_predictions: one entry a frame


class PassRunner:
    """Runs passes with one session on one device."""

    def __init__(self, device, stages):
        self.device, self.stages = device, stages
        self._host = None
        self.frame_done = None  # called behind each frame, outside its time

    def run(self, session, feed, first_frame, decode_ms, prompt, keep, marks=True):
        """The frames of `feed`, the first of which is prompted and has the number `first_frame` in its clip.

        Without `marks` no stage is told apart: on a GPU that takes a CUDA event each.
        """
        width, height = feed.size
        on_gpu = self.device.type == "cuda"
        if on_gpu and (self._host is None or self._host.shape != (height, width)):
            self._host = torch.empty((height, width), dtype=torch.bool, pin_memory=True)
        latencies, masks = [], []
        self.stages.reset(marks)
        frames = session.start(feed, height, width, prompt)
        # Python's collector would stop a frame now and then; a pass is short enough to do without.
        gc.collect()
        gc.disable()
        try:
            for _ in range(len(feed)):
                start = time.perf_counter()
                self.stages.frame()
                logits = next(frames)
                mask = logits > 0
                if on_gpu:
                    self.stages.begin("download")
                    self._host.copy_(mask, non_blocking=True)
                    mask = self._host
                self.stages.end()
                if on_gpu:
                    torch.cuda.synchronize()
                latencies.append((time.perf_counter() - start) * 1e3)
                self.stages.done()
                if keep:
                    masks.append(np.packbits(mask.numpy(), axis=-1))
                if self.frame_done:
                    self.frame_done()
        finally:
            gc.enable()
            frames.close()
        made = []
        untold = [({}, None)] * len(latencies)
        for i, (latency, (stages, total)) in enumerate(
                zip(latencies, self.stages.times() if marks else untold, strict=True)):
            named = {f"{stage}_ms": ms for stage, ms in stages.items()}
            if decode_ms is not None:
                named["decode_ms"] = decode_ms[i]
            made.append({
                "frame": first_frame + i, "latency_ms": latency, "stages": named, "gpu_ms":
                total if on_gpu else None
            })
        return Pass(made, masks, _extra(session))


def with_stages(done, marked):
    """The timed pass with the stages of another one over the same frames."""
    of_stages = [{name: frame[name]
                  for name in ("stages", "gpu_ms")} | {"stages_apart": True}
                 for frame in marked.frames]
    frames = [frame | stages for frame, stages in zip(done.frames, of_stages, strict=True)]
    return Pass(frames, done.masks, done.extra)


def unpack(packed, width):
    """A mask bool [H,W] from its packed bits."""
    return np.unpackbits(packed, axis=-1, count=width).astype(bool)


def _extra(session):
    """Scores and margins of the pass, fetched at once."""
    scores = torch.cat([score.reshape(1).float() for score in session.scores]).cpu().tolist()
    ious = [None if iou is None else iou.reshape(-1).float() for iou in session.ious]
    chosen = []
    values = []
    for iou in ious:
        row = None if iou is None else iou.cpu().tolist()
        values.append(row)
        # A single estimate is of the decoder's first mask or, where that was unstable, of the best
        # other: it does not say which.
        several = row is not None and len(row) > 1
        chosen.append(row.index(max(row)) + session.MULTIMASK_OFFSET if several else None)
    return {"objectness": scores, "chosen_mask": chosen, "iou_predictions": values}
