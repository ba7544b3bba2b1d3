"""Times segtrt on the CPU against the original PyTorch predictor on the same clip, in turn.

    cargo build --release
    python benches/python/cpu_against_pytorch.py --split SPLIT --video VIDEO --model edgetam \\
        --onnx-dir BUNDLES --frames 12 --rounds 3 -- WEIGHT OPTIONS OF onnx/reference.py

Both sides get the same frames, prompt, weights and processors; each round runs one, then the other, the
order changing with every round. A frame counts from pixels in memory to its mask at video size and its
memory; segtrt's includes resizing (the predictor resizes all frames before it starts, outside its time).
The prompted frame is left out on both sides. Prints each round's median, then the medians and quartiles of
all frames, and the smallest mask IoU between the two.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "onnx"))
from compare_masks import decode_mask, iou  # noqa: E402

TAGS = {
    "edgetam": "edgetam",
    "sam2.1_tiny": "sam2_tiny",
    "sam2.1_small": "sam2_small",
    "sam2.1_base_plus": "sam2_base",
    "sam2.1_large": "sam2_large",
}


def run_segtrt(args, out):
    """Milliseconds of the tracked frames, and the masks by frame."""
    tag = TAGS[args.model] + "_points"
    split = pathlib.Path(out) / "split"
    for part in ("JPEGImages_24fps", "Annotations_6fps"):
        (split / part).mkdir(parents=True)
        os.symlink((args.split / part / args.video).resolve(), split / part / args.video)
    command = [
        args.segtrt, "bench", "--split-dir", split, "--models", tag, "--onnx-dir", args.onnx_dir,
        "--max-clip-frames", args.frames, "--limit-objects", 1, "--warmup-runs", 0, "--save-masks",
        "--threads", args.threads, "--out-dir", f"{out}/results",
    ]  # fmt: skip
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    results = pathlib.Path(out) / "results"
    sidecar = json.loads((results / "sidecar.json").read_text())
    (masks,) = (results / "masks").glob("*.json")
    frames = json.loads(masks.read_text())["frames"]
    times = sidecar["passes"][0]["frame_times"]["latency_ms"][1:]
    return times, [decode_mask(frame["mask"]) for frame in frames]


def run_pytorch(args, out):
    """The same of the original predictor."""
    clip = args.split / "JPEGImages_24fps" / args.video
    mask = sorted((args.split / "Annotations_6fps" / args.video).glob("*/*.png"))[0]
    command = [
        sys.executable, ROOT / "onnx/reference.py", "--model", args.model, "--clip", clip,
        "--prompt-mask", mask, "--prompt", "points", "--frames", args.frames,
        "--out", f"{out}/run.npz", *args.weights,
    ]  # fmt: skip
    threads = {"OMP_NUM_THREADS": str(args.threads)}
    subprocess.run([str(part) for part in command],
                   check=True,
                   stdout=subprocess.DEVNULL,
                   cwd=ROOT,
                   env=os.environ | threads)
    with np.load(f"{out}/run.npz") as run:
        width = json.loads(str(run["about"]))["width"]
        masks = np.unpackbits(run["masks"], axis=-1, count=width).astype(bool)
        return list(run["milliseconds"][1:]), list(masks)


def spread(times):
    """Median and quartiles of milliseconds as text."""
    low, middle, high = statistics.quantiles(times, n=4)
    return f"{middle:8.0f} ms  (quartiles {low:.0f} to {high:.0f}, {len(times)} frames)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--segtrt", default=ROOT / "target/release/segtrt")
    parser.add_argument("--split", type=pathlib.Path, required=True)
    parser.add_argument("--video", required=True)
    parser.add_argument("--model", choices=TAGS, required=True)
    parser.add_argument("--onnx-dir", type=pathlib.Path, required=True)
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("weights", nargs="*", help="after --: weight options of onnx/reference.py")
    args = parser.parse_args()
    sides = {"segtrt": run_segtrt, "pytorch": run_pytorch}
    times = {name: [] for name in sides}
    smallest = 1.0
    print(f"{args.model}, {args.video}, {args.frames} frames, {args.threads} threads, {platform.machine()}")
    for number in range(args.rounds):
        masks = {}
        for name in sorted(sides, reverse=number % 2 == 1):
            with tempfile.TemporaryDirectory() as out:
                took, masks[name] = sides[name](args, out)
            times[name] += took
            print(f"round {number + 1} {name:8} median {statistics.median(took):8.0f} ms", flush=True)
        ious = [iou(a, b) for a, b in zip(masks["segtrt"], masks["pytorch"], strict=True)]
        smallest = min(smallest, *ious)
        print("mask IoU by frame", " ".join(f"{value:.6f}" for value in ious))
    for name, took in times.items():
        print(f"{name:8} {spread(took)}")
    ratio = statistics.median(times["pytorch"]) / statistics.median(times["segtrt"])
    print(f"segtrt is {ratio:.2f} times as fast; smallest mask IoU of {args.rounds} rounds {smallest:.6f}")


if __name__ == "__main__":
    main()
