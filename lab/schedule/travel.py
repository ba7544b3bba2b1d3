"""Takes what a lab needs to a machine that is reached by small transfers alone, and unpacks it
there as it arrives.

python3 lab/schedule/travel.py pack --out .travel --part-mb 45 clips=davis16
program=target/release/segtrt trt=tensorrt/lib
python3 lab/schedule/travel.py arrive --dest /tmp/things .travel/00 .travel/01      there, after
each transfer

`pack` leaves folders .travel/00, .travel/01, …, each of one transfer at most so large, in the order
in which the loads were named: what is wanted first comes first. A load is a file or a folder.
`arrive` keeps the parts it is given, in whatever order; a load whose parts are all there is
unpacked to DEST/NAME (a file: DEST/NAME/FILE), and DEST/NAME.ready is written, which `measure.py
--wait-for` may wait for. This file travels in each folder. Exit code 0: done, though loads may
still be incomplete; 1: a part is damaged, or not one of these; 2: wrong command line.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

LIST, PARTS = "travel.json", ".parts"


class Damaged(Exception):
    """What is wrong with the parts; the text is for the user."""


def load(word):
    """NAME=PATH as a pair."""
    name, equals, path = word.partition("=")
    if not (name and equals and path) or "/" in name or name.startswith("."):
        raise argparse.ArgumentTypeError(f"'{word}': expected NAME=PATH, NAME a plain word")
    if not Path(path).exists():
        raise argparse.ArgumentTypeError(f"{path} is not there")
    return name, Path(path).resolve()


def pack(loads, out, part_bytes):
    """Writes the folders; how many there are."""
    shutil.rmtree(out, ignore_errors=True)
    folders, listed = [], []
    for name, path in loads:
        place = ["-C", str(path), "."] if path.is_dir() else ["-C", str(path.parent), path.name]
        # The fastest way that compresses at all: transfers are what takes time.
        command = ["tar", "--create", "--use-compress-program", "xz -T0 -1", "--file", "-", *place]
        parts = []
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            while data := process.stdout.read(part_bytes):
                folders.append(out / f"{len(folders):02}")
                folders[-1].mkdir(parents=True)
                part = f"{name}.{len(parts):03}"
                (folders[-1] / part).write_bytes(data)
                parts.append({"file": part, "sha256": hashlib.sha256(data).hexdigest()})
        if process.returncode:
            raise Damaged(f"{path}: tar ended with {process.returncode}")
        listed.append({"name": name, "parts": parts})
    for folder in folders:
        (folder / LIST).write_text(json.dumps(listed))
        shutil.copy(__file__, folder)
    return len(folders)


def arrive(folders, dest):
    """Keeps the parts and unpacks what is whole; a line for each load."""
    kept = dest / PARTS
    kept.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        if not (folder / LIST).is_file():
            raise Damaged(f"{folder} has no {LIST}: expected a folder that `travel.py pack` wrote")
        for path in folder.iterdir():
            shutil.copy(path, kept / path.name)
    if not (kept / LIST).is_file():
        raise Damaged(f"nothing has arrived in {dest} yet: name a folder that `travel.py pack` wrote")
    return [state(one["name"], one["parts"], kept, dest) for one in json.loads((kept / LIST).read_text())]


def state(name, parts, kept, dest):
    """Unpacks a load where all its parts are there; what can be said of it."""
    ready = dest / f"{name}.ready"
    if ready.exists():
        return f"{name}: there"
    there = [part for part in parts if (kept / part["file"]).is_file()]
    if len(there) < len(parts):
        return f"{name}: {len(there)} of {len(parts)} parts"
    into = dest / name
    into.mkdir(exist_ok=True)
    with subprocess.Popen(["tar", "--extract", "--xz", "--file", "-", "--directory",
                           str(into)],
                          stdin=subprocess.PIPE) as process:
        for part in parts:
            data = (kept / part["file"]).read_bytes()
            if hashlib.sha256(data).hexdigest() != part["sha256"]:
                process.kill()
                raise Damaged(f"{kept / part['file']} is not what was packed; transfer its folder again")
            process.stdin.write(data)
    if process.returncode:
        raise Damaged(f"{name}: tar ended with {process.returncode}")
    for part in parts:
        (kept / part["file"]).unlink()
    ready.touch()
    return f"{name}: there"


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    steps = p.add_subparsers(dest="step", required=True)
    packing = steps.add_parser("pack", help="here")
    packing.add_argument("--out", type=Path, required=True, help="what an earlier call left in it is removed")
    packing.add_argument("--part-mb", type=float, default=45, help="millions of bytes of one transfer [45]")
    packing.add_argument("loads", type=load, nargs="+", metavar="NAME=PATH")
    arriving = steps.add_parser("arrive", help="there")
    arriving.add_argument("--dest", type=Path, required=True)
    arriving.add_argument("folders", type=Path, nargs="*", metavar="FOLDER", help="that arrived")
    args = p.parse_args(arguments)
    try:
        if args.step == "pack":
            if len({name for name, _ in args.loads}) < len(args.loads):
                p.error("two loads have one name")
            print(f"{pack(args.loads, args.out, int(args.part_mb * 1e6))} folders under {args.out}")
        else:
            print("\n".join(arrive(args.folders, args.dest)))
    except (Damaged, OSError) as why:
        print(f"error: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
