"""The jobs behind docs/results.md, most urgent first.

Preparing jobs begin in this order as soon as they can. Quiet ones run in this order, one at a time.

FOLDER/program, clips, packages, edgetam, tensorrt and weights arrive (arrive.sh). FOLDER/made has
what jobs make for one another, FOLDER/out the results.
"""

import shlex
from pathlib import Path
from typing import NamedTuple

from job import COMPARE, GPU, QUIET, SANITIZER, TRAIN, BadList, Job

ROOT = Path(__file__).resolve().parents[2]  # jobs run here: in the repository, or in what travels of it
ARRIVING = ("clips", "weights", "packages", "tensorrt")
CLIPS, WEIGHTS, PACKAGES, TENSORRT = (f"ready/{name}" for name in ARRIVING)
# EdgeTAM needs about 200 steps of tracking before its masks can be compared.
EDGETAM_STEPS = 220
LONG_CLIP, LONG_FRAMES = "blackswan", 1850  # more than 10 s of SAM 2.1 large
AMPERE = ("engines_ampere", "--ampere-plus")  # folder and flag of engines without Hopper's instructions
LAST_SANITIZING = 480  # seconds since the start


class Network(NamedTuple):
    """A model at one image side; jobs and files carry `key`."""

    key: str
    tag: str  # in segtrt bench
    model: str  # in the exporter
    imgsz: int = 1024

    @property
    def level(self):
        """TensorRT's optimisation level. TensorRT 8.6.0 could not run an EdgeTAM of level 0."""
        return 1 if self.model == "edgetam" else 0


TINY = Network("tiny", "sam2_tiny", "sam2.1_tiny")
SMALL = Network("small", "sam2_small", "sam2.1_small")
BASE = Network("base", "sam2_base", "sam2.1_base_plus")
LARGE = Network("large", "sam2_large", "sam2.1_large")
EDGETAM = Network("edgetam", "edgetam", "edgetam")
EDGETAM_512 = Network("edgetam_512", "edgetam", "edgetam", 512)
GROWN = (LARGE, BASE, SMALL)  # they take their tracking from tiny
ALL = (LARGE, EDGETAM_512, EDGETAM, TINY, BASE, SMALL)
# Seconds that an encoder imitates tiny's.
IMITATING = {LARGE: 55, EDGETAM: 60, BASE: 45, SMALL: 40}


