"""Makes Meta's predictor with the exported graphs' weights, on the device, in the mode that is measured."""

import time
from dataclasses import dataclass, field

import torch

from . import RunError, shown, tuning, weights_choice
from .arguments import AUTO, HALF_WEIGHTS
from .meta_session import MetaSession


@dataclass
class Loaded:
    """A model that is ready to be run."""

    session: object
    choice: weights_choice.Choice
    weights: str  # in the words of segtrt's sidecar
    files: dict  # name -> hash of the weights' files
    reference: str  # whose code, and its version
    setup_ms: float
    memories: int
    pointers: int
    notes: list = field(default_factory=list)  # what was changed in the original, in words
    encoder: object = None  # the image encoder, where settings are tried on it
    tuned: dict = field(default_factory=dict)  # the settings that were kept, and what was tried


def build_original(tag, choice, edgetam_src):
    """The original predictor with weights on the CPU -> (model, [weights] entries, reference)."""
    from segexport import ExportError

    try:
        from segexport.models import build
        from segexport.weights import load_checkpoint, load_random

        model, reference = build(tag.model, choice.imgsz, edgetam_src)
        if choice.checkpoint is not None:
            weights = load_checkpoint(model, tag.model, choice.checkpoint)
        else:
            quiet = lambda *_: None
            weights = load_random(model, choice.seed, choice.overlay, tag.family, choice.imgsz, quiet)
    except ExportError as error:
        raise RunError(str(error), f"{shown('pytorch/README.md')} says how to install each model's code") from error
    except ModuleNotFoundError as error:
        raise RunError(
            f"the Python package {error.name} is missing", f"pip install -r {shown('pytorch/requirements.txt')}"
        ) from error
    weights_choice.verify(choice, weights)
    return model, weights, reference


def load(tag, choice, args, device, stages):
    """Builds, loads and moves; compiling comes later, when a clip is at hand."""
    start = time.perf_counter()
    model, weights, reference = build_original(tag, choice, args.edgetam_src)
    model = _to_device(model, device)
    half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(args.precision)
    casts = half is not None and (args.settings == AUTO or HALF_WEIGHTS in args.settings)
    cast = tuning.cast_weights(model, half) if casts else 0
    if device.type == "cuda":
        torch.cuda.synchronize()
    setup_ms = (time.perf_counter() - start) * 1e3
    notes = ["Meta's predictor through init_state, add_new_points_or_box or add_new_mask, propagate_in_video"]
    if half is not None:
        notes.append("TF32 is allowed for products that autocast leaves in fp32, as Meta's benchmark "
                     "allows it")
    if cast:
        notes.append(f"{cast} weights and biases of linear layers and convolutions are held as {half}, to "
                     f"which autocast else casts them in each frame")
    memory_dtype = None
    if args.precision == "fp16":
        # Meta stores memories as bfloat16, which autocast to float16 refuses to join with other tensors.
        memory_dtype = torch.float16
        notes.append("memories, rounded to bfloat16 by the original, are held as float16, which autocast "
                     "needs")
    if args.keep_memories:
        notes.append("every frame's outputs are kept on the device, as Meta's predictor does")
    else:
        notes.append("memories older than 6 frames, pointers older than 15 and masks of past frames are "
                     "dropped")
    session = MetaSession(model, stages, memory_dtype, drop=not args.keep_memories)
    return Loaded(
        session,
        choice,
        weights_choice.phrase(weights),
        files_of(choice, weights),
        reference,
        setup_ms,
        model.num_maskmem,
        model.max_obj_ptrs_in_encoder,
        notes,
        model.image_encoder,
        {"half_weights": bool(cast), "kept": [], "tried": []},
    )


def files_of(choice, weights):
    """Name -> hash of the files that the weights came from."""
    return {
        path.name: {"sha256": weights[f"{kind}_sha256"], "bytes": path.stat().st_size}
        for kind, path in (("checkpoint", choice.checkpoint), ("overlay", choice.overlay))
        if path is not None
    }


def _to_device(model, device):
    """Moves the model, and the ready table of positions that an overlay may have put into its trunk."""
    trunk = model.image_encoder.trunk
    if "_get_pos_embed" in vars(trunk):
        table = trunk._get_pos_embed(None).to(device)
        trunk._get_pos_embed = lambda size: table
    return model.to(device)
