"""What the track step's mask decoder computes, in numpy, from its file of weights alone (decoder_weights.py).

For tests: nothing of the exporter's modules is used. What segtrt's kernels store or multiply in f16
is rounded to f16 here (the image between kernels, what is folded for it, its values, the softmax's
weights, the upscaled image's middle); sums are f32, and so is all that is done with tokens. R = 64
rows: row 8h+j is head h and token j. x [N,256] is the image, y what a layer makes of it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

TOKENS, HEADS, TILE = 8, 8, 64
ABSENT = np.float32(-1024.0)
# Whose row of the heads' networks a token is given to, and which network that is: score, IoU, hyper
# 1-3, pointer of mask tokens 1-3.
ROWS, NETWORKS = [0, 1, 3, 4, 5, 3, 4, 5], [0, 1, 2, 3, 4, 5, 5, 5]


@dataclass
class Answer:
    """Of one object: low [4g,4g], iou and score numbers, pointer [256], ious [3] of masks 1 to 3;
    which of these was chosen, counted from 0."""

    low: np.ndarray
    iou: np.float32
    pointer: np.ndarray
    score: np.float32
    ious: np.ndarray
    choice: int


def compute(tensors, image, hr0, hr1, probable=True):
    """The tokens behind the memory attention [N,256] and the finer features [32,4g,4g], [64,2g,2g]
    -> Answer."""
    get = _Weights(tensors)
    pe, tokens, x = get("pe"), get("tokens"), half(image)
    queries = _gather(get, "layers.0.read", get("started"), x, pe, get("first"))
    for at in (0, 1):
        name = f"layers.{at}"
        if at:
            queries = _self_attention(get, f"{name}.self", queries, tokens)
            queries = _read(get, f"{name}.read", queries, tokens, x, pe)
        hidden = np.maximum(get.product(queries, f"{name}.up"), 0)
        queries = get.norm(queries + get.product(hidden, f"{name}.down"), f"{name}.norm3")
        x = _write(get, f"{name}.write", queries, tokens, x, pe)
    decoded = _read(get, "last", queries, tokens, x, pe)
    score, ious, choice, vector, pointer = _heads(get, decoded, probable)
    low = _masks(get, x, half(hr0), half(hr1), vector) if score > 0 else np.full(
        (4 * int(len(x)**0.5), ) * 2, ABSENT)
    return Answer(low, ious[choice], pointer, score, ious, choice)


class _Weights:
    """The file's tensors by name, as f32."""

    def __init__(self, tensors):
        self.tensors = tensors

    def __call__(self, name):
        return self.tensors[f"decoder.{name}"].astype(np.float32)

    def product(self, rows, name):
        """rows W^T + b, for W [out,in]."""
        return rows @ self(name).T + self(f"{name}_bias")

    def norm(self, rows, name, eps=1e-5):
        mean = rows.mean(axis=-1, keepdims=True)
        spread = np.sqrt(((rows - mean) ** 2).mean(axis=-1, keepdims=True) + np.float32(eps))
        return (rows - mean) / spread * self(f"{name}.weight") + self(f"{name}.bias")


def half(x):
    """Rounded to f16, as f32."""
    return np.asarray(x).astype(np.float16).astype(np.float32)


def fold(rows, weight):
    """rows [8,128] of tokens through weight [128,256], head by head -> [R,256], f16."""
    columns = rows.shape[1] // HEADS
    rows, weight = rows.reshape(TOKENS, HEADS, columns), weight.reshape(HEADS, columns, -1)
    return half(np.einsum("jhd,hdc->hjc", rows, weight).reshape(HEADS * TOKENS, -1))


def _read(get, name, queries, tokens, x, pe):
    """Tokens attend to the image."""
    return _gather(get, name, queries, x, pe,
                   fold(get.product(queries + tokens, f"{name}.query"), get(f"{name}.key")))


