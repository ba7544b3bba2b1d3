"""The columns of segtrt's two CSVs (crates/vos/src/files), each a name and what fills it.

A test compares the headers with files that `segtrt bench` wrote.
"""

import csv
import io

from .stages import STAGES


class _Row:
    """A record with the access that columns need."""

    def __init__(self, record, runs):
        self.record, self.runs = record, runs
        self.numbers = record["measured"] if record["status"] == "ok" else None

    def get(self, *path):
        value = self.record
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    def number(self, digits, *path):
        if self.numbers is None:
            return None
        value = self.get("measured", *path)
        return None if value is None else round(float(value), digits)


def _plain(name, *path):
    return name, lambda r: r.get(*path)


def _number(name, digits, *path):
    return name, lambda r: r.number(digits, *path)


def _part(name, which, index):
    return name, lambda r: r.record[which][index] if r.record[which] else None


def _condition(name):
    return name, lambda r: r.get("conditions", name) or None


def _of_ok(name, value):
    return name, lambda r: value(r) if r.numbers is not None else None


VIDEO, OBJECT, MODEL = (_plain(name, "key", name) for name in ("video", "object", "model"))
IMGSZ, PRECISION = _plain("imgsz", "conditions", "imgsz"), _condition("precision")
FRAMES = _plain("frames", "frames")
FPS, LATENCY = _number("fps", 2, "speed", "fps"), _number("latency_ms", 1, "speed", "latency_ms")
MEMORY = [
    _number("gpu_peak_alloc_MiB", 1, "memory", "gpu_peak_alloc_mib"),
    _number("gpu_peak_reserved_MiB", 1, "memory", "gpu_peak_reserved_mib"),
    _number("cpu_peak_rss_MiB", 1, "memory", "cpu_peak_rss_mib"),
]
SETUP = _number("setup_ms", 2, "setup_ms")
QUALITY = [
    _number("J", 4, "quality", "j"),
    _number("F", 4, "quality", "f"),
    _number("JandF", 4, "quality", "jf"),
]
INFER = [_part("infer_H", "infer_size", 0), _part("infer_W", "infer_size", 1)]
OUTCOME = [
    _plain("status", "status"),
    _plain("reason", "reason"),
    *(_condition(name) for name in ("backend", "device", "geometry", "prompt_policy", "metrics")),
]
DETAIL = [
    ("scored_frames", lambda r: r.get("measured", "quality", "scored_frames")),
    _of_ok("runs", lambda r: r.runs),
    _number("first_frame_ms", 3, "speed", "first_frame_ms"),
    *(
        _number(f"latency_{p}_ms", 3, "speed", "later_frames", f"{p}_ms")
        for p in ("p50", "p90", "p95", "p99", "max")
    ),
    *(
        _number(f"{stage}_ms", 3, "stages", f"{stage}_ms")
        for stage in STAGES
    ),
    _condition("fidelity"),
]


def _energy(row):
    energy = row.get("measured", "observed", "energy_j")
    return None if energy is None else round(energy / row.get("measured", "speed", "frames"), 4)


def _throttle(row):
    limits = row.get("measured", "observed", "limits")
    return None if limits is None else "+".join(limits) or "none"


def _reason(row):
    return "; ".join(f"{f['code']}: {f['sentence']}" for f in row.get("verdict", "findings")) or None


_WORDS = {"valid": "VALID", "invalid": "INVALID", "unjudged": "-"}
BELIEF = [
    _number("gpu_ms", 3, "gpu_ms"),
    _number("residue_ms", 3, "residue_ms"),
    _number("power_w", 1, "observed", "power_mean_w"),
    _of_ok("energy_j_per_frame", _energy),
    _number("sm_clock_mhz_min", 1, "observed", "sm_clock_min_mhz"),
    _number("sm_clock_mhz_mean", 1, "observed", "sm_clock_mean_mhz"),
    _number("temperature_c_max", 1, "observed", "temperature_max_c"),
    _number("gpu_util", 1, "observed", "utilisation_percent"),
    _of_ok("throttle", _throttle),
    ("verdict", lambda r: _WORDS[r.get("verdict", "judgement")] if r.numbers is not None else "-"),
    _of_ok("verdict_reason", _reason),
    _number("latency_p999_ms", 3, "speed", "later_frames", "p999_ms"),
]
# Ages belong to frames that overlap; here one frame is in flight.
PACE = [_condition("mode")] + [
    (name, lambda r: None)
    for name in (
        "source_age_p50_ms",
        "source_age_p95_ms",
        "source_age_with_decode_p50_ms",
        "source_age_with_decode_p95_ms",
    )
] + [_plain("non_finite_logits", "non_finite_logits")]
# The bundles say what segtrt's own stages do, not PyTorch's.
ROOFLINE = [(f"{stage}_roofline", lambda r: None) for stage in ("encoder", "prompt", "track", "memory")]
PERCENTILES = [
    _number(f"{stage}_{p}_ms", 3, "stage_percentiles", p, f"{stage}_ms")
    for stage in STAGES
    for p in ("p50", "p99")
]
ENQUEUED = [
    _number("enqueue_ms", 3, "enqueued", "mean_ms"),
    _number("enqueue_p99_ms", 3, "enqueued", "p99_ms"),
    _plain("launches", "measured", "enqueued", "launches"),
    _plain("graph_launches", "measured", "enqueued", "graph_launches"),
]
NEW = DETAIL + BELIEF + PACE + ROOFLINE + PERCENTILES + ENQUEUED

SUMMARY = (
    [
        VIDEO, OBJECT, MODEL, IMGSZ, PRECISION, FRAMES,
        _plain("processed_end_frame", "processed_end_frame"), FPS, LATENCY
    ] + MEMORY + QUALITY +
    [_plain("overlay", "overlay"),
     _part("input_H", "input_size", 0),
     _part("input_W", "input_size", 1)] + INFER + [SETUP] + OUTCOME + NEW)
PROFILE = (
    [VIDEO, OBJECT, MODEL, _plain("run", "run"), IMGSZ, FRAMES, FPS, LATENCY]
    + MEMORY
    + [_plain("nsight_report", "nsight_report"), SETUP, PRECISION]
    + [_part("H", "input_size", 0), _part("W", "input_size", 1)]
    + INFER
    + OUTCOME
    + QUALITY
    + NEW
)


def text(columns, rows):
    """The CSV of [(record, runs)], as Python's csv module writes it."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(name for name, _ in columns)
    for record, runs in rows:
        row = _Row(record, runs)
        writer.writerow("" if (cell := fill(row)) is None else cell for _, fill in columns)
    return out.getvalue()
