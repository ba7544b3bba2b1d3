"""SAM 2.1 tiny with Meta's image encoder, prompt encoder and mask decoder, and the tracking loop
that teaches the rest.

Learnt are memory attention, memory encoder, object pointers and the score that says whether the
object is there. Their start weights follow what edgetam_mini's training found (`start.py`): each
place first looks at the memory of the same place, and what leaves the memory attention looks to the
mask decoder like the features that it knows.
"""

from dataclasses import dataclass

import torch
from segexport import ExportError
from torch.nn import functional as F

from .losses import FOCAL_WEIGHT, mask_losses
from .scene import MEAN, STD

LEARNT = (
    "memory_attention.",
    "memory_encoder.",
    "obj_ptr_proj.",
    "obj_ptr_tpos_proj.",
    "maskmem_tpos_enc",
    "no_obj_ptr",
    "no_obj_embed_spatial",
    "mask_downsample.",
    "sam_mask_decoder.pred_obj_score_head.",
)
UNUSED = ("no_mem_pos_enc",)  # no frame reads it where `no_mem_embed` is added directly
# Biases of queries and keys, by the frequency (radians a cell) of their rotation.
NEAR, FAR, FASTEST = 1.3, 0.5, 0.05
QUIET = 0.2  # of what a layer adds that is not the memory's message
LAYER_SCALE = 0.1  # Meta's 1e-6 keeps the memory encoder's blocks shut for most of a short training
PRESENT = 4.0  # the score of an object before anything is learnt
TINY = 1e-6
LEAST_SHARE = 4e-4  # of the picture; an object with less of it visible counts as absent


def is_learnt(name):
    return name.startswith(LEARNT)


def load_given(model, tensors):
    """Lays Meta's tensors into `model`; all that is not learnt must be among them."""
    own = model.state_dict()
    missing = [n for n in own if n not in tensors and not is_learnt(n) and not n.startswith(UNUSED)]
    if missing:
        raise ExportError(f"the given weights lack {len(missing)} tensors: {', '.join(missing[:4])}")
    for name, value in tensors.items():
        if name not in own or own[name].shape != value.shape:
            raise ExportError(f"given tensor {name} does not fit")
        own[name].copy_(value.float())


def freeze(model, decoder=False):
    """Leaves gradients to the learnt parts, and to the mask decoder if it is to be tuned;
    evaluation mode throughout."""
    for name, parameter in model.named_parameters():
        tuned = decoder and name.startswith(
            "sam_mask_decoder.") and not name.startswith("sam_mask_decoder.conv_s")
        parameter.requires_grad_(is_learnt(name) or tuned)
    return model.eval()


@torch.no_grad()
def prepare(model, images):
    """Start weights of the learnt parts; `images` [n,3,S,S] normalised show what features look
    like."""
    for layer in model.memory_attention.layers:
        for projection in (layer.cross_attn_image.q_proj, layer.cross_attn_image.k_proj):
            projection.weight *= 0.5
            projection.bias.copy_(_nearness(projection.bias))
        for added in (layer.self_attn.out_proj, layer.linear2):
            added.weight *= QUIET
            added.bias.zero_()
    for block in model.memory_encoder.fuser.layers:
        block.gamma.fill_(LAYER_SCALE)
    head = model.sam_mask_decoder.pred_obj_score_head.layers[-1]
    head.weight *= 0.1
    head.bias.fill_(PRESENT)
    _imitate_plain_features(model, images)


def _nearness(bias):
    """Equal constants in queries and keys become nearness when they are rotated; fast rotations are
    the sharp ones."""
    pairs = bias.shape[0] // 4  # along each axis
    frequency = 10000.0 ** (-torch.arange(pairs, device=bias.device) / pairs)
    return torch.where(frequency >= FASTEST, NEAR, FAR).repeat_interleave(2).repeat(2)


def _imitate_plain_features(model, images):
    """The last norm's scale and shift, such that a memory without a message leaves the features of
    a prompted frame."""
    out = model.forward_image(images)
    plain = out["backbone_fpn"][-1].float().flatten(2).transpose(1, 2)
    wanted = plain + model.no_mem_embed
    position = out["vision_pos_enc"][-1].float().flatten(2).transpose(1, 2)
    normed = F.layer_norm(plain + 0.1 * position, plain.shape[-1:])
    scale = wanted.std(dim=(0, 1)) / normed.std(dim=(0, 1))
    norm = model.memory_attention.norm
    norm.weight.copy_(scale)
    norm.bias.copy_(wanted.mean(dim=(0, 1)) - scale * normed.mean(dim=(0, 1)))


