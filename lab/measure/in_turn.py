"""Two or more ways to run the same clips, measured in turn: A B A B …, each time by a process of
its own, and then judged.

python3 lab/measure/in_turn.py --out OUT --rounds 3 --side whole=engines/whole --side
parts=engines/parts --reference-run RUN \
        -- segtrt bench --backend tensorrt --split-dir S

Each side is a folder of engines; the command behind -- is the same for all, with --engines,
--save-masks and --out-dir added. OUT/SIDE/round_N has the runs, OUT/judged what `segtrt compare
--runs` says of them: how many times as fast the last side is as the first, and how equal the masks
of each are to the reference's, a run of the same clips and weights in fp32 (masks are compared with
no other), such as PyTorch's that `segtrt compare` made. Exit code 0: all rounds were measured,
whatever was judged; 1: not all; 2: wrong command line.
"""

import argparse
import subprocess
import sys
from pathlib import Path


def named(word):
    """NAME=FOLDER as a pair."""
    name, equals, folder = word.partition("=")
    if not (name and equals and folder):
        raise argparse.ArgumentTypeError(f"'{word}': expected NAME=FOLDER")
    return name, folder


def rounds(command, sides, count, out):
    """Measures; how many runs failed. A failed one costs only itself."""
    failed = 0
    for number in range(1, count + 1):
        for name, engines in sides:
            place = out / name / f"round_{number}"
            code = subprocess.run([*command, "--engines", engines, "--save-masks", "--out-dir",
                                   str(place)]).returncode
            print(f"{name} round {number}: {'done' if code == 0 else f'exit code {code}'}", flush=True)
            failed += code != 0
    return failed


def judge(command, sides, count, out, reference):
    """`segtrt compare --runs`; its exit code, where 1 is an answer, too: masks that differ."""
    runs = [f"{name}={out / name / f'round_{number}'}" for name, _ in sides for number in range(1, count + 1)]
    split = command[command.index("--split-dir") + 1]
    words = [command[0], "compare", "--split-dir", split, "--runs", *runs, "--subject", sides[-1][0]]
    return subprocess.run([*words, "--reference-run", reference, "--out-dir", str(out / "judged")]).returncode


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--side",
                   type=named,
                   action="append",
                   required=True,
                   metavar="NAME=FOLDER",
                   help="engines; two of them at least")
    p.add_argument("--reference-run", required=True, metavar="FOLDER", help="run in fp32 whose masks the "
                                                                            "sides' are compared with")
    p.add_argument("command", nargs="+", help="segtrt bench …, behind --; --split-dir among its flags")
    args = p.parse_args(arguments)
    if len({name for name, _ in args.side}) < 2:
        p.error("--side: expected two of different names at least")
    if args.command[1:2] != ["bench"] or "--split-dir" not in args.command[:-1]:
        p.error("expected segtrt bench … --split-dir FOLDER behind --")
    if failed := rounds(args.command, args.side, args.rounds, args.out):
        print(f"{failed} runs failed", file=sys.stderr)
        return 1
    return 0 if judge(args.command, args.side, args.rounds, args.out, args.reference_run) in (0, 1) else 1


if __name__ == "__main__":
    sys.exit(main())
