"""This program's kernels under compute-sanitizer in a whole clip on a real GPU, with ONNX Runtime
in the place of TensorRT.

python3 lab/sanitize/stand_in_engines.py --segtrt target/release/segtrt --bundle
bundles/edgetam_1024_fp16 --split clips --out OUT

racecheck never ended over a clip with TensorRT, whose thousands of kernels a sanitizer rewrites
when they are loaded. So the tests' stand-in for TensorRT 8.6 (tests/data/gpu) is compiled here and
builds "engines" that ONNX Runtime runs on the processors: each waits for its stream, copies its
inputs to the host, runs the graph and copies its outputs back. All else is the pipeline as it is:
driver, memory, streams, and every kernel of this program between the engines. CUDA graphs are off,
for such engines cannot be recorded. Nothing is said of speed, of TensorRT's own kernels, of CUDA
graphs, or of frames in flight at the same time.

In turn: the stand-in is compiled, engines are built, and the clip runs on the CPU backend, on the
GPU by itself, and under each tool (sanitize_clip.py). Masks of each run on the GPU are compared
with the CPU backend's, so that "nothing found" is known of a run that computed the right thing; and
each tool must find the error in a kernel that has one (sanitizer_control.py), so that it is known
of a tool that looks. A bundle of fp32 graphs with a segmented track step is taken as one of fp16
whose ports alone are halves: the attention kernels take no others.

It needs a C++ compiler, a segtrt that was built elsewhere, and a Python with onnxruntime and numpy;
no TensorRT, no CUDA toolkit beside compute-sanitizer. Exit code 0: nothing was found; 9: something
was; 1: no answer, the last line says why.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from sanitize_clip import FOUND, NO_ANSWER

ROOT = Path(__file__).resolve().parents[2]
# What `segtrt bench` calls a bundle's model; others have the bundle's name.
TAGS = {
    "sam2.1_tiny": "sam2_tiny",
    "sam2.1_small": "sam2_small",
    "sam2.1_base_plus": "sam2_base",
    "sam2.1_large": "sam2_large",
}
SOURCES = ROOT / "tests/data/gpu"
SHIM = ROOT / "crates/tensorrt/src/shim"
# source -> the libraries made of it: a folder to build with and one to run with, for the loader
# knows both by one name.
LIBRARIES = {
    "fake_builder8.cpp": ("build/libnvinfer.so.8", "build/libnvonnxparser.so.8"),
    "fake_tensorrt8.cpp": ("run/libnvinfer.so.8",),
}
# Ports that the exporter leaves in fp32 in fp16 bundles (those that onnx/segexport/graphs.py calls "f32").
FLOATS = "low,iou,ious,score,coords,multi,mask,binar,bias,ptr_t"
TOOLS = ("memcheck", "racecheck")
CONTROL = ROOT / "lab/sanitize/sanitizer_control.py"


class NoAnswer(Exception):
    """Why nothing can be said of the kernels."""


class Bundle:
    """What is asked of a bundle's manifest."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        path = self.folder / "manifest.toml"
        if not path.is_file():
            raise NoAnswer(f"{path} is not there; --bundle: expected a folder that onnx/export.py wrote")
        self.text = path.read_text()
        model = self.text.partition("[model]")[2].partition("\n[")[0]
        found = dict(re.findall(r'^(\w+) = "?([^"\n]*)"?$', model, re.MULTILINE))
        if missing := {"name", "imgsz", "precision"} - set(found):
            raise NoAnswer(f"{path}: its [model] has no {' and no '.join(sorted(missing))}; export it again")
        self.name, self.imgsz, self.precision = found["name"], found["imgsz"], found["precision"]
        self.roles = re.findall(r'^role = "(\w+)"$', self.text, re.MULTILINE)

    @property
    def tag(self):
        return f"{TAGS.get(self.name, self.name)}_points"

    @property
    def track_variant(self):
        """The form of the track step with the most kernels of this program."""
        return "segmented" if "track_keys" in self.roles else "padded" if "track_padded" in self.roles else "per-fill-level"


