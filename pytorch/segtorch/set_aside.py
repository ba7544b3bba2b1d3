"""What an earlier run left in a folder in which another one begins: moved aside, not lost, nor
taken for the new run's.

The names and the rules are those of `segtrt bench` (crates/vos/src/files/set_aside.rs), and
segtrt's other commands know the names. Tables and sidecar would be written over, and may be another
program's. Masks and logits are a file for each object: those of objects that the new run does not
have would stay beside its own, and nothing in them tells whose they are. Overlays are those of
`segtrt bench` alone.
"""

import re

from . import RunError

JOURNAL = "rows.jsonl"
# What is moved, as the name's beginning and its end. The journal comes first: where there is none,
# nothing is taken for a run's to be resumed, so that a crash in between mixes nothing.
_KEPT = (
    ("rows", ".jsonl"),
    ("masks", ""),
    ("logits", ""),
    ("overlays", ""),
    ("sav_benchmark_summary", ".csv"),
    ("profile_summary", ".csv"),
    ("profile_stats", ".json"),
    ("sidecar", ".json"),
)
# Those that are one file, whoever wrote it.
_FILES = tuple(f"{stem}{end}" for stem, end in _KEPT[4:])
_OF_OBJECT = re.compile(r".*__obj.*\.(json|npy)", re.S)
# Where overlays, which lie in the run folder itself, are gathered until all are there.
_GATHERED = ".segtrt-overlays"


def earlier_run(folder):
    """Moves an earlier run's rows, tables, masks, logits and overlays to rows.previous.jsonl,
    masks.previous and so on.

    What has such a name becomes …previous-2…, or the next free number, the same for all of one run.
    Returns (old name, new name) pairs, the newest run's alone.
    """
    try:
        there = [kind for kind in _KEPT if _is_there(folder, kind)]
        if any(_is_previous_there(folder, kind) for kind in there):
            number = _next_number(folder)
            for kind in _KEPT:
                if _is_previous_there(folder, kind):
                    (folder / _previous(kind)).rename(folder / _previous(kind, number))
        moved = [("".join(kind), _previous(kind)) for kind in there]
        for old, new in moved:
            (_gathered(folder) if old == "overlays" else folder / old).rename(folder / new)
    except OSError as error:
        what = f"what an earlier run left in {folder} cannot be moved aside: {error}"
        raise RunError(what, "choose another --out-dir") from error
    return moved


def told(folder, moved):
    """One line about what `earlier_run` moved."""
    each = ", ".join(f"{old} in {new}" for old, new in moved)
    return f"{folder} held an earlier run: its {each} are kept, and the tables are written anew"


def _previous(kind, number=None):
    stem, end = kind
    return f"{stem}.previous{'' if number is None else f'-{number}'}{end}"


def _is_previous_there(folder, kind):
    return (folder / _previous(kind)).exists()


def _is_there(folder, kind):
    """There are rows, or a table; or a folder of this name has a run's file in it: one that is
    somebody else's is not to be touched."""
    path = folder / "".join(kind)
    if path.name == JOURNAL:
        return path.is_file() and path.stat().st_size > 0
    if path.name in _FILES:
        return path.is_symlink() or (path.exists() and not path.is_dir())
    if path.name == "overlays":
        return (folder / _GATHERED).is_dir() or bool(_overlays(folder))
    if not path.is_dir():
        return False
    return any(
        _OF_OBJECT.fullmatch(file.name) and file.is_file() and not file.is_symlink()
        for file in path.iterdir())


def _overlays(folder):
    """Films, and folders of frames."""
    named = [path for path in folder.iterdir() if "__obj" in path.name]
    films = [path for path in named if path.suffix == ".mp4" and path.is_file() and not path.is_symlink()]
    return films + [path for path in named if (path / "00000.png").is_file()]


def _gathered(folder):
    """All overlays in one folder."""
    into = folder / _GATHERED
    into.mkdir(exist_ok=True)
    for path in _overlays(folder):
        path.rename(into / path.name)
    return into


def _next_number(folder):
    found = [1]
    for entry in folder.iterdir():
        for stem, end in _KEPT:
            # segtrt's numbers have 32 bits; a longer one is none of a run.
            match = re.fullmatch(rf"{stem}\.previous-([0-9]{{1,9}}){re.escape(end)}", entry.name)
            if match:
                found.append(int(match[1]))
    return max(found) + 1
