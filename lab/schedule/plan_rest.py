"""Jobs after the comparisons: self-tests, speeds, sweeps, what a newcomer types, tools."""

from .job import ALL, ALONE, SHARED, Job
from .plan_bed import exported, exports_of
from .plan_builds import PRECISIONS, batch_names, batches, build, built, by_tensorrt, caches, piece_jobs, pieces_of, source, without_attention
from .plan_compare import bench, reference
from .sanitize_clip import FOUND

CAPS = (64, 128, 256, 512, 1024, 4096)  # MiB of workspace
DEPTHS = (1, 2, 4, 8, 16)
# name -> further flags, environment. TensorRT 8.6.0 loads all its kernels at once unless it is told
# not to: what that costs in memory.
ALTERNATIVES = {"nvjpeg": (["--jpeg-decoder", "nvjpeg"], {}), "lazy": ([], {"CUDA_MODULE_LOADING": "LAZY"})}
EXACT_LEVELS = (3, 1, 0)  # of optimization; the first is TensorRT's usual one
UNDER_MEMCHECK = 24  # frames of a clip with TensorRT: 92 s beside five builds
# Seconds that a clip of three frames is thought to take with ONNX Runtime in TensorRT's place,
# under both tools: at 512 pixels both models were through within 45 s, and at 1024 each of SAM
# 2.1's attentions has sixteen times as many pairs.
STAND_IN = {"edgetam": 120, "sam2_tiny": 240}
IN_TURN = 30  # seconds of two kinds of engines in three rounds: EdgeTAM's at 512 pixels took 10
AT_ONCE = 3  # plans that a job of a cap builds beside each other


def alone(name, command, needs, priority, expect, results, **more):
    """A measurement."""
    common = {"gpu": ALONE, "waits": True, "memory_gib": 16, "limit": max(120, 4 * expect)}
    return Job(name,
               command,
               needs=needs,
               priority=priority,
               expect=expect,
               results=results,
               **(common | more))


def selftest(s, v, name, precision, engines, needs, priority, *more, expect=60):
    """Every engine on random inputs; a row that does not agree is an answer (exit code 1)."""
    rows = s.out / f"{name}.csv"
    command = [
        s.segtrt, "selftest", "--engines", engines, "--models", v.model, "--imgsz", v.imgsz, "--precision",
        precision
    ]
    command += ["--onnx-dir", s.bundles(v), "--no-kernels", "--no-clip", "--csv", rows, *more]
    return alone(name, command, needs, priority, expect, [rows], codes=(0, 1))


def selftests(s):
    rows = s.out / "selftest_kernels.csv"
    command = [s.segtrt, "selftest", "--kernels", "--csv", rows]
    jobs = [alone("selftest_kernels", command, [], 33, 30, [rows], waits=False, codes=(0, 1))]
    for v in s.variants():
        for precision in PRECISIONS:
            priority = v.priority("fp32" if precision == "fp32" else "look")
            needs = [built(v, precision), *exported(v, "fp32")]
            expect = 6 + v.costs[2] / 20
            name = f"selftest_{v.name}_{precision}"
            jobs.append(selftest(s, v, name, precision, s.engines(v), needs, priority, expect=expect))
    return jobs


def speeds(s):
    """Latency and throughput mode of every engine."""
    jobs = []
    for v in s.variants():
        for precision in PRECISIONS:
            for mode in ("latency", "throughput"):
                out = s.out / f"{mode}_{v.name}_{precision}"
                # Overlapped frames fill up and run dry in every pass: short clips would show that
                # instead of the speed.
                longer = ["--repeat-clip", 4] if mode == "throughput" else []
                command = bench(s, v, precision, out, "--mode", mode, "--profile-runs", 3, *longer)
                priority = v.priority("speed") + 4 * (precision == "fp32")
                jobs.append(alone(out.name, command, [built(v, precision)], priority, 15, [out]))
                if precision == "fp16" and v.rank == 0:
                    # The same once more in another way, behind it on the same GPU or another like
                    # it.
                    for kind, (flags, environment) in ALTERNATIVES.items():
                        other = s.out / f"{kind}_{out.name}"
                        changed = [other if word == out else word for word in command] + flags
                        jobs.append(
                            alone(other.name,
                                  changed, [out.name],
                                  priority,
                                  15, [other],
                                  environment=environment))
    if s.decoder:
        told = s.out / "jpeg.txt"
        command = [*s.script("benches/python/compare_jpeg.py"), "--split", s.split, "--decoder", s.decoder]
        jobs.append(alone("jpeg", command, [], 56, 60, [told], stdout=told, waits=False))
    return jobs


