"""Jobs that look for the layers of SAM2.1-tiny's fp16 encoder that its masks suffer from.

The decoder's half of the error is taken away first (prompt, last segment and memory encoder in
fp32, as in mixed engines); then parts of the encoder compute in fp32, one variant each, and masks
are held to PyTorch's fp32.
"""

from .engines import MERGE
from .job import ALONE, Job
from .plan_bed import exported
from .plan_builds import build, built, piece_jobs
from .plan_compare import bench, reference

FRAMES = 40
DECODER = ("prompt", "track_seg8", "memory")
# Parts of the names of layers (segtrt inspect shows them), separated by commas.
VARIANTS = {
    "neck": "/middle/,/coarse/,/hr0/,/hr1/",
    "patch": "/patch/",
    "qkv": "/q/,/k/,/v/",
    "projections": "/proj/,/skip/",
    "mlp": "/up/,/act/,/down/",
    "stage1": "/blocks.0/",
    "stage2": "/blocks.1/,/blocks.2/",
    "stage3": ",".join(f"/blocks.{k}/" for k in range(3, 10)),
    "stage4": "/blocks.10/,/blocks.11/",
}


def bisect(s):
    v = next((v for v in s.variants() if v.name == "sam2_tiny"), None)
    # Masks are held to those of its comparison; and one encoder is replaced by another: it must be
    # whole (--encoder engine).
    if v is None or v.model in s.unlearned or v.encoder != "engine":
        return []
    jobs, needs = [], exported(v, "fp16")

    def piece(name, graphs, *more):
        job = build(s, v, f"bisect_{name}", "fp16", s.out / "pieces" / f"bisect_{name}", graphs, needs, 80,
                    130, more)
        jobs.append(job)
        return job

    decoder = piece("decoder", DECODER, "--fp32-graphs", ",".join(DECODER))
    plain = piece_jobs(s, v, "fp16", 0)  # these are in the plan already
    encoders = {"none": None, "whole": piece("whole", ["encoder"], "--fp32-graphs", "encoder")}
    encoders |= {name: piece(name, ["encoder"], "--fp32-layers", parts) for name, parts in VARIANTS.items()}
    for name, encoder in encoders.items():
        pieces = [*plain, decoder, *([encoder] if encoder else [])]  # later ones win
        engines, rows = s.out / "bisect" / name, s.out / "builds" / f"bisect_{name}_engines.json"
        command = [s.python, MERGE, "--into", engines, "--rows", rows]
        command += [word for piece in pieces for word in ("--piece", piece.results[0])]
        merged = f"bisect_{name}_engines"
        waited = [piece.name for piece in pieces]
        jobs.append(Job(merged, command, needs=waited, priority=80, expect=10, results=[engines, rows]))
        out = s.out / f"bisect_{name}_masks"
        command = bench(s, v, "fp16", out, "--max-clip-frames", FRAMES, "--save-masks", engines=engines)
        common = {"gpu": ALONE, "expect": 25, "limit": 200, "waits": True, "priority": 81}
        jobs.append(Job(out.name, command, needs=[merged, built(v, "fp16")], results=[out], **common))
        told = s.out / f"bisect_{name}_iou.txt"
        command = [*s.script("onnx/compare_masks.py"), out / "masks", f"{reference(s, v)}/masks"]
        needed = [out.name, f"compare_{v.name}"]
        jobs.append(
            Job(f"bisect_{name}_iou",
                command,
                needs=needed,
                priority=81,
                expect=10,
                stdout=told,
                results=[told]))
    for job in jobs:
        job.group = "bisect"
    return jobs
