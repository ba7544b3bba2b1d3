"""Jobs before anything is measured: networks whose masks mean something, their graphs, and
PyTorch's compiled code."""

from .job import ALONE, SHARED, Job
from .settings import HIERA, TEACHER

BATCHES = "2,4,8,16"
# Seconds of max-autotune alone on a GPU and twelve processors, which compile the candidates, as
# they were seen; many of small's shapes are tiny's.
VOS = {"edgetam": 345, "sam2.1_tiny": 260, "sam2.1_small": 155, "sam2.1_base_plus": 215, "sam2.1_large": 345}
# Seconds of a runner whose graphs are in Inductor's cache, beside others; of vos_optimized's, 168
# were seen.
FOUND = 60


def test_bed(s):
    """Teacher, features, tracking: a checkpoint a model."""
    bed, overlay = s.out / "bed", ["--random-weights", 0, "--weights-overlay", s.overlay]
    features, jobs = bed / "features.pt", []
    variants = [v for v in s.variants() if s.learns(v)]
    models = {v.model for v in variants}
    if models - {TEACHER}:
        teach = [
            *s.script("lab/train/distil_encoder.py"), "teach", "--model", TEACHER, *overlay, "--split",
            s.split
        ]
        common = {"gpu": SHARED, "slots": 3, "priority": 5, "memory_gib": 6}
        jobs.append(
            Job("teach", [*teach, "--out", features], expect=50, limit=200, results=[features], **common))
    for variant in variants:
        model = variant.model
        common = {"gpu": SHARED, "slots": 4, "priority": variant.priority("bed"), "memory_gib": 8}
        learning, tracking = s.learning(model), s.tracking(model)
        common |= {"expect": learning + 40, "limit": learning + 200}
        weights, needs = overlay, []
        if model != TEACHER:
            distilled = bed / f"{model}.features.safetensors"
            learn = [
                *s.script("lab/train/distil_encoder.py"), "learn", "--model", model, *overlay, "--features",
                features
            ]
            learn += ["--seconds", learning, "--batch", 8, "--out", distilled]
            name = f"distil_{variant.tag}"  # at every size it sees alike
            if name not in [job.name for job in jobs]:
                jobs.append(Job(name, learn, needs=["teach"], results=[distilled], **common))
            weights, needs = ["--checkpoint", distilled], [name]
        track = [
            *s.script("lab/train/learn_tracking.py"), "--model", model, "--imgsz", variant.imgsz, *weights,
            "--split", s.split
        ]
        track += ["--seconds", tracking, "--out", s.checkpoint(variant)]
        common |= {"expect": tracking + 30, "limit": tracking + 200}
        jobs.append(
            Job(f"track_{variant.name}", track, needs=needs, results=[s.checkpoint(variant)], **common))
    return jobs


def learnt(s, variant):
    """The job that leaves the checkpoint, if one does."""
    return [f"track_{variant.name}"] if s.learns(variant) else []


def exports(s):
    """Graphs in both precisions; EdgeTAM's encoder for several frames, too."""
    jobs = []
    for v in s.variants():
        weights, needs = weights_of(s, v)
        jobs += exports_of(s, v, s.bundles(v), f"export_{v.name}", weights, ("fp16", "fp32"), needs)
    return jobs


def weights_of(s, v):
    """What an export is told of a variant's weights, and the jobs that it needs for them."""
    return (["--checkpoint", s.checkpoint(v)],
            learnt(s, v)) if v.model not in s.unlearned else (["--random-weights", 0], [])