def attentions(s):
    """Before and after: an encoder as it is otherwise, and as --encoder has it."""
    cut = [v for v in s.variants() if v.encoder != "engine"]
    return [
        job for v in cut
        for job in before_and_after(s, v, "attention", without_attention, "usual", v.encoder)
    ]


def decoders(s):
    """Before and after: mask decoder and memory encoder by TensorRT, and as --mask-decoder and
    --memory-encoder say."""
    cuda = [v for v in s.variants() if "cuda" in (v.mask_decoder, v.memory_encoder)]
    return [job for v in cuda for job in before_and_after(s, v, "cuda", by_tensorrt, "tensorrt", "cuda")]


def before_and_after(s, v, group, otherwise, before, after):
    """A variant's engines as they are `otherwise`, and as they are compared, in turn; masks are
    held to the comparison's reference."""
    if v.model in s.unlearned:
        return []
    several, place = otherwise(s, v)
    out = s.out / f"{group}_{v.name}"
    command = [*s.script("lab/schedule/in_turn.py"), "--out", out, "--rounds", s.rounds]
    command += [
        "--side", f"{before}={place}", "--side", f"{after}={s.engines(v)}", "--reference-run",
        reference(s, v)
    ]
    command += ["--", s.segtrt, "bench", "--backend", "tensorrt"]
    command += [
        "--split-dir", s.split, "--models", f"{v.tag}_points", "--imgsz", v.imgsz, "--precision", "fp16"
    ]
    command += ["--metrics", "official", "--profile-runs", 1]
    needs = [several[-1].name, built(v, "fp16"), f"compare_{v.name}"]
    jobs = [*several, alone(out.name, command, needs, v.priority("speed"), IN_TURN, [out / "judged"])]
    for job in jobs:
        job.group = group
    return jobs


def sweeps(s):
    """EdgeTAM: frames ahead, frames at once, objects, a long run; workspace caps and the track
    variant per-fill-level of two models."""
    jobs, variants = [], {v.name: v for v in s.variants()}
    if v := variants.get("edgetam"):
        several, place = batches(s, v)
        jobs += several
        for count in DEPTHS:
            for kind in ("ahead", "batch"):
                out = s.out / f"{kind}_{v.name}_{count}"
                more = [
                    f"--encode-{kind}", count, "--mode", "throughput", "--profile-runs", 3, "--repeat-clip",
                    4
                ]
                command = bench(s, v, "fp16", out, *more, engines=place)
                jobs.append(alone(out.name, command, [several[-1].name], 61, 12, [out]))
        needs = [several[-1].name, *exported(v, "fp32")]
        jobs.append(selftest(s, v, f"selftest_{v.name}_batches", "fp16", place, needs, 62, expect=120))
        clips = s.out / "synth"
        command = [
            s.segtrt, "synth", "--out", clips, "--videos", 1, "--objects", 8, "--frames", 120, "--size",
            "1280x720"
        ]
        jobs.append(Job("synth", [*command, "--seed", 7], expect=10, priority=63, results=[clips]))
        for count in DEPTHS[:4]:
            for kind, flags in (("objects", []), ("streams", ["--object-streams"])):
                out = s.out / f"{kind}_{v.name}_{count}"
                more = ["--objects-together", count, "--mode", "throughput", *flags]
                command = bench(s, v, "fp16", out, *more, clips=clips)
                jobs.append(alone(out.name, command, [built(v, "fp16"), "synth"], 64, 12, [out]))
        out = s.out / f"soak_{v.name}"
        command = bench(s, v, "fp16", out, "--limit-videos", 1, "--repeat-clip", 250, "--mode", "throughput")
        jobs.append(alone(out.name, command, [built(v, "fp16")], 72, 45, [out]))
    for name in ("edgetam", "sam2_tiny"):
        if v := variants.get(name):
            jobs += caps(s, v) + exact(s, v)
    return jobs


def caps(s, v):
    """All fp16 plans under each workspace cap, and the latency of each."""
    jobs = []
    for cap in CAPS:
        name, engines = f"caps_{v.name}_{cap}", s.out / "caps" / f"{v.name}_{cap}"
        graphs = [graph for piece in pieces_of(v, "fp16") for graph in piece]
        needs = exported(v, "fp16")
        job = build(s, v, name, "fp16", engines, graphs, needs, 65, 240,
                    ["--workspace-mb", cap, "--jobs", AT_ONCE])
        # A cap that is too small is an answer.
        job.slots, job.memory_gib, job.codes = AT_ONCE, 5 * AT_ONCE, (0, 1)
        jobs.append(job)
        jobs.append(selftest(s, v, f"{name}_times", "fp16", engines, [name], 66, "--no-reference", expect=7))
    return jobs


