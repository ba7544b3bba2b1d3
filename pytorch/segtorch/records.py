"""What one measurement is, in the members of segtrt's crates/vos/src/record, so that its readers
take our files too.

A record that is not `ok` carries no numbers, only a reason.
"""

from statistics import fmean

from . import verdict
from .stages import STAGES

STAGE_COLUMNS = tuple(f"{stage}_ms" for stage in STAGES)
FRAMES_FOR_P999 = 1000


def percentile(values, percent):
    """Type 7 of Hyndman and Fan, as segtrt and numpy compute it."""
    ordered = sorted(values)
    rank = percent / 100 * (len(ordered) - 1)
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    low, high, part = ordered[below], ordered[above], rank - below
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)


def speed(count, duration_ms, first_frame_ms, later):
    """fps, latency and percentiles; `later` are the latencies of the frames after the prompted one."""
    fps = count / (duration_ms / 1e3)
    percentiles = None
    if later:
        percentiles = {f"p{p}_ms": percentile(later, p) for p in (50, 90, 95, 99)}
        percentiles["p999_ms"] = percentile(later, 99.9) if len(later) >= FRAMES_FOR_P999 else None
        percentiles["max_ms"] = max(later)
    return {
        "frames": count,
        "duration_ms": duration_ms,
        "fps": fps,
        "latency_ms": 1e3 / fps,
        "first_frame_ms": first_frame_ms,
        "later_frames": percentiles,
    }


def mean_stages(frames):
    """Mean of each stage over the frames that have it."""
    means = {}
    for column in STAGE_COLUMNS:
        values = [frame["stages"][column] for frame in frames if frame["stages"].get(column) is not None]
        means[column] = fmean(values) if values else None
    return means


def stage_percentiles(passes):
    """Median and 99th percentile of each stage; the first frame of a pass counts for the prompt only."""
    found = {"p50": {}, "p99": {}}
    for column in STAGE_COLUMNS:
        first = 0 if column == "prompt_ms" else 1
        times = [frame["stages"].get(column) for frames in passes for frame in frames[first:]]
        times = [time for time in times if time is not None]
        for percent in (50, 99):
            found[f"p{percent}"][column] = percentile(times, percent) if times else None
    return found


# Nothing counts PyTorch's launches, and its calls have no time of their own.
ENQUEUED = dict.fromkeys(("mean_ms", "p99_ms", "launches", "graph_launches"))


def residues(frames, decode_inside):
    """Part of each frame's latency that its stages inside it do not explain, ms; none where the
    stages are of another pass."""
    if any(frame.get("stages_apart") for frame in frames):
        return []
    outside = () if decode_inside else ("decode_ms",)
    inside = [[v for k, v in f["stages"].items() if v is not None and k not in outside] for f in frames]
    return [f["latency_ms"] - sum(parts) for f, parts in zip(frames, inside)] if all(inside) else []


def measured(frames, memory, setup_ms, observed, decode_inside):
    """The numbers of one pass. A frame is {frame, latency_ms, stages: {…_ms}, gpu_ms}."""
    latencies = [frame["latency_ms"] for frame in frames]
    left = residues(frames, decode_inside)
    return {
        "speed": speed(len(latencies), sum(latencies), latencies[0], latencies[1:]),
        "stages": mean_stages(frames),
        "stage_percentiles": stage_percentiles([frames]),
        "enqueued": ENQUEUED,
        "memory": memory,
        # Scored by `segtrt compare`, for both sides by the same code.
        "quality": None,
        "setup_ms": setup_ms,
        "gpu_ms": _mean(frame["gpu_ms"] for frame in frames),
        "residue_ms": fmean(left) if left else None,
        "least": {},
        "observed": observed,
    }


