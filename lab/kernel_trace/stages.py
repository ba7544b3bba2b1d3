"""Projects the stages of a traced bench onto the GPU, beside their times by CUDA events.

python3 lab/kernel_trace/stages.py TRACE.csv --rows OUT_DIR/profile_summary.csv

TRACE.csv is a file of kernel_trace.c; TRACE.calls.csv and TRACE.ranges.csv lie next to it. A stage's
projection spans the GPU work whose CUDA call lies wholly inside the stage's range, on its thread.
Warm-up passes are left out. The rows are those of the traced bench itself, so tracing slows both
sides. Both are means of a frame with the stage. They are comparable in latency mode only. The
process of the trace ran one model; --model names it where the table has several.
"""

import argparse
import bisect
import csv
import statistics
import sys
from collections import defaultdict

STAGES = "upload preprocess encoder prompt track memory postprocess download".split()


def table(path):
    try:
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        sys.exit(f"error: {path} is missing. Trace with NVTX_INJECTION64_PATH, too: kernel_trace.c says how")


def ranges_of(path):
    """-> [(name, thread, start, end)] of the domain segtrt."""
    begun, ranges = {}, []
    for row in sorted(table(path), key=lambda row: int(row["time_ns"])):
        if row["event"] == "begin":
            begun[row["id"]] = row
        elif row["id"] in begun:
            first = begun.pop(row["id"])
            if first["domain"] == "segtrt":
                ranges.append((first["name"], first["thread"], int(first["time_ns"]), int(row["time_ns"])))
    return ranges


def launches_of(calls, work):
    """-> {thread: [(call start, call end, work start, work end)]}, sorted."""
    spans, launches = {}, defaultdict(list)
    for row in work:
        start, end = int(row["start_ns"]), int(row["end_ns"])
        known = spans.get(row["correlation"], (start, end))
        spans[row["correlation"]] = (min(start, known[0]), max(end, known[1]))
    for row in calls:
        if row["correlation"] in spans:
            call = int(row["start_ns"]), int(row["end_ns"])
            launches[row["thread"]].append((*call, *spans[row["correlation"]]))
    return {thread: sorted(found) for thread, found in launches.items()}


def projections(ranges, launches):
    """-> {stage: [ms, or None where a range launched nothing]} without warm-up passes."""
    warm = [(start, end) for name, _, start, end in ranges if name == "warmup"]
    found = defaultdict(list)
    for name, thread, start, end in ranges:
        if name not in STAGES or any(first <= start and end <= last for first, last in warm):
            continue
        of_thread = launches.get(thread, [])
        inside = []
        for launch in of_thread[bisect.bisect_left(of_thread, (start,)):]:
            if launch[0] > end:
                break
            if launch[1] <= end:
                inside.append(launch)
        span = max(one[3] for one in inside) - min(one[2] for one in inside) if inside else None
        found[name].append(None if span is None else span / 1e6)
    return found


def by_events(rows, stage):
    """Mean over all frames of the rows, ms; None without one."""
    total, count = 0.0, 0
    for row in rows:
        if row.get(f"{stage}_ms"):
            frames = {"prompt": 1, "track": int(row["frames"]) - 1}.get(stage, int(row["frames"]))
            total, count = total + float(row[f"{stage}_ms"]) * frames, count + frames
    return total / count if count else None


def rows_of(path, model):
    rows = [row for row in table(path) if row["status"] == "ok" and model in (None, row["model"])]
    models = sorted({row["model"] for row in rows})
    if len(models) != 1:
        found = ", ".join(models) or "no model"
        sys.exit(f"error: {path} has ok rows of {found}; expected one. Name it: --model TAG")
    if modes := {row["mode"] for row in rows} - {"latency"}:
        sys.exit(f"error: {path} has mode {modes.pop()}; expected latency, because frames overlap otherwise")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace")
    parser.add_argument("--rows", required=True, help="profile_summary.csv of the traced bench")
    parser.add_argument("--model", help="tag of the traced model")
    args = parser.parse_args()
    rows = rows_of(args.rows, args.model)
    stem = args.trace.removesuffix(".csv")
    found = projections(ranges_of(f"{stem}.ranges.csv"),
                        launches_of(table(f"{stem}.calls.csv"), table(args.trace)))
    if not found:
        sys.exit(f"error: {stem}.ranges.csv has no range of a stage outside warm-up passes. "
                 "Trace `segtrt bench`")
    print(f"{'stage':<12} {'ranges':>6} {'event ms':>9} {'projected':>9} {'difference':>10} {'%':>6}")
    for stage in STAGES:
        times = found.get(stage, [])
        event = by_events(rows, stage)
        whole = times and None not in times
        projected = statistics.fmean(times) if whole else None
        cells = [f"{stage:<12} {len(times):6d}"]
        cells.append("        -" if event is None else f"{event:9.3f}")
        cells.append("        -" if projected is None else f"{projected:9.3f}")
        if event and projected is not None:
            cells.append(f"{event - projected:10.3f} {100 * (event - projected) / event:6.1f}")
        print(" ".join(cells))


if __name__ == "__main__":
    main()
