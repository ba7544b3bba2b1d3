"""Makes the golden result files with Python's own csv, json, round, repr and numpy.

    pip install numpy
    python tests/data/files/make_golden.py

records.json.gz holds records as the Rust side serialises them; the other files are what Python writes
from the same numbers. floats.json.gz holds [bits, digits, repr(value), repr(round(value, digits))].
"""

import csv
import gzip
import io
import json
import math
import pathlib
import random
import struct

import numpy as np

HERE = pathlib.Path(__file__).parent
STAGES = ["decode", "upload", "preprocess", "encoder", "prompt", "track", "memory", "postprocess",
          "download"]


def floats(rng):
    values = [0.0, -0.0, 1.0, 2016.0, 303.0, 3.3, 1e-5, 1e-4, 9.999e-5, 1e15, 1e16, 123456789012345680.0,
              1e22, 1e23, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 2.675, 1.005, 0.045, 0.5, 1.5, 2.5,
              0.125, 0.375, 0.0625, 0.15, 0.25, 0.35, 1234.45, 99999.95, -2.5, -0.001, math.inf, -math.inf,
              math.nan, 9007199254740993.0, 0.00005, 0.00015, 1e-7]
    values += [rng.randrange(1, 10**6) / 2 ** rng.randrange(1, 12) for _ in range(60)]
    values += [rng.randrange(10**7) / 10 ** rng.randrange(1, 9) for _ in range(60)]
    values += [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(60)]
    for value in values:
        if math.isnan(value):
            value = math.nan
        for digits in (0, 1, 2, 3, 4):
            bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            # round(x, 0) keeps a float, unlike round(x).
            yield [str(bits), digits, repr(value), repr(round(value, digits))]


def belief(rng, measured):
    """Adds what came later, from numbers of its own: the older columns keep their values. Returns
    the verdict."""
    maybe = lambda value: value if rng.random() < 0.8 else None  # noqa: E731
    measured["gpu_ms"] = maybe(rng.uniform(0, 99))
    measured["residue_ms"] = maybe(rng.uniform(-1e-3, 9))
    if measured["speed"]["later_frames"]:
        measured["speed"]["later_frames"]["p999_ms"] = maybe(rng.uniform(0, 500))
    measured["observed"] = maybe({
        "seconds": rng.uniform(0, 60), "readings": rng.randrange(600),
        "power_mean_w": maybe(rng.uniform(5, 700)), "power_max_w": maybe(rng.uniform(5, 700)),
        "energy_j": maybe(rng.choice([rng.uniform(0, 1e-3), rng.uniform(0, 1e5)])),
        "sm_clock_min_mhz": maybe(1300.5), "sm_clock_mean_mhz": maybe(rng.uniform(300, 2000)),
        "sm_clock_max_mhz": maybe(1980.0), "memory_clock_mhz": maybe(2619.0),
        "temperature_max_c": maybe(rng.uniform(20, 99)), "utilisation_percent": maybe(rng.uniform(0, 100)),
        "limits": maybe(rng.choice([[], ["power_cap"], ["thermal", "clocks_setting"]])),
        "other_processes": maybe(rng.randrange(3)), "process_memory_mib": maybe(rng.uniform(0, 9e4)),
        "device_memory_mib": maybe(rng.uniform(0, 9e4)),
    })
    return rng.choice([
        {"judgement": "valid", "findings": []},
        {"judgement": "unjudged", "findings": [
            {"code": "few_frames", "sentence": "3 of 20", "weight": "gap"}]},
        {"judgement": "invalid", "findings": [
            {"code": "throttled", "sentence": 'held down, "hot"', "weight": "fault"},
            {"code": "outliers", "sentence": "2 of 40", "weight": "note"}]},
    ])


def pace(rng, record):
    """Adds how frames follow one another, which came later still."""
    record["conditions"]["mode"] = rng.choice(["", "latency", "throughput"]) or "latency"
    if record["measured"] and record["conditions"]["mode"] == "throughput":
        names = ["decoded_p50_ms", "decoded_p95_ms", "read_p50_ms", "read_p95_ms"]
        record["measured"]["speed"]["source_ages"] = {name: rng.uniform(0, 500) for name in names}


