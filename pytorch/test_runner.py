"""Tests of the PyTorch runner on the small model: `python pytorch/test_runner.py` (a few minutes on a CPU).

Without torch or EdgeTAM's code (EDGETAM_SRC or onnx/.edgetam) what needs them is skipped, loudly. Where a built
`segtrt` is found (SEGTRT_BIN, target/release, target/debug), its own run is compared with ours, too.
"""

import csv
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "onnx")]
TAG = "edgetam_mini_points"
FRAMES = 20


def skip(why):
    print(f"SKIPPED: {why}", file=sys.stderr)
    raise unittest.SkipTest(why)


try:
    import numpy as np
    import torch
    from PIL import Image

    import compare_masks
    from segexport import ExportError, models, prompts, reference_run, weights
    from segtorch import ObjectError, RunError, frames, records, rle, tables, tags, telemetry, verdict
    from segtorch import weights_choice
    from segtorch.meta_session import MetaSession
    from segtorch.passes import PassRunner, unpack
    from segtorch.split import Split
    from segtorch.stages import StageClock

    torch.set_num_threads(1)  # the small model gains nothing from more
except ImportError as missing:
    MISSING = f"{missing}: pip install -r pytorch/requirements.txt"
else:
    MISSING = None


def setUpModule():
    if MISSING:
        skip(MISSING)


@functools.cache
def original():
    try:
        model, _ = models.build("edgetam_mini", 256)
    except ExportError as error:
        skip(str(error))
    weights.load_random(model, 0, family="edgetam", side=256)
    return model


def make_split(folder, videos=("a",), count=FRAMES):
    """SA-V split: a bright disc that moves over a gradient, and a small square before it in raster order."""
    y, x = np.mgrid[0:120, 0:160]
    for video in videos:
        jpegs, masks = folder / "JPEGImages_24fps" / video, folder / "Annotations_6fps" / video / "000"
        jpegs.mkdir(parents=True)
        masks.mkdir(parents=True)
        for t in range(count):
            disc = (x - 60 - 2 * t) ** 2 + (y - 60) ** 2 < 30**2
            image = np.stack([x, y, (x ^ y) % 128], axis=-1)
            image[disc] = (230, 60, 40 + t)
            Image.fromarray(image.astype(np.uint8)).save(jpegs / f"{t:05}.jpg", quality=95)
            if t % 4 == 0:
                mask = disc.copy()
                mask[2:6, 100:106] = True
                Image.fromarray((mask * 255).astype(np.uint8)).save(masks / f"{t:05}.png")
    return folder


def run(*args, stdin="", env=None):
    """run.py as a child: (events, exit code, stderr)."""
    command = [sys.executable, str(HERE / "run.py"), *map(str, args)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | (env or {})
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, timeout=900)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr


def masks_in(folder, video="a", tag=TAG):
    return compare_masks.masks_of(folder / "masks" / f"{video}__obj000__{tag}.json")


