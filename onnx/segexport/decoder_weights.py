"""The weights of the track step's mask decoder, for segtrt to compute it itself in place of the
last segment's end.

In the track step the prompt tokens are constants, so the decoder is eight tokens and an image, and
what of it depends on the tokens alone is folded into what the image is multiplied with. One file of
weights, `mask_decoder.safetensors`, and the manifest's table [mask_decoder]. onnx/README.md lists
the tensors; what is computed of them is, as a program, decoder_run.py.

A head's columns are 16h to 16h+15; row 8h+j of a folded matrix is head h and token j.
"""

import hashlib

import numpy as np
import torch
from safetensors.numpy import save
from torch import nn

from . import ExportError

FILE = "mask_decoder.safetensors"
# What segtrt's kernels take.
TOKENS, WIDTH, HEADS, CROSS, HIDDEN, LAYERS = 8, 256, 8, 128, 2048, 2
MASKS, MIDDLE, NARROW, LEAST_GRID = 4, WIDTH // 4, WIDTH // 8, 4
LARGEST_HALF = 65504.0
INSTEAD = "export with --mask-decoder engine"


def check(track):
    """Raises ExportError where segtrt's kernels do not compute what a Track's decoder computes;
    shapes are `tensors_of`'s to check."""
    decoder, wrong = track.decoder, None
    blocks, last = decoder.two_way.blocks, decoder.two_way.last
    crossing = [attention for block in blocks for attention in (block.to_image, block.to_tokens)] + [last]
    attentions = [*crossing, *(block.self_attn for block in blocks)]
    norms = [norm for block in blocks
             for norm in (block.norm1, block.norm2, block.norm3, block.norm4)] + [decoder.two_way.norm]
    away = [norm.eps for norm in norms if norm.eps != 1e-5]
    heads = [attention.heads for attention in attentions if attention.heads != HEADS]
    if not hasattr(decoder, "tokens") or decoder.tokens.shape[1] != TOKENS:
        wrong = f"tokens that are no {TOKENS} constants"
    elif len(blocks) != LAYERS or [block.first for block in blocks] != [True, False]:
        wrong = f"{len(blocks)} layers, expected {LAYERS} of which the second's self-attention has positions"
    elif heads:
        wrong = f"attention with {heads[0]} heads, expected {HEADS}"
    elif away or decoder.up_norm.eps != 1e-6:
        wrong = f"norms with {away[0] if away else decoder.up_norm.eps} below the root, expected 1e-5, and 1e-6 where it upscales"
    elif not all(isinstance(block.act, nn.ReLU) for block in blocks):
        wrong = "a hidden layer without ReLU"
    elif not isinstance(decoder.act, nn.GELU) or decoder.act.approximate != "none":
        wrong = f"{decoder.act} where it upscales, expected the exact GELU"
    elif any((up.kernel_size, up.stride, up.padding, up.groups) != ((2, 2), (2, 2), (0, 0), 1)
             for up in (decoder.up1, decoder.up2)):
        wrong = "an upscaling that is not two transposed convolutions of 2x2 pixels without overlap"
    elif track.f32_heads.masks != MASKS:
        wrong = f"{track.f32_heads.masks} masks, expected {MASKS}"
    elif decoder.grid < LEAST_GRID:
        wrong = f"a map of {decoder.grid} tokens a side, expected {LEAST_GRID} or more"
    if wrong:
        raise ExportError(f"segtrt's kernels for a mask decoder do not take this one: {wrong}; {INSTEAD}")


def check_tracking(model):
    """Raises ExportError where the original predictor would not choose among three masks while it
    tracks, as the kernels do."""
    wanted = ("multimask_output_in_sam", "multimask_output_for_tracking", "use_multimask_token_for_obj_ptr",
              "pred_obj_scores", "fixed_no_obj_ptr")
    lacking = [name for name in wanted if not getattr(model, name, False)]
    if getattr(model, "multimask_min_pt_num", 0) > 0:
        lacking.append("multimask_min_pt_num = 0")
    if lacking:
        raise ExportError(f"segtrt's kernels for a mask decoder choose among three masks; this model has "
                          f"no {', '.join(lacking)}; {INSTEAD}")