def step(what, command, limit, environment=None, codes=(0,)):
    """Runs it for so many seconds at most, with all that it starts; what it prints is shown as it
    comes. Its exit code."""
    words = [str(word) for word in command]
    print(f"\n== {what} (at most {limit:.0f} s)\n$",
          *(f"{k}={v}" for k, v in (environment or {}).items()),
          *words,
          flush=True)
    begun = time.monotonic()
    whole = os.environ | {name: str(value) for name, value in (environment or {}).items()}
    with subprocess.Popen(words,
                          env=whole,
                          stdin=subprocess.DEVNULL,
                          stderr=subprocess.STDOUT,
                          start_new_session=True) as process:
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None or code is None:
                os.killpg(process.pid, signal.SIGKILL)
    took = time.monotonic() - begun
    if code is None:
        raise NoAnswer(f"{what}: not done after {took:.0f} s; give it longer (--limit) or less to do "
                       f"(--frames)")
    print(f"== {what}: exit code {code} after {took:.1f} s", flush=True)
    if code not in codes:
        raise NoAnswer(f"{what}: exit code {code}, expected {' or '.join(map(str, codes))}; its words are "
                       f"above")
    return code


def onnxruntime_library():
    """That of the onnxruntime which this Python has; None without one. The package is not imported.
    """
    spec = importlib.util.find_spec("onnxruntime")
    if not (spec and spec.origin):
        return None
    return max((Path(spec.origin).parent / "capi").glob("libonnxruntime.so.1*"), default=None)


def onnxruntime():
    """The library that ONNX Runtime is taken from, where none was named."""
    if found := onnxruntime_library():
        return found
    raise NoAnswer(f"{sys.executable} has no onnxruntime with a library; pip install onnxruntime, or name "
                   f"it with --ort-lib")


def compiler():
    """The first C++ compiler of $CXX, c++, g++ and clang++."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        raise NoAnswer(f"no C++ compiler: looked for {', '.join(names)} on the PATH; install g++ or set CXX")
    return found


def compile_stand_in(place):
    for source, libraries in LIBRARIES.items():
        first, *others = [place / library for library in libraries]
        first.parent.mkdir(parents=True)
        command = [
            compiler(), "-std=c++17", "-O1", "-pthread", "-shared", "-fPIC", "-I", SHIM, "-o", first,
            SOURCES / source, "-ldl"
        ]
        step(f"compiling {source}", command, 300)
        for other in others:
            other.symlink_to(first.name)


def as_halves(bundle, place):
    """A copy of a bundle of fp32 graphs that says it is of fp16."""
    shutil.copytree(bundle.folder, place)
    changed, count = re.subn(r'^precision = "fp32"$',
                             'precision = "fp16"',
                             bundle.text,
                             count=1,
                             flags=re.MULTILINE)
    if count != 1:
        raise NoAnswer(f'{bundle.folder}/manifest.toml: found no line precision = "fp32"; export it again')
    (place / "manifest.toml").write_text(changed)
    return place


def clip(args, bundle):
    """Flags of every run: the first object's first frames in one pass."""
    flags = [
        "--split-dir", args.split, "--models", bundle.tag, "--imgsz", bundle.imgsz, "--save-masks",
        "--stall-limit", 0
    ]
    flags += [
        "--limit-videos", 1, "--limit-objects", 1, "--max-clip-frames", args.frames, "--profile-runs", 1,
        "--warmup-runs", 0
    ]
    return [*flags, "-v"]


def gpu_bench(args, bundle, precision, out):
    command = [
        args.segtrt, "bench", "--backend", "tensorrt", "--engines", args.out / "engines", "--tensorrt-lib",
        args.out / "stand_in/run"
    ]
    return [*command, "--precision", precision, "--no-cuda-graphs", *clip(args, bundle), "--out-dir", out]


