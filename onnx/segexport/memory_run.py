"""What the memory encoder computes, in numpy, from its file of weights alone (memory_weights.py).

For tests: nothing of the exporter's modules is used. What segtrt's kernels store or multiply in f16
is rounded to f16 here: what one kernel leaves to the next (narrow, wide, x, y, memory, keys,
values, queries), left factors of products (GELUs' results, normalised rows, what was attended to)
and the softmaxes' weights; sums, norms and the latents are f32. g tokens a side, N of them.
"""

import numpy as np
from scipy.special import expit

from .decoder_run import gelu, half

WIDTH, LATENTS, SQUARE, SPLIT, LAYERS = 64, 256, 16, 128, 2
CHANNELS_EPS, LATENTS_EPS = 1e-6, 1e-5
# How latents.windows.halves is cut, layer by layer.
SMALL, UP, DOWN = (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH)
HALVES = {
    "ask": SMALL, "answer": SMALL, "ff_up": UP, "ff_down": DOWN, "alone": SMALL, "self_up": UP, "self_down":
    DOWN
}
NORMS = ("norm", "norm_latents", "norm_ff", "norm_self", "norm_self_ff")


def compute(tensors, table, feat, low, score, binary):
    """Of one object: feat [256,g,g], low [4g,4g], the object's score, whether the mask is binary ->
    memory [N or 512,64]."""
    memory = encode(tensors, table, feat, low, score, binary)
    return perceive(tensors, memory, table["grid"]) if table["latents"] else memory


def encode(tensors, table, feat, low, score, binary):
    """The memory of every token [N,64]."""
    get, grid = _Weights(tensors), table["grid"]
    high = enlarge(low)
    mask = (high > 0).astype(np.float32) if binary > 0.5 else expit(high)
    mask = mask * np.float32(table["scale"]) + np.float32(table["offset"])
    middle = get.convolve(mask[..., None], "memory.mask.{}1")
    narrow = half(get.convolve(middle, "memory.mask.{}2"))
    wide = half(get.convolve(narrow, "memory.widen.{}"))
    joined = half(get.convolve(wide, "memory.join.{}"))
    features = half(feat).reshape(len(feat), -1).T
    x = joined.reshape(grid**2, -1) @ get("memory.join.mask").T + features @ get("memory.join.feature").T
    x = half(x + get("memory.join.sum_bias"))
    for at in (0, 1):
        name = f"memory.blocks.{at}"
        y = spread(x.reshape(grid, grid, -1), get(f"{name}.spread")) + get(f"{name}.spread_bias")
        y = half(get.norm(y, f"{name}.norm")).reshape(len(x), -1)
        hidden = half(gelu(y @ get(f"{name}.up").T + get(f"{name}.up_bias")))
        x = half(x + hidden @ get(f"{name}.down").T + get(f"{name}.down_bias"))
    return half(x @ get("memory.out").T + get("memory.out_bias") +
                (get("memory.absent") if score <= 0 else 0))


def perceive(tensors, memory, grid):
    """The latents [512,64] of it: those that attend to all tokens first."""
    get = _Weights(tensors)
    return half(np.concatenate([_of_all(get, memory), _of_windows(get, memory, grid)]))


class _Weights:
    """The file's tensors by name, as f32."""

    def __init__(self, tensors):
        self.tensors = tensors

    def __call__(self, name):
        return self.tensors[name].astype(np.float32)

    def norm(self, rows, name):
        """The norm of that name; `….norm1` has `….norm1.weight` and `….norm1.bias`."""
        eps = CHANNELS_EPS if name.startswith("memory.") else LATENTS_EPS
        return normalize(rows, self(f"{name}.weight"), self(f"{name}.bias"), eps)

    def convolve(self, image, name):
        """A convolution of the mask, its norm and GELU; `{}` in the name stands for what is read."""
        weight = self(name.format("weight"))
        made = convolve(image, weight if weight.ndim == 3 else weight[..., None]) + self(name.format("bias"))
        return gelu(self.norm(made, name.format("norm")))

    def network(self, latents, name):
        """latents + down GELU(up norm(latents))."""
        hidden = half(gelu(half(self.norm(latents, f"{name}.norm")) @ self(f"{name}.up").T))
        return latents + hidden @ self(f"{name}.down").T


def normalize(rows, weight, bias, eps):
    mean = rows.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(((rows - mean) ** 2).mean(axis=-1, keepdims=True) + np.float32(eps))
    return (rows - mean) / deviation * weight + bias


