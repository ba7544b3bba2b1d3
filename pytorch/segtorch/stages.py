"""Splits a frame's time into segtrt's stages, by events on a GPU and by the host's clock on a CPU.

A stage ends where the next begins, so the stages of a frame add up to what lies between its first
and last mark: on a GPU the gaps in which it waits for the host are inside the stage before them.
Nothing is read back before the pass is over. The same marks are NVTX ranges of segtrt's names in
its domain, where the package `nvtx` is installed.
"""

import time

import torch

STAGES = (
    "decode",
    "upload",
    "preprocess",
    "encoder",
    "prompt",
    "track",
    "memory",
    "postprocess",
    "download",
)


def _nvtx_domain():
    """push and pop in the domain `segtrt`, or None without the package."""
    try:
        import nvtx
    except ImportError:
        return None
    domain = nvtx.get_domain("segtrt")
    attributes = {name: domain.get_event_attributes(message=name) for name in ("pipeline", *STAGES)}
    return (lambda name: domain.push_range(attributes[name])), domain.pop_range


class StageClock:
    """One pass's marks. `begin(stage)` ends the stage before; `frame()` and `end()` enclose a
    frame's work, `done()` follows when the host has waited for it."""

    def __init__(self, on_gpu):
        self.on_gpu = on_gpu
        self.marks = True  # off: nothing is marked
        self.frames = []  # per frame: [(stage, mark)], the last mark has no stage
        self._nvtx = _nvtx_domain()
        self._open = False

    def reset(self, marks=True):
        """Forgets all frames, for the next pass, which is marked or not."""
        self.frames, self.marks = [], marks

    def frame(self):
        """A frame begins."""
        if not self.marks:
            return
        self.frames.append([])
        if self._nvtx:
            self._nvtx[0]("pipeline")

    def begin(self, stage):
        """The stage begins, and the one before it ends."""
        if not self.frames:
            return  # outside a pass, as when a model is warmed up by hand
        self._close()
        self.frames[-1].append((stage, self._mark()))
        if self._nvtx:
            self._nvtx[0](stage)
            self._open = True

    def end(self):
        """The frame's last work has been enqueued."""
        if not self.marks:
            return
        self._close()
        self.frames[-1].append((None, self._mark()))

    def done(self):
        """The frame is over for the host, too."""
        if self._nvtx and self.marks:
            self._nvtx[1]()

    def _close(self):
        if self._nvtx and self._open:
            self._nvtx[1]()
            self._open = False

    def _mark(self):
        if not self.on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def times(self):
        """Per frame ({stage: ms}, ms from first to last mark); call it after a synchronisation."""
        return [self._of(frame) for frame in self.frames]

    def _of(self, marks):
        between = self._gpu_ms if self.on_gpu else (lambda a, b: (b - a) * 1e3)
        stages = {}
        for (stage, start), (_, stop) in zip(marks, marks[1:]):
            stages[stage] = stages.get(stage, 0.0) + between(start, stop)
        return stages, between(marks[0][1], marks[-1][1])

    @staticmethod
    def _gpu_ms(start, stop):
        return start.elapsed_time(stop)