def exports_of(s, v, bundles, name, weights, precisions, needs=()):
    """A job for each precision of one variant's graphs with these weights."""
    jobs = []
    for precision in precisions:
        bundle = bundles / f"{v.model}_{v.imgsz}_{precision}"
        command = [
            *s.script("onnx/export.py"), "--model", v.model, "--imgsz", v.imgsz, "--precision", precision
        ]
        command += [*weights, "--segments", "--padded-track"]
        if v.model in HIERA and precision == "fp16":
            command += ["--encoder", v.encoder]
        if precision == "fp16":
            command += ["--mask-decoder", v.mask_decoder, "--memory-encoder", v.memory_encoder]
        if v.model == "edgetam" and v.imgsz == 1024:
            command += ["--encoder-batches", BATCHES]
        jobs.append(
            Job(
                f"{name}_{precision}",
                [*command, "--out", bundles],
                needs=list(needs),
                priority=v.priority("export"),
                expect=v.costs[1],
                limit=300,
                cores=4,
                memory_gib=12,
                environment={"OMP_NUM_THREADS": 4},
                results=[bundle],
            )
        )
    return jobs


def exported(v, *precisions):
    """The jobs that leave a variant's bundles."""
    return [f"export_{v.name}_{precision}" for precision in precisions or ("fp16", "fp32")]


def runner(s, v, mode, precision, *more):
    """pytorch/run.py as `segtrt compare` calls it, as far as compiling depends on it."""
    command = [
        *s.script("pytorch/run.py"), "--split-dir", s.split, "--models", f"{v.tag}_points", "--mode", mode
    ]
    exact = {"tf32": ["fp32", "--tf32"]}.get(precision, [precision])
    return [*command, "--precision", *exact, "--imgsz", v.imgsz, "--device", "cuda", *more]


def warm_name(v, side, precision):
    return f"warm_{v.name}_{side}_{precision}"


def compiled(s):
    """Inductor's cache, filled by a runner that builds, compiles, warms up and finds that nobody
    tells it to go.

    What a graph is compiled to does not depend on the numbers in the weights, so this needs no
    checkpoint; random weights without an overlay have the same modules as a checkpoint's (an
    overlay may bring a ready table of positions, which makes another encoder of it, and another
    cache entry). pytorch/README.md says what else the key depends on.
    """
    jobs = []
    for v in s.variants():
        # The others' code is of use to a later lab alone, which is given OUT/inductor.
        compared = v.model not in s.unlearned
        for side, precision, (mode, *more), expect, priority in (
            ("compile", "fp16", ["compile"], 90, v.priority("compare")),
            ("compile", "tf32", ["compile"], 90, v.priority("compare")),
            ("reduce_overhead", "fp16", ["compile", "--compile-mode",
                                         "reduce-overhead"], 90, v.priority("compare")),
            ("reduce_overhead", "tf32", ["compile", "--compile-mode",
                                         "reduce-overhead"], 90, v.priority("compare")),
            ("vos_optimized", "fp16", ["vos_optimized"], VOS[v.model], v.priority("compare")),
        ):
            if precision == "tf32" and v.model != "edgetam":
                continue  # no comparison has it
            name = warm_name(v, side, precision)
            told = s.out / "inductor" / f"{name}.txt"  # in the cache, which a later lab may be given
            if told.exists() and '"ready"' in told.read_text():
                expect = min(expect, FOUND)
            kept, earlier = s.out / "compiled" / f"{name}.bin", s.kept_compiled and s.kept_compiled / f"{name}.bin"
            copies = [(earlier, kept)] if earlier and earlier.exists() else []
            if copies:
                expect = min(expect, FOUND)
            place = s.out / "warm" / name
            command = runner(s, v, mode, precision, *more, "--random-weights", 0, "--interactive",
                             "--kept-compiled", kept, "--out-dir", place)
            jobs.append(
                Job(
                    name,
                    command,
                    gpu=ALONE,  # every mode keeps what was fastest beside whatever else ran
                    priority=priority,
                    expect=expect,
                    limit=1200 if mode == "vos_optimized" else 400,
                    memory_gib=16,
                    environment=s.torch_environment(),
                    stdout=told,
                    results=[told],
                    copies=copies,
                    group="main" if compared else "warm",
                    # The comparison goes on without such a side: PyTorch releases differ in what
                    # they take of CUDA graphs.
                    optional=side in ("reduce_overhead", "vos_optimized"),
                )
            )
    return jobs
