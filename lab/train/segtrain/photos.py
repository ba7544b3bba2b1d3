"""Frames from files as Meta's loader prepares them, for networks that learn real clips."""

import numpy as np
import torch
from PIL import Image

from .scene import MEAN, STD


def load(path, side):
    """A frame's bytes [3,side,side], resized by Pillow."""
    with Image.open(path) as image:
        pixels = np.array(image.convert("RGB").resize((side, side), Image.BICUBIC))
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def backbone(model, pixels):
    """Bytes [n,3,S,S] -> what `forward_image` of Meta's predictor makes of them."""
    column = {"device": pixels.device, "dtype": torch.float32}
    mean, std = (torch.tensor(v, **column)[:, None, None] for v in (MEAN, STD))
    return model.forward_image((pixels.float() / 255 - mean) / std)
