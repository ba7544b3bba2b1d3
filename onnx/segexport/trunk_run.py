"""What a trunk's blocks compute, in numpy, from a manifest's [trunk] table and its file of weights alone.

For tests: nothing of the exporter's modules is used, and padding tokens, pooling and the heads'
columns are looked up as segtrt's kernels do it. With `half` every tensor that is f16 there is
rounded to f16 here; sums are f32 either way.
"""

import math

import numpy as np
from scipy.special import erf


def trunk_run(table, tensors, half=False):
    """The program of a trunk's kind."""
    return (HieraRun if "block" in table else RepVitRun)(table, tensors, half)


class _Run:
    """Tokens y [1,g,g,C] to the tokens behind each stage."""

    KEY = ""  # of the blocks' list

    def __init__(self, table, tensors, half=False):
        self.table, self.tensors, self.half = table, tensors, half

    def __call__(self, y):
        x, stages = np.asarray(y, np.float32)[0], []
        for at, block in enumerate(self.table[self.KEY]):
            assert x.shape == (block["grid"], block["grid"], block["dim"]), (at, x.shape)
            x = self._block(x, block, at)
            if at in self.table["ends"]:
                stages.append(x[None])
        return stages

    def _product(self, x, at, name):
        return x @ self._get(at, name, "weight").T + self._get(at, name, "bias")

    def _get(self, at, name, part):
        return self.tensors[f"blocks.{at}.{name}.{part}"].astype(np.float32)

    def _round(self, x):
        return x.astype(np.float16).astype(np.float32) if self.half else x.astype(np.float32)


