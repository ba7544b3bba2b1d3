"""A step's losses and gradients: on a CUDA device recorded once for each shape of batch, then
replayed.

Step by step one Python thread starts thousands of small kernels for each clip and the device waits
for it most of the time. A recorded CUDA graph starts them all at once. Recorded are forward pass,
losses and backward pass; clips are drawn, gradients clipped and weights updated as ever.
"""

import gc
import time
from contextlib import suppress
from dataclasses import dataclass

import torch

from .step import Batch, clip_loss

NAMES = ("loss", "mask", "iou", "score")


@dataclass
class Recorded:
    """One graph, the batch it reads, the values it writes and the weights that get gradients."""

    graph: object
    batch: Batch
    values: torch.Tensor
    taught: list


class Steps:
    """Fills the gradients of a model's weights from batches; `eager`: never records."""

    def __init__(self, unroll, bf16=False, eager=False):
        self.unroll, self.bf16 = unroll, bf16
        self.weights = [p for p in unroll.model.parameters() if p.requires_grad]
        self.records = not eager and self.weights[0].device.type == "cuda"
        self.graphs, self.stage, self.pool, self.attached = {}, None, None, None
        self.stream = torch.cuda.Stream() if self.records else None
        self.gradients = {}  # by a weight's id, of those that any graph has taught; all graphs share them

    def run(self, batch, stage, quiet):
        """Gradients of one batch; returns its losses by name as tensors on the device.

        `stage`: what the graphs are kept for; those of another one are let go.
        """
        if self.records:
            if stage != self.stage:
                self._forget()
                self.stage = stage
            key = (*batch.masks.shape, len(batch.images), quiet)
            recorded = self.graphs.get(key) or self._record(key, batch, quiet)
            if recorded:
                return self._replay(recorded, batch)
        self._attach([])
        return dict(zip(NAMES, self._learn(batch, quiet).unbind()))

    def _learn(self, batch, quiet):
        """Adds a batch's gradients to those that are there; the values of NAMES in one tensor."""
        loss, parts = clip_loss(self.unroll, batch, quiet, self.bf16)
        loss.backward()
        return torch.stack([loss.detach(), *(parts[name] for name in NAMES[1:])])

    def _attach(self, taught):
        """Gives these weights their shared gradients and all others none: the optimizer leaves
        those alone."""
        if self.attached is taught and taught:
            return
        for weight in self.weights:
            weight.grad = None
        for weight in taught:
            if id(weight) not in self.gradients:
                self.gradients[id(weight)] = torch.zeros_like(weight)
            weight.grad = self.gradients[id(weight)]
        self.attached = taught

    def _replay(self, recorded, batch):
        recorded.batch.fill(batch)
        self._attach(recorded.taught)
        recorded.graph.replay()
        # The next replay overwrites the values.
        return dict(zip(NAMES, recorded.values.clone().unbind()))

    def _record(self, key, batch, quiet):
        """A Recorded that is kept, or None for good where the device or PyTorch refuses."""
        began = time.perf_counter()
        buffers = list(self.unroll.model.buffers())
        kept = [b.clone() for b in buffers]
        recorded, why = None, ""
        try:
            recorded = self._capture(batch.clone(), quiet)
        except Exception as error:  # whatever it is, training without graphs is better than none
            why = _reasons(error)
        if why:
            self._refuse(why)
        # The steps before recording moved the batch statistics.
        for buffer, old in zip(buffers, kept):
            buffer.copy_(old)
        if recorded:
            self.graphs[key] = recorded
            torch.cuda.synchronize()
            print(
                f"recorded a step on clips of {batch.images.shape[1]} frames in "
                f"{time.perf_counter() - began:.1f} s, "
                f"{torch.cuda.memory_reserved() / 2**30:.1f} GiB are in use",
                flush=True,
            )
        return recorded

    def _capture(self, batch, quiet):
        """Two steps as usual, which fill all caches and tune the convolutions, then the recording.
        """
        stream = self.stream
        stream.wait_stream(torch.cuda.current_stream())
        self._attach([])
        with torch.cuda.stream(stream):
            self._learn(batch, quiet)
        torch.cuda.synchronize()
        # A weight that no frame uses must have no gradient, rather than one of zeros.
        taught = [w for w in self.weights if w.grad is not None]
        self._attach(taught)
        gradients = [w.grad for w in taught]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch._foreach_zero_(gradients)
            self._learn(batch, quiet)
        torch.cuda.synchronize()
        # What an earlier backward pass left alive would tie the recording to another stream.
        gc.collect()
        if self.pool is None:
            self.pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        # Only this thread is watched: the backward pass runs in PyTorch's own.
        with torch.cuda.graph(graph, pool=self.pool, stream=stream, capture_error_mode="thread_local"):
            torch._foreach_zero_(gradients)
            values = self._learn(batch, quiet)
        return Recorded(graph, batch, values, taught)

    def _forget(self):
        """Lets the graphs of a finished stage go, and their memory."""
        if not self.graphs:
            return
        torch.cuda.synchronize()
        for recorded in self.graphs.values():
            recorded.graph.reset()
        # A pool without graphs cannot be used again.
        self.graphs, self.pool = {}, None
        gc.collect()
        torch.cuda.empty_cache()

    def _refuse(self, why):
        """Says why, and goes on without graphs."""
        print(f"no step is recorded as a CUDA graph, training goes on without: {why}", flush=True)
        self.records = False
        self._attach([])
        if self.pool is not None:
            with suppress(Exception):  # after a failed recording PyTorch may still send memory to its pool
                torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), self.pool)
        with suppress(RuntimeError):
            self._forget()
        self.gradients = {}
        gc.collect()


def _reasons(error):
    """The first lines of an error and of those that led to it; the oldest one tells most."""
    found = []
    while error is not None:
        lines = str(error).strip().splitlines() or [""]
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        at = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place else ""
        found.append(f"{type(error).__name__}{at}: {lines[0]}")
        error = error.__cause__ or error.__context__
    return "; before it ".join(found)
