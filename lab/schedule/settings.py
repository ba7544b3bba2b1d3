"""What a plan is made from: places, programs, models, and how long each is thought to take."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEACHER = "sam2.1_tiny"  # the one whose encoder is trained

# Seconds seen on two to four H200 while all were busy: building the encoder in one piece, an
# export, 48 frames on four processors, a comparison (two at a time and with vos_optimized 233, 209,
# 220 and 270, EdgeTAM's with its eight sides 313, all sides started at once; 25 more for each of
# PyTorch's but the first are guessed, for they start one after the other since).
COSTS = {
    "edgetam": (120, 45, 60, 465),
    "sam2.1_tiny": (110, 35, 130, 310),
    "sam2.1_small": (110, 35, 150, 285),
    "sam2.1_base_plus": (240, 45, 220, 295),
    "sam2.1_large": (370, 60, 400, 345),
}
# Of EdgeTAM at 512 pixels, alone on twelve processors; 195 and 223 were seen without vos_optimized.
SMALL_COMPARISON = 480
TAGS = {
    "edgetam": "edgetam",
    "sam2.1_tiny": "sam2_tiny",
    "sam2.1_small": "sam2_small",
    "sam2.1_base_plus": "sam2_base",
    "sam2.1_large": "sam2_large",
}
# By worth: the comparisons of the first two come before anything of the others.
PRIORITIES = {  # by rank
    "bed": (10, 14, 15),
    "export": (11, 15, 16),
    "build": (12, 19, 23),
    "compare": (13, 22, 24),
    "forced": (16, 26, 28),
    # Self-tests and masks against the CPU: those of the larger models have never been seen.
    "look": (30, 20, 31),
    "fp32": (30, 21, 31),
    "speed": (35, 36, 37),
}
RANKS = {"edgetam": 0, "sam2.1_tiny": 0, "sam2.1_base_plus": 1, "sam2.1_large": 1, "sam2.1_small": 2}
PARTS = {"sam2.1_large": 4}  # of an image encoder that is cut (onnx/segexport/encoder_parts.py)
# Models whose encoder has a trunk.
HIERA = ("sam2.1_tiny", "sam2.1_small", "sam2.1_base_plus", "sam2.1_large")
AROUND_TRUNK = 2  # parts of one in fp16 whose trunk is this program's
ENCODERS = ("trunk", "engine")  # of onnx/export.py --encoder
COMPUTED_BY = ("engine", "cuda")  # of onnx/export.py --mask-decoder and --memory-encoder
SEGMENTS = {"edgetam": 5}  # of a track step; SAM 2.1 has nine


MIXED = (*TAGS.values(), "edgetam_512")


@dataclass(frozen=True)
class Variant:
    """A model at an image size."""

    model: str
    imgsz: int = 1024
    encoder: str = "engine"  # of ENCODERS: what computes its fp16 encoder
    mask_decoder: str = "engine"  # of COMPUTED_BY: what computes the mask decoder of its fp16 track step
    memory_encoder: str = "engine"  # of COMPUTED_BY: what computes its fp16 memory encoder

    def parts(self, precision):
        """Parts of the encoder; 0 where it is whole."""
        if self.encoder == "trunk" and precision != "fp32":
            return AROUND_TRUNK if precision == "fp16" else 0  # mixed engines compute all of it in fp32
        return PARTS.get(self.model, 0)

    @property
    def tag(self):
        return TAGS[self.model]

    @property
    def name(self):
        return self.tag if self.imgsz == 1024 else f"{self.tag}_{self.imgsz}"

    @property
    def rank(self):
        return RANKS[self.model] if self.imgsz == 1024 else 2

    def priority(self, step):
        return PRIORITIES[step][self.rank]

    @property
    def costs(self):
        build, export, frames, comparison = COSTS[self.model]
        return build, export, frames, comparison if self.imgsz == 1024 else SMALL_COMPARISON


@dataclass
class Settings:
    """What was typed."""

    segtrt: Path
    split: Path
    overlay: Path
    out: Path
    models: list
    python: str
    gpus: int = 1
    timing: dict = None  # precision of the graphs, fp16 or fp32 -> a timing cache to start from
    timing_dir: Path | None = None  # an earlier lab's OUT/timing
    learn_seconds: int = 90
    track_seconds: int = 90  # 0: memories stay random
    longer: dict = None  # model -> how many times as long it learns
    unlearned: tuple = ()  # models whose weights are random
    rounds: int = 3
    mixed: tuple = MIXED  # names of variants whose mixed engines are compared, too
    kept_compiled: Path | None = None  # an earlier lab's OUT/compiled
    kept_weights: Path | None = None  # an earlier lab's OUT/bed
    encoder: str = "trunk"  # of ENCODERS, for SAM 2.1's fp16 encoders
    mask_decoder: str = "engine"  # of COMPUTED_BY, for all fp16 bundles
    memory_encoder: str = "engine"  # likewise
    frames: int = 12  # of each clip, for masks against the CPU
    ort_gpu: Path | None = None
    nsys: str | None = None
    sanitizer: str | None = None
    decoder: Path | None = None  # examples/decode_frames, built

    def script(self, name):
        """One of the repository's Python programs, as the beginning of a command."""
        return [self.python, ROOT / name]

    def variants(self):
        """The models at 1024 pixels; EdgeTAM at 512, too."""
        common = {"mask_decoder": self.mask_decoder, "memory_encoder": self.memory_encoder}
        found = [
            Variant(model, encoder=self.encoder if model in HIERA else "engine", **common)
            for model in self.models
        ]
        return found + [Variant("edgetam", 512, **common)] * ("edgetam" in self.models)

    def learning(self, model):
        """Seconds in which a model's encoder learns."""
        return round(self.learn_seconds * (self.longer or {}).get(model, 1))

    def tracking(self, model):
        """Seconds in which its memory learns."""
        return round(self.track_seconds * (self.longer or {}).get(model, 1))

    def checkpoint(self, variant):
        """What a variant learnt; its memory learns at its own image size, or it is unsure of
        objects there."""
        side = "" if variant.imgsz == 1024 else f"_{variant.imgsz}"
        name = f"{variant.model}{side}.safetensors"
        kept = self.kept_weights and self.kept_weights / name
        return kept if kept and kept.exists() else self.out / "bed" / name

    def learns(self, variant):
        """Its weights are this lab's to learn: neither left random nor kept of an earlier one."""
        return variant.model not in self.unlearned and self.checkpoint(variant).parent != self.kept_weights

    def bundles(self, variant):
        return self.out / ("bundles" if variant.imgsz == 1024 else f"bundles_{variant.imgsz}")

    def engines(self, variant):
        return self.out / "engines" / variant.name

    def start_cache(self, name, precision):
        """The timing cache that a build job starts from, and whether it is what the job of that
        name left in an earlier lab."""
        kept = self.timing_dir / f"{name}.timing" if self.timing_dir else None
        own = kept is not None and kept.exists()
        return (kept if own else (self.timing or {}).get(precision)), own

    def torch_environment(self):
        """Inductor's compiled graphs are shared by all runs of a lab."""
        return {"TORCHINDUCTOR_CACHE_DIR": self.out / "inductor"}


def of_model(full_or_tag):
    """The full name of a model by its full name or its tag."""
    by_tag = {tag: model for model, tag in TAGS.items()}
    return full_or_tag if full_or_tag in TAGS else by_tag.get(full_or_tag)