class HieraRun(_Run):
    """Tokens are f32 between blocks."""

    KEY = "block"

    def _block(self, x, block, at):
        n = self._normalize(x, at, "norm1")
        if block["dim"] != block["dim_out"]:
            x = self._round(self._product(n, at, "skip"))
        if block["pooled"]:
            x = pool(x)
        qkv = self._round(self._product(n, at, "qkv"))
        a = self._round(self._attend(qkv, self._get(at, "qkv", "bias"), block))
        x = x + self._product(a, at, "proj")
        h = self._round(self._product(self._normalize(x, at, "norm2"), at, "up"))
        return x + self._product(self._round(gelu(h)), at, "down")

    def _attend(self, qkv, bias, block):
        """Of qkv [g,g,3*columns]; [g,g,columns], or half the side where it is pooled."""
        grid, heads, columns = block["grid"], block["heads"], block["dim_out"]
        window = block["window"] or grid
        side = -(-grid // window) * window
        # Padding tokens are zero behind the norm, so that the bias is all that they have.
        padded = np.broadcast_to(bias, (side, side, 3 * columns)).copy()
        padded[:grid, :grid] = qkv
        step = 2 if block["pooled"] else 1
        out = np.zeros((side // step, side // step, columns), np.float32)
        inner = window // step
        for top in range(0, side, window):
            for left in range(0, side, window):
                part = padded[top : top + window, left : left + window]
                q, k, v = np.split(part, 3, axis=-1)
                if block["pooled"]:
                    q = pool(q)
                q, k, v = (t.reshape(-1, heads, columns // heads).swapaxes(0, 1) for t in (q, k, v))
                o = softmax(q @ k.swapaxes(1, 2)) @ v
                y, x = top // step, left // step
                out[y : y + inner, x : x + inner] = o.swapaxes(0, 1).reshape(inner, inner, columns)
        return out[: grid // step, : grid // step]

    def _normalize(self, x, at, name):
        mean = x.mean(axis=-1, keepdims=True)
        spread = np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + np.float32(1e-6))
        return self._round((x - mean) / spread * self._get(at, name, "weight") + self._get(at, name, "bias"))


class RepVitRun(_Run):
    """Tokens are f16 between blocks, and between the layers of one."""

    KEY = "repvit"

    def _block(self, x, block, at):
        x = self._round(self._depthwise(x, block["stride"], at))
        if block["squeeze"]:
            mean = x.mean(axis=(0, 1))
            hidden = np.maximum(self._product(mean, at, "squeeze"), 0)
            x = self._round(x / (1 + np.exp(-self._product(hidden, at, "excite"))))
        if block["dim"] != block["dim_out"]:
            x = self._round(self._product(x, at, "pw"))
        h = self._round(gelu(self._product(x, at, "up")))
        return self._round(x + self._product(h, at, "down"))

    def _depthwise(self, x, stride, at):
        side, weight = len(x), self._get(at, "dw", "weight")
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        places = [padded[row : row + side : stride, column : column + side : stride]
                  for row in range(3) for column in range(3)]
        return sum(place * of for place, of in zip(places, weight, strict=True)) + self._get(at, "dw", "bias")


def stem_run(tensors, image, half=False):
    """An image [1,3,S,S] to the tokens y, where the stem is in the file. A Hiera's are f32."""
    x = _rounded(np.asarray(image, np.float32)[0].transpose(1, 2, 0), half)
    if "stem.position" in tensors:
        return (_convolved(x, tensors, "stem.patch", 7, 4) + tensors["stem.position"])[None]
    x = _rounded(gelu(_convolved(x, tensors, "stem.first", 3, 2)), half)
    return _rounded(_convolved(x, tensors, "stem.second", 3, 2), half)[None]


def _convolved(x, tensors, name, kernel, stride):
    """A convolution of [h,w,c]."""
    weight, bias = (tensors[f"{name}.{part}"].astype(np.float32) for part in ("weight", "bias"))
    weight, around = weight.reshape(len(weight), -1, kernel, kernel), kernel // 2
    padded, side = np.pad(x, ((around, around), (around, around), (0, 0))), len(x)
    places = ((row, column) for row in range(kernel) for column in range(kernel))
    return bias + sum(
        padded[row : row + side : stride, column : column + side : stride] @ weight[:, :, row, column].T
        for row, column in places)


def neck_run(tensors, stages, half=False):
    """The stages' tokens to the features, by name, where the neck is in the file. Its products take
    f16, whatever the tokens are."""
    def product(stage, name):
        weight, bias = (tensors[f"neck.{name}.{part}"].astype(np.float32) for part in ("weight", "bias"))
        return _rounded(stage[0], half) @ weight.T + bias

    hr0, hr1, middle, coarse = map(product, stages, ("hr0", "hr1", "middle", "coarse"))
    feat = middle + coarse.repeat(2, axis=0).repeat(2, axis=1)
    return {name: _rounded(x, half).transpose(2, 0, 1)[None] for name, x in
            {"feat": feat, "hr0": hr0, "hr1": hr1}.items()}


def _rounded(x, half):
    return x.astype(np.float16).astype(np.float32) if half else x.astype(np.float32)


def gelu(x):
    """The exact one."""
    return np.float32(0.5) * x * (1 + erf(x / np.float32(math.sqrt(2))))


def pool(x):
    """The largest of 2 x 2 tokens of [h,w,c], each column for itself."""
    height, width, columns = x.shape
    return x.reshape(height // 2, 2, width // 2, 2, columns).max(axis=(1, 3))


def softmax(scores):
    weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def as_in_file(trunk):
    """Gives the layers of a HieraTrunk, or of RepVitBlocks, the values that the file of weights has
    of them, so that both compute the same function."""
    for block in trunk.blocks:
        if hasattr(block, "depthwise"):
            values = [layer.weight for layer in block.layers().values()]
        else:
            halves = [block.q, block.k, block.v, block.up] + [block.skip] * (block.skip is not None)
            values = [value for layer in halves for value in (layer.weight, layer.bias)]
            values += [block.proj.weight, block.down.weight]
        for value in values:
            value.data = value.data.half().float()
