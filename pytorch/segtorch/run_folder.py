"""Writes a run folder: the files of `segtrt bench`, with the same names and members.

An object's result is on disk in rows.jsonl before the next begins; the tables and the sidecar follow at once.
"""

import hashlib
import json
from statistics import fmean, median, pstdev

from . import __version__, rle, tables
from .file_stem import file_stem
from .journal import Journal
from .records import STAGE_COLUMNS

FORMAT = "segtrt rows 1"
# Facts of this one run, no settings: left out of the hash that says which runs were configured alike.
MEASURED_SETTINGS = ("compile_s", "graphs_compiled", "tuned")
_STATISTICS = (
    ("fps", 2, ("speed", "fps")),
    ("latency_ms", 1, ("speed", "latency_ms")),
    ("gpu_peak_alloc_MiB", 1, ("memory", "gpu_peak_alloc_mib")),
    ("gpu_peak_reserved_MiB", 1, ("memory", "gpu_peak_reserved_mib")),
)


def configuration_sha256(configuration):
    """sha256 of the settings sorted by name, as segtrt computes it."""
    digest = hashlib.sha256()
    for name in sorted(configuration.keys() - set(MEASURED_SETTINGS)):
        value = json.dumps(configuration[name], ensure_ascii=False, separators=(",", ":"))
        digest.update(f"{len(name)}:{name}={value}\n".encode())
    return digest.hexdigest()


def frame_table(frames, extra):
    """Frame times column by column, and `extra` arrays beside them; only columns with a value."""
    rounded = lambda ms: None if ms is None else round(ms, 6)
    table = {"frame": [f["frame"] for f in frames], "latency_ms": [rounded(f["latency_ms"]) for f in frames]}
    for name in STAGE_COLUMNS:
        column = [rounded(f["stages"].get(name)) for f in frames]
        if any(value is not None for value in column):
            table[name] = column
    if any(f["gpu_ms"] is not None for f in frames):
        table["gpu_ms"] = [rounded(f["gpu_ms"]) for f in frames]
    if any(f.get("stages_apart") for f in frames):
        table["stages_apart"] = True
    return table | extra


class RunFolder:
    """One run's folder. `facts` are the sidecar's members beside the settings and the passes.

    What an earlier run left in it is set aside; `say` hears of it.
    """

    def __init__(self, path, configuration, facts, say):
        self.path, self.configuration, self.facts = path, configuration, facts
        self.summaries, self.runs, self.passes = [], [], []
        path.mkdir(parents=True, exist_ok=True)
        head = {
            "format": FORMAT,
            "configuration": configuration,
            "configuration_sha256": configuration_sha256(configuration),
        }
        self._journal = Journal(path, head, say)
        self.write()

    def push(self, order, summary, count, runs, tables_of_frames):
        """Adds an object's row, its passes and their frame times."""
        result = {
            "order": dict(zip(("video", "object", "model"), order)),
            "summary": {"pooled": summary, "runs": count},
            "runs": runs,
            "frame_times": tables_of_frames,
        }
        self._journal.append(result)
        self.summaries.append((summary, count))
        self.runs += runs
        for run, times in zip(runs, tables_of_frames):
            observed = run["measured"]["observed"] if run["measured"] else None
            self.passes.append(
                run["key"]
                | {"run": run["run"], "observed": observed, "verdict": run["verdict"], "frame_times": times}
            )
        self.write()

    def write_masks(self, key, frames, masks, extra):
        """masks/<video>__obj<object>__<tag>.json; `masks` are bool [H,W] arrays."""
        entries = []
        for i, (frame, mask) in enumerate(zip(frames, masks, strict=True)):
            ious = extra["iou_predictions"][i]
            entries.append(
                {
                    "frame": frame,
                    "mask": rle.encode(mask),
                    "area": int(mask.sum()),
                    "objectness": extra["objectness"][i],
                    # A given mask is its own: the original's 1.
                    "predicted_iou": max(ious) if ious else 1.0,
                }
            )
        folder = self.path / "masks"
        folder.mkdir(exist_ok=True)
        _replace(folder / f"{file_stem(key)}.json", json.dumps({"frames": entries}, separators=(",", ":")))

    def write(self):
        """Brings the tables and the sidecar up to date."""
        _replace(self.path / "sav_benchmark_summary.csv", tables.text(tables.SUMMARY, self.summaries))
        _replace(self.path / "profile_summary.csv",
                 tables.text(tables.PROFILE, [(run, 1) for run in self.runs]))
        stats = self.path / "profile_stats.json"
        if self.runs:
            _replace(stats, json.dumps(self._statistics(), indent=2))
        else:
            stats.unlink(missing_ok=True)
        head = {
            "segtrt": __version__,
            "configuration": self.configuration,
            "configuration_sha256": configuration_sha256(self.configuration),
        }
        _replace(self.path / "sidecar.json",
                 json.dumps(head | self.facts | {"passes": self.passes}, indent=1) + "\n")

    def _statistics(self):
        values = {}
        for run in self.runs:
            of_model = values.setdefault(run["key"]["model"], {})
            for name, digits, (group, member) in _STATISTICS:
                number = run["measured"][group][member] if run["measured"] else None
                if number is not None:
                    of_model.setdefault(name, []).append(round(number, digits))
        return {
            tag: {name: _spread(numbers)
                  for name, numbers in found.items()}
            for tag, found in values.items()
        }

    def fps(self):
        """All frames over all time, of the objects that were measured; None without any."""
        speeds = [s["measured"]["speed"] for s, _ in self.summaries if s["measured"]]
        duration = sum(speed["duration_ms"] for speed in speeds)
        return sum(speed["frames"] for speed in speeds) / duration * 1e3 if duration else None

    def close(self):
        """Nothing more is written."""
        self._journal.close()

    def failed(self):
        """Rows that failed."""
        return sum(summary["status"] == "failed" for summary, _ in self.summaries)


def _spread(numbers):
    return {
        "mean": fmean(numbers),
        "std": pstdev(numbers),
        "min": min(numbers),
        "max": max(numbers),
        "median": median(numbers),
    }


def _replace(path, text):
    """Whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w", newline="") as file:
        file.write(text)
    partial.replace(path)
