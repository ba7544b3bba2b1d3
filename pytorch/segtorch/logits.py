"""Low-resolution mask logits: saved with a run, or another run's to write memories from
(--save-logits, --teacher).

The files and the checks are those of `segtrt bench`: crates/vos/src/logits,
src/bench/teacher_check.rs; docs/explanation/how-we-compare.md says what for. One .npy file an
object, float16 [frames, L, L], L a quarter of the image side.
"""

import json

import numpy as np

from . import RunError
from .file_stem import file_stem

FOLDER = "logits"
PIXELS_PER_LOGIT = 4
SAVED = {
    "code": "logits_saved",
    "sentence": "not a measurement of speed: every frame handed out its logits; leave --save-logits out to "
                "measure",
    "weight": "fault",
}
FORCED = {
    "code": "teacher_forced",
    "sentence": "teacher-forced: not a measurement of speed; its memories are another run's, and every "
                "frame took that "
    "run's logits",
    "weight": "fault",
}
REGION_SAVED = (
    " Not a measurement of speed: every frame handed out its low-resolution logits between its mask and "
    "its memory."
)
REGION_FORCED = (
    " Teacher-forced: not a measurement of speed. On every frame the memory was written from the logits of "
    "another run; "
    "between a frame's mask and its memory these were brought to the network."
)
_SAVE = (
    "name a run folder that was written with --save-logits and the same --split-dir, --models, --imgsz and "
    "--max-clip-frames"
)


def file_name(key):
    """The name of an object's file."""
    return f"{file_stem(key)}.npy"


def rounded(frames):
    """float16 of logits [L,L]; what it cannot hold is its largest number, as in segtrt."""
    most = float(np.finfo(np.float16).max)
    return np.clip(np.asarray(frames, np.float32), -most, most).astype("<f2")


def save(folder, key, frames):
    """Writes an object's logits, a list of float16 [L,L], whole or not at all."""
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    partial = place / (file_name(key) + ".partial")
    with open(partial, "wb") as file:
        np.save(file, np.stack(frames))
    partial.replace(place / file_name(key))


class Teacher:
    """Another run's folder. A wrong one is an error of the command line, told before anything is measured."""

    def __init__(self, path):
        self.path = path
        try:
            self.sidecar = json.loads((path / "sidecar.json").read_text())
        except (OSError, ValueError) as error:
            raise self._refused(path / "sidecar.json", f"cannot be read ({error})") from error
        self.settings = self.sidecar.get("configuration", {})
        if "teacher" in self.settings:
            what = "it was teacher-forced itself, so its memories are not from its own logits"
            raise self._refused(path, what)
        if self.settings.get("save_logits") is not True or not (path / FOLDER).is_dir():
            advice = "make that run again with --save-logits (segtrt bench, or pytorch/run.py)"
            raise self._refused(path, f"found no logits, expected files in {path / FOLDER}", advice)

    @staticmethod
    def _refused(place, what, advice=_SAVE):
        return RunError(f"--teacher {place}: {what}", advice, usage=True)

    def _same(self, name, found, expected):
        if found is not None and expected is not None and found != expected:
            what = f"{name}: found {json.dumps(found)}, expected {json.dumps(expected)}"
            raise self._refused(self.path / "sidecar.json", what)

    def check(self, configuration, inputs):
        """That it had the same settings and files."""
        for name in ("geometry", "prompt_policy"):
            self._same(name, self.settings.get(name), configuration[name])
        self._same("--input-frame-stride", self.settings.get("strides", {}).get("input"), 1)
        theirs = {entry["tag"]: entry for entry in self.settings.get("models", [])}
        for entry in configuration["models"]:
            tag = entry["tag"]
            if tag not in theirs:
                self._same("model and prompt", sorted(theirs), tag)
            for name in ("imgsz", "weights"):
                self._same(f"{name} of {tag}", theirs[tag].get(name), entry.get(name))
        known = self.sidecar.get("inputs", {})
        # The hash of the ground truth is over the objects that were to be run.
        same_objects = self.settings.get("limit_objects") == configuration["limit_objects"]
        for name, hash_ in inputs.items():
            if name.endswith("/masks") and not same_objects:
                continue
            self._same(name, known.get(name, {}).get("sha256"), hash_["sha256"])

    def told(self):
        """The teacher, for the configuration: nothing of it depends on where its folder lies."""
        return {"configuration_sha256": self.sidecar.get("configuration_sha256")}

    def object(self, key, start, frames, imgsz):
        """The logits of an object, mapped: float16 [frames, L, L], the prompted frame's first."""
        path = self.path / FOLDER / file_name(key)
        expected = list(range(start, start + frames))
        found = [
            entry["frame_times"]["frame"]
            for entry in self.sidecar.get("passes", [])
            if all(entry[name] == value for name, value in key.items())
        ]
        if not found:
            raise self._refused(path, f"its sidecar has no frames of {key['video']} object {key['object']}")
        if found[0] != expected:
            ends = lambda them: f"{len(them)} frames, {them[0]} to {them[-1]}" if them else "none"
            raise self._refused(path, f"the frames: found {ends(found[0])}, expected {ends(expected)}")
        try:
            logits = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise self._refused(path, f"cannot be read ({error})") from error
        side = imgsz // PIXELS_PER_LOGIT
        if logits.shape != (frames, side, side) or logits.dtype != np.dtype("<f2"):
            what = f"found {logits.dtype} {list(logits.shape)}, expected float16 {[frames, side, side]}"
            raise self._refused(path, what)
        return logits