def record(key, conditions, **members):
    """A record of a pass; what is not given is None."""
    made = {"key": key, "run": 0, "status": "ok", "reason": None, "conditions": conditions}
    made |= dict.fromkeys(
        ("frames", "processed_end_frame", "input_size", "infer_size", "overlay", "nsight_report")
        + ("non_finite_logits", "measured")
    )
    made["verdict"] = {"judgement": "unjudged", "findings": []}
    return made | members


def unmeasured(key, conditions, status, code, sentence):
    """A row without numbers."""
    return record(key, conditions, status=status, reason=f"{code}: {sentence}")


def summarise(passes, decode_inside):
    """The passes [(record, frames)] of one object as its one row, and how many are in it."""
    ok = [(run, frames) for run, frames in passes if run["status"] == "ok"]
    if not ok:
        return passes[0][0] | {"measured": None, "verdict": {"judgement": "unjudged", "findings": []}}, 0
    frames = [frame for _, frames in ok for frame in frames]
    later = [frame["latency_ms"] for _, frames in ok for frame in frames[1:]]
    numbers = [run["measured"] for run, _ in ok]
    first = fmean(n["speed"]["first_frame_ms"] for n in numbers)
    left = residues(frames, decode_inside)
    peaks = {name: _most(n["memory"][name] for n in numbers) for name in numbers[0]["memory"]}
    pooled = {
        "speed": speed(len(frames), sum(n["speed"]["duration_ms"] for n in numbers), first, later),
        "stages": mean_stages(frames),
        "stage_percentiles": stage_percentiles([frames for _, frames in ok]),
        "enqueued": ENQUEUED,
        "memory": peaks,
        "quality": None,
        "setup_ms": _mean(n["setup_ms"] for n in numbers),
        "gpu_ms": _mean(frame["gpu_ms"] for frame in frames),
        "residue_ms": fmean(left) if left else None,
        "least": {},
        "observed": pool_observed([n["observed"] for n in numbers]),
    }
    reason = None
    if len(ok) < len(passes):
        why = next(run["reason"] for run, _ in passes if run["status"] != "ok")
        reason = f"runs_lost: {len(passes) - len(ok)} of {len(passes)} passes have no numbers ({why})"
    row = ok[0][0] | {
        "run": 0, "measured": pooled, "verdict": verdict.pool([run["verdict"] for run, _ in ok])
    }
    return row | {"reason": reason}, len(ok)


def pool_observed(passes):
    """Sensors of several passes: time, readings and energy summed, means by time, extremes of all."""
    if any(seen is None for seen in passes):
        return None
    seconds = sum(seen["seconds"] for seen in passes)
    get = lambda name: [seen[name] for seen in passes]
    total = lambda name: None if None in get(name) else sum(get(name))
    mean = lambda name: (
        None
        if None in get(name) or seconds <= 0
        else sum(seen[name] * seen["seconds"] for seen in passes) / seconds
    )
    limits = [seen["limits"] for seen in passes if seen["limits"] is not None]
    pooled = {"seconds": seconds, "readings": sum(get("readings")), "energy_j": total("energy_j")}
    for name in ("power_mean_w", "sm_clock_mean_mhz", "memory_clock_mhz", "utilisation_percent"):
        pooled[name] = mean(name)
    for name in (
        "power_max_w",
        "sm_clock_max_mhz",
        "temperature_max_c",
        "other_processes",
        "process_memory_mib",
        "device_memory_mib",
    ):
        pooled[name] = _most(get(name))
    if any("idle_processes" in seen for seen in passes):
        pooled["idle_processes"] = max(seen.get("idle_processes", 0) for seen in passes)
    pooled["sm_clock_min_mhz"] = min((v for v in get("sm_clock_min_mhz") if v is not None), default=None)
    pooled["limits"] = list(dict.fromkeys(word for words in limits for word in words)) if limits else None
    return pooled


def _mean(values):
    values = [value for value in values if value is not None]
    return fmean(values) if values else None


def _most(values):
    return max((value for value in values if value is not None), default=None)
