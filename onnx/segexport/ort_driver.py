"""Drives a bundle's graphs in ONNX Runtime over a clip, closed loop or teacher-forced.

A plain Python twin of the tracker that the Rust program implements.
"""

import tomllib
from pathlib import Path

import numpy as np
import onnxruntime as ort

from .bank import select

_NUMPY = {"f32": np.float32, "f16": np.float16, "i32": np.int32}


class Bundle:
    """The sessions of a bundle directory, called by role with named arrays."""

    def __init__(self, folder, threads=0):
        folder = Path(folder)
        with open(folder / "manifest.toml", "rb") as file:
            self.manifest = tomllib.load(file)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.contract = self.manifest["contract"]
        self.side = self.manifest["model"]["imgsz"]
        self.sessions, self.ports = {}, {}
        for graph in self.manifest["graph"]:
            path = str(folder / graph["file"])
            self.sessions[graph["role"]] = ort.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )
            self.ports[graph["role"]] = (graph["input"], graph["output"])

    def __call__(self, role, **arrays):
        """Runs graph `role`; arrays are converted to the declared types."""
        inputs, outputs = self.ports[role]
        feed = {
            p["name"]: np.ascontiguousarray(arrays[p["name"]], dtype=_NUMPY[p["dtype"]])
            for p in inputs
        }
        names = [p["name"] for p in outputs]
        return dict(zip(names, self.sessions[role].run(names, feed)))

    def encode(self, image):
        """image f32 [3,S,S] -> feat, hr0, hr1."""
        return self("encoder", image=image[None])

    def track(self, features, history, selection, padded=False):
        """One tracked frame; `history` maps frame -> (mem [B,T,Cm], ptr [B,C])."""
        mem = np.stack([history[t][0] for t, _ in selection.memories], axis=1)
        tidx = np.array([row for _, row in selection.memories], np.int32)
        ptrs = np.stack([history[t][1] for t, _ in selection.pointers], axis=1)
        times = np.array(selection.pointer_times(), np.float32)
        if not padded:
            return self("track", **features, mem=mem, tidx=tidx, ptrs=ptrs, ptr_t=times)
        return self("track_padded", **features, **self._pad(mem, tidx, ptrs, times))

    def _pad(self, mem, tidx, ptrs, times):
        """Fills the bank up to its fixed size and masks the filling."""
        c = self.contract
        frames, pointers = c["max_memories"], c["max_pointers"]
        split = c["pointer_channels"] // c["memory_channels"]
        more_f, more_p = frames - mem.shape[1], pointers - ptrs.shape[1]
        bias = np.zeros((frames * c["memory_tokens"] + pointers * split,), np.float32)
        start = frames * c["memory_tokens"]
        bias[mem.shape[1] * c["memory_tokens"] : start] = -1e4
        bias[start + ptrs.shape[1] * split :] = -1e4
        return dict(
            mem=np.pad(mem, ((0, 0), (0, more_f), (0, 0), (0, 0))),
            tidx=np.pad(tidx, (0, more_f)),
            ptrs=np.pad(ptrs, ((0, 0), (0, more_p), (0, 0))),
            ptr_t=np.pad(times, (0, more_p)),
            bias=bias[None, None, None],
        )

    def remember(self, features, low, score, prompted, rounding="bf16"):
        """Memory tokens of a frame, rounded as they are stored."""
        binar = np.array([1.0 if prompted else 0.0], np.float32)
        mem = self("memory", feat=features["feat"], low=low, score=score, binar=binar)["mem"]
        return round_bf16(mem) if rounding == "bf16" else mem

    def prompt(self, features, prompt, height, width):
        """The prompted frame: points, box or mask in video pixels."""
        if prompt.kind == "mask":
            return self("mask_prompt", **features, mask=resize_mask(prompt.mask, self.side))
        if prompt.kind == "bbox":
            points, labels = np.array(prompt.box, np.float32).reshape(2, 2), [2, 3]
        else:
            points = np.array(prompt.points, np.float32)
            labels = list(prompt.labels or [1] * len(points))
            if prompt.box is not None:
                corners = np.array(prompt.box, np.float32).reshape(2, 2)
                points, labels = np.concatenate([corners, points]), [2, 3] + labels
        coords = points / np.array([width, height], np.float32) * np.float32(self.side)
        multi = np.array([1.0 if len(labels) <= 1 else 0.0], np.float32)
        labels = np.array(labels, np.int32)[None]
        return self("prompt", **features, coords=coords[None], labels=labels, multi=multi)


def closed_loop(bundle, images, prompt, height, width, rounding="bf16", padded=False):
    """Yields (features, answer) of every frame; the bundle's own memories feed it."""
    history = {}
    for t, image in enumerate(images):
        features = bundle.encode(np.asarray(image))
        if t == 0:
            answer = bundle.prompt(features, prompt, height, width)
        else:
            selection = select(t, [0], len(images))
            answer = bundle.track(features, history, selection, padded)
        mem = bundle.remember(features, answer["low"], answer["score"], t == 0, rounding)
        history[t] = (mem, answer["ptr"])
        yield features, answer | {"mem": mem}


def round_bf16(x):
    """Values rounded to bfloat16 (nearest, ties to even), kept in the array's type."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(x.dtype)


def resize_mask(mask, side):
    """bool [H,W] -> f32 [1,1,side,side] in {0,1}, as Meta's `add_new_mask` resizes."""
    import torch
    from torch.nn import functional as F

    x = torch.from_numpy(mask)[None, None].float()
    if mask.shape != (side, side):
        x = F.interpolate(x, (side, side), mode="bilinear", align_corners=False, antialias=True)
        x = (x >= 0.5).float()
    return x.numpy()
