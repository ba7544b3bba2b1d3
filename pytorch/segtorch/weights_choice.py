"""Which weights a model gets: those of an exported bundle, a checkpoint, or a random seed with an overlay.

With --bundle the manifest decides and everything is compared with it: the model, the image side,
the seed, the hash of the checkpoint or overlay, how many of its tensors were taken.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import RunError


@dataclass(frozen=True)
class Choice:
    """What to load; `expected` is the [weights] table that must come out, None without a bundle."""

    imgsz: int
    checkpoint: Path | None = None
    seed: int | None = None
    overlay: Path | None = None
    bundle: Path | None = None
    expected: dict | None = None


def choose(model, imgsz, bundles, checkpoint, seed, overlay):
    """The choice for one model; `bundles` are bundle folders or folders of such."""
    default_side = 256 if model == "edgetam_mini" else 1024
    if bundles:
        if checkpoint is not None and overlay is not None:
            raise RunError("--checkpoint and --weights-overlay exclude one another",
                           "give one of them",
                           usage=True)
        folder, manifest = _find(model, imgsz, bundles)
        return _from_bundle(folder, manifest, checkpoint, seed, overlay)
    if checkpoint is not None and (seed is not None or overlay is not None):
        raise RunError("a checkpoint is complete",
                       "leave out --random-weights and --weights-overlay",
                       usage=True)
    if checkpoint is None and seed is None:
        raise RunError(
            f"no weights were chosen for {model}",
            "give --bundle DIR (the exported graphs' weights), --checkpoint FILE, or --random-weights SEED",
            usage=True,
        )
    return Choice(imgsz or default_side, checkpoint, seed, overlay)


def phrase(weights):
    """The weights in the words of segtrt's sidecar."""
    if weights["source"] == "checkpoint":
        text = f"checkpoint {weights['checkpoint_file']}"
    else:
        text = f"random weights, seed {weights['seed']}"
    if "overlay_file" in weights:
        text += f", {weights['overlay_tensors']} tensors from {weights['overlay_file']}"
    return text


def _manifest(folder):
    try:
        return tomllib.loads((folder / "manifest.toml").read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise RunError(f"{folder}/manifest.toml is not readable: {error}",
                       "export the bundle anew") from error


def _find(model, imgsz, bundles):
    """The bundle of `model` (and side, where given); several must hold the same weights."""
    folders = []
    for place in map(Path, bundles):
        if (place / "manifest.toml").is_file():
            folders.append(place)
        elif place.is_dir():
            folders += sorted(p.parent for p in place.glob("*/manifest.toml"))
    found = [(folder, _manifest(folder)) for folder in folders]
    fits = [
        (folder, manifest)
        for folder, manifest in found
        if manifest["model"]["name"] == model and imgsz in (None, manifest["model"]["imgsz"])
    ]
    wanted = f"{model}{f' at {imgsz} px' if imgsz else ''}"
    if not fits:
        there = ", ".join(f"{m['model']['name']} at {m['model']['imgsz']} px"
                          for _, m in found) or "no bundle"
        raise RunError(f"--bundle holds no bundle of {wanted}: found {there}",
                       "export it with onnx/export.py",
                       usage=True)
    if len({manifest["model"]["imgsz"] for _, manifest in fits}) > 1:
        raise RunError(f"--bundle holds {model} at several sizes", "choose one with --imgsz", usage=True)
    if len({repr(sorted(manifest["weights"].items())) for _, manifest in fits}) > 1:
        raise RunError(f"--bundle holds {wanted} with different weights",
                       "name one bundle's folder",
                       usage=True)
    return fits[0]


def _from_bundle(folder, manifest, checkpoint, seed, overlay):
    weights, side = manifest["weights"], manifest["model"]["imgsz"]
    if weights["source"] == "checkpoint":
        path = checkpoint or _beside(folder, weights["checkpoint_file"])
        if path is None:
            raise RunError(
                f"{folder} was exported from {weights['checkpoint_file']}, which is not beside it",
                "pass the file with --checkpoint",
                usage=True,
            )
        return Choice(side, path, None, None, folder, weights)
    if checkpoint is not None:
        raise RunError(f"{folder} has random weights, not a checkpoint's",
                       "leave out --checkpoint",
                       usage=True)
    if seed is not None and seed != weights["seed"]:
        raise RunError(f"{folder} has seed {weights['seed']}, not {seed}",
                       "leave out --random-weights",
                       usage=True)
    if "overlay_file" not in weights:
        if overlay is not None:
            raise RunError(f"{folder} has no overlay", "leave out --weights-overlay", usage=True)
        return Choice(side, None, weights["seed"], None, folder, weights)
    path = overlay or _beside(folder, weights["overlay_file"])
    if path is None:
        raise RunError(
            f"{folder} was exported with the overlay {weights['overlay_file']}, which is not beside it",
            "pass the file with --weights-overlay",
            usage=True,
        )
    return Choice(side, None, weights["seed"], path, folder, weights)


def _beside(folder, name):
    """The file of that name in the bundle, beside it, or here."""
    return next((p for p in (folder / name, folder.parent / name, Path(name)) if p.is_file()), None)


def verify(choice, loaded):
    """Compares what was loaded with the bundle's manifest."""
    if choice.expected is None or loaded == choice.expected:
        return
    keys = sorted(loaded.keys() | choice.expected.keys())
    differing = [k for k in keys if loaded.get(k) != choice.expected.get(k)]
    # The file may have been renamed; its hash is what counts.
    differing = [k for k in differing if k not in ("overlay_file", "checkpoint_file")]
    if differing:
        told = "; ".join(
            f"{k} is {loaded.get(k)}, the bundle says {choice.expected.get(k)}" for k in differing)
        raise RunError(f"these are not the weights of {choice.bundle}: {told}", "use the file of the export")
