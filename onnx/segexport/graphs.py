"""The graphs of a bundle: module, names, element types and shapes of each.

The single place that knows the contract's names and shapes; the writer, the
manifest and the FLOP counter all read it from here.
"""

from dataclasses import dataclass

import torch
from torch import nn

from . import track_segments, trunk
from .encoder import Encoder
from .encoder_parts import EncoderPart, bounds_of
from .hiera import HieraTrunk
from .head import MaskPrompt, Prompt, Track
from .memory_encoder import MemoryEncoder
from .work import FULL

MAX_MEMORIES, MAX_POINTERS = FULL["F"], FULL["N"]


@dataclass(frozen=True)
class Port:
    """A graph input or output; `dtype` "f" follows the bundle's precision, "cast" is f32 outside
    and "f" inside."""

    name: str
    dtype: str  # "f" | "f32" | "cast" | "i32"
    shape: tuple  # ints and symbols ("B", "P", "F", "N")


@dataclass
class Graph:
    """One graph to export."""

    role: str
    module: nn.Module
    inputs: list
    outputs: list

    def example(self, sizes, seed=0):
        """Random inputs of the right shapes and types for tracing and checks."""
        generator = torch.Generator().manual_seed(seed)
        made = []
        for port in self.inputs:
            shape = [sizes[n] if isinstance(n, str) else n for n in port.shape]
            if port.name == "labels":
                made.append(torch.ones(shape, dtype=torch.int32))
            elif port.name == "tidx":
                made.append(torch.arange(shape[0], dtype=torch.int32) % MAX_MEMORIES)
            elif port.name == "mask":
                made.append((torch.rand(shape, generator=generator) > 0.7).float())
            elif port.name in ("multi", "binar"):
                made.append(torch.ones(shape))
            elif port.name == "coords":
                side = self.inputs[1].shape[-1] * 4
                made.append(torch.rand(shape, generator=generator) * side)
            elif port.name == "bias":
                made.append(torch.zeros(shape))
            else:
                made.append(torch.randn(shape, generator=generator))
        return tuple(made)


@dataclass(frozen=True)
class Contract:
    """The numbers of the manifest's [contract] table."""

    grid: int
    low_size: int
    feature_channels: int
    memory_tokens: int
    memory_channels: int
    pointer_channels: int
    max_memories: int
    max_pointers: int
    pointer_times: bool


def contract_of(model, side):
    """Contract numbers of an original predictor at image side `side`."""
    grid = side // 16
    perceiver = getattr(model, "spatial_perceiver", None)
    tokens = perceiver.num_latents + perceiver.num_latents_2d if perceiver is not None else grid**2
    return Contract(
        grid=grid,
        low_size=4 * grid,
        feature_channels=model.hidden_dim,
        memory_tokens=tokens,
        memory_channels=model.mem_dim,
        pointer_channels=model.hidden_dim,
        max_memories=model.num_maskmem,
        max_pointers=model.max_obj_ptrs_in_encoder,
        pointer_times=bool(model.add_tpos_enc_to_obj_ptrs),
    )


