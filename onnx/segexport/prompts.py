"""Prompts from a mask: the predecessor's click and box, and an interior point."""

import numpy as np
from PIL import Image
from scipy import ndimage

from . import ExportError
from .reference_run import PromptInput


def read_mask(path):
    """A PNG mask as bool [H,W]: every non-zero pixel is the object."""
    try:
        with Image.open(path) as image:
            values = np.array(image)
    except OSError as error:
        raise ExportError(f"prompt mask {path} is not readable: {error}") from error
    mask = values.any(axis=2) if values.ndim == 3 else values > 0
    if not mask.any():
        raise ExportError(f"prompt mask {path} is empty")
    return mask


def predecessor_point(mask):
    """Truncated centroid of the first 4-connected component in raster order: [x, y]."""
    labels, _ = ndimage.label(mask)
    first = labels.ravel()[np.flatnonzero(labels)[0]]
    ys, xs = np.nonzero(labels == first)
    return [int(xs.mean()), int(ys.mean())]


def box(mask):
    """Inclusive pixel extents [x0, y0, x1, y1]."""
    ys, xs = np.nonzero(mask)
    return [int(xs.min()), int(ys.min()), int(xs.max()), int(ys.max())]


def interior_point(mask):
    """The pixel farthest from the object's edge (the image's edge counts): [x, y]."""
    distance = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    y, x = np.unravel_index(distance.argmax(), distance.shape)
    return [int(x), int(y)]


def prompt_from_mask(mask, kind, interior=False):
    """PromptInput of `kind` "points", "bbox" or "mask"."""
    if kind == "mask":
        return PromptInput("mask", mask=mask)
    if kind == "bbox":
        return PromptInput("bbox", box=box(mask))
    return PromptInput("points", points=[interior_point(mask) if interior else predecessor_point(mask)])
