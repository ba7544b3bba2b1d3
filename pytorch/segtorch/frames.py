"""Frames of a clip: JPEG to pixels in host memory, and pixels to the network's input.

Two ways to prepare the input, both inside a frame's latency and both with Pillow 13's pixels to the last bit:
- `cpu`: Pillow's bicubic resize on the host, as Meta's loader does, then upload of the small square.
- `gpu`: upload of the whole frame, Pillow's arithmetic on the device (resize.py), which is much faster.
And two ways to decode: `ahead`, all frames into host memory before the pass; `inside`, within the latency.
"""

import time

import numpy as np
import torch
from PIL import Image

from . import ObjectError
from .resize import DeviceResize

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def decode(path, size=None):
    """The RGB image of a JPEG file; `size` (width, height) is what it must have."""
    try:
        with Image.open(path) as image:
            image = image.convert("RGB")
    except OSError as error:
        raise ObjectError("unreadable_frame", f"unreadable frame: {path}: {error}") from error
    if size is not None and image.size != size:
        raise ObjectError(
            "frame_size_change", f"{path} is {image.size}, the clip's first frame {size}; all frames must "
                                 f"have one size"
        )
    return image


class Preprocess:
    """From RGB images of one size (width, height) in host memory to f32 [3,S,S] on the device, normalised."""

    def __init__(self, kind, size, side, device, stages, compiled=False, say=print):
        self.kind, self.size, self.side, self.device, self.stages = kind, size, side, device, stages
        # Tensors, not numbers: a GPU multiplies by a number's reciprocal, and Meta's loader divides.
        column = {"dtype": torch.float32, "device": device}
        self.full = torch.tensor(255.0, **column)
        self.mean, self.std = (torch.tensor(v, **column)[:, None, None] for v in (MEAN, STD))
        self.staging = None
        if kind == "cpu" and device.type == "cuda":
            self.staging = torch.empty((side, side, 3), dtype=torch.uint8, pin_memory=True)
        self.resize = DeviceResize(size, side, device, MEAN, STD, compiled, say) if kind == "gpu" else None
        self.notes = [self.resize.told()] if self.resize else []

    def host(self, image):
        """The decoded frame as it waits in host memory."""
        if self.kind == "cpu":
            return image
        pixels = torch.from_numpy(np.array(image))
        return pixels.pin_memory() if self.device.type == "cuda" else pixels

    def __call__(self, frame):
        return self._resized_by_pillow(frame) if self.kind == "cpu" else self._resized_on_device(frame)

    def _resized_by_pillow(self, image):
        self.stages.begin("preprocess")
        small = torch.from_numpy(np.array(image.resize((self.side, self.side), Image.BICUBIC)))
        if self.staging is not None:
            self.staging.copy_(small)
            self.stages.begin("upload")
            small = self.staging.to(self.device, non_blocking=True)
            self.stages.begin("preprocess")
        return (small.permute(2, 0, 1).contiguous().float() / self.full - self.mean) / self.std

    def _resized_on_device(self, pixels):
        if self.device.type == "cuda":
            self.stages.begin("upload")
        self.resize.upload(pixels)
        self.stages.begin("preprocess")
        return self.resize()


class Feed:
    """The frames of one pass, by number, as the predictor asks for them: what takes the place of
    Meta's `images`."""

    def __init__(self, paths, size, preprocess, stages, ahead=None):
        self.paths, self.size, self.preprocess, self.stages, self.ahead = paths, size, preprocess, stages, ahead

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if self.ahead is not None:
            frame = self.ahead[index]
        else:
            self.stages.begin("decode")
            frame = self.preprocess.host(decode(self.paths[index], self.size))
        square = self.preprocess(frame)
        self.stages.begin("encoder")
        return square


def decode_ahead(paths, size, preprocess):
    """All frames in host memory and the time that each took, ms."""
    needed = len(paths) * size[0] * size[1] * 4
    free = _available_bytes()
    if free is not None and needed > 0.8 * free:
        raise ObjectError(
            "no_memory",
            f"{len(paths)} decoded frames take {needed / 2**30:.1f} GiB, {free / 2**30:.1f} GiB of memory "
            f"are free: "
            "use --decode inside or --max-clip-frames",
        )
    frames, times = [], []
    for path in paths:
        start = time.perf_counter()
        image = decode(path, size)
        times.append((time.perf_counter() - start) * 1e3)
        frames.append(preprocess.host(image))
    return frames, times


def _available_bytes():
    try:
        with open("/proc/meminfo") as file:
            line = next(line for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    return int(line.split()[1]) * 1024