def graphs_of(model,
              side,
              padded_track=False,
              segments=False,
              batches=(),
              encoder="engine",
              mask_decoder="engine"):
    """Yields the bundle's graphs one by one (each holds copies of large tables).

    `padded_track` adds track_padded, `segments` track_keys and track_seg0, track_seg1, ... and,
    where the trunk is deep, encoder_cut0, encoder_cut1, ...; `encoder` "trunk" writes stem and neck
    without the blocks between them; `mask_decoder` "cuda" adds track_image, the last segment without the
    mask decoder; `batches` adds the encoder for each batch size: encoder_b2, encoder_b4, ...
    """
    c = contract_of(model, side)
    g, width, low = c.grid, c.feature_channels, c.low_size
    features = [
        Port("feat", "f", (1, width, g, g)),
        Port("hr0", "f", (1, width // 8, low, low)),
        Port("hr1", "f", (1, width // 4, 2 * g, 2 * g)),
    ]
    answer = [
        Port("low", "f32", ("B", 1, low, low)),
        Port("iou", "f32", ("B", 1)),
        Port("ptr", "f", ("B", width)),
        Port("score", "f32", ("B", 1)),
    ]
    # A given mask is selected from nothing; the other steps tell what they selected from.
    selected = [*answer, Port("ious", "f32", ("B", 3))]
    for batch in (1, *batches):
        images = [Port("image", "f", (batch, 3, side, side))]
        outputs = [Port(port.name, port.dtype, (batch, *port.shape[1:])) for port in features]
        role = "encoder" if batch == 1 else f"encoder_b{batch}"
        yield Graph(role, Encoder(model, side), images, outputs)
    if encoder == "trunk":
        yield from around_trunk(Encoder(model, side), side, features)
    elif segments:
        yield from encoder_cuts(Encoder(model, side), side, features)
    points = [
        Port("coords", "f32", ("B", "P", 2)),
        Port("labels", "i32", ("B", "P")),
        Port("multi", "f32", (1,)),
    ]
    yield Graph("prompt", Prompt(model, side), features + points, selected)
    mask = [Port("mask", "f32", ("B", 1, side, side))]
    yield Graph("mask_prompt", MaskPrompt(model, side), features + mask, answer)

    yield Graph("track", Track(model, side), features + _bank(c, "F", "N"), selected)
    if padded_track:
        keys = c.max_memories * c.memory_tokens + c.max_pointers * (width // c.memory_channels)
        bias = Port("bias", "f32", (1, 1, 1, keys))
        module = PaddedTrack(Track(model, side), c.pointer_times, keys)
        inputs = features + _bank(c, c.max_memories, c.max_pointers) + [bias]
        yield Graph("track_padded", module, inputs, selected)

    if segments:
        yield from _segments(Track(model, side), c, features, selected, mask_decoder)

    memory = [
        Port("feat", "f", (1, width, g, g)),
        Port("low", "f32", ("B", 1, low, low)),
        Port("score", "f32", ("B", 1)),
        Port("binar", "f32", (1,)),
    ]
    tokens = [Port("mem", "f", ("B", c.memory_tokens, c.memory_channels))]
    yield Graph("memory", MemoryEncoder(model, side), memory, tokens)


def encoder_cuts(encoder, side, features, bounds=None):
    """The encoder in parts (encoder_parts.py), none where it stays whole; `bounds` where others
    than the usual ones are wanted."""
    if not isinstance(encoder.trunk, HieraTrunk):
        return
    parts = bounds or bounds_of(len(encoder.trunk.blocks))
    if len(parts) == 1:
        return
    known = {port.name: port for port in features} | {"image": Port("image", "f", (1, 3, side, side))}

    def tokens(name, block):
        """A port of the tokens in front of this block."""
        block = encoder.trunk.blocks[block]
        return Port(name, "f", (1, block.grid, block.grid, block.dim))

    for index, (first, behind) in enumerate(parts):
        module = EncoderPart(encoder, first, behind)
        inputs = [known.get(name) or tokens(name, first) for name in module.inputs]
        outputs = [known.get(name) or tokens(name, behind) for name in module.outputs]
        yield Graph(f"encoder_cut{index}", module, inputs, outputs)


def around_trunk(encoder, side, features):
    """The encoder without its trunk's blocks (trunk.py): stem and neck."""
    blocks = trunk.blocks_of(encoder.trunk, side)
    ports = {name: Port(name, blocks.PORT, shape) for name, shape in trunk.shapes_of(blocks).items()}
    stem = blocks.Stem(encoder.trunk)
    yield Graph("encoder_cut0", stem, [Port("image", "f", (1, 3, side, side))], [ports["y"]])
    yield Graph("encoder_cut1", trunk.Neck(encoder), [ports[name] for name in trunk.STAGES], features)


def _segments(track, c, features, answer, mask_decoder):
    """The track step of a full bank, cut at its attentions (track_segments.py)."""
    tokens, width = c.grid**2, c.feature_channels
    keys = c.max_memories * c.memory_tokens + c.max_pointers * (width // c.memory_channels)
    made = [Port(f"k{i}", "f", ("B", keys, width)) for i in range(len(track.memory.layers))]
    yield Graph("track_keys", track_segments.Keys(track), _bank(c, c.max_memories, c.max_pointers), made)
    # The first segment sees the frame alone, whatever the number of objects.
    def port(name, objects="B", columns=width):
        return Port(name, "f", (objects, tokens, columns))

    for index, module in enumerate(track_segments.modules(track)):
        of = 1 if index <= 1 else "B"
        match module:
            case track_segments.Start():
                inputs, outputs = features[:1], [port(name, 1) for name in "yqkv"]
            case track_segments.Query():
                inputs, outputs = [port("x", of), port("o", of)], [port("y", of), port("q", of)]
            case track_segments.Finish():
                inputs = [port("x", 1 if index == 2 else "B"), port("o", columns=c.memory_channels)]
                outputs = [port(name) for name in "yqkv"]
            case track_segments.Decode():
                inputs = [port("x"), port("o", columns=c.memory_channels), *features[1:]]
                outputs = answer
        yield Graph(f"track_seg{index}", module, inputs, outputs)
    if mask_decoder == "cuda":
        yield Graph("track_image", track_segments.Normed(track),
                    [port("x"), port("o", columns=c.memory_channels)], [port("y")])


def _bank(c, frames, pointers):
    """Input ports of a memory bank with `frames` memories and `pointers` pointers."""
    ports = [
        Port("mem", "f", ("B", frames, c.memory_tokens, c.memory_channels)),
        Port("tidx", "i32", (frames,)),
        Port("ptrs", "f", ("B", pointers, c.pointer_channels)),
    ]
    return ports + [Port("ptr_t", "f32", (pointers,))] if c.pointer_times else ports


class PaddedTrack(nn.Module):
    """`track` at a fixed, full bank with an additive key bias (0 = real, -1e4 = padding)."""

    def __init__(self, track, pointer_times, keys):
        super().__init__()
        self.track, self.pointer_times, self.keys = track, pointer_times, keys

    def forward(self, feat, hr0, hr1, mem, tidx, ptrs, *rest):
        ptr_t, bias = rest if self.pointer_times else (None, rest[0])
        bias = bias.reshape(1, 1, self.keys)
        return self.track(feat, hr0, hr1, mem, tidx, ptrs, ptr_t, bias)
