"""Measures PyTorch's sides and TensorRT's in turn, with all of PyTorch's compiled at once beforehand.

    python3 scripts/measure-sides.py --segtrt BIN --split DIR --engines DIR --bundles DIR --out OUT \\
        --models edgetam_points,sam2_tiny_points --sides eager:fp16,compile:fp16,vos_optimized:fp16,eager:fp32 --rounds 3

`segtrt compare` measures the same one side after the other; this is for machines that are lent by the minute: compiling
takes minutes, and engines can be built meanwhile. The first round begins when the file OUT/go appears. Leaves
OUT/MODEL/SIDE/round_K, which `segtrt compare --runs` judges. A side that fails is left out and said so.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("segtrt", "split", "engines", "bundles", "out", "models"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--sides", required=True, help="[MODEL/]MODE:PRECISION[:ROUNDS] of PyTorch's sides, separated by commas")
    parser.add_argument("--precision", default="fp16", help="of the engines")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=0, help="frames of each clip (0 = all)")
    parser.add_argument("--seconds", type=float, default=0, help="begin no round after so many seconds from the first")
    parser.add_argument("--runner-arg", action="append", default=[])
    return parser.parse_args()


class TorchSide:
    """A runner process that waits between its rounds."""

    def __init__(self, args, model, mode, precision, rounds=None):
        self.rounds = int(rounds or args.rounds)
        self.name = f"{mode}-{precision}"
        self.model, self.out = model, Path(args.out) / model / self.name
        self.out.mkdir(parents=True, exist_ok=True)
        runner = Path(__file__).resolve().parent.parent / "pytorch/run.py"
        command = [sys.executable, str(runner), "--split-dir", args.split, "--models", model, "--mode", mode]
        command += ["--precision", precision, "--device", "cuda", "--bundle", args.bundles, "--save-masks"]
        command += ["--rounds", str(self.rounds), "--interactive", "--out-dir", str(self.out), *args.runner_arg]
        command += ["--max-clip-frames", str(args.frames)]
        if precision == "fp32":
            command += ["--preprocess", "cpu"]  # the reference gets Pillow's own resize
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.out / "log.txt", "w"), text=True
        )
        self.events, self.news = [], threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self._hear(json.loads(line))
        self._hear({"event": "end"})

    def _hear(self, event):
        print(f"{time.strftime('%T')} {self.model} {self.name}: {json.dumps(event)}", flush=True)
        with self.news:
            self.events.append(event["event"])
            self.news.notify_all()

    def wait(self, event, count, seconds=None):
        """Waits until `event` has come `count` times; False where the process ends before."""
        with self.news:
            came = lambda: self.events.count(event) >= count or "end" in self.events
            return self.news.wait_for(came, seconds) and self.events.count(event) >= count

    def round(self, number):
        if not self.wait("ready", number + 1, 0.1):
            print(f"{self.model} {self.name} is not ready for round {number}", flush=True)
            return
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.wait("done", number + 1)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()


def bench(args, model, number):
    """A round of TensorRT's side in a process of its own, as `segtrt compare` does it."""
    out = Path(args.out) / model / f"tensorrt-{args.precision}" / f"round_{number}"
    command = [args.segtrt, "bench", "--backend", "tensorrt", "--engines", args.engines, "--split-dir", args.split]
    command += ["--models", model, "--precision", args.precision, "--save-masks", "--out-dir", str(out)]
    command += ["--max-clip-frames", str(args.frames)]
    done = subprocess.run(command, capture_output=True, text=True)
    print(f"{time.strftime('%T')} {model} tensorrt round {number}: {done.returncode} {done.stdout[-300:]}", flush=True)


def main():
    args = parse()
    sides = []
    for model in args.models.split(","):
        for side in args.sides.split(","):
            only, _, side = side.rpartition("/")
            if only in ("", model):
                sides.append(TorchSide(args, model, *side.split(":")))
    go = Path(args.out) / "go"
    while not go.exists():
        time.sleep(0.2)
    begin = time.monotonic()
    for number in range(args.rounds):
        for model in args.models.split(","):
            if args.seconds and time.monotonic() - begin > args.seconds:
                print(f"left out: round {number} of {model}", flush=True)
                continue
            bench(args, model, number)
            for side in sides:
                if side.model == model and number < side.rounds:
                    side.round(number)
    for side in sides:
        side.end()
    print("rounds done", flush=True)


if __name__ == "__main__":
    main()
