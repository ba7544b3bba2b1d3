"""The tracking loop of inference, differentiable and batched over clips.

It calls the modules of Meta's predictor (the same that the exporter rewrites exactly) by the rules
of `_forward_sam_heads`, `_use_mask_as_output` and `_encode_new_memory`. Only what reads sizes back
from the device or is written for one image is spelled out here. Nothing here waits for the device
or copies to it once the modules' caches are filled, so that a training step can be recorded as a
CUDA graph. The memory bank is chosen by `segexport.bank`, the code that the exported graphs are
driven with.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from segexport.bank import MAX_POINTERS, select

NO_OBJECT_LOGIT = -1024.0


@dataclass
class Answer:
    """One frame's outputs for B clips. `logits` are not hidden where the object is absent."""

    logits: torch.Tensor  # [B,4,4g,4g]: mask 0 and the three multimask outputs
    ious: torch.Tensor  # [B,4] predicted
    score: torch.Tensor  # [B,1]
    low: torch.Tensor  # [B,1,4g,4g]: what leaves the graph and enters the memory
    ptr: torch.Tensor  # [B,C]


@dataclass
class Places:
    """Encodings of positions, the same for all frames of a clip."""

    image: torch.Tensor  # [g*g,B,C] of a tracked frame's cells
    prompts: torch.Tensor  # [1,C,g,g] of the cells as the decoder sees them
    ages: list  # for each temporal row, [T,Cm] of a memory's tokens

    @classmethod
    def of(cls, unroll, feat):
        """For features like `feat` [B,C,g,g]; made with gradients where these are on."""
        model = unroll.model
        image = model.image_encoder.neck.position_encoding(feat[:1]).expand(len(feat), -1, -1, -1)
        ages = unroll._memory_positions(feat) + model.maskmem_tpos_enc[:, 0]
        prompts = model.sam_prompt_encoder.get_dense_pe()
        return cls(image.flatten(2).permute(2, 0, 1), prompts, ages.unbind(0))