def tensors_of(track):
    """Name -> array of the file, for a Track: f16 what products are made with, except what is read
    from the tokens; f32 all else."""
    check(track)
    found, half, wide = {}, np.float16, np.float32

    def put(name, value, kind, *shape):
        value = value.detach().numpy()
        if value.shape != shape:
            raise ExportError(f"decoder.{name} has the shape {list(value.shape)}, of which segtrt's "
                              f"kernels take {list(shape)}; {INSTEAD}")
        if kind == half and not np.abs(value).max() <= LARGEST_HALF:
            raise ExportError(f"decoder.{name} has values beyond f16's largest, {LARGEST_HALF}; {INSTEAD}")
        found[f"decoder.{name}"] = np.ascontiguousarray(value.astype(kind))

    def put_norm(name, norm, width=WIDTH):
        put(f"{name}.weight", norm.weight, wide, width)
        put(f"{name}.bias", norm.bias, wide, width)

    def put_read(name, attention, norm, folded):
        """Tokens attend to the image: its keys' bias adds the same to all scores of a row, and so nothing."""
        put(f"{name}.values", attention.v.weight, half, CROSS, WIDTH)
        put(f"{name}.value_bias", attention.v.bias, wide, CROSS)
        put(f"{name}.out", attention.out.weight.T, half, CROSS, WIDTH)
        put(f"{name}.out_bias", attention.out.bias, wide, WIDTH)
        put_norm(f"{name}.norm", norm)
        if not folded:
            put(f"{name}.query", attention.q.weight, half, CROSS, WIDTH)
            put(f"{name}.query_bias", attention.q.bias, wide, CROSS)
            put(f"{name}.key", attention.k.weight, half, CROSS, WIDTH)

    def put_write(name, attention, norm):
        """The image attends to the tokens."""
        for part, layer in (("key", attention.k), ("value", attention.v), ("query", attention.q)):
            put(f"{name}.{part}", layer.weight, half, CROSS, WIDTH)
            put(f"{name}.{part}_bias", layer.bias, wide, CROSS)
        put(f"{name}.out", attention.out.weight, half, WIDTH, CROSS)
        put(f"{name}.out_bias", attention.out.bias, wide, WIDTH)
        put_norm(f"{name}.norm", norm)

    decoder, two_way = track.decoder, track.decoder.two_way
    put("pe", two_way.pe[0], half, decoder.grid**2, WIDTH)
    put("tokens", decoder.tokens[0], wide, TOKENS, WIDTH)
    put("started", decoder.started[0], wide, TOKENS, WIDTH)
    for at, block in enumerate(two_way.blocks):
        name = f"layers.{at}"
        put_read(f"{name}.read", block.to_image, block.norm2, folded=at == 0)
        put(f"{name}.up", block.up.weight, half, HIDDEN, WIDTH)
        put(f"{name}.up_bias", block.up.bias, wide, HIDDEN)
        put(f"{name}.down", block.down.weight, half, WIDTH, HIDDEN)
        put(f"{name}.down_bias", block.down.bias, wide, WIDTH)
        put_norm(f"{name}.norm3", block.norm3)
        put_write(f"{name}.write", block.to_tokens, block.norm4)
    inner, norm = two_way.blocks[1].self_attn, two_way.blocks[1].norm1
    put("layers.1.self.weight", torch.cat([layer.weight for layer in (inner.q, inner.k, inner.v)]), half,
        3 * WIDTH, WIDTH)
    put("layers.1.self.bias", torch.cat([layer.bias for layer in (inner.q, inner.k, inner.v)]), wide,
        3 * WIDTH)
    put("layers.1.self.out", inner.out.weight.T, half, WIDTH, WIDTH)
    put("layers.1.self.out_bias", inner.out.bias, wide, WIDTH)
    put_norm("layers.1.self.norm", norm)
    put_read("last", two_way.last, two_way.norm, folded=False)
    put("first", _folded(decoder), half, HEADS * TOKENS, WIDTH)
    _put_heads(put, track)
    put("masks.weight1", _by_place(decoder.up1), half, 4, MIDDLE, WIDTH)
    put("masks.bias1", decoder.up1.bias, wide, MIDDLE)
    put_norm("masks.norm", decoder.up_norm, MIDDLE)
    put("masks.weight2", _by_place(decoder.up2), half, 4, NARROW, MIDDLE)
    put("masks.bias2", decoder.up2.bias, wide, NARROW)
    return found


