"""The three segmentation graphs: prompt (points, box), mask_prompt and track.

Each ends in low-resolution logits, a predicted IoU, the object pointer and the
object score; prompt and track also in the predicted IoUs of the three multimask outputs,
from which one is selected. They follow Meta's `_forward_sam_heads`, `_use_mask_as_output` and
`MaskDecoder` (dynamic multimask by stability, multimask tokens as pointers).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .decoder import Decoder, one_hot_best, pick
from .layers import NormChannels, tokens_of
from .memory_attention import MemoryAttention
from .token_heads import TokenHeads

NO_OBJECT_LOGIT = -1024.0
STABILITY_DELTA, STABILITY_LEAST = 0.05, 0.98


class _Head(nn.Module):
    """What the three graphs share: decoder, what is read from its tokens, the no-object rule."""

    def __init__(self, model, side):
        super().__init__()
        self.grid = side // 16
        self.pixels = self.grid**2
        self.width = model.hidden_dim
        self.decoder = Decoder(model, self.grid)
        self.f32_heads = TokenHeads(model)
        self.register_buffer("no_pointer", model.no_obj_ptr.detach())
        encoder = model.sam_prompt_encoder
        self.register_buffer("no_mask", encoder.no_mask_embed.weight.detach().reshape(-1))
        # Without a prompt Meta feeds one dummy point and one padding point, both "not a point".
        self.register_buffer("no_points", encoder.not_a_point_embed.weight.detach().expand(1, 2, -1).clone())

    def object_pointer(self, pointer, present):
        """A mask token's pointer [B,1,C] -> [B,C]; the fixed no-object pointer where present [B,1] is 0."""
        pointer = pointer[:, 0]
        return pointer * present + (1.0 - present) * self.no_pointer

    @staticmethod
    def hide_absent(low, present):
        """Logits of absent objects become NO_OBJECT_LOGIT everywhere."""
        gone = present[:, :, None, None] < 0.5
        return torch.where(gone, torch.full((1,), NO_OBJECT_LOGIT), low)


class Prompt(_Head):
    """Points or a box on a conditioning frame (no memory): contract graph `prompt`."""

    def __init__(self, model, side):
        super().__init__(model, side)
        encoder = model.sam_prompt_encoder
        self.f32_points = PointEncoder(encoder, side)
        self.register_buffer("bias", model.no_mem_embed.detach().reshape(-1) + self.no_mask)

    def forward(self, feat, hr0, hr1, coords, labels, multi):
        prompt = self.f32_points(coords, labels)
        # Adding 0*prompt gives the constant tokens the batch of the prompts.
        spread = prompt[:, :1] * 0.0
        tokens = torch.cat(
            [self.decoder.own_tokens + spread, prompt, self.no_points[:, :1] + spread], dim=1
        )
        image = tokens_of(feat, self.width, self.pixels) + self.bias
        tokens, image = self.decoder.attend(tokens, image)
        score, iou, vectors, pointers = self.f32_heads(tokens)
        present = (score > 0).float()

        ious = iou[:, 1:]
        best = one_hot_best(ious, 3)
        pair = torch.cat([vectors[:, :1], pick(best, vectors[:, 1:])], dim=1)
        logits = self.decoder.mask(pair, self.decoder.upscale(image, hr0, hr1), 2)
        single, multimask = logits[:, :1], logits[:, 1:]

        many = multi > 0.5
        choose_best = torch.logical_or(many, torch.logical_not(_stable(single)))
        low = torch.where(choose_best[:, :, None, None], multimask, single)
        low = self.hide_absent(low, present)
        best_iou = (ious * best).sum(dim=1, keepdim=True)
        iou = torch.where(choose_best, best_iou, iou[:, :1])
        pointer = torch.where(many, pick(best, pointers[:, 1:]), pointers[:, :1])
        return low, iou, self.object_pointer(pointer, present), score, ious


def _stable(logits):
    """Whether a mask [B,1,h,w] hardly depends on its threshold -> [B,1] (empty counts as stable)."""
    inner = (logits > STABILITY_DELTA).float().sum(dim=(2, 3))
    outer = (logits > -STABILITY_DELTA).float().sum(dim=(2, 3))
    stability = inner / torch.clamp(outer, min=1.0)
    return torch.logical_or(outer < 0.5, stability >= STABILITY_LEAST)