class Plan:
    """Collects the jobs of one folder."""

    def __init__(self, folder):
        if shlex.quote(str(folder)) != str(folder):
            raise BadList(f"{folder}: the folder's name must be safe in a shell, without spaces")
        self.made, self.out = f"{folder}/made", f"{folder}/out"
        self.clips, self.long = f"{folder}/clips", f"{folder}/made/long"
        self.engines = f"{folder}/made/engines"
        self.segtrt = f"{folder}/program/segtrt"
        self.overlay = f"--random-weights 0 --weights-overlay {folder}/weights/overlay.safetensors"
        self.jobs = []

    def add(self, name, command, kind="cpu", **more):
        self.jobs.append(Job(name, command, kind, **more))

    def weights(self, network):
        return f"{self.made}/{network.key}.safetensors"

    def bench(self, network, *more, prompt="points", split=None, out=None, engines=None):
        words = [
            f"{self.segtrt} bench --backend tensorrt --precision fp16 --metrics official",
            f"--split-dir {split or self.clips} --models {network.tag}_{prompt} --imgsz {network.imgsz}"
        ]
        words += [f"--engines {engines or self.engines}", *more] + ([f"--out-dir {out}"] if out else [])
        return " ".join(words)

    # Preparing.

    def make_clips(self):
        synth = f"{self.segtrt} synth --frames 48"
        self.add("clips",
                 f"python3 lab/measure/long_clip.py {self.clips} {self.long} {LONG_CLIP} {LONG_FRAMES} && "
                 f"{synth} --videos 2 --objects 16 --size 854x480 --out {self.made}/clips_16 && "
                 f"{synth} --videos 1 --objects 1 --size 3840x2160 --out {self.made}/clips_2160",
                 needs=(CLIPS,),
                 limit=300,
                 expect=60)

    def train(self):
        """Networks whose masks can be compared: lab/README.md says why."""
        given = {"needs": (WEIGHTS, PACKAGES, CLIPS)}
        features = f"{self.made}/features.pt"
        imitate, track = "python3 lab/train/distil_encoder.py", "python3 lab/train/learn_tracking.py"
        self.add("teach", f"{imitate} teach --model {TINY.model} {self.overlay} --split "
                          f"{self.clips} --out {features}", TRAIN, **given)
        self.add("track_tiny",
                 f"{track} --model {TINY.model} {self.overlay} --split {self.clips} "
                 f"--seconds 60 --out {self.weights(TINY)}", TRAIN, expect=70, **given)
        for network, seconds in IMITATING.items():
            self.add(f"imitate_{network.key}", f"{imitate} learn --model {network.model} {self.overlay} --features "
                                               f"{features} --seconds {seconds} --batch 8 --out "
                                               f"{self.made}/encoder_{network.key}.safetensors",
                     TRAIN,
                     needs=("teach",),
                     expect=seconds + 12)
        for network in GROWN:
            self.add(f"weights_{network.key}",
                     f"python3 lab/measure/join_weights.py {self.made}/encoder_{network.key}.safetensors "
                     f"{self.weights(TINY)} {self.weights(network)}",
                     needs=(f"imitate_{network.key}", "track_tiny"),
                     expect=5)
        for network in (EDGETAM_512, EDGETAM):
            self.add(f"track_{network.key}",
                     f"{track} --model {network.model} --imgsz {network.imgsz} --checkpoint "
                     f"{self.made}/encoder_edgetam.safetensors --split {self.clips} --steps {EDGETAM_STEPS} --out "
                     f"{self.weights(network)}",
                     TRAIN,
                     needs=("imitate_edgetam",),
                     expect=200)

    def trained(self, network):
        return f"weights_{network.key}" if network in GROWN else f"track_{network.key}"

    def reference(self, network, split, expect, beside=None):
        """Masks of PyTorch in fp32."""
        self.add(f"reference_{network.key}",
                 f"python3 pytorch/run.py --split-dir {split} --models {network.tag}_points "
                 f"--imgsz {network.imgsz} "
                 f"--mode eager --precision fp32 --preprocess cpu --tuning none --save-masks --warmup-runs 0 "
                 f"--checkpoint {self.weights(network)} --out-dir {self.out}/reference_{network.key}",
                 GPU,
                 needs=(self.trained(network), "clips"),
                 beside=beside,
                 expect=expect,
                 limit=900)

    def export(self, network):
        self.add(f"export_{network.key}",
                 f"python3 onnx/export.py --model {network.model} --imgsz {network.imgsz} --precision fp16 "
                 f"--checkpoint {self.weights(network)} --segments --out {self.made}/bundles",
                 needs=(self.trained(network),),
                 expect=45,
                 limit=300)

    def building(self, network, place, *more):
        return " ".join([
            f"{self.segtrt} build-engines --platform auto --models {network.model} --imgsz {network.imgsz}",
            f"--precision fp16 --opt-level {network.level}",
            f"--timing-cache {self.made}/{network.key}_{place}.timing",
            f"--onnx-dir {self.made}/bundles --out {self.made}/{place} --json", *more
        ])

    def build(self, network, place="engines", *more):
        self.add(f"build_{network.key}{place.removeprefix('engines')}",
                 self.building(network, place, "--no-autotune", *more),
                 GPU,
                 needs=(TENSORRT, f"export_{network.key}"),
                 expect=260 if network.level else 100)

    def self_test(self):
        """In the middle: beside trainings it took more than 400 s."""
        trainings = tuple(job.name for job in self.jobs if job.kind == TRAIN)
        self.add("self_test",
                 f"{self.segtrt} selftest --kernels --csv {self.out}/selftest.csv "
                 f"--json {self.out}/selftest.json",
                 GPU,
                 after=trainings,
                 processors=2,
                 expect=150)

    def sanitize(self, name, tool, topics, elements):
        """This program's kernels under a tool; none of it needs TensorRT."""
        told = f"{self.out}/sanitizer_{name}"
        self.add(f"sanitizer_{name}", f"compute-sanitizer --tool {tool} --error-exitcode 9 {self.segtrt} selftest "
                                      f"--kernels --topics {topics} --max-elements {elements} --without-cublaslt "
                                      f"--runs 1 --warmup 0 --csv {told}.csv > {told}.txt 2>&1; code=$?; "
                                      f"tail -n 3 {told}.txt; exit $code",
                 SANITIZER,
                 until=LAST_SANITIZING,
                 expect=300,
                 limit=900)

    # Measuring.

    def compare(self, network, split, mode, rounds, compile, expect, after=()):
        """The comparison with PyTorch. It looks for the bundle as soon as it starts."""
        key = network.key
        self.add(f"compare_{key}",
                 f"{self.segtrt} compare --split-dir {split} --models {network.tag}_points "
                 f"--imgsz {network.imgsz} "
                 f"--rounds {rounds} --sides tensorrt:fp16 --baselines {mode}:fp16 --reference-run "
                 f"{self.out}/reference_{key} --engines {self.engines} --onnx-dir {self.made}/bundles --python "
                 f"lab/measure/waiting_python.py --runner pytorch/run.py --runner-arg=--checkpoint "
                 f"--runner-arg={self.weights(network)} --out-dir {self.out}/compare_{key}",
                 COMPARE,
                 needs=(f"export_{key}", "clips"),
                 quiet_needs=(f"tune_{key}", f"reference_{key}"),
                 after=after,
                 processors=8,
                 high=True,
                 compile=compile,
                 expect=expect,
                 limit=900,
                 codes=(0, 1),
                 environment={"TORCHINDUCTOR_CACHE_DIR": f"{self.made}/inductor"})

    def quiet(self, name, command, *needs, **more):
        usual = {"needs": needs, "processors": 8, "expect": 25, "limit": 200}
        self.add(name, command, QUIET, **usual | more)

    def tune(self, network):
        """Finds every plan up to date and chooses segtrt's matmuls, which takes a quiet GPU."""
        self.quiet(f"tune_{network.key}",
                   self.building(network, "engines"),
                   f"build_{network.key}",
                   processors=4,
                   expect=15)

    def long_pass(self, network, times, overlapped=False):
        name, more, mode = "long", {}, []
        if overlapped:
            name, more, mode = "overlapped", {"processors": 16}, ["--mode throughput"]
        self.quiet(
            f"{name}_{network.key}",
            self.bench(network,
                       *mode,
                       f"--limit-videos 1 --repeat-clip {times}",
                       out=f"{self.out}/{name}_{network.key}"), f"tune_{network.key}", **more)

    def lanes(self, network, count, times):
        self.quiet(f"lanes_{network.key}_{count}",
                   self.bench(network,
                              f"--lanes {count} --repeat-clip {times}",
                              out=f"{self.out}/lanes_{network.key}/lanes_{count}"),
                   f"tune_{network.key}",
                   processors=16,
                   expect=35)

    def rounds(self, count, *commands):
        return f"for round in $(seq {count}); do {' && '.join(commands)} || exit 1; done"

    def streams(self, network, count):
        """Objects one after the other and in streams of their own, in turn."""
        place = f"{self.out}/streams_{network.key}/objects_{count}"
        objects = f"--limit-objects {count} --objects-together {count} --save-masks"
        sides = [
            self.bench(network, objects, more, split=f"{self.made}/clips_16",
                       out=f"{place}/{side}/round_$round")
            for side, more in (("one_stream", ""), ("object_streams", "--object-streams"))
        ]
        masks = [f"{place}/{side}/round_1/masks" for side in ("one_stream", "object_streams")]
        told = f"{place}/masks_differ.txt"
        told = f"diff -rq {' '.join(masks)} > {told}; ls {masks[0]} | wc -l >> {told}"
        self.quiet(f"streams_{network.key}_{count}",
                   f"{self.rounds(3, *sides)}; {told}",
                   f"tune_{network.key}",
                   "clips",
                   expect=30)

    def ampere(self, network):
        key = network.key
        bench = self.bench(network).replace(f" --engines {self.engines}", "")  # in_turn.py adds the sides'
        self.quiet(f"ampere_{key}", f"python3 lab/measure/in_turn.py --out {self.out}/ampere_{key} --rounds 3 --side "
                                    f"ampere={self.engines}_ampere --side all={self.engines} --reference-run "
                                    f"{self.out}/reference_{key} -- {bench}",
                   f"tune_{key}",
                   f"build_{key}_ampere",
                   f"reference_{key}",
                   expect=30)

    def trace(self, network):
        out, raw = f"{self.out}/trace/{network.key}", f"{self.made}/trace_{network.key}"
        library = f"{self.made}/libkernel_trace.so"
        bench = self.bench(network, "--limit-videos 2", out=out)
        self.quiet(f"trace_{network.key}",
                   f"rm -rf {raw} && mkdir -p {raw} {out} && CUDA_INJECTION64_PATH={library} "
                   f"NVTX_INJECTION64_PATH={library} KERNEL_TRACE={raw}/k {bench} && "
                   f"trace=$(ls -S {raw}/k.*.csv | grep -v -e calls -e ranges | head -n 1) && "
                   f"python3 lab/kernel_trace/stages.py $trace --rows {out}/profile_summary.csv > {out}/stages.txt && "
                   f"python3 lab/kernel_trace/frames.py $trace --out {out}/frame.csv > {out}/frame.txt",
                   f"tune_{network.key}",
                   "trace_library",
                   processors=4,
                   expect=20)

    def prompt(self, network, prompt):
        name = f"prompt_{network.key}_{prompt}"
        self.quiet(name,
                   self.bench(network, "--repeat-clip 2 --profile-runs 3", prompt=prompt,
                              out=f"{self.out}/{name}"),
                   f"tune_{network.key}",
                   expect=20)

    def judged(self, network):
        """Rounds of segtrt alone, and the check of their masks."""
        key, out = network.key, f"{self.out}/rounds_{network.key}"
        self.quiet(f"rounds_{key}",
                   self.rounds(3, self.bench(network, "--save-masks", out=f"{out}/round_$round")),
                   f"tune_{key}",
                   expect=15)
        runs = " ".join(f"{key}={out}/round_{number}" for number in (1, 2, 3))
        self.quiet(f"judge_{key}",
                   f"{self.segtrt} compare --split-dir {self.clips} --runs {runs} --reference-run "
                   f"{self.out}/reference_{key} --out-dir {out}/judged",
                   f"rounds_{key}",
                   f"reference_{key}",
                   codes=(0, 1),
                   expect=10)