def _folded(decoder):
    """What scores of the first read are made with: its queries, which are constants, times the
    keys' weight."""
    attention = decoder.two_way.blocks[0].to_image
    queries = (decoder.started + decoder.tokens)[0].double()
    q = queries @ attention.q.weight.double().T + attention.q.bias.double()
    q, key = q.reshape(len(q), HEADS, -1), attention.k.weight.double().reshape(HEADS, -1, queries.shape[1])
    return torch.einsum("jhd,hdc->hjc", q, key).reshape(-1, queries.shape[1])


def _put_heads(put, track):
    """The rows of TokenHeads that tracking reads: score, IoU, masks 1 to 3, and the pointers'
    network once."""
    heads, wide, rows = track.f32_heads, np.float32, [0, 1, 3, 4, 5, 6]
    for at, layer in enumerate(heads.inner):
        put(f"heads.inner{at}", layer.weight[rows], wide, len(rows), WIDTH, WIDTH)
        put(f"heads.inner{at}_bias", layer.bias[rows, 0], wide, len(rows), WIDTH)
    # Rows [out][in and the bias], of layers stored [in, out].
    outer = torch.cat([heads.outer.weight, heads.outer.bias], dim=1).transpose(1, 2)
    put("heads.score", outer[0, 0], wide, WIDTH + 1)
    put("heads.iou", outer[1, :MASKS], wide, MASKS, WIDTH + 1)
    put("heads.hyper", outer[3:], wide, MASKS - 1, NARROW, WIDTH + 1)
    put("heads.pointer", torch.cat([heads.pointer.weight.T, heads.pointer.bias[None]]), wide, WIDTH + 1,
        WIDTH)
    put("heads.no_pointer", track.no_pointer.reshape(-1), wide, WIDTH)


def _by_place(convolution):
    """A transposed convolution's weight [in, out, dy, dx] as [(dy, dx), out, in]."""
    return convolution.weight.permute(2, 3, 1, 0).flatten(0, 1)


def work_of(grid):
    """2 * multiply-accumulates over the image as segtrt computes them, and of what the tokens are
    multiplied with."""
    image, rows = grid**2, HEADS * TOKENS
    read = image * (rows * WIDTH + CROSS * WIDTH + TOKENS * CROSS)
    write = image * 2 * rows * WIDTH
    upscaled = image * (4 * MIDDLE * WIDTH + 16 * NARROW * MIDDLE + 16 * NARROW)
    # A layer's MLP; read's output; write's keys and values, folded; layer 1's self-attention; what
    # the second and last reads fold.
    layer = TOKENS * (2 * WIDTH * HIDDEN + CROSS * WIDTH + 4 * CROSS * WIDTH)
    tokens = LAYERS * layer + TOKENS * (4 * WIDTH * WIDTH + CROSS * WIDTH) + 2 * TOKENS * 2 * CROSS * WIDTH
    heads = 16 * WIDTH * WIDTH + WIDTH * (1 + MASKS + NARROW + WIDTH)
    return 2 * (3 * read + LAYERS * write + upscaled + tokens + heads)


def table_of(track):
    """The manifest's [mask_decoder] without the fields of the file."""
    return {"flops": work_of(track.grid), "grid": track.grid, "probable": track.f32_heads.probable}


def write(track, folder):
    """Writes the file of weights into `folder`; returns the manifest's [mask_decoder] table."""
    data = save(tensors_of(track))
    (folder / FILE).write_bytes(data)
    return {"file": FILE, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} | table_of(track)