def compare(expected, found, frames, least):
    """Holds the masks of one run to those of another; NoAnswer where they differ, or where they
    could not tell."""
    sys.path.insert(0, str(ROOT / "onnx"))
    from compare_masks import decode_mask, iou  # needs numpy, which --help does not

    def read(run):
        files = sorted((run / "masks").glob("*.json"))
        if len(files) != 1:
            raise NoAnswer(f"{run}/masks has {len(files)} files of masks, expected 1")
        return json.loads(files[0].read_text())["frames"]

    theirs, ours = read(expected), read(found)
    if [frame["frame"] for frame in theirs] != [frame["frame"]
                                                for frame in ours] or not 1 < len(ours) <= frames:
        raise NoAnswer(f"{found.name} has {len(ours)} frames and {expected.name} {len(theirs)}, expected "
                       f"the same, 2 to {frames}")
    lowest, telling, said = 1.0, 0, f"{found.name} beside {expected.name}"
    for a, b in zip(theirs, ours):
        one, other = decode_mask(a["mask"]), decode_mask(b["mask"])
        value = iou(one, other)
        lowest, telling = min(lowest, value), telling + (0 < one.sum() < one.size)
        scores = ", ".join(f"{name} {a[name]:.4f} and {b[name]:.4f}" for name in ("objectness",
                                                                                  "predicted_iou"))
        print(f"{said}, frame {a['frame']}: IoU {value:.6f}, {one.sum()} and {other.sum()} of {one.size} "
              f"pixels, {scores}", flush=True)
    if lowest < least:
        raise NoAnswer(f"{said}: the lowest IoU is {lowest:.4f}, expected {least} or more (--min-iou)")
    if telling < 2:
        raise NoAnswer(f"{said}: {telling} masks are neither empty nor whole, so that they show nothing; "
                       f"take another clip or weights")
    print(f"{said}: lowest IoU {lowest:.6f} over {len(ours)} frames, {telling} of them neither empty nor "
          f"whole", flush=True)


def versions(args):
    for command in ([compiler(), "--version"], [args.segtrt,
                                                "--version"], [args.sanitizer,
                                                               "--version"], ["nvidia-smi", "-L"]):
        if shutil.which(str(command[0])) is None:
            if command[0] == "nvidia-smi":
                print("nvidia-smi: not there")
                continue
            raise NoAnswer(f"{command[0]}: no such program")
        told = subprocess.run(command, capture_output=True, text=True, timeout=120)
        lines = (told.stdout + told.stderr).strip().splitlines()
        print(f"{command[0]}: {' | '.join(lines[:4])}")
    print(f"Python {sys.version.split()[0]}; ONNX Runtime {args.ort_lib}; {args.threads} threads", flush=True)