def rebuilt(v):
    """Which pieces of which precision: the encoder's in all, the prompt's in fp16."""
    for precision in PRECISIONS:
        for at, graphs in enumerate(pieces_of(v, precision)):
            if graphs[0].startswith("encoder") or (graphs == ["prompt"] and precision == "fp16"):
                yield at, precision


def rebuilds(s):
    """The graphs that take longest, built alone and from what was timed before: what a user's
    second build takes.

    Tactics do not depend on the numbers in the weights, so random ones do, which are there at once.
    """
    jobs = []
    for v in s.variants():
        plain = exports_of(s, v, s.out / "plain", f"plain_{v.name}", ["--random-weights", 0],
                           ("fp16", "fp32"))
        jobs += plain
        for at, precision in rebuilt(v):
            graphs = pieces_of(v, precision)[at]
            first = piece_jobs(s, v, precision, 0)[at]
            name = f"rebuild_{v.name}_{precision}_{graphs[0]}"
            jobs.append(rebuild(s, v, name, precision, graphs, first.name, v.priority("look"), 50))
        if v.name == "edgetam":  # behind the batches' first builds, which are urgent for nothing else
            for graph, first in batch_names(v):
                jobs.append(rebuild(s, v, f"rebuild_{v.name}_{graph}", "fp16", [graph], first, 63, 75))
    return jobs


def rebuild(s, v, name, precision, graphs, first, priority, expect):
    """One build alone on its GPU, from the timing cache that the job `first` left in an earlier
    lab, else in this one."""
    kept, own = s.start_cache(first, source(precision))
    needs = [f"plain_{v.name}_{source(precision)}", *([] if own else [first])]
    job = build(s,
                v,
                name,
                precision,
                s.out / "rebuilt" / name,
                graphs,
                needs,
                priority,
                expect,
                bundles=s.out / "plain")
    job.gpu, job.memory_gib = ALONE, 16
    cache = kept if own else s.out / "timing" / f"{first}.timing"
    job.copies = caches(cache, s.out / "timing" / f"{name}.timing")
    return job


def exact(s, v):
    """The track step with a profile for each fill level: at the usual optimization level alone, at
    lower ones beside others."""
    jobs = []
    for level in EXACT_LEVELS:
        name = f"exact_{v.name}" if level == EXACT_LEVELS[0] else f"exact_{v.name}_level{level}"
        engines, more = s.out / "exact" / name, ["--track-variant", "per-fill-level", "--opt-level", level]
        job = build(s, v, name, "fp16", engines, ["track"], exported(v, "fp16"), 67, 200, more)
        if level == EXACT_LEVELS[0]:  # it had not ended after 462 s beside others
            job.gpu, job.memory_gib, job.expect, job.limit = ALONE, 16, 440, 1200
        needs = [name, *exported(v, "fp32")]
        test = selftest(s, v, f"{name}_selftest", "fp16", engines, needs, 68, expect=30)
        job.group = test.group = "exact"  # a profile takes 8.6 as long as another engine
        jobs += [job, test]
    return jobs


def newcomer(s):
    """What README and guides tell to type, as it stands there."""
    told, test_run = s.out / "doctor.txt", s.out / "test_run"
    v = next((v for v in s.variants() if v.name == "edgetam"), s.variants()[0])
    common = {"gpu": SHARED, "slots": 2, "waits": True}
    command = [
        s.segtrt, "doctor", "--split-dir", s.split, "--onnx-dir",
        s.bundles(v), "--engines",
        s.engines(v)
    ]
    needs = [built(v, "fp16")]
    jobs = [
        Job("doctor",
            command,
            needs=needs,
            priority=50,
            stdout=told,
            results=[told],
            codes=(0, 1),
            **common)
    ]
    command = [s.segtrt, "test-run", "--out", test_run]
    jobs.append(alone("test_run", command, [], 51, 120, [test_run], limit=400, gpu=SHARED, slots=6))
    told, layers = s.out / "selftest_whole.json", s.out / "selftest_whole_layers.csv"
    command = [
        s.segtrt, "selftest", "--engines",
        s.engines(v), "--onnx-dir",
        s.bundles(v), "--precision", "fp16", "--json", told
    ]
    command += ["--layers", layers]
    jobs.append(
        alone("selftest_whole",
              command, [*needs, *exported(v, "fp32")],
              51,
              60, [told, layers],
              codes=(0, 1)))
    experiment = [
        s.segtrt, "experiment", "--split-dir", s.split, "--models", f"{v.tag}_points", "--videos", 2
    ]
    experiment += [
        "--imgsz", v.imgsz, "--precision", "fp16", "--engines",
        s.engines(v), "--onnx-dir",
        s.bundles(v)
    ]
    experiment += ["--runs", 2]
    profiled = {"environment": {"NSYS_CMD": s.nsys}} if s.nsys else {}
    for name, more, gpu in (
        ("experiment", [] if s.nsys else ["--no-profile"], ALONE),
        ("experiment_devices", ["--no-profile", "--devices", ",".join(map(str, range(s.gpus)))], ALL),
    ):
        if gpu == ALL and s.gpus < 2:
            continue
        out = s.out / name
        command = [*experiment, *more, "--out-dir", out]
        jobs.append(
            alone(name, command, needs, 52 + 20 * (gpu == ALL), 60, [out],
                  **{"gpu": gpu, "limit": 300} | profiled))
    if s.nsys:
        out, tables = s.out / "profile", s.out / "nsys"
        flags = bench(s, v, "fp16", out, "--limit-videos", 1, "--max-clip-frames", 24)[1:]
        command = [s.segtrt, "profile", "--export-sqlite", "--", *flags]
        jobs.append(alone("profile", command, needs, 54, 30, [out], limit=300, **profiled))
        command = [s.segtrt, "nsys", out / "nsight_reports", "--csv", tables]
        jobs.append(
            Job("nsys", command, needs=["profile"], priority=54, expect=20, results=[tables], **profiled))
    return jobs


