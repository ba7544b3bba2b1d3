"""What training keeps: averaged weights, and files from which it goes on or is exported."""

import copy
import os

import torch


class Average:
    """Exponential moving average of a model's weights and batch statistics."""

    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model, step):
        """Moves towards `model`; young averages move faster."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        mine, theirs = _floats(self.model), _floats(model)
        torch._foreach_lerp_(mine, theirs, share)


def _floats(model):
    return [t.detach() for t in model.state_dict().values() if t.dtype.is_floating_point]


def write_weights(model, path, about):
    """A safetensors file with Meta's names; it appears whole or not at all."""
    state = {
        name: tensor.detach().float().cpu().contiguous().clone()
        for name, tensor in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    write_tensors(state, path, about)


def write_tensors(state, path, about):
    """A safetensors file of these tensors; it appears whole or not at all."""
    from safetensors.torch import save_file

    part = f"{path}.part"
    save_file(state, part, metadata={k: str(v) for k, v in about.items()})
    os.chmod(part, 0o644)  # safetensors makes files that only their owner reads
    os.replace(part, path)


def read_weights(model, path):
    """Loads `write_weights`' file; every weight must be there."""
    from safetensors.torch import load_file

    found = model.load_state_dict(load_file(path), strict=False)
    missing = [name for name in found.missing_keys if not name.endswith("num_batches_tracked")]
    if missing or found.unexpected_keys:
        raise ValueError(f"{path}: not this network's weights: missing {missing}, unknown "
                         f"{found.unexpected_keys}")


def write_resume(path, model, average, optimizer, draw, progress):
    """Everything that continuing needs."""
    part = f"{path}.part"
    torch.save(
        {
            "model": model.state_dict(),
            "average": average.model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "draw": draw.generator.get_state(),
            "progress": progress,
        },
        part,
    )
    os.replace(part, path)


def read_resume(path, model, average, optimizer, draw):
    """Continues from `write_resume`'s file; returns its progress."""
    kept = torch.load(path, map_location=draw.device, weights_only=True)
    model.load_state_dict(kept["model"])
    average.model.load_state_dict(kept["average"])
    optimizer.load_state_dict(kept["optimizer"])
    state = kept["draw"].cpu()
    if state.numel() != draw.generator.get_state().numel():
        print("resumed from another kind of device: the clips will be other ones")
    else:
        draw.generator.set_state(state)
    return kept["progress"]
