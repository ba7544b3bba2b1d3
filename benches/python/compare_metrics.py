"""Times the Python evaluator and the Rust one on the same masks, frame by frame in turn.

    pip install numpy opencv-python-headless scikit-image pycocotools
    cargo build --release --example score_masks
    python benches/python/compare_metrics.py [--split SA_V_SPLIT] [--rounds 30]

Real masks come from a SA-V split: an annotation is the truth, the object's previous annotation the
prediction, so that the two differ as a lagging tracker's would. Without a split, smooth random shapes.
Both sides start from decoded masks in memory and use one thread. Each pair is scored by one side, then by
the other, the order changing with every round; a row is the median and the quartiles over all rounds.
"""

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import cv2
import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/data/metrics"))
from make_golden import blob, moved, rle  # noqa: E402
from reference import official_frame, predecessor_frame  # noqa: E402

EVALUATORS = {"official": official_frame, "predecessor": predecessor_frame}
RESIZED = [(720, 1280), (1080, 1920)]


def real_pairs(split):
    for folder in sorted((split / "Annotations_6fps").glob("*/*")):
        masks = [cv2.imread(str(path), cv2.IMREAD_UNCHANGED) > 0 for path in sorted(folder.glob("*.png"))]
        yield from zip(masks[1:], masks[:-1])


def random_pairs():
    rng = np.random.default_rng(1)
    for _ in range(40):
        truth = blob(rng, 480, 854)
        yield truth, moved(rng, truth)


def resized(pair, size):
    return tuple(
        cv2.resize(m.astype(np.uint8), size[::-1], interpolation=cv2.INTER_NEAREST) > 0 for m in pair)


class Rust:
    """The scorer as a child process that times itself."""

    def __init__(self, pairs):
        file = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump([{"truth": rle(t), "prediction": rle(p)} for t, p in pairs], file)
        file.flush()
        self.file = file
        program = pathlib.Path(os.environ.get("CARGO_TARGET_DIR",
                                              ROOT / "target")) / "release/examples/score_masks"
        self.child = subprocess.Popen([program, file.name],
                                      stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE,
                                      text=True)

    def __call__(self, kind, index):
        self.child.stdin.write(f"{kind} {index}\n")
        self.child.stdin.flush()
        j, f, nanoseconds = self.child.stdout.readline().split()
        return (float(j), float(f)), int(nanoseconds) / 1e6


def python_once(kind, pair):
    started = time.perf_counter_ns()
    score = EVALUATORS[kind](*pair)
    return score, (time.perf_counter_ns() - started) / 1e6


def spread(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:8.3f} [{low:7.3f}, {high:7.3f}]"


def compare(kind, indices, pairs, rust, rounds):
    """Per-frame times in ms of both sides; stops if they disagree about a single score."""
    times = {"python": {index: [] for index in indices}, "rust": {index: [] for index in indices}}
    for round_number in range(-1, rounds):
        for index in indices:
            sides = ["python", "rust"] if round_number % 2 else ["rust", "python"]
            found = {
                side: python_once(kind, pairs[index]) if side == "python" else rust(kind, index)
                for side in sides
            }
            if found["python"][0] != found["rust"][0]:
                raise SystemExit(f"pair {index}, {kind}: Python says {found['python'][0]}, Rust "
                                 f"{found['rust'][0]}")
            if round_number >= 0:  # The first round warms both up.
                for side in sides:
                    times[side][index].append(found[side][1])
    return times


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--raw", type=pathlib.Path, help="where to write the medians of each pair as CSV")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    base = list(real_pairs(args.split) if args.split else random_pairs())
    groups, pairs = {}, []
    for size in [base[0][0].shape, *RESIZED]:
        same = [pair if pair[0].shape == size else resized(pair, size) for pair in base]
        groups[size] = range(len(pairs), len(pairs) + len(same))
        pairs += same
    rust = Rust(pairs)
    versions = {
        name: importlib.metadata.version(name)
        for name in ["numpy", "opencv-python-headless", "scikit-image"]
    }
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.strip()
    print(f"machine: {processor()}, {os.cpu_count()} cores; load average {os.getloadavg()[0]:.2f}")
    print(f"versions: Python {platform.python_version()}, {versions}, {rustc}")
    source = "annotations of a SA-V split" if args.split else "random shapes"
    print(f"masks: {len(base)} pairs per size, {source}; {args.rounds} rounds; ms per frame: median "
          f"[quartiles]")
    print(f"{'evaluator':12} {'W x H':>10}  {'Python':^27} {'Rust':^27} ratio of medians")
    raw = ["evaluator,width,height,pair,python_median_ms,rust_median_ms"]
    for kind in EVALUATORS:
        for (height, width), indices in groups.items():
            times = compare(kind, indices, pairs, rust, args.rounds)
            python, rusts = ([ms
                              for values in times[side].values()
                              for ms in values]
                             for side in ["python", "rust"])
            ratio = statistics.median(python) / statistics.median(rusts)
            print(f"{kind:12} {width:>5}x{height:<4}  {spread(python)} {spread(rusts)} {ratio:8.1f}",
                  flush=True)
            for pair, index in enumerate(indices):
                medians = (statistics.median(times[side][index]) for side in ["python", "rust"])
                raw.append(f"{kind},{width},{height},{pair}," + ",".join(f"{ms:.4f}" for ms in medians))
    if args.raw:
        args.raw.write_text("\n".join(raw) + "\n")


if __name__ == "__main__":
    main()