def one_pass(model, split, kind="points", drop=True, preprocess="cpu", count=FRAMES):
    """A pass in this process -> Pass, masks."""
    clip = split.clip("a")
    stages, device = StageClock(False), torch.device("cpu")
    prepare = frames.Preprocess(preprocess, 256, device, stages, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    paths, size = clip.frames[:count], (160, 120)
    ahead, times = frames.decode_ahead(paths, size, prepare)
    feed = frames.Feed(paths, size, prepare, stages, ahead)
    prompt = prompts.prompt_from_mask(clip.objects[0].mask(0), kind)
    session = MetaSession(model, stages, drop=drop)
    with torch.inference_mode():
        done = PassRunner(device, stages).run(session, feed, 0, times, prompt, keep=True)
    for name in ("forward_image", "_encode_new_memory", "_forward_sam_heads"):
        delattr(model, name)
    return done, [unpack(bits, 160) for bits in done.masks], prompt


class OnOneSplit(unittest.TestCase):
    """Shares a synthetic split."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        cls.split = make_split(cls.root / "split")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


class Masks(OnOneSplit):
    def test_masks_are_those_of_the_original_predictor_run_as_a_whole(self):
        model = original()
        for kind in ("points", "bbox", "mask"):
            done, masks, prompt = one_pass(model, Split(self.split, "sav_val"), kind)
            whole = reference_run.run_clip(model, self.split / "JPEGImages_24fps" / "a", prompt, FRAMES)
            del model._forward_sam_heads  # the reference's recorder
            self.assertEqual(len(masks), len(whole.frames))
            for i, (mine, theirs) in enumerate(zip(masks, whole.frames)):
                self.assertEqual(compare_masks.iou(mine, theirs.mask), 1.0, f"{kind}, frame {i}")
                self.assertAlmostEqual(done.extra["objectness"][i], theirs.score, places=5)
            share = np.mean([mask.mean() for mask in masks])
            self.assertTrue(0.01 < share < 0.95, f"{kind}: masks of {share:.3f} of the image prove nothing")
            self.assertTrue(all(iou is None or len(iou) == 3 for iou in done.extra["iou_predictions"][1:]))
            self.assertTrue(all(1 <= c <= 3 for c in done.extra["chosen_mask"][1:]))

    def test_dropping_old_memories_changes_no_bit(self):
        model = original()
        split = Split(self.split, "sav_val")
        (dropped, some, _), (kept, all_, _) = (one_pass(model, split, drop=drop) for drop in (True, False))
        self.assertEqual(dropped.extra, kept.extra)
        for mine, theirs in zip(some, all_):
            np.testing.assert_array_equal(mine, theirs)

    def test_stages_add_up_to_the_frames_and_the_first_has_the_prompt(self):
        done, _, _ = one_pass(original(), Split(self.split, "sav_val"), count=6)
        inside = {"preprocess_ms", "encoder_ms", "memory_ms", "postprocess_ms", "decode_ms"}
        self.assertEqual(set(done.frames[0]["stages"]), inside | {"prompt_ms"})
        for frame in done.frames[1:]:
            self.assertEqual(set(frame["stages"]), inside | {"track_ms"})
        residues = records.residues(done.frames, decode_inside=False)
        self.assertGreater(min(residues), -0.01)
        # The median: on a busy machine a frame may lose its processor between two stages.
        self.assertLess(np.median(residues), 1.0)


class Input(OnOneSplit):
    def prepared(self, kind, path):
        stages = StageClock(False)
        prepare = frames.Preprocess(
            kind, 256, torch.device("cpu"), stages, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
        )
        return prepare(prepare.host(frames.decode(path)))

    def test_pillow_s_input_is_meta_s_bit_for_bit_and_torch_s_is_near(self):
        original()  # puts EdgeTAM's sam2 on the path
        from sam2.utils.misc import load_video_frames

        folder = self.split / "JPEGImages_24fps" / "a"
        theirs, height, width = load_video_frames(str(folder), 256, True, compute_device=torch.device("cpu"))
        self.assertEqual((height, width), (120, 160))
        for i in (0, 7):
            path = folder / f"{i:05}.jpg"
            self.assertTrue(torch.equal(self.prepared("cpu", path), theirs[i]))
            grey = (self.prepared("gpu", path) - theirs[i]).abs() * 0.225 * 255
            self.assertLess(float(grey.max()), 1.1)
            self.assertLess(float((grey > 0.5).float().mean()), 1e-3)


class Transformers(unittest.TestCase):
    def test_every_weight_finds_its_place(self):
        original()
        try:
            import transformers  # noqa: F401
        except ImportError as error:
            skip(f"{error}: pip install transformers")
        from segexport.hf_names import to_meta_names
        from segtorch import transformers_model

        meta, _ = models.build("edgetam", 1024)
        weights.load_random(meta, 3, family="edgetam", side=1024)
        theirs, _ = transformers_model.build("edgetam")
        with torch.no_grad():
            transformers_model.copy_weights(theirs, meta)
        back, known = to_meta_names(theirs.state_dict()), meta.state_dict()
        self.assertGreater(len(back), 400)
        for key, tensor in back.items():
            if not key.endswith("num_batches_tracked"):
                self.assertTrue(torch.equal(tensor, known[key]), key)


class Ranges(unittest.TestCase):
    def test_a_tool_hears_segtrt_s_domain_and_names(self):
        try:
            import nvtx  # noqa: F401
        except ImportError as error:
            skip(f"{error}: pip install nvtx")
        compiler = shutil.which(os.environ.get("CC") or "cc") or skip("no C compiler for the listening tool")
        with tempfile.TemporaryDirectory() as folder:
            tool, log = Path(folder) / "tool.so", Path(folder) / "log"
            source = ROOT / "tests/data/nvtx/recorder.c"
            subprocess.run([compiler, "-shared", "-fPIC", "-o", tool, source, "-ldl"], check=True)
            code = "from segtorch.stages import StageClock as C; c = C(False); c.frame(); c.begin('upload'); "
            code += "c.begin('track'); c.end(); c.done()"
            env = os.environ | {"NVTX_INJECTION64_PATH": str(tool), "RECORDER_LOG": str(log)}
            subprocess.run([sys.executable, "-c", code], cwd=HERE, env=env, check=True)
            heard = [line.split() for line in log.read_text().splitlines()]
        self.assertIn(["domain", "segtrt"], heard)
        order = [line[2] if line[0] == "push" else "." for line in heard if line[0] in ("push", "pop")]
        self.assertEqual(order, ["pipeline", "upload", ".", "track", ".", "."])


class Files(OnOneSplit):
    def test_run_lengths_are_read_by_compare_masks(self):
        rng = np.random.default_rng(0)
        shapes = [np.zeros((5, 4), bool), np.ones((5, 4), bool), rng.random((37, 53)) > 0.5]
        shapes += [np.kron(rng.random((4, 6)) > 0.5, np.ones((90, 70), bool)).astype(bool)]
        for mask in shapes:
            np.testing.assert_array_equal(compare_masks.decode_mask(rle.encode(mask)), mask)

    def test_headers_are_those_of_segtrt_s_source(self):
        shared = rust_columns((ROOT / "src/files/columns.rs").read_text(), {})
        for file, ours in (("summary_csv.rs", tables.SUMMARY), ("profile_csv.rs", tables.PROFILE)):
            source = (ROOT / "src/files" / file).read_text()
            own = rust_columns(source, shared)
            order = re.search(r"let columns[^=]*= \[(.*?)\];", source, re.S)[1]
            names = [n for part in re.findall(r"&(?:columns::)?([A-Z_]+)", order) for n in own[part]]
            self.assertEqual([name for name, _ in ours], names, file)

    def test_thresholds_are_segtrt_s(self):
        source = (ROOT / "src/verdict/thresholds.rs").read_text()
        theirs = dict(re.findall(r"^    (\w+): ([\d.]+),$", source, re.M))
        self.assertEqual({k: float(v) for k, v in theirs.items()}, {k: float(v) for k, v in verdict.THRESHOLDS.items()})


def rust_columns(source, shared):
    """Names of each `const` of columns in a Rust file; `shared` are those of columns.rs."""
    found = dict(shared)
    for name, body in re.findall(r"const (\w+): (?:\[Column; \d+\]|Column) =(.*?);\n(?=\n|/|pub|const|$)", source, re.S):
        entries = re.findall(r'\(\s*"(\w+)",|columns::([A-Z_]+)', body)
        found[name] = [n for text, other in entries for n in ([text] if text else found[other])]
    return found


class Parts(unittest.TestCase):
    def test_tags_parse_as_in_segtrt(self):
        one = lambda text: tags.parse(text, "bbox")[0]
        self.assertEqual((one("sam2_base_points").model, one("sam2_base_points").prompt), ("sam2.1_base_plus", "points"))
        self.assertEqual(one("edgetam_mini").tag, "edgetam_mini_bbox")
        self.assertEqual(one("sam2.1_tiny_mask").tag, "sam2_tiny_mask")
        for bad in ("sam2_huge_points", "edgetam_clicks", "", "edgetam_points,sam2_tiny_points"):
            with self.assertRaises(RunError) as caught:
                tags.parse(bad)
            self.assertTrue(caught.exception.usage)

    def test_the_click_is_the_first_component_s_truncated_centroid(self):
        mask = np.array([[c == "#" for c in row] for row in ("..#", "##.", ".##")])
        self.assertEqual(prompts.predecessor_point(mask), [2, 0])
        self.assertEqual(prompts.box(mask), [0, 0, 2, 2])

    def test_percentiles_are_numpy_s(self):
        values = np.random.default_rng(1).random(101).tolist()
        for p in (50, 90, 95, 99, 99.9):
            self.assertAlmostEqual(records.percentile(values, p), np.percentile(values, p), places=12)

    def test_a_verdict_names_what_is_wrong(self):
        codes = lambda v: (v["judgement"], [f["code"] for f in v["findings"]])
        steady = [99.0] * 18 + [10.05, 9.95] * 60
        self.assertEqual(codes(verdict.judge(steady, [], False, None, 0)), ("valid", []))
        self.assertEqual(codes(verdict.judge(steady, [], True, None, 0)), ("valid", ["unwatched"]))
        self.assertEqual(codes(verdict.judge(steady, [], False, None, 2)), ("invalid", ["compiled_inside"]))
        self.assertEqual(codes(verdict.judge(steady[:37], [], False, None, 0)), ("unjudged", ["few_frames"]))
        slower = steady[:78] + [11.0] * 60
        self.assertIn("drift", codes(verdict.judge(slower, [], False, None, 0))[1])

    def test_sensors_fold_into_one_record(self):
        reading = lambda w, clock, limits: {"power_w": w, "sm_clock_mhz": clock, "limits": limits}
        window = telemetry.Window(0.0, reading(100.0, 300.0, 0))
        window.push(1.0, reading(300.0, 1980.0, 0x4))
        window.push(2.0, reading(300.0, 1900.0, 0x1))
        seen = window.observed()
        self.assertEqual(tuple(seen), telemetry.MEMBERS)
        self.assertEqual((seen["energy_j"], seen["power_mean_w"], seen["readings"]), (500.0, 250.0, 2))
        self.assertEqual((seen["sm_clock_min_mhz"], seen["limits"]), (1900.0, ["power_cap"]))
        process = lambda pid, used: type("P", (), {"pid": pid, "usedGpuMemory": used})
        mib = 1 << 20
        company = telemetry.company([process(7, mib), process(8, 9 * mib)], 7)
        self.assertEqual(company, {"other_processes": 1, "process_memory_mib": 1.0})
        self.assertEqual(telemetry.company([process(8, mib)], 7)["other_processes"], 0)
        self.assertEqual(telemetry.company([], 7), {"other_processes": None, "process_memory_mib": None})

    def test_weights_must_be_the_bundle_s(self):
        bundles = [ROOT / "onnx" / "bundles"]
        choice = weights_choice.choose("edgetam_mini", None, bundles, None, None, None)
        self.assertEqual((choice.seed, choice.imgsz), (0, 256))
        weights_choice.verify(choice, {"source": "random", "seed": 0})
        with self.assertRaisesRegex(RunError, "seed is 1, the bundle says 0"):
            weights_choice.verify(choice, {"source": "random", "seed": 1})
        for options in ((None, 3, None), (Path("x.pt"), None, None), (None, None, Path("x.safetensors"))):
            with self.assertRaises(RunError):
                weights_choice.choose("edgetam_mini", None, bundles, *options)
        with self.assertRaisesRegex(RunError, "no bundle of edgetam_mini at 512"):
            weights_choice.choose("edgetam_mini", 512, bundles, None, None, None)
        with self.assertRaisesRegex(RunError, "no weights were chosen"):
            weights_choice.choose("edgetam", None, [], None, None, None)


class Command(OnOneSplit):
    """run.py as others call it."""

    def arguments(self, out, split=None, **changes):
        flags = {"split-dir": split or self.split, "models": TAG, "bundle": ROOT / "onnx/bundles", "device": "cpu"}
        flags |= {"out-dir": self.root / out} | {k.replace("_", "-"): v for k, v in changes.items()}
        return [f"--{k}={v}" if v is not True else f"--{k}" for k, v in flags.items()]

    def test_rounds_wait_for_go_and_leave_run_folders(self):
        original()
        args = self.arguments("rounds", rounds=3, interactive=True, save_masks=True, max_clip_frames=6)
        events, code, log = self.converse(args, ["go", "what\ngo", "quit"])
        self.assertEqual(code, 0, log)
        names = [(e["event"], e["round"]) for e in events]
        self.assertEqual(names, [("ready", 0), ("done", 0), ("ready", 1), ("done", 1), ("ready", 2)])
        self.assertIn("'what' is not understood", log)
        folder = Path(events[1]["folder"])
        self.assertEqual(folder, self.root / "rounds" / "round_0")
        self.assertGreater(events[1]["fps"], 0)
        ours, theirs = (masks_in(self.root / "rounds" / f"round_{k}") for k in (0, 1))
        for frame in range(6):
            np.testing.assert_array_equal(ours[frame], theirs[frame])
        self.check_folder(folder)

    def converse(self, args, answers):
        """Answers each `ready` as a caller would, only when it has been read."""
        with open(self.root / "stderr", "w+") as log:
            child = subprocess.Popen(
                [sys.executable, str(HERE / "run.py"), *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            events = []
            for line in child.stdout:
                events.append(json.loads(line))
                if events[-1]["event"] == "ready":
                    self.assertFalse((self.root / "rounds" / f"round_{events[-1]['round']}").exists())
                    child.stdin.write(answers.pop(0) + "\n")
                    child.stdin.flush()
            code = child.wait(timeout=60)
            child.stdin.close()
            child.stdout.close()
            log.seek(0)
            return events, code, log.read()

    def check_folder(self, folder):
        with open(folder / "sav_benchmark_summary.csv", newline="") as file:
            (row,) = csv.DictReader(file)
        self.assertEqual((row["status"], row["frames"], row["model"], row["J"]), ("ok", "6", TAG, ""))
        self.assertEqual((row["infer_H"], row["input_W"], row["geometry"]), ("256", "160", "stretch"))
        sidecar = json.loads((folder / "sidecar.json").read_text())
        (passed,) = sidecar["passes"]
        times = passed["frame_times"]
        self.assertAlmostEqual(float(row["fps"]), 6e3 / sum(times["latency_ms"]), delta=0.01)
        for name in ("objectness", "chosen_mask", "iou_predictions", "encoder_ms", "decode_ms"):
            self.assertEqual(len(times[name]), 6, name)
        self.assertEqual(sidecar["configuration"]["models"][0]["weights"], "random weights, seed 0")
        lines = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
        self.assertEqual(lines[0]["configuration_sha256"], sidecar["configuration_sha256"])
        self.assertEqual(lines[1]["frame_times"], [times])
        stats = json.loads((folder / "profile_stats.json").read_text())
        self.assertEqual(stats[TAG]["fps"]["median"], float(row["fps"]))

    def test_a_broken_object_costs_its_row_alone(self):
        original()
        split = make_split(self.root / "broken", ("a", "b", "c"), 6)
        Image.fromarray(np.zeros((120, 160), np.uint8)).save(split / "Annotations_6fps/a/000/00000.png")
        (split / "JPEGImages_24fps/b/00003.jpg").write_bytes(b"no JPEG")
        (split / "sav_val.txt").write_text("a\nb\ngone\nc\n")
        events, code, log = run(*self.arguments("broken_out", split, warmup_runs=0, decode="inside"))
        self.assertEqual((code, events[-1]["failed"]), (1, 2), log)
        with open(self.root / "broken_out" / "profile_summary.csv", newline="") as file:
            rows = [(r["video"], r["status"], r["reason"].split(":")[0], r["fps"] != "") for r in csv.DictReader(file)]
        self.assertEqual(
            rows,
            [
                ("a", "skipped", "empty_prompt_mask", False),
                ("b", "failed", "unreadable_frame", False),
                ("gone", "failed", "missing_video", False),
                ("c", "ok", "", True),
            ],
        )

    def test_wrong_command_lines_are_told_in_one_sentence(self):
        for changes, says, code in (
            ({"models": "edgetam_mini_clicks"}, "unknown model tag", 2),
            ({"split_dir": "/nowhere"}, "does not exist", 2),
            ({"split_dir": HERE}, "neither a SA-V split", 2),
            ({"rounds": "0"}, "not a whole number", 2),
            ({"compile_mode": "default"}, "belongs to --mode compile", 2),
            ({"bundle": HERE}, "no bundle of edgetam_mini", 2),
            ({"mode": "compile"}, "needs a C++ compiler", 1),
            *([] if torch.cuda.is_available() else [({"device": "cuda"}, "no CUDA device", 1)]),
        ):
            with self.subTest(says):
                if "mode" in changes:
                    original()
                env = {"PATH": "/nowhere", "CXX": "", "CC": ""} if "mode" in changes else None
                events, found, log = run(*self.arguments("wrong", **changes), env=env)
                self.assertEqual((events[-1]["event"], found), ("error", code), log)
                self.assertIn(says, events[-1]["what"])
                self.assertTrue(events[-1]["advice"])
                self.assertNotIn("Traceback", log)

    def test_segtrt_s_own_run_agrees(self):
        original()
        segtrt = next((p for p in self.binaries() if p and Path(p).is_file()), None)
        if segtrt is None:
            skip("no segtrt was built (SEGTRT_BIN, target/release, target/debug)")
        theirs, ours = self.root / "theirs", self.root / "ours"
        bench = [segtrt, "bench", "--split-dir", self.split, "--models", TAG, "--out-dir", theirs, "--save-masks"]
        done = subprocess.run([*bench, "--onnx-dir", ROOT / "onnx/bundles"], capture_output=True, text=True, timeout=600)
        if done.returncode:
            skip(f"segtrt bench did not run: {done.stderr.strip().splitlines()[-1:]}")
        events, code, log = run(*self.arguments("ours", save_masks=True, warmup_runs=0))
        self.assertEqual(code, 0, log)
        for name in ("sav_benchmark_summary.csv", "profile_summary.csv"):
            heads = [(folder / name).read_bytes().split(b"\r\n")[0] for folder in (ours, theirs)]
            self.assertEqual(*heads)
        sidecars = [json.loads((folder / "sidecar.json").read_text()) for folder in (ours, theirs)]
        self.assertEqual(*(sidecar["inputs"] for sidecar in sidecars))
        self.assertLessEqual(sidecars[1].keys(), sidecars[0].keys())
        rows = [json.loads((folder / "rows.jsonl").read_text().splitlines()[1]) for folder in (ours, theirs)]
        self.assertEqual(*(row["summary"]["pooled"].keys() for row in rows))
        self.assertEqual(*(row["runs"][0]["measured"].keys() for row in rows))
        # The same click on the two-part mask gives the same masks: the CPU backend keeps memories as fp32.
        mine, other = masks_in(ours), masks_in(theirs)
        self.assertEqual(mine.keys(), other.keys())
        self.assertGreaterEqual(min(compare_masks.iou(mine[i], other[i]) for i in mine), 0.995)
        self.assertGreaterEqual(compare_masks.iou(mine[0], other[0]), 0.9995)

    @staticmethod
    def binaries():
        yield os.environ.get("SEGTRT_BIN")
        yield from (ROOT / "target" / kind / "segtrt" for kind in ("release", "debug"))
        yield shutil.which("segtrt")


if __name__ == "__main__":
    unittest.main()