def record(rng, video, obj, model, run, status="ok"):
    names = [f"{stage}_ms" for stage in STAGES]
    frames = rng.randrange(1, 300)
    duration = rng.uniform(1, 60000)
    percentiles = ["p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms"]
    maybe = lambda value: value if rng.random() < 0.8 else None  # noqa: E731
    j, f = rng.random(), rng.random()
    measured = {
        "speed": {
            "frames": frames, "duration_ms": duration, "fps": frames / (duration / 1000),
            "latency_ms": 1000 / (frames / (duration / 1000)), "first_frame_ms": rng.uniform(1, 900),
            "later_frames": maybe({name: rng.uniform(0, 500) for name in percentiles}),
        },
        "stages": {name: maybe(rng.choice([rng.uniform(0, 1e-3), rng.uniform(0, 99)])) for name in names},
        "memory": {
            "gpu_peak_alloc_mib": maybe(rng.randrange(2**33) / 2**20),
            "gpu_peak_reserved_mib": maybe(2.0 * rng.randrange(2000)),
            "cpu_peak_rss_mib": maybe(rng.randrange(2**22) / 2**10),
        },
        "quality": maybe({"j": j, "f": f, "jf": (j + f) / 2, "scored_frames": rng.randrange(1, 75)}),
        "setup_ms": maybe(rng.choice([0.28, 1e16, 11550.005, rng.uniform(0, 1e5)])),
    }
    size = [rng.randrange(100, 2000), rng.randrange(100, 2000)]
    known = status == "ok" or rng.random() < 0.5
    return {
        "key": {"video": video, "object": obj, "model": model},
        "run": run,
        "status": status,
        "reason": None if status == "ok" else 'bad_mask: found "16-bit", expected 8, see\nthe log',
        "conditions": {
            "imgsz": rng.choice([256, 768, 1024]),
            "precision": rng.choice(["fp32", "fp16", "bf16"]),
            "backend": {"onnxruntime": {"version": "1.22", "provider": "cuda"}},
            "device": rng.choice(["", "Xeon, 2 cores", 'the "big" one']),
            "geometry": "stretch",
            "prompt_policy": "predecessor",
            "metrics": "official",
            "fidelity": {"memories": 7, "pointers": 16},
        },
        "frames": frames if known else None,
        "processed_end_frame": frames + 1 if known else None,
        "input_size": size if known else None,
        "infer_size": [1024, 1024] if known else None,
        "overlay": maybe("out/é, 1.mp4"),
        "nsight_report": maybe(f"reports/{video}_run{run}.nsys-rep"),
        # A careless caller leaves numbers in a failed record: they must not be written.
        "measured": measured if status != "skipped" else None,
    }


def enqueued(rng, measured):
    """Adds the stages' percentiles and the host's calls, which came last."""
    maybe = lambda value: value if rng.random() < 0.8 else None  # noqa: E731
    measured["stage_percentiles"] = {
        name: {f"{stage}_ms": maybe(rng.uniform(0, 99)) for stage in STAGES} for name in ("p50", "p99")
    }
    measured["enqueued"] = {
        "mean_ms": maybe(rng.uniform(0, 9)), "p99_ms": maybe(rng.uniform(0, 9)),
        "launches": maybe(rng.randrange(1000)), "graph_launches": maybe(rng.randrange(9)),
    }


def rounded(value, digits):
    return None if value is None else round(value, digits)


