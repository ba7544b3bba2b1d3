"""Summarises the kernels of a frame from a file of kernel_trace.c.

python3 lab/kernel_trace/frames.py TRACE.csv [--out FRAME.csv]

A frame begins with the kernel `preprocess_…`. Only frames with the most frequent number of kernels
count. The table has each kernel's median launches and time over these frames. Kernels that start
early overlap the kernel before; `alone` is the time that no earlier kernel of the frame covers, and
sums to the frame's busy time. --out writes the median frame kernel by kernel: start and duration in
microseconds.
"""

import argparse
import csv
import statistics
import sys
from collections import Counter, defaultdict


def frames_of(path):
    """Lists of (start, end, name, row), sorted by start, one list a frame."""
    with open(path, newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["start_ns"]))
    frames = []
    for row in rows:
        if row["name"].startswith("preprocess_"):
            frames.append([])
        if frames:
            frames[-1].append((int(row["start_ns"]), int(row["end_ns"]), row["name"], row))
    counts = Counter(len(frame) for frame in frames[:-1])
    if not counts:
        sys.exit(f"error: {path}: no kernel preprocess_… twice; found {len(rows)} rows. Trace "
                 "`segtrt bench`")
    usual = counts.most_common(1)[0][0]
    return [frame for frame in frames[:-1] if len(frame) == usual]


def times_of(frame):
    """-> {name: [launches, time, time alone]} in nanoseconds, and the busy time."""
    times, busy_until = defaultdict(lambda: [0, 0, 0]), frame[0][0]
    for start, end, name, _ in frame:
        alone = max(0, end - max(start, busy_until))
        busy_until = max(busy_until, end)
        times[name][0] += 1
        times[name][1] += end - start
        times[name][2] += alone
    return times, sum(entry[2] for entry in times.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace")
    parser.add_argument("--out", help="CSV of the median frame, kernel by kernel")
    args = parser.parse_args()
    frames = frames_of(args.trace)
    summaries = [times_of(frame) for frame in frames]
    spans = [max(end for _, end, _, _ in frame) - frame[0][0] for frame in frames]
    span, busy = statistics.median(spans), statistics.median(busy for _, busy in summaries)
    print(f"{len(frames)} frames of {len(frames[0])} kernels, copies and fills: span {span / 1e3:.1f} us, busy "
          f"{busy / 1e3:.1f} us")
    print(f"{'launches':>8} {'us':>8} {'alone':>8}  name")
    # Frames differ: those that fill the bank have the attention with a bias, later ones that without.
    median = {name: [statistics.median(times[name][k] for times, _ in summaries) for k in range(3)]
              for name in {name for times, _ in summaries for name in times}}
    for name, (launches, time, alone) in sorted(median.items(), key=lambda item: (-item[1][2], item[0])):
        print(f"{launches:8.0f} {time / 1e3:8.1f} {alone / 1e3:8.1f}  {name}")
    if args.out:
        shown = frames[spans.index(sorted(spans)[len(spans) // 2])]
        with open(args.out, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow("start_us us grid threads registers shared_or_moved_bytes name".split())
            for start, end, name, row in shown:
                grid = "x".join(row[f"grid_{axis}"] for axis in "xyz")
                writer.writerow([f"{(start - shown[0][0]) / 1e3:.2f}", f"{(end - start) / 1e3:.2f}", grid,
                                 row["threads"], row["registers"], row["shared_or_moved_bytes"], name])


if __name__ == "__main__":
    main()
