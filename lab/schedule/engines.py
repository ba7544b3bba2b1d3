"""Puts pieces of an engine folder together and checks the whole.

python3 lab/schedule/engines.py --into ENGINES --rows ROWS.json --piece DIR … [-- segtrt
build-engines … --json]

Each piece is a folder that `segtrt build-engines --graphs …` left:
DIR/PLATFORM/MODEL_SIZE_PRECISION/{engine.json,*.plan}, and the weights of an encoder's trunk, of a
mask decoder and of a memory encoder where it has them. The command after `--` is that of the whole;
it must find every plan up to date, which is the check that nothing was lost or mixed up. What it
does not find up to date it builds, and that is said. Without a command nothing is checked: for
pieces that were built with flags of their own.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

MERGE = Path(__file__).resolve()
MANIFEST = "engine.json"
WEIGHTS = ("trunk", "mask_decoder", "memory_encoder")  # tables of a bundle that name a file of weights


class MergeError(Exception):
    """Pieces that are not of one whole."""


def merge(pieces, into):
    """Copies the plans of `pieces`; the merged folders. Manifests are written last and whole.

    Of each graph the last piece's plans win, all of them: a track step may be divided over several,
    and in two pieces otherwise.
    """
    merged = {}
    for piece in map(Path, pieces):
        found = sorted(piece.glob(f"*/*/{MANIFEST}"))
        if not found:
            raise MergeError(f"{piece} holds no PLATFORM/MODEL/{MANIFEST}")
        for path in found:
            folder = Path(into) / path.parent.relative_to(piece)
            manifest = json.loads(path.read_text())
            whole = merged.setdefault(folder, manifest | {"plans": []})
            for key in ("format", "platform", "precision", "bundle"):
                if whole[key] != manifest[key]:
                    raise MergeError(f"{path}: its {key} is not that of the other pieces")
            graphs = {plan["role"] for plan in manifest["plans"]}
            given_up = {plan["file"]
                        for plan in whole["plans"]
                        if plan["role"] in graphs} - {plan["file"]
                                                      for plan in manifest["plans"]}
            whole["plans"] = [plan for plan in whole["plans"] if plan["role"] not in graphs
                              ] + manifest["plans"]
            for plan in manifest["plans"]:
                folder.mkdir(parents=True, exist_ok=True)
                place(path.parent / plan["file"], folder / plan["file"])
            for table in WEIGHTS:
                weights = (manifest["bundle"].get(table) or {}).get("file")
                if weights and (path.parent / weights).exists():  # of a piece that has a plan beside it
                    folder.mkdir(parents=True, exist_ok=True)
                    place(path.parent / weights, folder / weights)
            for name in given_up:
                (folder / name).unlink()
    for folder, manifest in merged.items():
        part = folder / f"{MANIFEST}.merging"
        part.write_text(json.dumps(manifest, indent=2))
        os.replace(part, folder / MANIFEST)
    return sorted(merged)


def place(source, target):
    """Copies a file, whole or not at all."""
    part = target.with_name(f"{target.name}.merging")
    shutil.copy(source, part)
    os.replace(part, target)


def check(command, rows_path, merged):
    """Runs the whole's build command, writes its rows, and tells how many plans were there."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    try:
        rows = json.loads(done.stdout)
    except ValueError:
        raise MergeError(f"build-engines told no rows (exit code {done.returncode})") from None
    current = [row for row in rows if row["status"] == "up_to_date"]
    words = lambda row: " ".join(filter(None, [row["role"], row.get("part"), row["status"]]))
    others = [words(row) for row in rows if row["status"] != "up_to_date"]
    if not rows or done.returncode:
        raise MergeError(f"exit code {done.returncode}: {', '.join(others) or 'no plan at all'}")
    told = f"; not as they were merged: {', '.join(others)}" if others else ""
    write_rows(rows_path, rows, merged)
    print(f"{len(current)} of {len(rows)} plans up to date{told}")


def write_rows(path, rows, merged):
    """What the builds took stands in the pieces' manifests, which are now those of the whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": rows, "folders": [str(folder) for folder in merged]}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--into", required=True, type=Path, help="folder of engines")
    parser.add_argument("--piece", action="append", required=True, help="folder of a part of them")
    parser.add_argument("--rows", required=True, type=Path, help="where the check's rows go")
    parser.add_argument("check", nargs="*", help="build-engines command of the whole, with --json")
    args = parser.parse_args()
    try:
        merged = merge(args.piece, args.into)
        if args.check:
            check(args.check, args.rows, merged)
        else:
            write_rows(args.rows, [], merged)
            print(f"merged {len(args.piece)} pieces, unchecked")
    except (MergeError, OSError, KeyError, ValueError) as error:
        sys.exit(f"error: {error!r}" if isinstance(error, KeyError) else f"error: {error}")


if __name__ == "__main__":
    main()
