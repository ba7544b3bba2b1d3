#!/usr/bin/env python3
"""Measures everything that docs/results.md needs on one machine with one to four GPUs, in one go;
run again, it goes on.

python3 lab/measure.py --split davis16 --overlay tiny.safetensors --segtrt target/release/segtrt
--out measured --seconds 2400
python3 lab/measure.py --out measured --harvest part_1.tar.xz --limit-mb 14      at any time, beside
a lab at work

Learns a test bed, exports, builds engines, compiles PyTorch, compares, tests and sweeps: some two
hundred jobs, each with what it needs and what it occupies; as many run at once as fit, measurements
alone on their GPU and on processors of their own. OUT/lab.log has a line for each beginning and
end, OUT/jobs/NAME.{log,json} what a job printed and how it ended. A job that failed costs those
that need it, and is tried again by the next call. TensorRT, ONNX Runtime and EdgeTAM's code are
found as by the single programs: SEGTRT_TENSORRT_LIB, LD_LIBRARY_PATH, ORT_DYLIB_PATH (else this
Python's onnxruntime), EDGETAM_SRC, PYTHONPATH. Exit code 0: all jobs are done; 1: not all; 2: wrong
command line.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from schedule import flags, machine  # noqa: E402
from schedule.foresight import Foresight  # noqa: E402
from schedule.harvest import harvest  # noqa: E402
from schedule.job import PlanError, checked, chosen, hurry, without  # noqa: E402
from schedule.ledger import Ledger, write_json  # noqa: E402
from schedule.plan import GROUPS, plan  # noqa: E402
from schedule.runtime import onnxruntime_library  # noqa: E402
from schedule.scheduler import Scheduler  # noqa: E402
from schedule.settings import ENCODERS, COMPUTED_BY, MIXED, ROOT, TAGS, Settings, of_model  # noqa: E402
from schedule.stand_in import stand_in  # noqa: E402


def parser():
    first, _, rest = __doc__.partition("\n\n")
    p = argparse.ArgumentParser(description=first, epilog=rest, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--out", type=Path, required=True, help="folder of results; what is done in it is left "
                                                           "alone")
    p.add_argument("--split", type=Path, help="clips: JPEGImages_24fps, Annotations_6fps")
    p.add_argument("--overlay", type=Path, help="real tensors of SAM 2.0's hiera-tiny, for the test bed")
    p.add_argument("--segtrt", type=Path, default=ROOT / "target/release/segtrt")
    p.add_argument("--models", default=",".join(TAGS.values()), help="separated by commas [all five]")
    p.add_argument("--timing", default="", metavar="FP16[,FP32]", help="timing caches to start from")
    p.add_argument("--timing-dir", type=Path, metavar="DIR", help="an earlier lab's OUT/timing: a cache "
                                                                  "for each build job")
    p.add_argument("--gpus", help="such as 0,1 [CUDA_VISIBLE_DEVICES, else all]")
    p.add_argument("--quiet", default="", metavar="GPUS", help="of these, for nothing but what must be alone")
    p.add_argument("--memory-gib", type=float, help="of the host [MemTotal; less than there is on a "
                                                    "machine that grows as it is used]")
    p.add_argument("--seconds", type=float, default=0, help="begin nothing that would end later, and end "
                                                            "everything then")
    told = "than an H200 with 16 processors: expected times and limits are as much longer [1]"
    p.add_argument("--slower", type=float, default=1, metavar="FACTOR", help=told)
    p.add_argument("--wait-for", type=Path, metavar="FILE", help="jobs that need TensorRT begin when this "
                                                                 "file is there")
    p.add_argument("--learn-seconds", type=int, default=90, help="of each network's encoder, and of its "
                                                                 "memory [90]")
    p.add_argument("--track-seconds", type=int, help="of its memory alone; 0 leaves it random [as "
                                                     "--learn-seconds]")
    p.add_argument("--longer", default="", metavar="MODEL=FACTOR,…", help="these networks learn so many "
                                                                          "times as long: sam2_large=2.5")
    p.add_argument("--unlearned", default="", metavar="MODELS", help="of these, with random weights: for "
                                                                     "speeds alone, at once")
    p.add_argument("--mixed", default=",".join(MIXED), metavar="NAMES", help="of these, mixed engines are "
                                                                             "compared beside fp16's; '' "
                                                                             "for none [all models, "
                                                                             "edgetam_512]")
    p.add_argument("--rounds", type=int, default=3, help="of comparisons [3]")
    p.add_argument("--hushed", type=int, default=1, help="comparisons with PyTorch that may run beside "
                                                         "each other, each on a GPU of its own [1]")
    told = "an earlier lab's OUT/compiled, of a machine with the same GPU and PyTorch: what torch.compile chose, so that it need not choose again"
    p.add_argument("--kept-compiled", type=Path, metavar="DIR", help=told)
    told = "an earlier lab's OUT/bed: networks whose weights are there need not learn again"
    p.add_argument("--kept-weights", type=Path, metavar="DIR", help=told)
    told = "what computes SAM 2.1's fp16 encoders (onnx/README.md); --groups attention measures both [trunk]"
    p.add_argument("--encoder", choices=ENCODERS, default="trunk", help=told)
    told = "what computes the mask decoder of fp16 engines (onnx/README.md); mixed engines leave it to TensorRT [engine]"
    p.add_argument("--mask-decoder", choices=COMPUTED_BY, default="engine", help=told)
    told = "what computes the memory encoder of fp16 engines, likewise [engine]"
    p.add_argument("--memory-encoder", choices=COMPUTED_BY, default="engine", help=told)
    p.add_argument("--ort-gpu", type=Path, metavar="LIB", help="ONNX Runtime's library with the CUDA "
                                                               "provider: a further side")
    p.add_argument("--groups", default="main", help=f"of {', '.join(GROUPS)} [main]")
    p.add_argument("--only", default="", metavar="PATTERN,…", help="jobs of these names, and what they "
                                                                   "need: compare_edgetam,iou_*")
    p.add_argument("--without", default="", metavar="PATTERN,…", help="optional jobs that are left out, "
                                                                      "and with them sides of comparisons: "
                                                                      "warm_*_vos_optimized_*")
    p.add_argument("--first", default="", metavar="PATTERN,…", help="jobs that are more urgent than all "
                                                                    "others, with what they need, in this "
                                                                    "order")
    p.add_argument("--list", action="store_true", help="show the jobs and what became of them; run nothing")
    p.add_argument("--dry-run", action="store_true", help="show their commands; run nothing")
    p.add_argument("--check", action="store_true", help="ask all programs whether they know their flags; "
                                                        "run nothing")
    told = "rehearse: jobs only sleep this share of their time and leave results without meaning"
    p.add_argument("--fake", type=float, metavar="SHARE", help=told)
    told = "show when each job would begin, were TensorRT there after so many seconds; run nothing"
    p.add_argument("--foresee", type=float, metavar="SECONDS", help=told)
    p.add_argument("--processors", type=int, help="with --foresee: of the machine that is thought of")
    p.add_argument("--harvest", type=Path, metavar="FILE.tar.xz", help="pack what is small and new since "
                                                                       "the last harvest; run nothing")
    p.add_argument("--limit-mb", type=float, default=14, help="of the archive, in millions of bytes [14]")
    p.add_argument("--again", action="store_true", help="with --harvest: also what was packed before")
    return p


def settings_of(args, gpus, error):
    """What a plan is made from; `error` hears of what is missing."""
    def named(flag, value):
        found = {name: of_model(name.strip()) for name in value.split(",") if name.strip()}
        if unknown := [name for name, model in found.items() if model is None]:
            error(f"{flag} {','.join(unknown)}: known are {', '.join(TAGS.values())}")
        return tuple(found.values())

    models = named("--models", args.models)
    if not models:
        error(f"--models: expected some of {', '.join(TAGS.values())}")
    longer = {}
    for name, _, factor in (word.strip().partition("=") for word in args.longer.split(",") if word.strip()):
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", factor) or float(factor) <= 0:
            error(f"--longer {name}={factor}: expected a model and a number above 0, such as sam2_large=2.5")
        longer |= {model: float(factor) for model in named("--longer", name)}
    mixed = tuple(name.strip() for name in args.mixed.split(",") if name.strip())
    if unknown := set(mixed) - set(MIXED):
        error(f"--mixed {','.join(sorted(unknown))}: known are {', '.join(MIXED)}")
    if args.split is None or args.overlay is None:
        error("--split and --overlay are needed")
    timing = dict(zip(("fp16", "fp32"), (Path(name).absolute() for name in args.timing.split(",") if name)))
    needed = [
        args.split / "JPEGImages_24fps", args.overlay, args.segtrt, *timing.values(),
        *(path for path in (args.ort_gpu, args.timing_dir, args.kept_compiled, args.kept_weights) if path)
    ]
    if args.fake is None:
        for path in needed:
            if not path.exists():
                error(f"{path} is not there")
    decoder = args.segtrt.absolute().parent / "examples/decode_frames"
    return Settings(
        segtrt=args.segtrt.absolute(),
        split=args.split.absolute(),
        overlay=args.overlay.absolute(),
        out=args.out.absolute(),
        models=[model for model in TAGS if model in models],
        python=sys.executable,
        gpus=len(gpus),
        timing=timing,
        timing_dir=args.timing_dir and args.timing_dir.absolute(),
        learn_seconds=args.learn_seconds,
        track_seconds=args.learn_seconds if args.track_seconds is None else args.track_seconds,
        longer=longer,
        unlearned=named("--unlearned", args.unlearned),
        mixed=mixed,
        rounds=args.rounds,
        kept_compiled=args.kept_compiled and args.kept_compiled.absolute(),
        kept_weights=args.kept_weights and args.kept_weights.absolute(),
        encoder=args.encoder,
        mask_decoder=args.mask_decoder,
        memory_encoder=args.memory_encoder,
        ort_gpu=args.ort_gpu and args.ort_gpu.absolute(),
        nsys=os.environ.get("NSYS_CMD"),
        sanitizer=shutil.which("compute-sanitizer"),
        decoder=decoder if decoder.exists() else None,
    )


def show(jobs, ledger, commands):
    """A line a job, in the order in which they would begin if all could."""
    for job in sorted(jobs.values(), key=lambda job: job.priority):
        record = ledger.record(job.name) or {}
        state = "done" if ledger.is_done(job) else record.get("state", "-")
        took = f"{record['seconds']:.0f} s" if "seconds" in record else f"~{job.expect:.0f} s"
        print(f"{job.priority:4.4g} {job.gpu:6} {took:>7} {state:7} {job.name}" +
              (f"  < {' '.join(job.needs)}" if job.needs else ""))
        if commands:
            print(f"      {' '.join(job.command)}")


def facts(args, here):
    """Of this call, for OUT/lab.json, which has all calls: the machine and the command."""
    query = [
        "nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu",
        "--format=csv"
    ]
    try:
        gpus = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        gpus = []
    version = subprocess.run([args.segtrt, "--version"], capture_output=True,
                             text=True).stdout.strip() if args.fake is None else "fake"
    machine_ = {
        "gpus": gpus, "own": here.own, "aside": here.aside, "memory_gib": here.memory_gib, "kernel":
        platform.release()
    }
    return {
        "begin": time.strftime("%FT%T%z"), "command": sys.argv, "segtrt": version, "python": sys.version,
        "machine": machine_
    }


def main():
    p = parser()
    args = p.parse_args()
    if args.harvest:
        packed, left, size = harvest(args.out, args.harvest, args.limit_mb, args.again)
        print(f"{args.harvest}: {packed} files, {size / 1e6:.1f} MB; {left} left for the next")
        return 0
    gpus = args.gpus.split(",") if args.gpus else None
    if args.processors and args.foresee is None:
        p.error("--processors goes with --foresee")
    if args.hushed < 1:
        p.error(f"--hushed {args.hushed}: expected 1 or more")
    quiet = [gpu for gpu in args.quiet.split(",") if gpu]
    here = machine.this_machine(gpus, args.memory_gib, args.processors, quiet, args.hushed)
    if set(quiet) - set(here.gpus) or (quiet and len(quiet) == len(here.gpus)):
        p.error(f"--quiet {args.quiet}: expected some of the GPUs {','.join(here.gpus)}, not all")
    settings = settings_of(args, here.gpus, p.error)
    try:
        groups = [group.strip() for group in args.groups.split(",") if group.strip()]
        if set(groups) - set(GROUPS) or not groups:
            p.error(f"--groups {args.groups}: expected some of {', '.join(GROUPS)}")
        patterns = [pattern for pattern in args.only.split(",") if pattern]
        jobs = chosen(plan(settings, GROUPS if patterns else [*groups, "main"]), patterns)
        if not patterns and "main" not in groups:
            mine = [job.name for job in jobs if job.group != "main"]
            if not mine:
                p.error(f"--groups {args.groups}: no job of these models belongs to them")
            jobs = chosen(jobs, mine)
        jobs = checked(without(jobs, [pattern for pattern in args.without.split(",") if pattern]))
        hurry(jobs, [pattern for pattern in args.first.split(",") if pattern])
        for job in jobs.values():
            job.expect, job.limit = job.expect * args.slower, job.limit * args.slower
    except PlanError as error:
        p.error(str(error))
    ledger = Ledger(args.out)
    if args.list or args.dry_run:
        show(jobs, ledger, args.dry_run)
        return 0
    if args.foresee is not None:
        foresight = Foresight(jobs, here, ledger.is_done, args.seconds, args.foresee)
        foresight.run()
        for at, line in foresight.lines:
            print(f"{at:6.0f} s  {line}")
        return 0
    if not os.environ.get("ORT_DYLIB_PATH") and (library := onnxruntime_library()):
        os.environ["ORT_DYLIB_PATH"] = str(library)  # segtrt may lie where it finds none
    if args.fake is None:
        told = flags.unknown(jobs.values(), settings.segtrt, settings.python if args.check else None)
        for line in told:
            print(f"error: {line}", file=sys.stderr)
        if told or args.check:
            return 2 if told else 0
    else:
        jobs = {name: stand_in(job, args.fake, settings.python) for name, job in jobs.items()}
        os.environ["PYTHONPATH"] = str(ROOT / "lab")
    with ledger.held():
        ledger.end_leftovers()
        write_json(ledger.out / "lab.json", [*ledger.calls(), facts(args, here)])
        os.sched_setaffinity(0, here.aside)  # the lab itself disturbs no measurement
        return 1 if Scheduler(jobs, here, ledger, args.seconds, args.wait_for, ROOT).run() else 0


if __name__ == "__main__":
    sys.exit(main())
