"""Streams frames through transformers' video model, one at a time, like meta_session.py through Meta's."""

import numpy as np
import torch
from torch.nn import functional as F

from . import compiling
from .meta_session import MEMORIES, POINTERS

PARTS = ("vision_encoder", "memory_attention", "memory_encoder", "prompt_encoder", "mask_decoder",
         "spatial_perceiver")


class TransformersSession:
    """One model; `start` begins a clip and yields video-size logits [H,W] frame by frame."""

    MULTIMASK_OFFSET = 1

    def __init__(self, model, session_class, stages, memory_dtype=None, drop=True):
        self.model, self.session_class, self.stages = model, session_class, stages
        self.memory_dtype, self.drop = memory_dtype, drop
        self.scores, self.ious = [], []
        self._frame_ious, self._prompted = None, False
        self._hook()

    def _hook(self):
        model, stages = self.model, self.stages

        def image(*args, **kwargs):
            out = type(model).get_image_features(model, *args, **kwargs)
            stages.begin("track" if self._prompted else "prompt")
            return out

        def memory(*args, **kwargs):
            stages.begin("memory")
            out = type(model)._encode_new_memory(model, *args, **kwargs)
            stages.begin("postprocess")
            return out

        def heads(*args, **kwargs):
            out = type(model)._single_frame_forward(model, *args, **kwargs)
            self._frame_ious = out.iou_scores
            return out

        model.get_image_features, model._encode_new_memory, model._single_frame_forward = image, memory, heads

    def start(self, feed, height, width, prompt):
        """A generator over the frames of `feed`; the first is prompted."""
        self.scores, self.ious = [], []
        self._prompted = False
        device = next(self.model.parameters()).device
        places = {
            "inference_device": device, "inference_state_device": device, "video_storage_device": device
        }
        session = self.session_class(video_height=height, video_width=width, dtype=torch.float32, **places)
        session.processed_frames = feed
        self._prompt(session, prompt, height, width)
        for frame in range(len(feed)):
            out = self.model(inference_session=session, frame_idx=frame)
            logits = F.interpolate(out.pred_masks.float(),
                                   size=(height, width),
                                   mode="bilinear",
                                   align_corners=False)
            bank = session.output_dict_per_obj[0]
            stored = bank["cond_frame_outputs"].get(frame) or bank["non_cond_frame_outputs"][frame]
            self._bank(bank, frame)
            self.scores.append(stored["object_score_logits"])
            self.ious.append(None if frame == 0 and prompt.kind == "mask" else self._frame_ious)
            self._prompted = True
            yield logits[0, 0]

    def _prompt(self, session, prompt, height, width):
        side, index = self.model.image_size, session.obj_id_to_idx(1)
        if prompt.kind == "mask":
            mask = torch.from_numpy(prompt.mask)[None, None].to(session.inference_device).float()
            square = F.interpolate(mask,
                                   size=(side, side),
                                   align_corners=False,
                                   mode="bilinear",
                                   antialias=True)
            session.add_mask_inputs(index, 0, (square >= 0.5).float())
        else:
            points = np.array(prompt.points if prompt.kind == "points" else prompt.box,
                              np.float32).reshape(1, 1, -1, 2)
            labels = [1] * points.shape[2] if prompt.kind == "points" else [2, 3]
            # In Meta's order: divided by the video's size, then times the network's.
            coords = torch.from_numpy(points) / torch.tensor([width, height]) * side
            inputs = {
                "point_coords": coords, "point_labels": torch.tensor(labels, dtype=torch.int32)[None, None]
            }
            session.add_point_inputs(index, 0, inputs)
        session.obj_with_new_inputs = [1]

    def _bank(self, bank, frame):
        """Turns the new memory into the bank's type and forgets what nobody will read."""
        tracked = bank["non_cond_frame_outputs"]
        for held in (bank["cond_frame_outputs"], tracked):
            if self.memory_dtype is not None and frame in held:
                held[frame]["maskmem_features"] = held[frame]["maskmem_features"].to(self.memory_dtype)
        if not self.drop:
            return
        if frame in tracked:
            tracked[frame]["pred_masks"] = tracked[frame]["high_res_masks"] = None
        if (old := tracked.get(frame - MEMORIES)) is not None:
            old["maskmem_features"] = old["maskmem_pos_enc"] = None
        tracked.pop(frame - POINTERS, None)

    def compile(self, family, mode, compile_mode):
        """Compiles the model's parts; transformers' decorators break some graphs, so they need not be whole."""
        return compiling.compile_parts(self.model, PARTS, compile_mode)
