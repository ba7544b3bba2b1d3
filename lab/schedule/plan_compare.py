"""Jobs that compare: with PyTorch in turn, with ONNX Runtime's GPU provider, and masks with the
CPU's."""

from .job import ALONE, SHARED, Job
from .plan_bed import exported, learnt, warm_name
from .plan_builds import PRECISIONS, built
from .settings import ROOT

# What a try that was broken off leaves in a comparison that goes on; compare would refuse it.
FORCED = ("teacher", "teacher_forced")
# Of a comparison's seconds, with the reference's masks in every memory: 0.7 and 0.9 were seen.
FORCED_SHARE = 0.8
# Of a comparison's seconds, that vos_optimized costs: EdgeTAM's took 193 and 215 without it and 313
# with it, tiny's 132 to 195 and 233.
VOS_SHARE = 0.3
# Seconds that PyTorch's sides may take to get ready: with what they compile to in Inductor's cache
# about 60. One that compiles all the same would keep the machine from everybody for ten minutes,
# and disturb whatever is compared beside it.
READY = 240
CUDA_GRAPHS = (("reduce_overhead", "fp16"), ("vos_optimized", "fp16"))  # sides
# PyTorch's sides in TF32, of EdgeTAM alone: there fp16 masks of PyTorch may not agree with its
# fp32's, and plain compile is faster in TF32. Eager is what the others are held to where their
# masks are not fp32's (docs/explanation/how-we-compare.md).
TF32 = (("eager", "tf32"), ("compile", "tf32"), ("reduce_overhead", "tf32"))


def compare_command(s, v, out, sides, baselines, *more):
    """`segtrt compare` of one variant."""
    command = [
        s.segtrt, "compare", "--split-dir", s.split, "--engines",
        s.engines(v), "--onnx-dir",
        s.bundles(v)
    ]
    command += ["--models", f"{v.tag}_points", "--imgsz", v.imgsz, "--rounds", s.rounds, "--out-dir", out]
    command += ["--python", s.python, "--runner", ROOT / "pytorch/run.py", "--ready-limit", READY]
    return [
        *command, "--runner-arg=--checkpoint", f"--runner-arg={s.checkpoint(v)}", "--sides", sides,
        "--baselines", baselines, *more
    ]


def compare_job(s, v, name, command, needs, priority, expect, **more):
    """Exit code 1 is an answer, too: masks that differ. Whether there is one, comparison.json
    tells."""
    out = s.out / name
    return Job(
        name,
        command,
        gpu=ALONE,
        needs=needs,
        priority=priority,
        expect=expect,
        limit=900,  # also where Inductor's cache was of no use
        memory_gib=32,
        codes=(0, 1),
        waits=True,
        environment=s.torch_environment() | more.pop("environment", {}),
        **({"results": [out / "comparison.json", out], "hush": True} | more),
    )


def reference(s, v):
    """The run of PyTorch in fp32, without TF32, that the first comparison makes: later ones are
    held to it."""
    return f"glob:{s.out}/compare_{v.name}/runs/*/eager-fp32/from_round_1/round_0"