def plan(folder):
    """All jobs of a run in this folder."""
    p = Plan(folder)
    p.make_clips()
    p.train()
    # 1850 frames in fp32: beside many others they took 774 s, and everything waited for them.
    p.reference(LARGE, p.long, 450, beside=4)
    for network in ALL:
        p.export(network)
    # EdgeTAM's take longest, and begin last.
    for network in (EDGETAM_512, EDGETAM):
        p.build(network)
    p.build(EDGETAM, *AMPERE)
    for network in (LARGE, TINY, BASE, SMALL):
        p.build(network)
    p.build(TINY, *AMPERE)
    p.self_test()
    for network in (EDGETAM_512, TINY, EDGETAM):
        p.reference(network, p.clips, 60)
    p.add("trace_library", f"bash lab/measure/build_trace.sh {p.made}/libkernel_trace.so")
    # Its other topics passed at deb87277: docs/results/kernels.md.
    p.sanitize("race_memory_encoder", "racecheck", "memory-encoder", 20000)

    for network in (LARGE, SMALL, BASE, TINY, EDGETAM, EDGETAM_512):
        p.tune(network)
    # Compiles while others prepare, and is measured first.
    p.compare(LARGE, p.long, "vos_optimized", 3, compile=345, expect=250)
    repeats = {TINY: 135, SMALL: 120, BASE: 82, LARGE: 42, EDGETAM: 400}
    for network in GROWN[::-1]:
        p.long_pass(network, repeats[network])
    for network in GROWN[::-1]:
        p.long_pass(network, repeats[network], overlapped=True)
    p.lanes(TINY, 2, 60)
    p.lanes(TINY, 4, 60)
    p.streams(EDGETAM, 2)
    p.streams(EDGETAM, 8)
    p.streams(TINY, 4)
    for network in (EDGETAM, TINY):
        p.ampere(network)
    for network in (TINY, EDGETAM):
        p.trace(network)
    for network in (BASE, LARGE):
        p.prompt(network, "bbox")
        p.prompt(network, "mask")
    p.judged(EDGETAM_512)
    p.long_pass(TINY, repeats[TINY])
    for network in (TINY, EDGETAM):
        p.long_pass(network, repeats[network], overlapped=True)
    p.quiet("source_2160",
            p.bench(EDGETAM, "--repeat-clip 60", split=f"{p.made}/clips_2160", out=f"{p.out}/source_2160"),
            "tune_edgetam",
            "clips",
            processors=16)
    measured = tuple(job.name for job in p.jobs if job.kind == QUIET)
    p.compare(EDGETAM_512, p.clips, "reduce_overhead", 5, compile=110, expect=90, after=measured)
    return p.jobs


def show(jobs):
    """Prints a line for each job."""
    for job in jobs:
        print(job.name, job.kind, f"{job.compile + job.expect:.0f}s", "needs", *(job.needs or ["nothing"]),
              *(["before its rounds", *job.quiet_needs] if job.quiet_needs else []),
              *(["after", *job.after] if job.after else []))