def columns(record, runs):
    """Every column that either file has, by name."""
    ok = record["status"] == "ok"
    numbers = record["measured"] if ok else None
    speed = numbers["speed"] if ok else {}
    stages = numbers["stages"] if ok else {}
    memory = numbers["memory"] if ok else {}
    quality = (numbers["quality"] if ok else None) or {}
    later = speed.get("later_frames") or {}
    conditions = {key: value if value != "" else None for key, value in record["conditions"].items()}
    backend = conditions["backend"]["onnxruntime"]
    conditions["backend"] = f"onnxruntime {backend['version']} {backend['provider']}"
    bank, stride = conditions["fidelity"], conditions["strides"]["input"]
    skips = "noskip" if stride == 1 else f"stride{stride}"
    conditions["fidelity"] = (
        f"mem{bank['memories']}/ptr{bank['pointers']}/{conditions['imgsz']}/pil13-bicubic/{skips}/nofill")
    input_size = record["input_size"] or [None, None]
    infer_size = record["infer_size"] or [None, None]
    row = {
        **record["key"], **conditions, "run": record["run"], "frames": record["frames"],
        "processed_end_frame": record["processed_end_frame"],
        "fps": rounded(speed.get("fps"), 2), "latency_ms": rounded(speed.get("latency_ms"), 1),
        "gpu_peak_alloc_MiB": rounded(memory.get("gpu_peak_alloc_mib"), 1),
        "gpu_peak_reserved_MiB": rounded(memory.get("gpu_peak_reserved_mib"), 1),
        "cpu_peak_rss_MiB": rounded(memory.get("cpu_peak_rss_mib"), 1),
        "J": rounded(quality.get("j"), 4), "F": rounded(quality.get("f"), 4),
        "JandF": rounded(quality.get("jf"), 4), "scored_frames": quality.get("scored_frames"),
        "overlay": record["overlay"], "nsight_report": record["nsight_report"],
        "input_H": input_size[0], "input_W": input_size[1], "H": input_size[0], "W": input_size[1],
        "infer_H": infer_size[0], "infer_W": infer_size[1],
        "setup_ms": rounded(numbers["setup_ms"], 2) if ok else None,
        "status": record["status"], "reason": record["reason"], "runs": runs if ok else None,
        "first_frame_ms": rounded(speed.get("first_frame_ms"), 3),
    }
    observed = (numbers["observed"] if ok else None) or {}
    energy, limits = observed.get("energy_j"), observed.get("limits")
    verdict = record["verdict"] if ok else {"judgement": "unjudged", "findings": []}
    row |= {
        "gpu_ms": rounded(numbers["gpu_ms"], 3) if ok else None,
        "residue_ms": rounded(numbers["residue_ms"], 3) if ok else None,
        "power_w": rounded(observed.get("power_mean_w"), 1),
        "energy_j_per_frame": rounded(None if energy is None else energy / speed["frames"], 4),
        "sm_clock_mhz_min": rounded(observed.get("sm_clock_min_mhz"), 1),
        "sm_clock_mhz_mean": rounded(observed.get("sm_clock_mean_mhz"), 1),
        "temperature_c_max": rounded(observed.get("temperature_max_c"), 1),
        "gpu_util": rounded(observed.get("utilisation_percent"), 1),
        "throttle": None if limits is None else "+".join(limits) or "none",
        "verdict": {"valid": "VALID", "invalid": "INVALID", "unjudged": "-"}[verdict["judgement"]],
        "verdict_reason": "; ".join(f"{f['code']}: {f['sentence']}" for f in verdict["findings"]) or None,
        "latency_p999_ms": rounded(later.get("p999_ms"), 3),
    }
    strides = record["conditions"]["strides"]
    row |= {
        "input_frame_stride": strides["input"], "input_fps": round(24 / strides["input"], 3),
        "annotation_stride_frames": strides["annotation"] or None,
    }
    ages = speed.get("source_ages") or {}
    for name in ["p50", "p95"]:
        row[f"source_age_{name}_ms"] = rounded(ages.get(f"decoded_{name}_ms"), 3)
        row[f"source_age_with_decode_{name}_ms"] = rounded(ages.get(f"read_{name}_ms"), 3)
    row["non_finite_logits"] = record.get("non_finite_logits")
    least = numbers.get("least", {}) if ok else {}
    for stage in ROOFLINE_STAGES:
        bound, time = least.get(f"{stage}_ms"), stages.get(f"{stage}_ms")
        row[f"{stage}_roofline"] = rounded(bound / time if bound and time else None, 4)
    percentiles = numbers.get("stage_percentiles", {}) if ok else {}
    for name in ["p50", "p99"]:
        for stage in STAGES:
            row[f"{stage}_{name}_ms"] = rounded(percentiles.get(name, {}).get(f"{stage}_ms"), 3)
    calls = numbers.get("enqueued", {}) if ok else {}
    row |= {
        "enqueue_ms": rounded(calls.get("mean_ms"), 3), "enqueue_p99_ms": rounded(calls.get("p99_ms"), 3),
        "launches": calls.get("launches"), "graph_launches": calls.get("graph_launches"),
    }
    for name in ["p50", "p90", "p95", "p99", "max"]:
        row[f"latency_{name}_ms"] = rounded(later.get(f"{name}_ms"), 3)
    for stage in STAGES:
        row[f"{stage}_ms"] = rounded(stages.get(f"{stage}_ms"), 3)
    return row


SUMMARY = ("video,object,model,imgsz,precision,frames,processed_end_frame,fps,latency_ms,"
           "gpu_peak_alloc_MiB,gpu_peak_reserved_MiB,cpu_peak_rss_MiB,J,F,JandF,overlay,input_H,input_W,"
           "infer_H,infer_W,setup_ms").split(",")
EXTENDED = (
    "video,object,model,imgsz,input_frame_stride,input_fps,precision,frames,processed_end_frame,scored_frames,"
    "fps,latency_ms,gpu_peak_alloc_MiB,gpu_peak_reserved_MiB,cpu_peak_rss_MiB,J,F,JandF,overlay,input_H,"
    "input_W,infer_H,infer_W,annotation_stride_frames,setup_ms").split(",")
PROFILE = ("video,object,model,run,imgsz,frames,fps,latency_ms,gpu_peak_alloc_MiB,gpu_peak_reserved_MiB,"
           "cpu_peak_rss_MiB,nsight_report,setup_ms").split(",")
OUTCOME = "status,reason,backend,device,geometry,prompt_policy,metrics".split(",")
DETAIL = ("scored_frames,runs,first_frame_ms,latency_p50_ms,latency_p90_ms,latency_p95_ms,"
          "latency_p99_ms,latency_max_ms,decode_ms,upload_ms,preprocess_ms,encoder_ms,prompt_ms,track_ms,"
          "memory_ms,postprocess_ms,download_ms,fidelity").split(",")
