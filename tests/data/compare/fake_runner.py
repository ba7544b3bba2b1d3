"""Speaks the PyTorch runner's protocol and measures nothing: each round is a copy of a run folder.

fake_runner.py … --fake-copy RUN [--fake-slower X] [--fake-damage MODE] [--fake-fail MODE]
[--fake-die MODE]
                     [--fake-wrong MODE] [--fake-no-pupil MODE] [--fake-alone] [--fake-compile-s X]
                     [--fake-hang MODE[-ROUND]] [--fake-die-behind MODE] [--fake-never-ready MODE [--fake-tell]]

Needs Python's standard library only. What it prints beside events must not disturb the caller.
"""

import argparse
import csv
import json
import os
import shutil
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--mode")
parser.add_argument("--precision")
parser.add_argument("--device", default="cpu")
parser.add_argument("--rounds", type=int)
parser.add_argument("--warmup-runs", type=int)
parser.add_argument("--out-dir", type=Path)
parser.add_argument("--models")
parser.add_argument("--bundle", type=Path)
parser.add_argument("--fake-copy", type=Path)
parser.add_argument("--fake-slower", type=float, default=1.0)
parser.add_argument("--fake-damage", default="")
parser.add_argument("--fake-fail", default="")
parser.add_argument("--fake-die", default="")
parser.add_argument("--fake-wrong", default="")
parser.add_argument("--fake-no-pupil", default="")
parser.add_argument("--fake-alone", action="store_true")
parser.add_argument("--fake-compile-s", type=float)
parser.add_argument("--fake-hang", default="")
parser.add_argument("--fake-die-behind", default="")
parser.add_argument("--fake-never-ready", default="")
parser.add_argument("--fake-tell", action="store_true")
parser.add_argument("--tf32", action="store_true")
parser.add_argument("--teacher", type=Path)
args, _ = parser.parse_known_args()


def send(event, **members):
    print(json.dumps({"event": event, **members}), flush=True)


def edit_table(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["backend"] = f"fake {args.mode}"
        row["precision"] = args.precision
        if args.device != "cpu":
            row["device"] = "a GPU, as it were"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def edit_sidecar(path):
    sidecar = json.loads(path.read_text())
    del sidecar["environment"]["build"]
    sidecar["environment"]["packages"] = {"fake": "1"}
    for entry in sidecar["configuration"]["models"]:
        entry["precision"] = args.precision
        entry["graphs"] = []
    for run in sidecar["passes"]:
        times = run["frame_times"]
        for name in [name for name in times if name.endswith("_ms")]:
            times[name] = [None if ms is None else ms * args.fake_slower for ms in times[name]]
        times["chosen_mask"] = [0] * len(times["frame"])
        times["iou_predictions"] = [[0.9, 0.4, 0.1]] * len(times["frame"])
    sidecar["configuration"].pop("save_logits", None)
    sidecar["configuration"]["run_mode"] = args.mode
    sidecar["configuration"]["warmup_runs"] = args.warmup_runs
    sidecar["configuration"]["tf32"] = args.tf32
    sidecar["configuration"]["compile_s"] = None if args.mode == "eager" else args.fake_compile_s
    if args.teacher:
        sidecar["configuration"]["teacher"] = {"configuration_sha256": "0"}
    path.write_text(json.dumps(sidecar))


def go_wrong(folder):
    """Loses the mask of frame 3 and, where the masks go into the memories, half of what comes after."""
    for path in folder.glob("*.json"):
        masks = json.loads(path.read_text())
        for entry in masks["frames"]:
            frame, (height, width) = entry["frame"], entry["mask"]["size"]
            # Columns, from the left: a mask of nothing, and one of the left half.
            if frame == 3:
                entry["mask"]["counts"] = [height * width]
            elif frame > 3 and not args.teacher:
                entry["mask"]["counts"] = [0, height * (width // 2), height * (width - width // 2)]
        path.write_text(json.dumps(masks))


def damage(folder):
    """The last frame of every object loses its mask."""
    for path in folder.glob("*.json"):
        masks = json.loads(path.read_text())
        height, width = masks["frames"][-1]["mask"]["size"]
        masks["frames"][-1]["mask"]["counts"] = [height * width]
        path.write_text(json.dumps(masks))


def compile_alone():
    """Fails where another side is at it."""
    mark = args.out_dir.parent.parent / "compiling"
    try:
        mark.mkdir(parents=True)
    except FileExistsError:
        send("error", what=f"{args.mode} compiles beside another side", advice="one after the other")
        sys.exit(1)
    time.sleep(0.3)
    mark.rmdir()


if not (args.bundle / "manifest.toml").is_file():
    send("error", what=f"{args.bundle} is no bundle", advice="give one")
    sys.exit(1)
if args.teacher and not list((args.teacher / "logits").glob("*.npy")):
    send("error", what=f"{args.teacher} has no logits", advice="save them")
    sys.exit(2)
if args.teacher and args.fake_no_pupil == args.mode:
    send("error", what="this one learns nothing", advice="teach another")
    sys.exit(1)
print("a library prints this on standard output", flush=True)
if args.fake_alone:
    compile_alone()
if args.fake_fail == args.mode:
    send("error", what="the compiler found no GPU", advice="use another machine")
    sys.exit(1)
if args.fake_never_ready == args.mode:
    print("compiling kernel 3 of 900", file=sys.stderr, flush=True)
    for _ in range(600):
        time.sleep(1)
        if args.fake_tell:
            send("progress")
for number in range(args.rounds):
    send("ready", round=number, tells=args.fake_hang != "")
    word = sys.stdin.readline().strip()
    if word.split()[:1] != ["go"]:
        sys.exit(0)
    if args.fake_die == args.mode:
        print("Segmentation fault, as it were", file=sys.stderr, flush=True)
        os._exit(7)
    if args.fake_hang in (args.mode, f"{args.mode}-{number}"):
        print("frame 3 of 8", file=sys.stderr, flush=True)
        for _ in range(3):
            send("progress")
            time.sleep(2)
        time.sleep(3600)
    folder = args.out_dir / f"round_{number}"
    shutil.copytree(args.fake_copy, folder)
    edit_table(folder / "sav_benchmark_summary.csv")
    edit_sidecar(folder / "sidecar.json")
    if args.fake_wrong == args.mode:
        go_wrong(folder / "masks")
    if args.fake_damage == args.mode:
        damage(folder / "masks")
    send("done", round=number, folder=str(folder), fps=1.0)
    if args.fake_die_behind == args.mode:
        os._exit(7)
