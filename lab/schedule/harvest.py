"""Packs what is small and new since the last harvest into one archive, while the lab goes on.

What is worth most is packed first; what does not fit waits for the next harvest, and what no
archive of that size holds keeps nothing else waiting. OUT/harvest.json says what was packed.
"""

import io
import json
import os
import re
import tarfile
import zlib
from pathlib import Path

from .ledger import write_json

TEXT = (".csv", ".json", ".jsonl", ".md", ".png", ".txt", ".log", ".toml", ".err")
STATE = "harvest.json"
LARGEST = 32 << 20  # bytes of one file
# Worth by the path within OUT, the first that fits; what fits none stays.
LEFT = r"(^|/)(inductor|bed|bundles\w*|synth|forced_masks)/|\.running$|\.part$|^harvest\.json$"
WORTH = (
    r"^lab\.(log|json)$|^jobs/.*\.json$",
    r"(^|/)comparison(_drift)?\.(md|csv|json)$|(^|/)measured\.json$",
    r"^[^/]*\.(csv|txt|json|md)$|^builds/",
    r"^jobs/.*\.log$",
    r"/runs/.*\.log$",
    r"/engine\.json$",
    r"/worst/",
    r"^(?!timing/)(?!compiled/)(?!.*/masks/)",  # run folders
    r"/masks/",
    r"^compiled/",
    r"^timing/",
)


def worth(path):
    """The place in WORTH of a path relative to OUT; None where it stays."""
    if re.search(LEFT, path) or Path(path).suffix not in (*TEXT, ".timing", ".bin"):
        return None
    if path.endswith(".png") and "/worst/" not in path:
        return None  # frames and masks of made-up clips
    if "/masks/" in path:
        # Those of every round: `compare --runs` judges a folder anew only with all of them. A
        # teacher's are in the drift curves.
        return None if re.search(r"/(teacher|teacher_forced)/", path) else WORTH.index(r"/masks/")
    if path.endswith("/engine.json") and not path.startswith("engines/"):
        return None  # a piece's is that of the whole
    return next(at for at, pattern in enumerate(WORTH) if re.search(pattern, path))


def candidates(out, packed):
    """(worth, path, stamp) of files that are not packed as they are now, best first."""
    found = []
    for folder, folders, files in os.walk(out):
        folders[:] = sorted(name for name in folders if not os.path.islink(os.path.join(folder, name)))
        for name in files:
            path = Path(folder) / name
            relative = str(path.relative_to(out))
            place = worth(relative)
            try:
                status = path.stat()
            except OSError:
                continue  # it has just gone
            stamp = [status.st_size, status.st_mtime_ns]
            if place is not None and status.st_size <= LARGEST and packed.get(relative) != stamp:
                found.append((place, relative, stamp))
    # Timing caches of one start lie side by side: what they share is then packed once.
    return sorted(found, key=lambda one: (one[0], one[1]))


def harvest(out, archive, limit_mb, again=False):
    """Writes `archive` (.tar.xz, never larger than the limit); (files packed, files left, bytes).
    """
    out, limit = Path(out), int(limit_mb * 1e6)
    try:
        packed = {} if again else json.loads((out / STATE).read_text())
    except (OSError, ValueError):
        packed = {}
    found = candidates(out, packed)
    chosen = _that_may_fit(out, found, limit)
    part = Path(f"{archive}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    while True:
        size = _write(part, chosen)
        if size <= limit or not chosen:
            break
        # The estimate was too low: the least worthy go.
        keep = int(len(chosen) * min(0.9, 0.95 * limit / size))
        chosen = chosen[:keep]
    os.replace(part, archive)
    write_json(out / STATE, packed | {path: stamp for path, stamp, _ in chosen})
    return len(chosen), len(found) - len(chosen), size


def _that_may_fit(out, found, limit):
    """(path, stamp, bytes) as far as they are thought to fit: xz packs such files closer than zlib.
    """
    chosen, sum_ = [], 0
    for _, path, stamp in found:
        try:
            data = (out / path).read_bytes()
        except OSError:
            continue
        estimate = int(0.9 * len(zlib.compress(data, 1))) + 200
        if estimate > limit:
            continue
        sum_ += estimate
        if sum_ > limit:
            break
        chosen.append((path, stamp, data))
    return chosen


def _write(path, chosen):
    with tarfile.open(path, "w:xz", preset=6) as archive:
        for name, stamp, data in chosen:
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), stamp[1] // 10**9
            archive.addfile(member, io.BytesIO(data))
    return path.stat().st_size