def comparisons(s):
    jobs = []
    for v in s.variants():
        if v.model in s.unlearned:
            continue  # masks of random weights say little
        first, expect = f"compare_{v.name}", v.costs[3]
        precisions = [*["mixed"] * (v.name in s.mixed), "fp16"]
        engines = [built(v, precision) for precision in precisions]
        base = [*engines, *exported(v), *learnt(s, v)]
        sides = ",".join(f"tensorrt:{precision}" for precision in precisions)
        # A ratio needs a side of PyTorch's whose masks agree: in fp16 they may not. Where PyTorch
        # waits for the host, CUDA graphs make it faster: a ratio to a slower side of it would
        # flatter. All in one comparison, so that one reference serves them.
        tf32 = TF32 if v.model == "edgetam" else ()
        baselines = ",".join(["eager:fp16", "compile:fp16", *map(":".join, (*tf32, *CUDA_GRAPHS))])
        command = compare_command(s, v, s.out / first, sides, baselines)
        needs = [*base, *(warm_name(v, *side) for side in (("compile", "fp16"), *tf32[1:], *CUDA_GRAPHS))]
        # Compiled within a comparison vos_optimized would keep the machine for ten minutes.
        only_with = {warm_name(v, *side): f",{':'.join(side)}" for side in (*tf32[2:], *CUDA_GRAPHS)}
        spares = {warm_name(v, "vos_optimized", "fp16"): VOS_SHARE * expect}
        jobs.append(
            compare_job(s,
                        v,
                        first,
                        command,
                        needs,
                        v.priority("compare"),
                        expect,
                        only_with=only_with,
                        spares=spares))
        held = ["--reference-run", reference(s, v)]
        # Once more with the reference's masks in every memory: no speed, so it may wait, and it
        # adds to the first one.
        told = s.out / f"forced_{v.name}.txt"
        clears = [f"{s.out}/{first}/runs/*/*/{folder}" for folder in FORCED]
        forced = s.out / first / "runs" / f"{v.tag}_points" / "tensorrt-fp16" / FORCED[1]
        more = {
            "results": [told], "leaves": [forced], "stdout": told, "clears": clears, "only_with": only_with,
            "hush": False
        }
        command = [*command, "--teacher-forced"]
        needs = [first, *only_with]
        jobs.append(
            compare_job(s, v, f"forced_{v.name}", command, needs, v.priority("forced"),
                        FORCED_SHARE * expect, **more))
        if v.imgsz == 1024 and s.ort_gpu:
            jobs.append(with_onnxruntime(s, v, sides, base, first, held))
    return jobs


def with_onnxruntime(s, v, sides, base, first, held):
    """ONNX Runtime's CUDA provider beside TensorRT, from the library that was named."""
    name = f"compare_ort_{v.name}"
    command = compare_command(s, v, s.out / name, f"{sides},ort-cuda:fp16,ort-cuda:fp32", "", *held)
    environment = {"ORT_DYLIB_PATH": s.ort_gpu}
    return compare_job(s, v, name, command, [*base, first], 70 + v.rank, 90, environment=environment)


def bench(s, v, precision, out, *more, engines=None, clips=None):
    """`segtrt bench` on engines."""
    command = [s.segtrt, "bench", "--backend", "tensorrt", "--engines", engines or s.engines(v)]
    command += ["--split-dir", clips or s.split, "--models", f"{v.tag}_points", "--imgsz", v.imgsz]
    return [*command, "--precision", precision, "--out-dir", out, *more]


def masks(s):
    """The first frames of each clip: every precision against ONNX Runtime in fp32 on the processor.
    """
    jobs, few = [], ["--max-clip-frames", s.frames, "--warmup-runs", 0, "--save-masks"]
    for v in s.variants():
        cpu = s.out / f"cpu_{v.name}"
        command = [
            s.segtrt, "bench", "--split-dir", s.split, "--models", f"{v.tag}_points", "--imgsz", v.imgsz
        ]
        command += ["--onnx-dir", s.bundles(v), "--precision", "fp32", "--threads", 4, "--out-dir", cpu, *few]
        expect = v.costs[2]
        common = {"priority": v.priority("look"), "memory_gib": 12}
        needs = exported(v, "fp32")
        jobs.append(
            Job(cpu.name,
                command,
                needs=needs,
                expect=expect,
                limit=4 * expect,
                cores=4,
                results=[cpu],
                **common))
        for precision in PRECISIONS:
            ours = s.out / f"masks_{v.name}_{precision}"
            command = bench(s, v, precision, ours, *few)
            here = {
                "gpu": SHARED, "slots": 3, "needs": [built(v, precision)], "waits": True, "expect": 10,
                "limit": 200
            }
            jobs.append(Job(ours.name, command, results=[ours], **here, **common))
            name = f"iou_{v.name}_{precision}"
            told = s.out / f"{name}.txt"
            command = [*s.script("onnx/compare_masks.py"), ours / "masks", cpu / "masks"]
            needs = [ours.name, cpu.name]
            jobs.append(
                Job(name,
                    command,
                    needs=needs,
                    expect=2,
                    stdout=told,
                    results=[told],
                    priority=common["priority"]))
    return jobs
