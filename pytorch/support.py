"""What the runner's tests share: a synthetic split, the small model, and skips that are heard."""

import functools
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "onnx")]
TAG = "edgetam_mini_points"
FRAMES = 20


def skip(why):
    print(f"SKIPPED: {why}", file=sys.stderr)
    raise unittest.SkipTest(why)


try:
    import numpy as np
    import torch
    from PIL import Image

    import compare_masks
    from segexport import ExportError, models, weights

    torch.set_num_threads(1)  # the small model gains nothing from more
except ImportError as missing:
    skip(f"{missing}: pip install -r pytorch/requirements.txt")


@functools.cache
def original():
    try:
        model, _ = models.build("edgetam_mini", 256)
    except ExportError as error:
        skip(str(error))
    weights.load_checkpoint(model, "edgetam_mini",
                            ROOT / "onnx/bundles/edgetam_mini_256_fp32/edgetam_mini.safetensors")
    return model


def make_split(folder, videos=("a",), count=FRAMES):
    """SA-V split: a bright disc that moves over a gradient, and a small square before it in raster order."""
    y, x = np.mgrid[0:120, 0:160]
    for video in videos:
        jpegs, masks = folder / "JPEGImages_24fps" / video, folder / "Annotations_6fps" / video / "000"
        jpegs.mkdir(parents=True)
        masks.mkdir(parents=True)
        for t in range(count):
            disc = (x - 60 - 2 * t) ** 2 + (y - 60) ** 2 < 30**2
            image = np.stack([x, y, (x ^ y) % 128], axis=-1)
            image[disc] = (230, 60, 40 + t)
            Image.fromarray(image.astype(np.uint8)).save(jpegs / f"{t:05}.jpg", quality=95)
            if t % 4 == 0:
                mask = disc.copy()
                mask[2:6, 100:106] = True
                Image.fromarray((mask * 255).astype(np.uint8)).save(masks / f"{t:05}.png")
    return folder


def binaries():
    """Where a built segtrt may lie; None where there is none."""
    yield os.environ.get("SEGTRT_BIN")
    yield from (ROOT / "target" / kind / "segtrt" for kind in ("release", "debug"))
    yield shutil.which("segtrt")


def masks_in(folder, video="a", tag=TAG):
    return compare_masks.masks_of(folder / "masks" / f"{video}__obj000__{tag}.json")


class OnOneSplit(unittest.TestCase):
    """Shares a synthetic split."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        cls.split = make_split(cls.root / "split")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