def _gather(get, name, queries, x, pe, folded):
    """`_read` with its folded queries [R,256]: tile by tile, then what the tiles made together."""
    scores, values = half(x + pe) @ folded.T, half(x @ get(f"{name}.values").T)
    most, sums, parts = [], [], []
    for top in range(0, len(x), TILE):
        tile = scores[top : top + TILE]
        most.append(tile.max(axis=0))
        weight = np.exp(tile - most[-1])
        sums.append(weight.sum(axis=0))
        weight, value = half(weight).reshape(-1, HEADS,
                                             TOKENS), values[top:top + TILE].reshape(len(tile), HEADS, -1)
        parts.append(np.einsum("nhj,nhd->hjd", weight, value).reshape(HEADS * TOKENS, -1))
    share = np.exp(np.stack(most) - np.max(most, axis=0))
    attended = (share[..., None] * parts).sum(axis=0) / (share * sums).sum(axis=0)[:, None]
    attended = attended.reshape(HEADS, TOKENS, -1).swapaxes(0, 1).reshape(TOKENS,
                                                                          -1) + get(f"{name}.value_bias")
    return get.norm(queries + attended @ get(f"{name}.out") + get(f"{name}.out_bias"), f"{name}.norm")


def _write(get, name, queries, tokens, x, pe):
    """The image attends to the tokens -> y, f16."""
    key, value = get.product(queries + tokens, f"{name}.key"), get.product(queries, f"{name}.value")
    keys, values = fold(key, get(f"{name}.query")), fold(value, get(f"{name}.out").T)
    bias = np.einsum("jhd,hd->hj", key.reshape(TOKENS, HEADS, -1),
                     get(f"{name}.query_bias").reshape(HEADS, -1))
    scores = (half(x + pe) @ keys.T).reshape(-1, HEADS, TOKENS) + bias
    weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weight = half(weight / weight.sum(axis=-1, keepdims=True)).reshape(len(x), -1)
    return half(get.norm(x + weight @ values + get(f"{name}.out_bias"), f"{name}.norm"))


def _self_attention(get, name, queries, tokens):
    """Tokens attend to one another: queries and keys with positions, values without."""
    weight, bias = get(f"{name}.weight"), get(f"{name}.bias")
    width = len(weight) // 3
    placed = (queries + tokens) @ weight[: 2 * width].T + bias[: 2 * width]
    value = queries @ weight[2 * width :].T + bias[2 * width :]
    q, k, v = (rows.reshape(TOKENS, HEADS, -1).swapaxes(0, 1)
               for rows in (placed[:, :width], placed[:, width:], value))
    scores = q @ k.swapaxes(1, 2)
    weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
    attended = (weight / weight.sum(axis=-1, keepdims=True) @ v).swapaxes(0, 1).reshape(TOKENS, -1)
    return get.norm(queries + attended @ get(f"{name}.out") + get(f"{name}.out_bias"), f"{name}.norm")


def _heads(get, decoded, probable):
    """Decoded tokens [8,256] -> score, IoUs of masks 1 to 3, choice, hyper vector [32] and pointer."""
    rows = decoded[ROWS]
    for at in (0, 1):
        weight, bias = get(f"heads.inner{at}")[NETWORKS], get(f"heads.inner{at}_bias")[NETWORKS]
        rows = np.maximum((rows[:, None] @ weight)[:, 0] + bias, 0)
    rows = np.concatenate([rows, np.ones((len(rows), 1), np.float32)], axis=1)  # the bias's one
    score, ious = get("heads.score") @ rows[0], get("heads.iou") @ rows[1]
    if probable:
        ious = 1 / (1 + np.exp(-ious))
    choice = int(np.argmax(ious[1:]))  # the first one of equals
    pointer = rows[5 + choice] @ get("heads.pointer") if score > 0 else get("heads.no_pointer")
    return score, ious[1:], choice, get("heads.hyper")[choice] @ rows[2 + choice], pointer


def _masks(get, x, hr0, hr1, vector):
    """The image upscaled, f16 in the middle, times the chosen vector -> low [4g,4g]."""
    x = _upscale(x.reshape(hr1.shape[1] // 2, -1, x.shape[1]), get("masks.weight1"), get("masks.bias1"))
    x = half(gelu(get.norm(x + hr1.transpose(1, 2, 0), "masks.norm", 1e-6)))
    x = gelu(_upscale(x, get("masks.weight2"), get("masks.bias2")) + hr0.transpose(1, 2, 0))
    return x @ vector


def _upscale(x, weight, bias):
    """[h,w,in] through weight [(dy, dx),out,in] -> [2h,2w,out]."""
    height, width = x.shape[:2]
    made = np.einsum("yxi,poi->yxpo", x, weight, optimize=True).reshape(height, width, 2, 2, -1)
    return made.transpose(0, 2, 1, 3, 4).reshape(2 * height, 2 * width, -1) + bias


def gelu(x):
    """The exact GELU."""
    return (np.float32(0.5) * x * (1 + erf(x / np.float32(2**0.5)))).astype(np.float32)