def enlarge(low):
    """[n,n] -> [4n,4n], bilinear between pixels' middles."""
    source = np.maximum((np.arange(4 * len(low), dtype=np.float32) + 0.5) / 4 - 0.5, 0)
    first = source.astype(int)
    second, share = np.minimum(first + 1, len(low) - 1), source - first
    rows = low[:, first] * (1 - share) + low[:, second] * share
    return rows[first] * (1 - share[:, None]) + rows[second] * share[:, None]


def convolve(image, weight):
    """[2h,2w,in] through weight [out,(dy, dx),in], 3x3 around every second pixel -> [h,w,out]."""
    height, width, padded = *image.shape[:2], np.pad(image, ((1, 1), (1, 1), (0, 0)))
    taps = ((tap, *divmod(tap, 3)) for tap in range(9))
    return sum(padded[dy : dy + height : 2, dx : dx + width : 2] @ weight[:, tap].T for tap, dy, dx in taps)


def spread(x, weight):
    """[g,g,C] through weight [(dy, dx),C], 7x7 around every pixel, channel by channel."""
    grid, padded = len(x), np.pad(x, ((3, 3), (3, 3), (0, 0)))
    taps = ((tap, *divmod(tap, 7)) for tap in range(49))
    return sum(padded[dy : dy + grid, dx : dx + grid] * weight[tap] for tap, dy, dx in taps)


def _of_all(get, memory):
    """The latents that attend to all tokens, and to each other."""
    latents, queries, positions = get("latents.flat"), get("latents.first"), get("latents.positions")
    for at in range(LAYERS):
        name = f"latents.layers.{at}"
        if at:
            queries = half(half(get.norm(latents, f"{name}.query.norm")) @ get(f"{name}.query.weight").T)
        tokens, kv = half(get.norm(memory, f"{name}.norm")), get(f"{name}.kv")
        keys, values = (half(tokens @ rows.T + positions) for rows in (kv[:WIDTH], kv[WIDTH:]))
        latents = latents + half(_attend(queries, keys, values)) @ get(f"{name}.out").T
        latents = get.network(latents, f"{name}.ff")
        qkv = half(half(get.norm(latents, f"{name}.self.norm")) @ get(f"{name}.self.qkv").T)
        q, k, v = np.split(qkv, 3, axis=1)
        latents = latents + half(_attend(q, k, v)) @ get(f"{name}.self.out").T
        latents = get.network(latents, f"{name}.self_ff")
    return get.norm(latents, "latents.last")


def _attend(queries, keys, values):
    """softmax(q k^T) v, split by split of the keys, then what the splits made together."""
    scores, most, sums, parts = queries @ keys.T, [], [], []
    for top in range(0, len(keys), SPLIT):
        split = scores[:, top : top + SPLIT]
        most.append(split.max(axis=1))
        weight = np.exp(split - most[-1][:, None])
        sums.append(weight.sum(axis=1))
        parts.append(half(weight) @ values[top : top + SPLIT])
    share = np.exp(np.stack(most) - np.max(most, axis=0))
    return (share[..., None] * parts).sum(axis=0) / (share * sums).sum(axis=0)[:, None]


def _of_windows(get, memory, grid):
    """The latents that attend to the tokens of a square each: latent sy*16 + sx to (sy, sx)."""
    latents, window = get("latents.map"), grid // SQUARE
    windows = memory.reshape(SQUARE, window, SQUARE, window,
                             WIDTH).swapaxes(1, 2).reshape(LATENTS, window**2, WIDTH)
    halves, floats = get("latents.windows.halves"), get("latents.windows.floats").reshape(-1, 2, WIDTH)
    norms = list(floats[::-1])
    for _ in range(LAYERS):
        weight, norm = {}, {name: norms.pop() for name in NORMS}
        for name, shape in HALVES.items():
            weight[name], halves = halves[: shape[0] * shape[1]].reshape(shape), halves[shape[0] * shape[1] :]

        def normed(name, rows):
            return normalize(rows, *norm[name], LATENTS_EPS)

        def network(rows, part, up, down):
            return rows + half(gelu(half(normed(part, rows)) @ weight[up].T)) @ weight[down].T

        tokens = normed("norm", windows)
        asked = half(normed("norm_latents", latents)) @ weight["ask"].T
        scores = np.einsum("lc,lnc->ln", asked, tokens)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        latents = latents + half(np.einsum("ln,lnc->lc", shares, tokens)) @ weight["answer"].T
        latents = network(latents, "norm_ff", "ff_up", "ff_down")
        latents = latents + half(normed("norm_self", latents)) @ weight["alone"].T
        latents = network(latents, "norm_self_ff", "self_up", "self_down")
    return normalize(latents, *norms.pop(), LATENTS_EPS)
