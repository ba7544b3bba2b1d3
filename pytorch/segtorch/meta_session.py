"""Streams frames through Meta's video predictor, one at a time, through its public calls.

`init_state` gets a feed of frames in place of the folder that it would load whole; then the prompt, then
`propagate_in_video` frame by frame. The stages are told apart by thin wrappers around `forward_image`,
`_encode_new_memory` and `_forward_sam_heads`, which are never inside a compiled region.

What the predictor would keep for every frame of the video is dropped once no later frame can ask
for it: memories after six frames, pointers after fifteen, masks at once. A user of a live camera
has to do the same, and the numbers do not change (a test compares them with a run that keeps all).
"""

import contextlib

import numpy as np
import torch
from torch.nn import functional as F

from . import RunError, compiling
from .logits import rounded

MEMORIES, POINTERS = 6, 15  # tracked frames that the next frame still reads


class MetaSession:
    """One predictor; `start` begins a clip and yields video-size logits [H,W] frame by frame."""

    MULTIMASK_OFFSET = 1  # three of the decoder's four masks are offered, the first is left out

    def __init__(self, model, stages, memory_dtype=None, drop=True):
        self.model, self.stages, self.memory_dtype, self.drop = model, stages, memory_dtype, drop
        self.scores, self.ious = [], []  # of the running pass, on the device
        self._frame_ious, self._prompted = None, False
        # Logits of the running pass, float16 [L,L] a frame, where they are saved; a teacher's, [frames,L,L].
        self.save_logits, self.logits, self.teacher = False, [], None
        self._memories = 0
        self._hook()

    def _hook(self):
        # By way of the class at the time of the call: compiling may give the model another one.
        model, stages = self.model, self.stages

        def image(*args, **kwargs):
            out = type(model).forward_image(model, *args, **kwargs)
            stages.begin("track" if self._prompted else "prompt")
            return out

        def memory(*args, **kwargs):
            stages.begin("memory")
            if self.teacher is not None:
                kwargs["pred_masks_high_res"] = self._taught(kwargs["pred_masks_high_res"])
            self._memories += 1
            out = type(model)._encode_new_memory(model, *args, **kwargs)
            stages.begin("postprocess")
            return out

        def heads(*args, **kwargs):
            out = type(model)._forward_sam_heads(model, *args, **kwargs)
            self._frame_ious = out[2]
            return out

        model.forward_image, model._encode_new_memory, model._forward_sam_heads = image, memory, heads

    def _taught(self, own):
        """The teacher's logits of the frame whose memory is written, upsampled as Meta does its own.

        What Meta makes of them afterwards, such as a prompted frame's binary mask, it makes of these too.
        """
        if own.shape[0] != 1:
            raise RunError(f"memories of {own.shape[0]} objects at once", "a teacher teaches one object a "
                                                                          "run")
        if self._memories >= len(self.teacher):
            raise RunError(f"the teacher has {len(self.teacher)} frames of logits", "save them again")
        low = torch.from_numpy(self.teacher[self._memories].astype(np.float32)).to(own.device)
        high = F.interpolate(low[None, None], size=own.shape[-2:], mode="bilinear", align_corners=False)
        return high.to(own.dtype)

    def start(self, feed, height, width, prompt):
        """A generator over the frames of `feed`; the first is prompted."""
        self.scores, self.ious, self.logits = [], [], []
        self._prompted, self._memories = False, 0
        with self._loading(feed, height, width):
            state = self.model.init_state("")
        self._prompt(state, prompt)
        frames = self.model.propagate_in_video(state)
        for frame in range(len(feed)):
            _, _, logits = next(frames)
            stored = self._stored(state, frame)
            exchanged = self.save_logits or self.teacher is not None
            if exchanged and self._memories != frame + 1:
                # A memory that is written twice, or later, would be another frame's.
                raise RunError(f"{self._memories} memories were written by frame {frame}",
                               "report this with the model")
            if self.save_logits:
                self.logits.append(rounded(stored["pred_masks"][0, 0].float().cpu().numpy()))
            self._bank(state, frame)
            self.scores.append(stored["object_score_logits"])
            # With a mask as prompt the decoder makes only the pointer: its estimates are of no output.
            given = frame == 0 and prompt.kind == "mask"
            self.ious.append(None if given else self._frame_ious)
            self._prompted = True
            yield logits[0, 0]

    @contextlib.contextmanager
    def _loading(self, feed, height, width):
        import sam2.sam2_video_predictor as module

        original = module.load_video_frames
        module.load_video_frames = lambda **_: (feed, height, width)
        # Meta draws a progress bar over the frames.
        module.tqdm = lambda frames, **_: frames
        try:
            yield
        finally:
            module.load_video_frames = original

    def _prompt(self, state, prompt):
        if prompt.kind == "mask":
            self.model.add_new_mask(state, frame_idx=0, obj_id=1, mask=torch.from_numpy(prompt.mask))
        elif prompt.kind == "bbox":
            self.model.add_new_points_or_box(state, 0, 1, box=np.array(prompt.box, np.float32))
        else:
            points = np.array(prompt.points, np.float32)
            self.model.add_new_points_or_box(state,
                                             0,
                                             1,
                                             points=points,
                                             labels=np.ones(len(points), np.int32))

    @staticmethod
    def _banks(state):
        """The dictionaries that hold frames: one an object, and EdgeTAM's of all objects."""
        banks = list(state["output_dict_per_obj"].values())
        return banks + [state["output_dict"]] if "output_dict" in state else banks

    def _stored(self, state, frame):
        bank = self._banks(state)[0]
        return bank["cond_frame_outputs"].get(frame) or bank["non_cond_frame_outputs"][frame]

    def _bank(self, state, frame):
        """Turns the new memory into the bank's type and forgets what nobody will read."""
        for bank in self._banks(state):
            tracked = bank["non_cond_frame_outputs"]
            for held in (bank["cond_frame_outputs"], tracked):
                if self.memory_dtype is not None and frame in held:
                    held[frame]["maskmem_features"] = held[frame]["maskmem_features"].to(self.memory_dtype)
            if not self.drop:
                continue
            if frame in tracked:
                tracked[frame]["pred_masks"] = None
            if (old := tracked.get(frame - MEMORIES)) is not None:
                old["maskmem_features"] = old["maskmem_pos_enc"] = None
            tracked.pop(frame - POINTERS, None)

    def compile(self, family, mode, compile_mode):
        """Compiles the predictor's parts; returns in words what was done."""
        return compiling.compile_model(self.model, family, mode, compile_mode)
