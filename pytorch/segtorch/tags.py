"""Model tags as the CSV carries them (`sam2_tiny_points`) and the exporter's names of the models."""

from dataclasses import dataclass

from . import RunError

# Tag root -> model name in bundle manifests.
MODELS = {
    "edgetam": "edgetam",
    "sam2_tiny": "sam2.1_tiny",
    "sam2_small": "sam2.1_small",
    "sam2_base": "sam2.1_base_plus",
    "sam2_large": "sam2.1_large",
    "edgetam_mini": "edgetam_mini",
}
PROMPTS = ("points", "bbox", "mask")


@dataclass(frozen=True)
class Tag:
    """One entry of --models."""

    tag: str  # as the CSV prints it
    model: str  # as the exporter names it
    prompt: str  # one of PROMPTS

    @property
    def family(self):
        """Whose code it needs: both are a package called `sam2`."""
        return "edgetam" if self.model.startswith("edgetam") else "sam2.1"


def parse(text, default_prompt="points"):
    """The tags of a comma-separated list; all must be of one family."""
    tags = [_one(part.strip(), default_prompt) for part in text.split(",") if part.strip()]
    if not tags:
        raise RunError("--models names no model", f"known tags: {known()}", usage=True)
    if len({tag.family for tag in tags}) > 1:
        raise RunError(
            "--models mixes EdgeTAM and SAM 2.1, whose original code is one Python package name",
            "run each family in a process of its own",
            usage=True,
        )
    return tags


def known():
    """What --models takes, for messages."""
    return f"{', '.join(MODELS)} followed by _points, _bbox or _mask"


def _one(text, default_prompt):
    names = {name: root for root, name in MODELS.items()} | {root: root for root in MODELS}
    root, _, prompt = text.rpartition("_")
    if root in names and prompt in PROMPTS:
        return Tag(f"{names[root]}_{prompt}", MODELS[names[root]], prompt)
    if text in names:
        return Tag(f"{names[text]}_{default_prompt}", MODELS[names[text]], default_prompt)
    raise RunError(f"unknown model tag {text!r}", f"known tags: {known()}", usage=True)