def sanitizers(s):
    """This program's kernels under compute-sanitizer, by themselves and in a clip; there alone, for
    TensorRT 8.6.0's own fail under it."""
    jobs = []
    edgetam = next((v for v in s.variants() if v.name == "edgetam"), None)
    for tool in ("memcheck", "racecheck") if s.sanitizer else ():
        told = s.out / f"{tool}.txt"
        command = [s.sanitizer, "--tool", tool, "--error-exitcode", 9, "--target-processes", "all"]
        command += [s.segtrt, "selftest", "--kernels", "--runs", 1, "--warmup", 0]
        # All of them take it more than four minutes, and in cuBLASLt's products it fails.
        command += ["--max-elements", 128000, "--without-cublaslt"] if tool == "racecheck" else []
        # Errors that it found are an answer; that it ran out of time is none.
        common = {"gpu": SHARED, "slots": 2, "priority": 55, "expect": 240, "limit": 600, "codes": (0, 1, 9)}
        jobs.append(Job(tool, command, stdout=told, results=[told], **common))
    if edgetam and s.sanitizer:
        jobs.append(memcheck_clip(s, edgetam))
    return jobs + [stand_in_clip(s, v) for v in s.variants() if s.sanitizer and v.name in STAND_IN]


def stand_in_clip(s, v):
    """A short clip under both tools with ONNX Runtime in TensorRT's place: nothing of it waits for
    TensorRT.

    racecheck fails in cuBLASLt's products, whatever kernels it is told to look at: none of it where
    a trunk has them.
    """
    name = f"stand_in_{v.name}"
    told, out = s.out / f"{name}.txt", s.out / name
    command = [
        *s.script("lab/schedule/stand_in_engines.py"), f"--segtrt={s.segtrt}", "--bundle",
        s.bundles(v) / f"{v.model}_{v.imgsz}_fp16"
    ]
    command += [
        "--split", s.split, "--out", out, "--sanitizer", s.sanitizer, "--frames", 3, "--limit",
        3 * STAND_IN[v.name]
    ]
    command += ["--tools", "memcheck"] if v.encoder == "trunk" else []
    common = {
        "gpu": SHARED, "slots": 2, "priority": 55, "expect": STAND_IN[v.name], "codes": (0, FOUND),
        "memory_gib": 16
    }
    return Job(name,
               command,
               needs=exported(v, "fp16"),
               limit=6 * STAND_IN[v.name],
               stdout=told,
               results=[told, out],
               **common)


def memcheck_clip(s, v):
    """A short clip whose kernels are launched one by one, for what a sanitizer sees of replayed
    CUDA graphs was never tried here."""
    name = "memcheck_clip"
    told, out = s.out / f"{name}.txt", s.out / name
    short = [
        "--limit-videos", 1, "--max-clip-frames", UNDER_MEMCHECK, "--profile-runs", 1, "--warmup-runs", 0,
        "--no-cuda-graphs"
    ]
    command = [
        *s.script("lab/schedule/sanitize_clip.py"), "--tool", "memcheck", "--sanitizer", s.sanitizer, "--"
    ]
    command += [*bench(s, v, "fp16", out, *short), "-v", "-v"]
    common = {"gpu": SHARED, "slots": 2, "priority": 55, "expect": 100, "limit": 600, "codes": (0, FOUND)}
    return Job(name,
               command,
               needs=[built(v, "fp16")],
               memory_gib=16,
               waits=True,
               stdout=told,
               results=[told, out],
               **common)