class PointEncoder(nn.Module):
    """coords [B,P,2] in pixels, labels i32 [B,P] -> tokens [B,P,C]; f32 throughout.

    Labels: 1 positive, 0 negative, 2 and 3 the corners of a box, -1 not a point.
    """

    def __init__(self, encoder, side):
        super().__init__()
        self.side = float(side)
        self.register_buffer("frequencies", encoder.pe_layer.positional_encoding_gaussian_matrix)
        table = [encoder.not_a_point_embed, *encoder.point_embeddings]
        self.register_buffer("table", torch.cat([e.weight.detach() for e in table]))

    def forward(self, coords, labels):
        at = 2 * ((coords + 0.5) / self.side) - 1
        angle = 2 * math.pi * (at @ self.frequencies)
        encoded = torch.cat([angle.sin(), angle.cos()], dim=-1)
        real = (labels >= 0).float()[:, :, None]
        return encoded * real + F.embedding(labels + 1, self.table)


class MaskPrompt(_Head):
    """A given mask on a conditioning frame: contract graph `mask_prompt`.

    The mask itself is the output; the decoder only makes the object pointer.
    """

    def __init__(self, model, side):
        super().__init__(model, side)
        self.decoder.set_constant_tokens(self.no_points)
        self.downsample = model.mask_downsample
        conv1, norm1, self.act, conv2, norm2, _, self.conv3 = model.sam_prompt_encoder.mask_downscaling
        self.conv1, self.norm1 = conv1, NormChannels(norm1)
        self.conv2, self.norm2 = conv2, NormChannels(norm2)
        kernel, share = antialias_quarter(4 * self.grid)
        self.register_buffer("kernel", kernel)
        self.register_buffer("share", share)

    def forward(self, feat, hr0, hr1, mask):
        x = self.downsample(mask)
        x = self.act(self.norm1(self.conv1(x)))
        x = self.act(self.norm2(self.conv2(x)))
        dense = tokens_of(self.conv3(x), self.width, self.pixels)
        image = tokens_of(feat, self.width, self.pixels) + dense
        tokens, _ = self.decoder.attend_constant(image)
        score, _, _, pointers = self.f32_heads(tokens, 0, 1)
        decoded = (score > 0).float()

        given = (torch.amax(mask, dim=(2, 3)) > 0).float()
        pointer = self.object_pointer(pointers, decoded)
        pointer = pointer * given + (1.0 - given) * self.no_pointer
        low = F.conv2d(mask * 20.0 - 10.0, self.kernel, stride=4, padding=2) * self.share
        return low, given * 0.0 + 1.0, pointer, given * 20.0 - 10.0


def antialias_quarter(side):
    """Antialiased bilinear reduction by 4 as a convolution: kernel [1,1,8,8] and [1,1,side,side].

    PIL-style triangle filter of radius 4 around each output centre; taps outside the
    image do not count, which the second tensor (1 / weight inside) corrects.
    """
    taps = 1.0 - torch.tensor([3.5, 2.5, 1.5, 0.5, 0.5, 1.5, 2.5, 3.5]).double() / 4.0
    kernel = torch.outer(taps, taps)[None, None]
    inside = F.conv2d(torch.ones(1, 1, 4 * side, 4 * side).double(), kernel, stride=4, padding=2)
    return kernel.float(), (1.0 / inside).float()


class Track(_Head):
    """A frame without prompt, with memories: contract graphs `track` and `track_padded`."""

    def __init__(self, model, side):
        super().__init__(model, side)
        self.decoder.set_constant_tokens(self.no_points)
        self.memory = MemoryAttention(model, self.grid, self.no_mask)

    def forward(self, feat, hr0, hr1, mem, tidx, ptrs, ptr_t=None, bias=None):
        feat = tokens_of(feat, self.width, self.pixels)
        return self.decode(self.memory(feat, mem, tidx, ptrs, ptr_t, bias), hr0, hr1)

    def decode(self, image, hr0, hr1):
        """Conditioned tokens [B,N,C] and the finer features -> low, iou, pointer, score, ious."""
        tokens, image = self.decoder.attend_constant(image)
        # Tracking always chooses among the three multimask outputs.
        score, iou, vectors, pointers = self.f32_heads(tokens, 1)
        present = (score > 0).float()
        ious = iou[:, 1:]
        best = one_hot_best(ious, 3)
        vector = pick(best, vectors)
        low = self.decoder.mask(vector, self.decoder.upscale(image, hr0, hr1))
        low = self.hide_absent(low, present)
        iou = (ious * best).sum(dim=1, keepdim=True)
        return low, iou, self.object_pointer(pick(best, pointers), present), score, ious
