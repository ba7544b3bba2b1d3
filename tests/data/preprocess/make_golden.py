"""Golden data for the resizers, from the libraries themselves.

    python make_golden.py                # needs numpy, Pillow, torch and torchvision; writes beside this file
python make_golden.py drawn 200 7    # needs numpy and Pillow; prints lines as pillow.txt has them,
of 200 sizes that seed 7 draws

All inputs are made by `pixel` below, which tests/preprocess.rs repeats, so only outputs are stored:

pillow.txt    from and to size, and the SHA-256 of Image.resize(to, BICUBIC)'s RGB bytes
pillow.bin    the bytes themselves for the cases marked small, one after the other
mask.txt      from size, side, content rectangle, SHA-256 of interpolate(antialias=True) >= 0.5 as bytes 0/1
torchvision.bin  for each of TORCHVISION: the input of SAM 2's image predictor, ToTensor, Resize,
Normalize, as little-endian f32 upsample.txt  low side, video size, and the SHA-256 of
interpolate(low) > 0 as bytes 0/1
"""
import hashlib
import pathlib
import random
import sys

import numpy as np
import PIL
from PIL import Image

HERE = pathlib.Path(__file__).parent


def pixel(count, salt):
    """A byte stream: a 32-bit linear congruential generator, high byte of each state."""
    state = (salt * 2654435761 + 12345) % 2**32
    out = np.empty(count, np.uint8)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = state >> 24
    return out


def sha(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def resized(sizes):
    """The text of pillow.txt, and the bytes of what is small."""
    text, raw = [f"# Pillow {PIL.__version__}: from_w from_h to_w to_h small sha256"], b""
    for (w, h), to in sizes:
        image = Image.fromarray(pixel(3 * w * h, w * 1000 + h).reshape(h, w, 3), "RGB")
        out = np.asarray(image.resize(to, Image.Resampling.BICUBIC))
        small = to[0] * to[1] <= 1200
        raw += out.tobytes() if small else b""
        text.append(f"{w} {h} {to[0]} {to[1]} {int(small)} {sha(out)}")
    return "\n".join(text) + "\n", raw


def pillow():
    sizes = [((7, 5), (13, 9)), ((13, 9), (7, 5)), ((1, 1), (4, 3)), ((5, 4), (1, 1)), ((1, 6), (3, 2)),
             ((6, 1), (2, 5)), ((8, 8), (8, 8)), ((9, 8), (9, 5)), ((9, 8), (4, 8)), ((2, 3), (31, 17)),
             ((64, 36), (32, 32)), ((33, 57), (64, 64)), ((101, 67), (64, 64)), ((427, 240), (256, 256)),
             ((300, 2), (7, 64)), ((640, 361), (512, 512)), ((320, 180), (1024, 1024)),
             # The columns come first: the width grows, or shrinks by less than half as much as the height.
             ((475, 533), (512, 512)), ((720, 1280), (1024, 1024)), ((480, 848), (768, 768)),
             ((20, 31), (16, 22)),
             # The height shrinks by just twice as much as the width: the rows do.
             ((20, 30), (16, 22))]
    text, raw = resized(sizes)
    (HERE / "pillow.txt").write_text(text)
    (HERE / "pillow.bin").write_bytes(raw)


def drawn(count, seed):
    """Sizes of all shapes; of every third the height changes by about twice as much as the width,
    where the order turns."""
    dice = random.Random(seed)
    for i in range(count):
        w, h, to_w, to_h = (dice.randint(1, 80) for _ in range(4))
        if i % 3 == 0:
            to_w, to_h = max(1, w + dice.randint(-9, 9)), h
            to_h = max(1, h + 2 * (to_w - w) + dice.randint(-2, 2))
        yield (w, h), (to_w, to_h)


def blobs(w, h, salt):
    """A mask of 8-pixel tiles with rough edges, so that edges and specks both occur."""
    coarse = pixel((w // 8 + 1) * (h // 8 + 1), salt).reshape(h // 8 + 1, w // 8 + 1)
    fine = pixel(w * h, salt + 1).reshape(h, w)
    tiles = coarse.repeat(8, 0).repeat(8, 1)[:h, :w]
    return (tiles > 127) ^ (fine > 230)


def mask():
    import torch
    import torch.nn.functional as F

    text = [f"# torch {torch.__version__}: from_w from_h side content_w content_h sha256"]
    for w, h, side, cw, ch in [(854, 480, 1024, 1024, 1024), (854, 480, 256, 256, 256), (64, 64, 32, 32, 32),
                               (64, 64, 128, 128, 128), (48, 48, 16, 16, 16), (1280, 720, 1024, 1024, 1024),
                               (101, 67, 64, 64, 42), (33, 57, 64, 38, 64), (17, 17, 17, 17, 17),
                               (1, 1, 8, 8, 8), (300, 200, 100, 100, 100)]:
        m = torch.from_numpy(blobs(w, h, w + h)).float()[None, None]
        out = F.interpolate(m, size=(ch, cw), mode="bilinear", antialias=True, align_corners=False)[0, 0]
        square = np.zeros((side, side), np.uint8)
        y, x = (side - ch) // 2, (side - cw) // 2
        square[y:y + ch, x:x + cw] = (out >= 0.5).numpy()
        text.append(f"{w} {h} {side} {cw} {ch} {sha(square)}")
    (HERE / "mask.txt").write_text("\n".join(text) + "\n")


TORCHVISION = [(40, 30, 16), (64, 48, 8), (7, 5, 12), (33, 57, 16), (300, 200, 8), (16, 16, 16)]


def torchvision():
    """Meta's SAM2Transforms in its own words: torchvision's Resize of a float tensor, which is
    bilinear with antialias."""
    from torchvision.transforms import Compose, Normalize, Resize, ToTensor

    raw = b""
    for w, h, side in TORCHVISION:
        steps = [ToTensor(), Resize((side, side)), Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
        out = Compose(steps)(pixel(3 * w * h, w * 1000 + h).reshape(h, w, 3))
        raw += out.numpy().astype("<f4").tobytes()
    (HERE / "torchvision.bin").write_bytes(raw)


def upsample():
    import torch
    import torch.nn.functional as F

    text = [f"# torch {torch.__version__}: low_side video_w video_h sha256"]
    for low, w, h in [(256, 854, 480), (64, 427, 240), (64, 64, 64), (16, 101, 67), (256, 1280, 720),
                      (64, 33, 21), (1, 5, 7), (256, 1920, 1080), (3, 130, 1)]:
        values = pixel(2 * low * low, low + w).reshape(low, low, 2).astype(np.int32)
        logits = ((values[..., 0] * 256 + values[..., 1]) - 32767.5).astype(np.float32) / 2048
        out = F.interpolate(torch.from_numpy(logits)[None, None], size=(h, w), mode="bilinear",
                            align_corners=False)[0, 0]
        text.append(f"{low} {w} {h} {sha((out > 0).numpy().astype(np.uint8))}")
    (HERE / "upsample.txt").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["drawn"]:
        sys.exit(print(resized(drawn(*map(int, sys.argv[2:])))[0], end=""))
    pillow()
    mask()
    torchvision()
    upsample()