def check(args):
    """All of it; 0 or FOUND."""
    args.ort_lib = (args.ort_lib or onnxruntime()).resolve()
    bundle = Bundle(args.bundle)
    variant = args.track_variant or bundle.track_variant
    versions(args)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in ("stand_in", "bundles", "engines", "cpu", "gpu", *TOOLS):
        shutil.rmtree(args.out / name, ignore_errors=True)
    compile_stand_in(args.out / "stand_in")

    environment = {"FAKE_TENSORRT_ONNXRUNTIME": args.ort_lib, "FAKE_TENSORRT_THREADS": args.threads}
    halves = bundle.precision == "fp32" and variant == "segmented"
    precision = "fp16" if halves else bundle.precision
    graphs = as_halves(bundle, args.out / "bundles" / bundle.folder.name) if halves else bundle.folder
    command = [
        args.segtrt, "build-engines", "--platform", "auto", "--models", bundle.name, "--imgsz",
        bundle.imgsz, "--precision", precision
    ]
    command += [
        "--track-variant", variant, "--onnx-dir", graphs, "--out", args.out / "engines", "--tensorrt-lib",
        args.out / "stand_in/build"
    ]
    step("building engines", command, args.limit,
         environment | ({"FAKE_BUILD_FLOATS": FLOATS} if halves else {}))
    plans = sorted(path.stem for path in (args.out / "engines").glob("*/*/*.plan"))
    print(f"engines of {bundle.name} {bundle.imgsz} {precision}: {', '.join(plans)}", flush=True)
    if "encoder_cut0" in bundle.roles and precision == "fp16" and "encoder_cut0" not in plans:
        raise NoAnswer("the bundle's encoder is in parts, and they were not built: this GPU has none of "
                       "the kernels that go between them")

    command = [
        args.segtrt, "bench", "--backend", "onnxruntime", "--ort-lib", args.ort_lib, "--threads",
        args.threads, "--onnx-dir", bundle.folder
    ]
    command += ["--precision", bundle.precision, *clip(args, bundle)]
    step("the clip on the CPU backend", [*command, "--out-dir", args.out / "cpu"], args.limit)
    step("the clip on the GPU", gpu_bench(args, bundle, precision, args.out / "gpu"), args.limit, environment)
    found, failed = [], []
    try:
        compare(args.out / "cpu", args.out / "gpu", args.frames, args.min_iou)
    except NoAnswer as why:  # what the tools find is worth knowing all the same
        print(why, flush=True)
        failed.append(str(why))
    for tool in args.tools.split(","):
        under = [
            sys.executable, ROOT / "lab/sanitize/sanitize_clip.py", "--tool", tool, "--sanitizer",
            args.sanitizer, "--"
        ]
        try:
            code = step(f"the clip under {tool}",
                        [*under, *gpu_bench(args, bundle, precision, args.out / tool)], args.limit,
                        environment, (0, FOUND))
            found += [tool] * (code == FOUND)
            step(f"an error for {tool}", [*under, sys.executable, CONTROL, tool], args.limit, codes=(FOUND,))
            compare(args.out / "cpu", args.out / tool, args.frames, args.min_iou)
        except NoAnswer as why:  # the next tool may have one
            print(why, flush=True)
            failed.append(str(why))
    if found:
        print(f"{' and '.join(found)} found something, as is said above", *failed, sep="; ")
        return FOUND
    if failed:
        raise NoAnswer("; ".join(failed))
    print(f"{args.tools}: nothing found in {args.frames} frames of {bundle.name} {bundle.imgsz} "
          f"{precision}, {variant} track step, masks as the CPU backend's")
    return 0


def named_tools(text):
    names = text.split(",")
    if set(names) - set(TOOLS) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"'{text}': expected {','.join(TOOLS)}, or one of them")
    return text


def frame_count(text):
    if not text.isdigit() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"'{text}': expected 2 or more, for the first frame is prompted "
                                         f"and not tracked")
    return int(text)


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--segtrt", type=Path, required=True, metavar="FILE")
    p.add_argument("--bundle", type=Path, required=True, help="folder that onnx/export.py wrote, with "
                                                              "--segments for the attention kernels")
    p.add_argument("--split", type=Path, required=True, help="clips; the first frames of the first object "
                                                             "of the first one are run")
    p.add_argument("--out", type=Path, required=True, help="what an earlier call left in it is replaced")
    p.add_argument("--sanitizer",
                   default="compute-sanitizer",
                   metavar="FILE",
                   help="[compute-sanitizer on the PATH]")
    p.add_argument("--tools", type=named_tools, default=",".join(TOOLS), help="[memcheck,racecheck]")
    p.add_argument("--track-variant",
                   choices=("segmented", "padded", "per-fill-level"),
                   help="[segmented where the bundle has it, else padded]")
    p.add_argument("--frames", type=frame_count, default=4, help="[4]")
    p.add_argument("--min-iou", type=float, default=0.9, help="of any frame with the CPU backend's mask "
                                                              "[0.9]")
    p.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="of each step [600]")
    p.add_argument("--ort-lib", type=Path, metavar="FILE", help="ONNX Runtime's library [that of this "
                                                                "Python's onnxruntime]")
    p.add_argument("--threads",
                   type=int,
                   default=len(os.sched_getaffinity(0)),
                   help="of ONNX Runtime [all processors]")
    args = p.parse_args(arguments)
    args.segtrt, args.out, args.split = args.segtrt.resolve(), args.out.resolve(), args.split.resolve()
    try:
        return check(args)
    except (NoAnswer, OSError, subprocess.SubprocessError) as why:
        print(f"no answer: {why}", file=sys.stderr, flush=True)
        return NO_ANSWER


if __name__ == "__main__":
    sys.exit(main())
