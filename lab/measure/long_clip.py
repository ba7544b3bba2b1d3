"""Makes a split with one clip that runs to and fro until it has so many frames.

python3 lab/measure/long_clip.py SPLIT OUT CLIP COUNT

A pass of 10 s at the power limit can be VALID, so a comparison of a slow model needs a clip that
long. Frames and masks are hard links.
"""

import os
import sys
from pathlib import Path


def make(split, out, clip, count):
    frames = sorted((split / "JPEGImages_24fps" / clip).glob("*.jpg"))
    objects = [path for path in sorted((split / "Annotations_6fps" / clip).glob("*")) if path.is_dir()]
    if len(frames) < 2 or not objects:
        sys.exit(f"error: {split} has {len(frames)} frames and {len(objects)} objects of {clip}; expected "
                 f"JPEGImages_24fps/{clip}/*.jpg and Annotations_6fps/{clip}/OBJECT/*.png")
    period = 2 * len(frames) - 2
    for number in range(count):
        at = min(number % period, period - number % period)
        link(frames[at], out / "JPEGImages_24fps" / clip / f"{number:05d}.jpg")
        for one in objects:
            mask = one / f"{frames[at].stem}.png"
            if mask.exists():
                link(mask, out / "Annotations_6fps" / clip / one.name / f"{number:05d}.png")
    (out / "sav_val.txt").write_text(clip + "\n")


def link(old, new):
    new.parent.mkdir(parents=True, exist_ok=True)
    new.unlink(missing_ok=True)
    os.link(old, new)


if __name__ == "__main__":
    if len(sys.argv) != 5 or not sys.argv[4].isdigit():
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    make(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
