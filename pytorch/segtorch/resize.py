"""Pillow's bicubic resize and Meta's normalisation on the device, to the last bit, in two kernels.

Pillow resizes 8-bit images in two passes, each with weights in fixed point and each rounded to
bytes. Both are written here as gathers of integers, each compiled to one kernel; the second one
also normalises. Normalisation is a table of the 256 values that Meta's loader computes for each
channel, so no division can round otherwise on another device. On a GPU the kernels are recorded as
a CUDA graph, which is replayed for each frame: the host launches once.
"""

import functools

import torch

from . import compiling

PILLOW = 13  # the major version whose order of the two passes this is
# 8 bits of result and 2 of headroom leave this many for the fraction (src/libImaging/Resample.c).
PRECISION_BITS = 32 - 8 - 2
SUPPORT = 2.0  # of the bicubic filter, pixels to either side
# Inductor else writes out sums of many weighted pixels before it has all of them.
ONE_KERNEL = {
    "unroll_reductions_threshold": 64, "realize_acc_reads_threshold": 1000, "realize_opcount_threshold":
    1000
}


def columns_first(size, to):
    """Whether Pillow 13 resizes the columns before the rows; older releases never do. Sizes are
    (width, height)."""
    (width, height), (to_width, to_height) = size, to
    return height > to_height and height - to_height > 2 * (width - to_width)


def taps(length, to):
    """Input positions and fixed-point weights [to, K] of each output position along one axis."""
    scale = length / to
    widen = max(scale, 1.0)
    rows = []
    for position in range(to):
        center = (position + 0.5) * scale
        first = int(max(center - SUPPORT * widen + 0.5, 0.0))
        end = min(int(center + SUPPORT * widen + 0.5), length)
        exact = [_cubic((x - center + 0.5) * (1.0 / widen)) for x in range(first, end)]
        total = 0.0
        for weight in exact:
            total += weight
        rows.append((first, [_fixed_point(weight / total if total else weight) for weight in exact]))
    most = max(len(weights) for _, weights in rows)
    places = torch.tensor([[min(first + k, length - 1) for k in range(most)] for first, _ in rows])
    weights = torch.tensor([weights + [0] * (most - len(weights)) for _, weights in rows], dtype=torch.int32)
    return places, weights


def _cubic(x):
    a, x = -0.5, abs(x)
    if x < 1.0:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2.0 else 0.0


def _fixed_point(weight):
    return int(weight * (1 << PRECISION_BITS) + (-0.5 if weight < 0 else 0.5))


def passes(size, to):
    """Pillow's passes from one (width, height) to another: [(axis of [H,W,3], positions, weights)];
    none for an axis that keeps its length."""
    axes = [(1, size[0], to[0]), (0, size[1], to[1])]
    if columns_first(size, to):
        axes.reverse()
    return [(axis, *taps(length, wanted)) for axis, length, wanted in axes if length != wanted]


def normal_values(mean, std):
    """What Meta's loader makes of each byte: f32 [3,256]."""
    column = lambda values: torch.tensor(values, dtype=torch.float32)[:, None]
    return (torch.arange(256).float()[None] / 255.0 - column(mean)) / column(std)


def resized(pixels, axis, places, weights):
    """One pass over uint8 [H,W,3]."""
    near = pixels[:, places] if axis else pixels[places]  # [H,S,K,3] or [S,K,W,3]
    weighted = near.int() * (weights[None, :, :, None] if axis else weights[:, :, None, None])
    total = weighted.sum(axis + 1, dtype=torch.int32) + (1 << (PRECISION_BITS - 1))
    return (total >> PRECISION_BITS).clamp(0, 255).to(torch.uint8)


def finished(pixels, steps, values):
    """The last pass, if there is one, and the table: uint8 [H,W,3] to f32 [3,S,S]."""
    for step in steps:
        pixels = resized(pixels, *step)
    channels = torch.arange(3, device=pixels.device)[:, None, None]
    return values[channels, pixels.permute(2, 0, 1).long()]


class DeviceResize:
    """Prepares frames of one size on the device: `upload` the pixels, then call it. Its answer is
    overwritten by the next frame's."""

    def __init__(self, size, side, device, mean, std, compiled, say):
        self.size, self.side = size, side
        place = lambda tensor: tensor.to(device)
        self._steps = [(axis, place(places), place(weights))
                       for axis, places, weights in passes(size, (side, side))]
        self._values = place(normal_values(mean, std))
        self._pixels = torch.empty((size[1], size[0], 3), dtype=torch.uint8, device=device)
        self._resized, self._finished = resized, finished
        self._compiled = compiled and self._compile(say)
        self._graph = self._square = None
        if device.type == "cuda":
            self._record(say)

    def _compile(self, say):
        """Compiles the passes for this size; whether that could be done."""
        compiling.raise_limits()
        compiler = functools.partial(torch.compile, dynamic=False, fullgraph=True, options=ONE_KERNEL)
        self._resized, self._finished = compiler(resized), compiler(finished)
        try:
            self._run()
        except RuntimeError as error:
            say(f"frames are resized by eager kernels: {str(error).splitlines()[0]}")
            self._resized, self._finished = resized, finished
            return False
        return True

    def _record(self, say):
        """Records the kernels as a CUDA graph; where that cannot be they are launched one by one."""
        try:
            beside = torch.cuda.Stream()
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                self._run()
            torch.cuda.current_stream().wait_stream(beside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._square = self._run()
            self._graph = graph
        except RuntimeError as error:
            say(f"frames are resized without a CUDA graph: {str(error).splitlines()[0]}")

    def _run(self):
        pixels = self._pixels
        for step in self._steps[:-1]:
            pixels = self._resized(pixels, *step)
        return self._finished(pixels, self._steps[-1:], self._values)

    def upload(self, pixels):
        """The frame's uint8 [H,W,3] from (pinned) host memory."""
        self._pixels.copy_(pixels, non_blocking=True)

    def __call__(self):
        """The network's input f32 [3,S,S] of the frame that was uploaded."""
        if self._graph is None:
            return self._run()
        self._graph.replay()
        return self._square

    def told(self):
        """How the frames are prepared, in words."""
        how = "compiled kernels, one for each of the two passes" if self._compiled else "PyTorch's eager kernels"
        return f"frames are resized (Pillow 13's arithmetic) and normalised on the device by {how}{', replayed as a CUDA graph' if self._graph else ''}"
