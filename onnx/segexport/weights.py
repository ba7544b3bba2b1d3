"""Puts weights into an original predictor: from a checkpoint or seeded random ones.

Checkpoints are Meta's `.pt` (tensors under "model") or safetensors with Meta's or
Hugging Face's names (`hf_names.py`).
"""

import hashlib
from pathlib import Path

import torch
from torch.nn import functional as F

from . import ExportError
from .hf_names import to_meta_names
from .random_weights import GAINS, random_tensor

# What real tensors of another model can lend to EdgeTAM: the modules of one shape in both.
_SHARED_WITH_EDGETAM = ("sam_mask_decoder.", "sam_prompt_encoder.")
_BAKED = "image_encoder.trunk.pos_embed_baked"


def sha256_of(path):
    """Hex digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def read_checkpoint(path):
    """State dict with Meta's names from a .pt or .safetensors file."""
    path = Path(path)
    if not path.is_file():
        raise ExportError(f"checkpoint {path} does not exist")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return to_meta_names(load_file(path))
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except ExportError:
        raise
    except Exception as error:  # torch and safetensors raise many kinds for broken files
        raise ExportError(
            f"checkpoint {path} is not readable as "
            f"{'safetensors' if path.suffix == '.safetensors' else 'a PyTorch file'}: {error}"
        ) from error
    return to_meta_names(loaded.get("model", loaded))


def load_checkpoint(model, name, path):
    """Loads a checkpoint; every tensor must fit. Returns the manifest's [weights] entries."""
    load_state(model, name, read_checkpoint(path), str(path))
    entries = {
        "source": "checkpoint",
        "checkpoint_file": Path(path).name,
        "checkpoint_sha256": sha256_of(path),
    }
    return entries | _training_of(path)


def _training_of(path):
    """The command and seed of the training, where a safetensors file's metadata has them."""
    if Path(path).suffix != ".safetensors":
        return {}
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        about = file.metadata() or {}
    return {"training": about["training"]} if "training" in about else {}


def load_state(model, name, state, where):
    """Loads a Meta-named state dict; ExportError names what is missing, unexpected or misshapen."""
    own = model.state_dict()
    state = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
    wanted = {k for k in own if not k.endswith("num_batches_tracked")}
    missing, unexpected = sorted(wanted - state.keys()), sorted(state.keys() - wanted)
    misfit = [
        f"{k} is {list(state[k].shape)}, expected {list(own[k].shape)}"
        for k in sorted(wanted & state.keys())
        if state[k].shape != own[k].shape
    ]
    if missing or unexpected or misfit:
        parts = [
            f"{len(found)} {what} ({', '.join(found[:4])}{', ...' if len(found) > 4 else ''})"
            for what, found in (
                ("tensors missing", missing),
                ("unexpected", unexpected),
                ("of another shape", misfit),
            )
            if found
        ]
        raise ExportError(f"{where} is not a {name} checkpoint: {'; '.join(parts)}")
    model.load_state_dict({k: v.float() for k, v in state.items()}, strict=False)


def load_random(model, seed, overlay=None, family="sam2.1", side=1024, say=print):
    """Seeded random weights, optionally with real tensors laid over them.

    Returns the manifest's [weights] entries.
    """
    gains = getattr(model, "random_gains", None)
    gains = GAINS[family] if gains is None else gains
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            tensor.copy_(random_tensor(key, tensor, seed, gains))
    entries = {"source": "random", "seed": seed}
    if overlay is not None:
        taken = _lay_over(model, overlay, family, side, say)
        entries |= {
            "overlay_file": Path(overlay).name,
            "overlay_sha256": sha256_of(overlay),
            "overlay_tensors": taken,
        }
    return entries


def _lay_over(model, path, family, side, say):
    """Copies the overlay's fitting tensors into the model; returns how many."""
    from safetensors.torch import load_file

    if not Path(path).is_file():
        raise ExportError(f"weights overlay {path} does not exist")
    overlay = load_file(path)
    own, taken = model.state_dict(), 0
    baked = overlay.pop(_BAKED, None)
    for key, tensor in overlay.items():
        if family == "edgetam" and not key.startswith(_SHARED_WITH_EDGETAM):
            continue
        if key in own and own[key].shape == tensor.shape:
            own[key].copy_(tensor.float())
            taken += 1
    trunk = model.image_encoder.trunk
    if baked is not None and hasattr(trunk, "_get_pos_embed"):
        if baked.shape[1] == trunk.pos_embed.shape[1]:
            _bake_positions(trunk, baked.float(), side, say)
            taken += 1
    if taken == 0:
        raise ExportError(f"no tensor of the overlay {path} fits this model")
    say(f"weights overlay: {taken} of {len(overlay) + (baked is not None)} tensors taken")
    return taken


def _bake_positions(trunk, baked, side, say):
    """Uses a ready positional table [1,C,256,256] instead of the trunk's own two."""
    grid = side // 4
    if baked.shape[-1] != grid:
        say(
            f"weights overlay: its positional table is for {4 * baked.shape[-1]} px; "
            f"interpolated (bicubic) for {side} px"
        )
        baked = F.interpolate(baked, size=(grid, grid), mode="bicubic")
    table = baked.permute(0, 2, 3, 1).contiguous()
    trunk._get_pos_embed = lambda size: table
