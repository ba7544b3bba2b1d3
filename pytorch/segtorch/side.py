"""One side of a comparison: models loaded (and compiled) once, then measured over a split as often
as asked."""

import contextlib
import time
import traceback

import PIL
import torch

from segexport import prompts

from . import ObjectError, compiling, environment, frames, kept_compiled, logits, meta_model, records, telemetry, timed_region
from . import tuning, verdict, weights_choice
from .arguments import CUDNN_BENCHMARK, DEFAULT_MODE
from .passes import PassRunner, unpack, with_stages
from .resize import PILLOW
from .split import sha256_of_files
from .stages import StageClock

# By then seven memories and sixteen pointers are full and, with CUDA graphs, everything has been recorded.
WARMUP_FRAMES = 24
# torch.compile's CUDA graphs run a shape once, record it, and replay it from the third time on.
COMPILE_PASSES = 3


class Side:
    """The models of --models by one implementation, mode and precision."""

    def __init__(self, args, tags, split, say):
        self.args, self.tags, self.split, self.say = args, tags, split, say
        self.device = environment.device_of(args)
        self.stages = StageClock(self.device.type == "cuda")
        self.runner = PassRunner(self.device, self.stages)
        self.compile_s = self.preprocess = None
        environment.set_arithmetic(args)
        self.teacher = logits.Teacher(args.teacher) if args.teacher else None
        self.loaded = {}
        for tag in tags:
            if tag.model not in self.loaded:
                self.loaded[tag.model] = self._load(tag)
        self.videos = split.videos(args.limit_videos)
        self.clips = [(video, self._clip(video)) for video in self.videos]
        self.taught_by = self._check_teacher() if self.teacher else {}
        self.idle_processes = 0  # other runners of a comparison that have the GPU open and wait
        self.turn_begun = None  # when the round began, until its first object is warm
        self.sensors = telemetry.start(args.telemetry_ms, say) if self.device.type == "cuda" else None

    def _load(self, tag):
        args = self.args
        choice = weights_choice.choose(
            tag.model, args.imgsz, args.bundle, args.checkpoint, args.random_weights, args.weights_overlay
        )
        self.say(f"{tag.model}: building at {choice.imgsz} px")
        if args.implementation == "transformers":
            from . import transformers_model

            return transformers_model.load(tag, choice, args, self.device, self.stages)
        return meta_model.load(tag, choice, args, self.device, self.stages)

    def _clip(self, video):
        try:
            return self.split.clip(video, self.args.limit_objects)
        except ObjectError as error:
            self.say(f"{video}: {error}")
            return error

    def _inputs(self):
        """Hashes of the clips' files."""
        inputs = {}
        for _, clip in self.clips:
            if not isinstance(clip, ObjectError):
                inputs |= clip.hashes()
        return inputs

    def _check_teacher(self):
        """Refuses a teacher of something else before anything runs; the hashes of its files."""
        self.teacher.check(self.configuration(), self._inputs())
        found = {}
        for video, clip in self.clips:
            for truth in [] if isinstance(clip, ObjectError) else clip.objects:
                for tag in self.tags:
                    key = {"video": video, "object": truth.name, "model": tag.tag}
                    try:
                        self._job(tag, clip, truth)
                    except ObjectError:
                        continue  # it has no row with numbers here either
                    path = self._taught(key, tag, clip, truth).filename
                    found[f"teacher/{path.name}"] = sha256_of_files([path])
        return found

    def _taught(self, key, tag, clip, truth):
        """The teacher's logits of an object."""
        frames_run = self._span_length(clip, truth)
        return self.teacher.object(key, min(truth.masks), frames_run, self.loaded[tag.model].choice.imgsz)

    @contextlib.contextmanager
    def contexts(self):
        """Autocast and inference mode, as Meta's benchmark has them, around everything that is run."""
        kind, dtype = self.device.type, {"fp16": torch.float16, "bf16": torch.bfloat16}.get(self.args.precision)
        with torch.inference_mode():
            if dtype is None:
                yield
            else:
                with torch.autocast(kind, dtype=dtype):
                    yield

    def prepare(self):
        """Tunes; compiles, where asked, on the longest object, with each tag's prompt; records how long that took."""
        for model, loaded in self.loaded.items():
            if loaded.encoder is not None:
                loaded.tuned |= tuning.tune(loaded, self.args.settings, self.device)
                self.say(f"{model}: {loaded.tuned}")
        if self.args.mode == "eager":
            return
        compiling.require_compiler()
        kept = self.args.kept_compiled
        start = time.perf_counter()
        was_there = kept is not None and kept_compiled.read(kept, self.say)
        jobs = [(clip, truth) for _, clip in self.clips if not isinstance(clip, ObjectError) for truth in clip.objects]
        # Longest first; an object that cannot be prompted teaches the compiler nothing.
        jobs.sort(key=lambda job: -self._span_length(*job))
        compiled = set()
        for tag in self.tags:
            for clip, truth in jobs:
                try:
                    job = self._job(tag, clip, truth)
                except ObjectError:
                    continue
                loaded = self.loaded[tag.model]
                if tag.model not in compiled:
                    # Once in eager mode: positions and rotations are cached at the first call.
                    self._warm(loaded, job, 1, 2)
                    loaded.notes += loaded.session.compile(tag.family, self.args.mode, self.args.compile_mode)
                    compiled.add(tag.model)
                self.say(f"{tag.tag}: compiling ({self.args.mode})")
                self._warm(loaded, job, COMPILE_PASSES, WARMUP_FRAMES)
                break
        seconds = time.perf_counter() - start
        self.say(f"compiled in {seconds:.1f} s")
        if kept is not None and not was_there:
            kept_compiled.write(kept, self.say)
        self.compile_s = seconds

    def _span_length(self, clip, truth):
        start = min(truth.masks)
        length = len(clip.frames) - start
        return min(length, self.args.max_clip_frames or length)

    def _job(self, tag, clip, truth):
        """What a pass over an object needs; ObjectError where it cannot be prompted."""
        size = frames.decode(clip.frames[0]).size
        start = min(truth.masks)
        if start >= len(clip.frames):
            raise ObjectError(
                "prompt_out_of_range",
                f"[obj {truth.name}] Prompt index {start} is out of range for {len(clip.frames)} frames",
            )
        mask = truth.mask(start)
        if mask.shape != size[::-1]:
            raise ObjectError("mask_size", f"[obj {truth.name}] {truth.masks[start]} has not the size of "
                                           f"the frames")
        if not mask.any():
            raise ObjectError("empty_prompt_mask", f"[obj {truth.name}] empty mask at {start}, skipping "
                                                   f"object")
        prompt = prompts.prompt_from_mask(mask, tag.prompt)
        paths = clip.frames[start : start + self._span_length(clip, truth)]
        side = self.loaded[tag.model].choice.imgsz
        return {"start": start, "paths": paths, "size": size, "prompt": prompt, "preprocess": self._preprocess(size, side)}

    def _preprocess(self, size, side):
        """What prepares frames of this size; that of the last size is kept, for its kernels are compiled and recorded."""
        if self.preprocess is None or (self.preprocess.size, self.preprocess.side) != (size, side):
            self.preprocess = None  # its memory first
            compiled = self.device.type == "cuda" and compiling.has_compiler()
            self.preprocess = frames.Preprocess(self.args.preprocess, size, side, self.device, self.stages, compiled, self.say)
            for loaded in self.loaded.values():
                loaded.notes += [note for note in self.preprocess.notes if note not in loaded.notes]
        return self.preprocess

    def _feed(self, job, limit=None):
        """The frames of a pass and the times of decoding them ahead, ms (None: inside)."""
        paths, ahead, times = job["paths"][:limit], None, None
        if self.args.decode == "ahead":
            if "ahead" not in job or len(job["ahead"][0]) < len(paths):
                job["ahead"] = frames.decode_ahead(paths, job["size"], job["preprocess"])
            ahead, times = (values[: len(paths)] for values in job["ahead"])
        return frames.Feed(paths, job["size"], job["preprocess"], self.stages, ahead), times

    def _warm(self, loaded, job, passes, limit):
        for _ in range(passes):
            self._pass(loaded, job, limit=limit)

    def _pass(self, loaded, job, keep=False, marks=False, limit=None):
        """Runs a pass over an object, or over its first frames; with `marks` the stages are told apart."""
        if loaded.tuned:
            torch.backends.cudnn.benchmark = CUDNN_BENCHMARK in loaded.tuned["kept"]
        feed, times = self._feed(job, limit)
        return self.runner.run(loaded.session, feed, job["start"], times, job["prompt"], keep, marks)

    def _settle(self, loaded, job):
        """Goes on warming up at the beginning of a turn, until what the other side left behind is over.

        A side that is started anew for each turn loads its engines first and so comes later; this
        one waits with everything ready, and its first pass may run while the driver still clears
        away the other's process.
        """
        if self.turn_begun is None or not self.args.warmup_runs:
            return
        while time.perf_counter() - self.turn_begun < self.args.turn_warmup_seconds:
            self._warm(loaded, job, 1, WARMUP_FRAMES)
        self.turn_begun = None

    def measure(self, folder):
        """Every object of every clip by every tag, into `folder`; what fails costs its row."""
        self.turn_begun = time.perf_counter() if self.args.interactive else None
        for v, (video, clip) in enumerate(self.clips):
            names = [None] if isinstance(clip, ObjectError) else range(len(clip.objects))
            for o, index in enumerate(names):
                for m, tag in enumerate(self.tags):
                    name = "" if index is None else clip.objects[index].name
                    key = {"video": video, "object": name, "model": tag.tag}
                    try:
                        if index is None:
                            raise clip
                        self._object(folder, (v, o, m), key, tag, clip, clip.objects[index])
                    except ObjectError as error:
                        row = records.unmeasured(key, self._conditions(tag), error.status, error.code, error)
                        folder.push((v, o, m), row, 0, [row], [])
                    # Out of memory, a graph that does not compile, …: this object's alone.
                    except Exception as error:
                        traceback.print_exc()
                        # PyTorch's errors run over many lines; the first says what it is.
                        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
                        self.say(f"{video} {name} {tag.tag}: {why}")
                        row = records.unmeasured(key, self._conditions(tag), "failed", "inference", why)
                        folder.push((v, o, m), row, 0, [row], [])

    def _object(self, folder, order, key, tag, clip, truth):
        args, loaded = self.args, self.loaded[tag.model]
        environment.reset_peak_rss()
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        job = self._job(tag, clip, truth)
        self._warm(loaded, job, args.warmup_runs, WARMUP_FRAMES)
        self._settle(loaded, job)
        passes, tables_of_frames = [], []
        from .run_folder import frame_table

        # CUDA events take the host's time: the stages of a GPU come from a pass of their own,
        # unless no speed is measured anyhow.
        on_gpu = self.device.type == "cuda"
        apart = on_gpu and not self._exchange()
        for run in range(args.profile_runs):
            self._feed(job)  # decodes ahead, if at all
            graphs = compiling.graphs_compiled()
            if self.sensors:
                self.sensors.mark()
            session = loaded.session
            if args.save_logits or self.teacher:
                session.save_logits = args.save_logits
                session.teacher = self._taught(key, tag, clip, truth) if self.teacher else None
            done = self._pass(loaded, job, args.save_masks, marks=not apart)
            if args.save_logits or self.teacher:
                # Only the recorded passes exchange logits.
                session.save_logits, session.teacher = False, None
            observed = telemetry.beside_idle(self.sensors.since(), self.idle_processes) if self.sensors else None
            made = None if graphs is None else compiling.graphs_compiled() - graphs
            if apart:
                done = with_stages(done, self._pass(loaded, job, marks=True))
            numbers = records.measured(done.frames, self._memory(observed), loaded.setup_ms, observed, args.decode == "inside")
            latencies = [frame["latency_ms"] for frame in done.frames]
            residues = records.residues(done.frames, args.decode == "inside")
            width, height = job["size"]
            row = records.record(
                key,
                self._conditions(tag),
                run=run,
                frames=len(latencies),
                processed_end_frame=job["start"] + len(latencies),
                input_size=[height, width],
                infer_size=[loaded.choice.imgsz] * 2,
                measured=numbers,
                verdict=verdict.judge(latencies, residues, on_gpu, observed, made, self._exchange()),
            )
            passes.append((row, done.frames))
            tables_of_frames.append(frame_table(done.frames, done.extra))
            if args.save_logits and run == 0:
                logits.save(folder.path, key, session.logits)
            if args.save_masks and run == 0:
                numbers_of = [frame["frame"] for frame in done.frames]
                folder.write_masks(key, numbers_of, [unpack(bits, width) for bits in done.masks], done.extra)
        summary, count = records.summarise(passes, args.decode == "inside")
        folder.push(order, summary, count, [row for row, _ in passes], tables_of_frames)
        self.say(f"{key['video']} {key['object']} {key['model']}: "
                 f"{summary['measured']['speed']['fps']:.2f} fps")

    def _exchange(self):
        """What makes its passes no measurement of speed; None where nothing does."""
        if self.teacher:
            return logits.FORCED
        return logits.SAVED if self.args.save_logits else None

    def _memory(self, observed):
        mib = float(1 << 20)
        on_gpu = self.device.type == "cuda"
        by_driver = observed["process_memory_mib"] if observed else None
        return {
            "gpu_peak_alloc_mib": torch.cuda.max_memory_allocated() / mib if on_gpu else None,
            "gpu_peak_reserved_mib": by_driver or (torch.cuda.max_memory_reserved() / mib if on_gpu else None),
            "cpu_peak_rss_mib": environment.peak_rss_mib(),
        }

    def _conditions(self, tag):
        args, loaded = self.args, self.loaded[tag.model]
        side = loaded.choice.imgsz
        pillow = PIL.__version__.split(".")[0] if args.preprocess == "cpu" else PILLOW
        return {
            "imgsz": side,
            "precision": args.precision,
            "backend": f"pytorch {torch.__version__} {args.implementation} {args.mode}{_how(args)}",
            "device": environment.device_name(self.device),
            "geometry": "stretch",
            "prompt_policy": "predecessor",
            "metrics": "",
            "mode": "latency",
            "fidelity": f"mem{loaded.memories}/ptr{loaded.pointers}/{side}/pil{pillow}-bicubic/noskip/nofill",
        }

    def configuration(self):
        """The settings: segtrt's members first."""
        args = self.args
        models = [
            {
                "tag": tag.tag,
                "imgsz": self.loaded[tag.model].choice.imgsz,
                "precision": args.precision,
                "weights": self.loaded[tag.model].weights,
                "graphs": [],
            }
            for tag in self.tags
        ]
        return {
            "models": models,
            "split": args.split_name,
            "videos": self.videos,
            "limit_objects": args.limit_objects,
            "max_clip_frames": args.max_clip_frames,
            "prompt_policy": "predecessor",
            "geometry": "stretch",
            "metrics": "none",
            "warmup_runs": args.warmup_runs,
            "turn_warmup_seconds": args.turn_warmup_seconds if args.interactive else None,
            "profile_runs": args.profile_runs,
            "threads": torch.get_num_threads(),
            "provider": "pytorch",
            "gpu": None,
            "device": args.device,
            "implementation": args.implementation,
            "run_mode": args.mode,
            "compile_mode": "max-autotune" if args.mode == "vos_optimized" else args.compile_mode,
            "tf32": args.tf32,
            "tuning": args.tuning,
            "tuned": {model: loaded.tuned for model, loaded in self.loaded.items()},
            "autocast": args.precision != "fp32",
            "preprocess": args.preprocess,
            "decode": args.decode,
            "keep_memories": args.keep_memories,
            "compile_s": self.compile_s,
            "graphs_compiled": compiling.graphs_compiled(),
        } | self._exchange_settings()

    def _exchange_settings(self):
        """Absent in plain runs."""
        if self.teacher:
            return {"teacher": self.teacher.told()}
        return {"save_logits": True} if self.args.save_logits else {}

    def facts(self):
        """The sidecar's members beside settings and passes."""
        facts = environment.facts(self.device)
        facts["reference"] = {model: loaded.reference for model, loaded in self.loaded.items()}
        if self.sensors:
            facts["gpu"] = self.sensors.facts()
        return {
            "environment": facts,
            "timed_region": timed_region.in_words(self.args, self.device.type == "cuda"),
            "inputs": self._inputs() | self.taught_by,
            "graphs": {name: hash_ for loaded in self.loaded.values() for name, hash_ in loaded.files.items()},
            "notes": {model: loaded.notes for model, loaded in self.loaded.items()},
            "gpu_reserved_source": "the driver's count for the process where a pass's "
                                   "observed.process_memory_mib has it, "
            "else what PyTorch's allocator reserved",
        }


def _how(args):
    """A way to compile other than the usual one, which nobody should have to look for."""
    unusual = args.mode == "compile" and args.compile_mode != DEFAULT_MODE
    return f" {args.compile_mode}" if unusual else ""