def normalised(images):
    """Images [...,3,S,S] of 0 to 255 as the network takes them."""
    mean, std = (torch.tensor(v, device=images.device)[:, None, None] for v in (MEAN, STD))
    return (images / 255 - mean) / std


@dataclass
class Answer:
    """One frame's outputs for N targets; `masks` [N,m,h,w] logits of all masks, `taken` [N,1,h,w]
    hidden where the object is absent."""

    masks: torch.Tensor
    ious: torch.Tensor
    score: torch.Tensor
    taken: torch.Tensor


class Loop:
    """Meta's tracking step, unrolled over clips."""

    def __init__(self, model):
        self.model, self.said = model, None
        model.sam_mask_decoder.register_forward_hook(self._listen)

    def _listen(self, module, given, found):
        self.said = found

    @torch.no_grad()
    def features(self, images, part=64):
        """Normalised images [n,3,S,S] -> three maps and their positions; parts bound the memory."""
        maps, positions = [], None
        for some in images.split(part):
            out = self.model.forward_image(some)
            maps.append(out["backbone_fpn"])
            positions = [p[:1] for p in out["vision_pos_enc"]]
        return [torch.cat(level) for level in zip(*maps)], positions

    def clip(self, maps, positions, frames, scene, points=None, mask=None):
        """Yields the Answers of targets whose clips are `scene` [N]; frame t of clip b is map b *
        frames + t.

        `points` [N,1,2] in pixels or `mask` [N,1,S,S] prompts the first frame.
        """
        bank = {"cond_frame_outputs": {}, "non_cond_frame_outputs": {}}
        sizes = [m.shape[-2:] for m in maps]
        count = len(scene)
        places = [p.expand(count, -1, -1, -1).flatten(2).permute(2, 0, 1) for p in positions]
        click = None
        if points is not None:
            labels = torch.ones(points.shape[:2], dtype=torch.int32, device=points.device)
            click = {"point_coords": points, "point_labels": labels}
        for t in range(frames):
            feats = [m[scene * frames + t].flatten(2).permute(2, 0, 1) for m in maps]
            out = self.model.track_step(
                frame_idx=t,
                is_init_cond_frame=t == 0,
                current_vision_feats=feats,
                current_vision_pos_embeds=places,
                feat_sizes=sizes,
                point_inputs=click if t == 0 else None,
                mask_inputs=mask if t == 0 else None,
                output_dict=bank,
                num_frames=max(frames, 16),
            )
            del out["pred_masks_high_res"]
            bank["cond_frame_outputs" if t == 0 else "non_cond_frame_outputs"][t] = out
            bank["non_cond_frame_outputs"].pop(t - 16, None)
            masks, ious, _, score = self.said
            yield Answer(masks.float(), ious.float(), score.float(), out["pred_masks"].float())


def _surprise(chance, truth):
    """Cross-entropy of chances less its least value; a difference would teach nothing where a
    sigmoid is flat."""
    told = lambda c: -(truth * (c + TINY).log() + (1 - truth) * (1 - c + TINY).log())
    return told(chance) - told(truth)


def frame_loss(answer, target):
    """Losses [N] by name and the taken mask's IoU [N]; `target` [N,h,w] is the object's share of
    each pixel.

    Every mask is taught, and the one that is taken as much as all together: which one that is stays
    the decoder's choice.
    """
    present = (target.mean(dim=(1, 2)) >= LEAST_SHARE).float()
    focal, dice, iou = mask_losses(answer.masks, target[:, None])
    each = FOCAL_WEIGHT * focal + dice
    taken = answer.ious.argmax(dim=1, keepdim=True)
    score = F.binary_cross_entropy_with_logits(answer.score[:, 0], present, reduction="none")
    losses = {
        "mask": present * 0.5 * (each.mean(dim=1) + each.gather(1, taken)[:, 0]),
        "iou": present * _surprise(answer.ious, iou).mean(dim=1),
        "score": score,
    }
    seen = answer.score[:, 0] > 0
    right = torch.where(present > 0, iou.gather(1, taken)[:, 0] * seen, (~seen).float())
    return losses, right
