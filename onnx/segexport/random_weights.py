"""Seeded random weights that behave like trained ones in scale.

Every tensor has a generator of its own, seeded by its name, so that a tensor does not
depend on the order or the version of the code that builds the network. Default
initialisations would leave parts of the network unexercised (zero residual branches,
layer scales of 1e-6, constant batch statistics): nothing here is left constant.
"""

import zlib

import torch

# Residual branches start small, so that depth does not multiply noise.
_BRANCH_ENDS = (
    "channel_mixer.conv2.bn.weight",
    "ffn.conv2.bn.weight",
)

# Factors on random weights by name part. They keep activations in the range of trained
# networks: the conditioned features must look like plain ones to a real mask decoder
# (std 0.3), or every tracked mask is empty and a parity check sees nothing.
#
# What a layer of the memory attention adds is small against what it is given. Where random
# branches drown the frame's own features, a real decoder answers with masks of a dozen
# pixels, of which one that tips over is a tenth of the IoU: such masks say nothing about
# an engine. With the small branches SAM2.1-tiny's tracked masks cover 8000 pixels of the
# clip blackswan, where they covered 500.
_MEMORY_GAINS = {
    "memory_attention.norm.weight": 0.35,
    "memory_attention.layers": 0.6,
} | {
    f"memory_attention.layers.{layer}.{end}.weight": 0.2
    for layer in range(4)
    for end in ("self_attn.out_proj", "cross_attn_image.out_proj", "linear2")
}
GAINS = {
    "sam2.1": _MEMORY_GAINS,
    "edgetam": _MEMORY_GAINS
    | {
        "memory_attention.norm.weight": 0.3,
        "token_mixer.conv": 0.85,
        # Finest level first is convs.3: strong skip features, quiet coarse ones.
        "neck.convs.3": 8.0,
        "neck.convs.2": 8.0,
        "neck.convs.1": 0.04,
        "neck.convs.0": 0.02,
    },
}


def random_tensor(name, like, seed, gains):
    """A random tensor for parameter `name`; `gains` maps name parts to factors on weights."""
    if not like.dtype.is_floating_point:
        return like
    generator = torch.Generator().manual_seed((zlib.crc32(name.encode()) + 1_000_003 * seed) & 0xFFFFFFFF)
    shape = tuple(like.shape)
    noise = torch.randn(shape, generator=generator)
    gain = 1.0
    for part, factor in gains.items():
        if part in name:
            gain *= factor
    if name.endswith("running_var"):
        return 1.0 + 0.2 * noise.clamp(-2, 2)
    if name.endswith("running_mean"):
        return 0.1 * noise
    if name.endswith(_BRANCH_ENDS):
        return gain * (0.25 + 0.05 * noise)
    if name.endswith("fuser.layers.0.gamma") or name.endswith("fuser.layers.1.gamma"):
        return gain * (0.1 + 0.02 * noise)
    if "pe_layer" in name:
        return noise
    if "pred_obj_score_head" in name:
        return _object_score(name, noise, shape, gain)
    if "norm" in name or name.endswith("bn.weight") or _is_norm(name, shape):
        return gain * (1.0 + 0.1 * noise) if name.endswith("weight") else 0.05 * noise
    if name.endswith("bias"):
        return 0.02 * noise
    if "tpos" in name or "pos_embed" in name or name.startswith("no_") or "embed" in name:
        return gain * 0.2 * noise
    if "latents" in name or name.endswith("token.weight") or name.endswith("tokens.weight"):
        return gain * noise
    if len(shape) >= 2:
        fan_in = noise[0].numel()
        return gain * noise / fan_in**0.5
    return gain * (1.0 + 0.1 * noise) if name.endswith("weight") else 0.05 * noise


def _object_score(name, noise, shape, gain):
    """Mostly positive scores, so that most frames contain an object and some may not."""
    if shape == (1,):
        return torch.full(shape, 2.0)
    return 0.3 * gain * noise / shape[-1] ** 0.5 if len(shape) == 2 else 0.02 * noise


def _is_norm(name, shape):
    """One-dimensional weights belong to norms (convolutions and linear layers have two or more)."""
    return name.endswith("weight") and len(shape) == 1