class Unroll:
    """Runs a predictor over clips frame by frame."""

    def __init__(self, model, side):
        self.model, self.side, self.grid = model, side, side // 16
        self.width, self.split = model.hidden_dim, model.hidden_dim // model.mem_dim
        self._places = None  # of the clip that is being run

    def features(self, images, scene=None):
        """images [B,T,3,S,S] -> per frame (feat [B,C,g,g], hr0, hr1), or [N,...] of clips `scene`
        [N]."""
        clips, frames = images.shape[:2]
        model = self.model
        finest, fine, middle, coarse = model.image_encoder.trunk(images.flatten(0, 1))
        conv = [c.conv for c in model.image_encoder.neck.convs]
        top_down = F.interpolate(conv[0](coarse), scale_factor=2.0, mode="nearest")
        feat = conv[1](middle) + top_down
        hr0 = _two_1x1(finest, conv[3], model.sam_mask_decoder.conv_s0)
        hr1 = _two_1x1(fine, conv[2], model.sam_mask_decoder.conv_s1)
        parts = [x.unflatten(0, (clips, frames)) for x in (feat, hr0, hr1)]
        # All frames at once: indexing each costs a dozen kernels in the backward pass.
        parts = parts if scene is None else [x[scene] for x in parts]
        return list(zip(*(x.unbind(1) for x in parts)))

    def prompt(self, features, coords, labels):
        """Points or boxes: coords [B,P,2] in pixels, labels tuple of P (1, 0, 2, 3)."""
        feat, hr0, hr1 = features
        image = feat + self.model.no_mem_embed.reshape(1, -1, 1, 1)
        logits, ious, tokens, score = self._decode(
            image, hr0, hr1, self._point_tokens(coords, labels), self._no_mask()
        )
        if len(labels) == 1:
            low, token = _best(logits, ious, tokens)
        else:
            low, token = self._single(logits, ious), tokens[:, 0]
        return self._answer(logits, ious, score, low, token)

    def mask_prompt(self, features, mask):
        """A given mask f32 [B,1,S,S] in {0,1}: it is the output, the decoder makes the pointer."""
        feat, hr0, hr1 = features
        encoder = self.model.sam_prompt_encoder
        dense = encoder.mask_downscaling(self.model.mask_downsample(mask))
        empty = self._nothing(mask.shape[0])
        logits, ious, tokens, score = self._decode(feat, hr0, hr1, empty, dense)
        given = F.interpolate(
            mask * 20 - 10, scale_factor=0.25, mode="bilinear", align_corners=False, antialias=True
        )
        answer = self._answer(logits, ious, score, logits[:, :1], tokens[:, 0])
        answer.low = given
        return answer

    def track(self, features, memories, pointers, rows):
        """A later frame: lists of memories [B,T,Cm] with their temporal rows and pointers [B,C]."""
        feat, hr0, hr1 = features
        model = self.model
        clips = feat.shape[0]
        places = self._places or Places.of(self, feat)
        tokens = torch.stack(pointers, dim=1).reshape(clips, -1, model.mem_dim)
        count = tokens.shape[1]
        ages = [places.ages[row] for row in rows]
        keys = torch.cat([*ages, tokens.new_zeros(count, model.mem_dim, dtype=ages[0].dtype)], dim=0)
        memory = torch.cat([*memories, tokens], dim=1)
        image = model.memory_attention(
            curr=[feat.flatten(2).permute(2, 0, 1)],
            curr_pos=[places.image],
            memory=memory.transpose(0, 1),
            memory_pos=keys[:, None].expand(-1, clips, -1),
            num_obj_ptr_tokens=count,
            num_spatial_mem=len(memories),
        )
        image = image.permute(1, 2, 0).reshape(feat.shape)
        logits, ious, tokens, score = self._decode(
            image, hr0, hr1, self._nothing(clips), self._no_mask()
        )
        return self._answer(logits, ious, score, *_best(logits, ious, tokens))

    def remember(self, features, answer, prompted):
        """Memory tokens [B,T,Cm] of a frame; the prompted frame's mask is made binary."""
        model = self.model
        high = F.interpolate(answer.low, scale_factor=4.0, mode="bilinear", align_corners=False)
        mask = (high > 0).float() if prompted else torch.sigmoid(high)
        mask = mask * model.sigmoid_scale_for_mem_enc + model.sigmoid_bias_for_mem_enc
        out = model.memory_encoder(features[0], mask, skip_mask_sigmoid=True)
        x, position = out["vision_features"], out["vision_pos_enc"][0]
        perceiver = model.spatial_perceiver
        flat, _ = perceiver.forward_1d(x, position)
        return torch.cat([flat, self._windows(perceiver, x)], dim=1)

    def clip(self, images, start, scene=None, quiet=0):
        """Yields every frame's Answer; `start(features)` answers the first frame.

        `scene` [N] says in which of the images' clips each target is (default: one in each).
        Frames 1 to `quiet` are run without gradients.
        """
        memories, pointers = [], []
        count = images.shape[1]
        frames = self._all_features(images, scene, quiet)
        places = Places.of(self, frames[0][0])
        for t in range(count):
            with torch.set_grad_enabled(torch.is_grad_enabled() and not 0 < t <= quiet):
                features, self._places = frames[t], places
                if t == 0:
                    answer = start(features)
                else:
                    # Clips count as long ones: shorter ones only differ in a reach they do not
                    # have.
                    chosen = select(t, [0], max(count, MAX_POINTERS))
                    answer = self.track(
                        features,
                        [memories[i] for i, _ in chosen.memories],
                        [pointers[i] for i, _ in chosen.pointers],
                        [row for _, row in chosen.memories],
                    )
                memories.append(self.remember(features, answer, t == 0))
                pointers.append(answer.ptr)
                self._places = None
            yield answer

    def _all_features(self, images, scene, quiet):
        if quiet == 0:
            return self.features(images, scene)
        taught = self.features(torch.cat([images[:, :1], images[:, quiet + 1 :]], dim=1), scene)
        with torch.no_grad():
            untaught = self.features(images[:, 1 : quiet + 1], scene)
        return taught[:1] + untaught + taught[1:]

    def _decode(self, image, hr0, hr1, sparse, dense):
        decoder, encoder = self.model.sam_mask_decoder, self.model.sam_prompt_encoder
        return decoder.predict_masks(
            image_embeddings=image,
            image_pe=self._places.prompts if self._places else encoder.get_dense_pe(),
            sparse_prompt_embeddings=sparse,
            dense_prompt_embeddings=dense,
            repeat_image=False,
            high_res_features=[hr0, hr1],
        )

    def _answer(self, logits, ious, score, low, token):
        present = (score > 0).float()
        low = low.masked_fill(present[:, :, None, None] == 0, NO_OBJECT_LOGIT)
        pointer = self.model.obj_ptr_proj(token)
        pointer = pointer * present + (1 - present) * self.model.no_obj_ptr
        return Answer(logits, ious, score, low, pointer)

    def _single(self, logits, ious):
        """Mask 0, or the best of the others where its area depends on the threshold."""
        decoder = self.model.sam_mask_decoder
        delta = decoder.dynamic_multimask_stability_delta
        inner = (logits[:, :1] > delta).float().sum(dim=(2, 3), keepdim=True)
        outer = (logits[:, :1] > -delta).float().sum(dim=(2, 3), keepdim=True)
        least = decoder.dynamic_multimask_stability_thresh
        stable = (outer < 0.5) | (inner / outer.clamp(min=1) >= least)
        best = _take(logits[:, 1:], ious[:, 1:].argmax(dim=1))[:, None]
        return torch.where(stable, logits[:, :1], best)

    def _point_tokens(self, coords, labels):
        """Prompt tokens [B,P+1,C]; the last is the padding point that Meta adds."""
        encoder = self.model.sam_prompt_encoder
        encoded = encoder.pe_layer.forward_with_coords(coords + 0.5, encoder.input_image_size)
        kinds = torch.cat([encoder.point_embeddings[label].weight for label in labels])
        pad = encoder.not_a_point_embed.weight[None].expand(coords.shape[0], 1, -1)
        return torch.cat([encoded + kinds, pad], dim=1)

    def _nothing(self, clips):
        """The dummy point and the padding point of frames without points."""
        return self.model.sam_prompt_encoder.not_a_point_embed.weight[None].expand(clips, 2, -1)

    def _no_mask(self):
        return self.model.sam_prompt_encoder.no_mask_embed.weight.reshape(1, -1, 1, 1)

    def _memory_positions(self, like):
        """Positions [T,Cm] of a memory's tokens: none for one-dimensional latents."""
        perceiver = self.model.spatial_perceiver
        square = round(perceiver.num_latents_2d**0.5)
        position = perceiver.position_encoding(like.new_zeros(1, 1, square, square))
        position = position.flatten(2)[0].T
        return torch.cat([position.new_zeros(perceiver.num_latents, self.model.mem_dim), position])

    @staticmethod
    def _windows(perceiver, x):
        """`PerceiverResampler.forward_2d`, whose `view` takes one image only."""
        clips, depth, height, width = x.shape
        square = round(perceiver.num_latents_2d**0.5)
        x = x.reshape(clips, depth, square, height // square, square, width // square)
        windows = x.permute(0, 2, 4, 3, 5, 1).reshape(clips * square**2, -1, depth)
        latents = perceiver.latents_2d.repeat(clips, 1)[:, None]
        for layer in perceiver.layers:
            latents = layer(latents, windows)
        return perceiver.norm(latents.reshape(clips, -1, depth))


def _two_1x1(x, first, second):
    """second(first(x)) of 1x1 convolutions as one, which saves the wide map in between."""
    a, b = first.weight[:, :, 0, 0], second.weight[:, :, 0, 0]
    return F.conv2d(x, (b @ a)[:, :, None, None], b @ first.bias + second.bias)


def _take(x, index):
    """x [B,k,...], index [B] -> [B,...]."""
    index = index.reshape(-1, *[1] * (x.dim() - 1))
    return x.gather(1, index.expand(-1, 1, *x.shape[2:]))[:, 0]


def _best(logits, ious, tokens):
    """The multimask output with the highest predicted IoU and its token."""
    best = ious[:, 1:].argmax(dim=1)
    return _take(logits[:, 1:], best)[:, None], _take(tokens[:, 1:], best)
