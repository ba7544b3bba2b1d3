"""Lists a split as `segtrt bench` does: SA-V layout (JPEG frames) or DAVIS layout, clips, objects,
mask files.

The rules are those of segtrt's crates/vos/src/dataset: names in code point order, the manifest's
order where there is one, frame N is the JPEG whose name says N, a mask's stem is the number of its
frame.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from . import ObjectError, RunError

SAV = ("JPEGImages_24fps", "Annotations_6fps")
DAVIS = ("JPEGImages/480p", "Annotations/480p")
DAVIS_LISTS = ("ImageSets/2017", "ImageSets/2016", "ImageSets/480p")


@dataclass
class ObjectTruth:
    """An object's masks: frame index -> file; `id` None takes every non-zero pixel."""

    name: str
    masks: dict
    id: int | None = None

    def mask(self, index):
        """bool [H,W] of frame `index`."""
        path = self.masks[index]
        try:
            with Image.open(path) as image:
                values = np.array(image)
        except OSError as error:
            what = "missing" if isinstance(error, FileNotFoundError) else "unusable"
            raise ObjectError(
                "missing_prompt_mask" if what == "missing" else "unreadable_prompt_mask",
                f"[obj {self.name}] {what} mask for prompt frame {index}, skipping object: {path}: {error}",
            ) from error
        if values.ndim == 3:
            # Alpha, the second or the fourth channel, says nothing about the object.
            channels = values.shape[2]
            values = values[..., : channels - (channels in (2, 4))]
            if channels > 2 and self.id is not None:
                raise ObjectError("mask_without_ids", f"{path} is an RGB image, so object {self.id} cannot "
                                                      f"be told")
            values = values.any(axis=2) if self.id is None else values[..., 0]
        return values > 0 if self.id is None else values == self.id


@dataclass
class Clip:
    """A video: its frame files in order and its objects."""

    video: str
    frames: list
    objects: list = field(default_factory=list)

    def hashes(self):
        """{"<video>/frames": ..., "<video>/masks": ...} as in segtrt's sidecar."""
        masks = [path for truth in self.objects for _, path in sorted(truth.masks.items())]
        return {
            f"{self.video}/{kind}": sha256_of_files(files)
            for kind, files in (("frames", self.frames), ("masks", masks))
        }


