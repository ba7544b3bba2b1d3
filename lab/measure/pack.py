"""Packs all that a measurement needs into small transfers, the most urgent first.

python3 lab/measure/pack.py --out TRANSFERS --program target/release/segtrt --clips davis16 --weights
TINY.safetensors --packages SITE --edgetam EDGETAM --tensorrt FOLDER

TRANSFERS/00, 01, … are folders that each fit into one transfer. On the other machine
`bash arrive.sh FOLDER` in each of them joins and unpacks what has come. A load is named after its
option; `tools` is this repository's onnx, pytorch and lab as committed. Only named loads are packed,
so a later call may send the tools alone.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARRIVE = Path(__file__).resolve().parent / "arrive.sh"
MOST = 62_000_000  # bytes of a transfer
LISTING = 30_000  # of these, for arrive.sh and the list of parts
TOOLS = ("onnx", "pytorch", "lab", ":(exclude)onnx/bundles")


def compressed(paths, to):
    """Writes a .tar.xz of (path, name in it) pairs."""

    def wanted(member):
        return None if "__pycache__" in member.name else member

    with open(to, "wb") as out, subprocess.Popen(["xz", "-T0", "-6", "--stdout"],
                                                 stdin=subprocess.PIPE,
                                                 stdout=out) as process:
        with tarfile.open(fileobj=process.stdin, mode="w|") as archive:
            for path, name in paths:
                archive.add(path, name, filter=wanted)
        process.stdin.close()
    if process.returncode:
        raise OSError(f"xz ended with {process.returncode}")


def tools(place):
    """This repository's files as committed, so that a commit says what ran."""
    tree = place / "tree"
    tree.mkdir()
    archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD", "--", *TOOLS], capture_output=True)
    if archive.returncode:
        raise OSError(f"git archive in {ROOT}: {archive.stderr.decode().strip()}")
    subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
    return [(tree, ".")]


def stripped(program, place):
    copy = place / "segtrt"
    subprocess.run(["strip", "-o", copy, program], check=True)
    return [(copy, "segtrt")]


def loads(args, place):
    """(load, its compressed file) in the order in which they are wanted."""
    given = []
    if args.tools:
        given.append(("tools", tools(place)))
    if args.program:
        given.append(("program", stripped(args.program, place)))
    if args.packages:
        given.append(("packages", [(args.packages, "site"), (args.edgetam, "edgetam")]))
    if args.clips:
        given.append(("clips", [(args.clips, ".")]))
    if args.weights:
        given.append(("weights", [(args.weights, "overlay.safetensors")]))
    for name, paths in given:
        file = place / f"{name}.tar.xz"
        compressed(paths, file)
        yield name, [file]
    if args.tensorrt:
        if len(args.tensorrt) == 1 and args.tensorrt[0].is_dir():
            compressed([(args.tensorrt[0], ".")], place / "tensorrt.tar.xz")
            yield "tensorrt", [place / "tensorrt.tar.xz"]
        else:
            yield "tensorrt", args.tensorrt  # pieces of one .tar.xz


def cut(packed, out, most):
    """Fills transfers one after the other; how many there are."""
    count, room, listed = 0, 0, []
    for name, files in packed:
        number = 0
        for file in files:
            with open(file, "rb") as source:
                while data := source.read(room or most - LISTING):
                    if room == 0:
                        count, room = count + 1, most - LISTING
                    folder, part = out / f"{count - 1:02d}", f"{name}.{number:03d}"
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / part).write_bytes(data)
                    listed.append(f"{hashlib.sha256(data).hexdigest()}  {part}\n")
                    number, room = number + 1, room - len(data)
    for folder in out.iterdir():
        (folder / "parts.txt").write_text("".join(listed))
        shutil.copy(ARRIVE, folder)
    return count


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--out", type=Path, required=True, help="folder that is not there yet")
    p.add_argument("--part-bytes", type=int, default=MOST, help=f"of one transfer at most [{MOST}]")
    p.add_argument("--no-tools", dest="tools", action="store_false", help="without this repository's files")
    p.add_argument("--program", type=Path, metavar="FILE", help="segtrt; it travels stripped")
    p.add_argument("--clips", type=Path, metavar="FOLDER", help="split with the clips of the comparisons")
    p.add_argument("--weights", type=Path, metavar="FILE", help="real tensors of SAM 2.0's hiera-tiny")
    p.add_argument("--packages", type=Path, metavar="FOLDER", help="Python packages that the machine lacks")
    p.add_argument("--edgetam", type=Path, metavar="FOLDER", help="EdgeTAM's code")
    p.add_argument("--tensorrt", type=Path, nargs="+", metavar="PATH", help="folder of its libraries, or pieces "
                                                                            "of one .tar.xz of it")
    args = p.parse_args(arguments)
    if bool(args.packages) != bool(args.edgetam):
        p.error("--packages and --edgetam travel together")
    if args.part_bytes <= 2 * LISTING:
        p.error(f"--part-bytes {args.part_bytes}: expected more than {2 * LISTING}")
    named = [args.program, args.clips, args.weights, args.packages, args.edgetam, *(args.tensorrt or [])]
    if missing := [str(path) for path in named if path and not path.exists()]:
        p.error(f"not there: {', '.join(missing)}")
    if args.out.exists():
        p.error(f"{args.out} is there already; remove it, or name another folder")
    if not any((args.tools, args.program, args.clips, args.weights, args.packages, args.tensorrt)):
        p.error("nothing is named that could be packed")
    try:
        with tempfile.TemporaryDirectory() as place:
            print(f"{cut(loads(args, Path(place)), args.out, args.part_bytes)} transfers in {args.out}")
    except (OSError, subprocess.CalledProcessError) as why:
        print(f"error: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