BELIEF = ("gpu_ms,residue_ms,power_w,energy_j_per_frame,sm_clock_mhz_min,sm_clock_mhz_mean,temperature_c_max,"
          "gpu_util,throttle,verdict,verdict_reason,latency_p999_ms").split(",")
PACE = ("mode,source_age_p50_ms,source_age_p95_ms,source_age_with_decode_p50_ms,"
        "source_age_with_decode_p95_ms,non_finite_logits").split(",")

ROOFLINE_STAGES = ["encoder", "prompt", "track", "memory"]
ROOFLINE = [f"{stage}_roofline" for stage in ROOFLINE_STAGES]
LAST = [f"{stage}_{name}_ms" for stage in STAGES for name in ["p50", "p99"]]
LAST += "enqueue_ms,enqueue_p99_ms,launches,graph_launches".split(",")


def write_csv(name, fields, rows):
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=fields, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    write_packed(f"{name}.gz", text.getvalue())


def write_stats(rows):
    pooled = {}
    for row in rows:
        of_model = pooled.setdefault(row["model"], {})
        for metric in ["fps", "latency_ms", "gpu_peak_alloc_MiB", "gpu_peak_reserved_MiB"]:
            of_model.setdefault(metric, [])
            if row[metric] is not None:
                of_model[metric].append(row[metric])
    stats = {
        model: {
            metric:
            {name: float(getattr(np, name)(values))
             for name in ["mean", "std", "min", "max", "median"]}
            for metric, values in metrics.items()
            if values
        }
        for model, metrics in pooled.items()
    }
    (HERE / "profile_stats.json").write_bytes(json.dumps(stats, indent=2).encode())


def write_packed(name, text):
    """The same bytes at any time."""
    (HERE / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main():
    rng = random.Random(7)
    names = ["sav_000001", 'with "quotes"', "with,comma", "with\nnewline", "with\rreturn", " spaced ", "é漢😀"]
    models = ["sam2_tiny_points", "edgetam_bbox", 'odd "tag" é😀\\']
    records = [
        record(rng, rng.choice(names), f"{index % 5:03}", rng.choice(models), index % 3,
               rng.choice(["ok"] * 7 + ["failed", "skipped"]))
        for index in range(70)
    ]
    records.append(record(rng, "last", "000", "never_ok", 0, "failed"))
    runs = [rng.randrange(1, 6) for _ in records]
    later = random.Random(8)
    for record_ in records:
        if record_["measured"]:
            record_["verdict"] = belief(later, record_["measured"])
    for record_ in records:
        pace(later, record_)
    strides = random.Random(9)
    for record_ in records:
        record_["conditions"]["strides"] = {
            "input": strides.choice([1, 2, 7]), "annotation": strides.choice([0, 1, 8])
        }
    for index, record_ in enumerate(records):
        # Those of the frame at which a pass broke off; rows from before say nothing.
        if index % 2 and record_["measured"]:
            record_["measured"]["least"] = {f"{stage}_ms": 0.01 * (at + 1) * index
                                            for at, stage in enumerate(ROOFLINE_STAGES[index % 4:])}
        if index % 3:
            record_["non_finite_logits"] = 0 if record_["status"] == "ok" else 17 * index
    last = random.Random(10)
    for index, record_ in enumerate(records):
        # Rows from before have none.
        if index % 5 and record_["measured"]:
            enqueued(last, record_["measured"])
    pooled = [{"pooled": record, "runs": runs} for record, runs in zip(records, runs)]
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in pooled)
    write_packed("records.json.gz", f"[{lines}]\n")
    lines = ",\n".join(json.dumps(item) for item in floats(rng))
    write_packed("floats.json.gz", f"[{lines}]\n")

    write_csv("sav_benchmark_summary.csv", SUMMARY + OUTCOME + DETAIL + BELIEF + PACE + ROOFLINE + LAST,
              [columns(record, runs) for record, runs in zip(records, runs)])
    detail = [name for name in DETAIL if name not in EXTENDED]
    extended = EXTENDED + OUTCOME + detail + BELIEF + PACE + ROOFLINE + LAST
    write_csv("extended_summary.csv", extended,
              [columns(record, runs) for record, runs in zip(records, runs)])
    profile = [columns(record, 1) for record in records]
    write_csv(
        "profile_summary.csv", PROFILE + ["precision", "H", "W", "infer_H", "infer_W"] + OUTCOME +
        ["J", "F", "JandF"] + DETAIL + BELIEF + PACE + ROOFLINE + LAST, profile)
    write_stats(profile)


if __name__ == "__main__":
    main()