class Split:
    """The clips of a split directory."""

    def __init__(self, directory, name):
        self.root, self.name = Path(directory), name
        if not self.root.is_dir():
            raise RunError(f"split directory {directory} does not exist", "pass the split with "
                                                                          "--split-dir", usage=True)
        if Path(name).name != name:
            raise RunError(f"split name {name!r} is not a plain name", "--split-name takes a name like "
                                                                       "sav_val", usage=True)
        self.davis = not (self.root / SAV[0]).is_dir() and (self.root / DAVIS[0]).is_dir()
        frames, masks = (self.root / part for part in (DAVIS if self.davis else SAV))
        for folder in (frames, masks):
            if not folder.is_dir():
                raise RunError(
                    f"{folder} is missing: {directory} is neither a SA-V split (JPEGImages_24fps, "
                    f"Annotations_6fps) "
                    "nor DAVIS (JPEGImages/480p, Annotations/480p)",
                    "point --split-dir at the folder that holds them; frames in video files must be "
                    "extracted first",
                    usage=True,
                )
        self.frames, self.masks = frames, masks

    def videos(self, limit=0):
        """Video ids in order, the first `limit` of them (0: all)."""
        places = [self.root / list_ for list_ in DAVIS_LISTS] if self.davis else [self.root]
        manifest = next((p / f"{self.name}.txt" for p in places if (p / f"{self.name}.txt").is_file()), None)
        if manifest is not None:
            lines = [
                line.strip()
                for line in manifest.read_text(encoding="utf-8-sig").splitlines()
                if line.strip()
            ]
            # DAVIS 2016 lists pairs of files; the folder is the video.
            ids = list(dict.fromkeys(Path(x.split()[0]).parent.name or x
                                     for x in lines)) if self.davis else lines
        else:
            ids = [p.name for p in _entries(self.frames) if p.is_dir()]
        if not ids:
            raise RunError(f"the split {self.root} names no video",
                           "add videos or correct the manifest",
                           usage=True)
        return ids[:limit] if limit else ids

    def clip(self, video, limit_objects=0):
        """The clip; ObjectError where it cannot be used."""
        if Path(video).name != video:
            raise ObjectError("bad_video_id", f"video id {video!r} is not the plain name of a folder")
        folder = self.frames / video
        if not folder.is_dir():
            raise ObjectError("missing_video", f"No frames found, skipping: {folder} does not exist")
        frames = [p for p in _entries(folder) if p.suffix == ".jpg" and p.is_file()]
        if not frames:
            raise ObjectError("no_frames", f"No frames found, skipping: {folder} holds no *.jpg file")
        frames = _by_number(frames) if self.davis else _in_order(folder, frames)
        objects = self._davis_objects(video, frames) if self.davis else self._sav_objects(video)
        if not objects:
            raise ObjectError("no_annotations", f"No annotations found, skipping: {self.masks / video}")
        return Clip(video, frames, objects[:limit_objects] if limit_objects else objects)

    def _sav_objects(self, video):
        objects = []
        for folder in _entries(self.masks / video):
            masks = {}
            for path in _entries(folder) if folder.is_dir() else ():
                if path.suffix == ".png" and path.stem.isascii() and path.stem.isdigit():
                    index = int(path.stem)
                    # Where two stems say the same number, SA-V's own spelling is the mask.
                    if index not in masks or path.name == f"{index:05}.png":
                        masks[index] = path
            if masks:
                objects.append(ObjectTruth(folder.name, dict(sorted(masks.items()))))
        return objects

    def _davis_objects(self, video, frames):
        index = {path.stem: i for i, path in enumerate(frames)}
        files = [p for p in _entries(self.masks / video) if p.suffix == ".png"]
        masks = dict(sorted((index[p.stem], p) for p in files if p.stem in index))
        if not masks:
            return []
        first = next(iter(masks))
        with Image.open(masks[first]) as image:
            ids = [int(v) for v in np.unique(np.array(image)) if v]
        if ids == [255]:  # DAVIS 2016: one object, drawn in white
            return [ObjectTruth("1", masks)]
        return [ObjectTruth(str(i), masks, i) for i in ids if i != 255]


def _number(path):
    """What stands before the number at the end of a stem, and the number; None without one."""
    prefix = path.stem.rstrip("0123456789")
    return (prefix, int(path.stem[len(prefix) :])) if prefix != path.stem else None


def _by_number(frames):
    """Frames in the order of their numbers where all have one and begin alike; else as they are."""
    numbers = [_number(path) for path in frames]
    if None in numbers or len({prefix for prefix, _ in numbers}) > 1:
        return frames
    return sorted(frames, key=_number)


def _in_order(folder, frames):
    """Frames so that index N is frame N: a later mask would be compared with another frame than its own."""
    frames = _by_number(frames)
    numbers = [_number(path) for path in frames]
    # ffmpeg counts from 1, and puts a word in front (frame_000001.jpg).
    first = 1 if numbers[0] is not None and numbers[0][0] and numbers[0][1] == 1 else 0
    for number, path, found in zip(range(first, first + len(frames)), frames, numbers, strict=True):
        if found is None or found != (numbers[0][0], number):
            raise ObjectError(
                "frame_names",
                f"the frames of {folder}: {path.name} comes where frame {number} belongs; the frames must "
                f"be numbered "
                "0, 1, 2, ... (00000.jpg, 00001.jpg, ...) without a gap. Restore, rename or remove the file",
            )
    return frames


def _entries(folder):
    """Visible entries sorted by name; none where the folder is not there."""
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if not p.name.startswith(".")), key=lambda p: p.name)


def sha256_of_files(paths):
    """One hash over the contents and lengths of several files; a lone file has its plain hash."""
    digest, total, lengths = hashlib.sha256(), 0, []
    for path in paths:
        data = Path(path).read_bytes()
        digest.update(data)
        total += len(data)
        lengths.append(len(data))
        if len(lengths) == 2:
            digest.update(lengths[0].to_bytes(8, "little"))
        if len(lengths) > 1:
            digest.update(lengths[-1].to_bytes(8, "little"))
    return {"sha256": digest.hexdigest(), "bytes": total}
