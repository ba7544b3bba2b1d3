"""Runs the ORIGINAL PyTorch predictor over a clip and keeps what each frame produced."""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from . import ExportError


@dataclass
class PromptInput:
    """One prompt on frame 0 in video pixels: `points` (list of x,y), `box` (x0,y0,x1,y1) or `mask`.

    Points may come with a box, and have `labels`: 1 on the object, 0 on something else.
    """

    kind: str  # "points" | "bbox" | "mask"
    points: list = None
    labels: list = None  # of the points; default: all 1
    box: list = None
    mask: np.ndarray = None


@dataclass
class FrameResult:
    """Per-frame outputs of the predictor for one object (float32 numpy)."""

    low: np.ndarray  # [1,1,4g,4g]
    ious: list  # predicted by the decoder for the masks that it selects from
    iou: float
    ptr: np.ndarray  # [1,C]
    score: float
    mem: np.ndarray  # [1,T,Cm]; values as the predictor stores them (rounded to bf16)
    mask: np.ndarray  # bool [H,W]
    milliseconds: float


@dataclass
class ReferenceRun:
    """All frames, the network's input images [n,3,S,S] and the video size."""

    frames: list
    images: torch.Tensor
    height: int
    width: int


def clip_frames(clip, limit):
    """The first `limit` JPEGs of a directory (0 = all), in the predictor's numeric order."""
    clip = Path(clip)
    if not clip.is_dir():
        raise ExportError(f"clip {clip} is not a directory of JPEG frames")
    names = [p for p in clip.iterdir() if p.suffix.lower() in (".jpg", ".jpeg")]
    try:
        names.sort(key=lambda p: int(p.stem))
    except ValueError as error:
        raise ExportError(f"clip {clip}: frame names must be numbers ({error})") from error
    if not names:
        raise ExportError(f"clip {clip} has no .jpg frames")
    return names[:limit] if limit else names


def run_clip(model, clip, prompt, limit=0):
    """The original predictor over the first `limit` frames of a JPEG directory."""
    with tempfile.TemporaryDirectory(prefix="segexport_") as folder:
        for i, path in enumerate(clip_frames(clip, limit)):
            os.symlink(path.resolve(), Path(folder) / f"{i:05d}.jpg")
        return _run(model, folder, prompt)


def run_tensor(model, images, height, width, prompt):
    """The same over ready images f32 [n,3,S,S] (no JPEG and no resizing in between)."""
    import sam2.sam2_video_predictor as module

    original = module.load_video_frames
    module.load_video_frames = lambda **_: (images, height, width)
    try:
        return _run(model, "", prompt)
    finally:
        module.load_video_frames = original


@torch.inference_mode()
def _run(model, folder, prompt):
    ious = _record_ious(model)
    state = model.init_state(folder)
    height, width = state["video_height"], state["video_width"]
    started = time.perf_counter()
    if prompt.kind == "mask":
        model.add_new_mask(state, frame_idx=0, obj_id=1, mask=torch.from_numpy(prompt.mask))
    elif prompt.kind == "bbox":
        model.add_new_points_or_box(state, 0, 1, box=np.array(prompt.box, np.float32))
    else:
        points = np.array(prompt.points, np.float32)
        labels = np.array(prompt.labels or [1] * len(points), np.int32)
        box = None if prompt.box is None else np.array(prompt.box, np.float32)
        model.add_new_points_or_box(state, 0, 1, points=points, labels=labels, box=box)
    prompted = [1.0] if prompt.kind == "mask" else ious[-1]

    frames = []
    for frame, _, video_logits in model.propagate_in_video(state):
        now = time.perf_counter()
        out = _outputs(state)[frame]
        mem = out["maskmem_features"].float()
        if mem.ndim == 4:
            mem = mem.flatten(2).transpose(1, 2)
        frames.append(
            FrameResult(
                low=out["pred_masks"].float().numpy().copy(),
                ious=prompted if frame == 0 else ious[-1],
                iou=max(prompted if frame == 0 else ious[-1]),
                ptr=out["obj_ptr"].float().numpy().copy(),
                score=_score(out),
                mem=mem.numpy().copy(),
                mask=(video_logits[0, 0] > 0).numpy().copy(),
                milliseconds=1000 * (now - started),
            )
        )
        started = time.perf_counter()
    return ReferenceRun(frames, state["images"], height, width)


def _record_ious(model):
    """Notes the predicted IoUs of the masks to select from at every call of the segmentation head."""
    seen = []
    plain = type(model)._forward_sam_heads

    def recording(*args, **kwargs):
        outputs = plain(model, *args, **kwargs)
        seen.append(outputs[2].flatten().tolist())
        return outputs

    model._forward_sam_heads = recording
    return seen


def _outputs(state):
    """Frame -> stored output of the only object, in either generation of the predictor."""
    held = state["output_dict_per_obj"][0]
    return {**held["non_cond_frame_outputs"], **held["cond_frame_outputs"]}


def _score(out):
    score = out.get("object_score_logits")
    return float(score) if score is not None else float("nan")
