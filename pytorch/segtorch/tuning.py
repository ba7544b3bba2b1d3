"""Settings beside Meta's code that change results by rounding at most and may make it faster; those
that depend on the GPU are tried.

`half-weights`: what autocast casts in every frame is cast once. `cudnn-benchmark`: cuDNN times its
algorithms. `channels-last`: the image encoder's convolutions get their weights in that order. The
first only takes work away. The others are tried on the image encoder, replayed as a CUDA graph so
that the host's speed has no part in it, and kept where they are the fastest. The trial is eager:
nothing is compiled twice.
"""

import itertools
import math

import torch
from torch import nn

from .arguments import AUTO, CHANNELS_LAST, CUDNN_BENCHMARK, HALF_WEIGHTS

# What is kept must be faster than Meta's own settings by more than times differ.
LEAST_GAIN = 0.01
_WARM, _BATCHES, _REPLAYS = 3, 5, 5


def cast_weights(model, dtype):
    """Casts the weights of layers that autocast to `dtype` would cast in every frame; how many."""
    count = 0
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.modules.conv._ConvNd):
            for parameter in (layer.weight, layer.bias):
                if parameter is not None and parameter.dtype == torch.float32:
                    parameter.data = parameter.data.to(dtype)
                    count += 1
    return count


def apply(encoder, settings):
    """Sets what is tried to be as `settings` say."""
    torch.backends.cudnn.benchmark = CUDNN_BENCHMARK in settings
    order = torch.channels_last if CHANNELS_LAST in settings else torch.contiguous_format
    with torch.inference_mode(False):
        for parameter in encoder.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=order)


def tune(loaded, settings, device):
    """Gives a model the settings that were asked for or, with `auto` on a GPU, the fastest; what
    was tried and kept, for the sidecar."""
    tried = []
    if settings != AUTO:
        kept = [name for name in settings if name != HALF_WEIGHTS]
        apply(loaded.encoder, kept)
    elif device.type == "cuda":
        kept, tried = choose(loaded.encoder, loaded.choice.imgsz, device)
    else:
        kept = []
    return {"kept": kept, "tried": tried}


def choose(encoder, side, device, clock=None):
    """Tries the settings on the image encoder and leaves it with the fastest: (those kept,
    [{settings, encoder_ms}])."""
    clock = clock or _graph_ms
    image = torch.randn((1, 3, side, side), device=device)
    tried = []
    for switches in itertools.product((False, True), repeat=2):
        settings = [name for name, on in zip((CHANNELS_LAST, CUDNN_BENCHMARK), switches) if on]
        apply(encoder, settings)
        try:
            tried.append({"settings": settings, "encoder_ms": round(clock(encoder, image), 4)})
        except RuntimeError as error:  # a release of cuDNN may refuse one; the others serve
            tried.append({"settings": settings, "encoder_ms": None, "why": str(error).splitlines()[0]})
    of = lambda one: math.inf if one["encoder_ms"] is None else one["encoder_ms"]
    plain, best = tried[0], min(tried, key=of)
    kept = (best if of(best) < (1 - LEAST_GAIN) * of(plain) else plain)["settings"]
    apply(encoder, kept)
    return kept, tried


def _graph_ms(encoder, image):
    """The least mean time of a few replays of the encoder as a CUDA graph, ms."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(_WARM):
            encoder(image)
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        encoder(image)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(_WARM + _BATCHES):
        begin.record()
        for _ in range(_REPLAYS):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / _REPLAYS)
    return min(times[_WARM:])
