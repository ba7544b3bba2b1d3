"""Tests of the PyTorch runner's parts on the small model: `python -m unittest discover pytorch` (minutes on a CPU).

Without torch or EdgeTAM's code (EDGETAM_SRC or onnx/.edgetam) what needs them is skipped, loudly.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import FRAMES, HERE, ROOT, OnOneSplit, original, skip  # first: it finds the packages

import numpy as np
import torch

import compare_masks
from segexport import models, prompts, reference_run, weights
from segtorch import RunError, arguments, compiling, frames, records, rle, tables, tags, telemetry, weights_choice
from segtorch.meta_session import MetaSession
from segtorch.passes import PassRunner, unpack
from segtorch.side import Side
from segtorch.split import Split
from segtorch.stages import StageClock


def one_pass(model, split, kind="points", drop=True, preprocess="cpu", count=FRAMES, marks=True):
    """A pass in this process -> Pass, masks."""
    clip = split.clip("a")
    stages, device = StageClock(False), torch.device("cpu")
    paths, size = clip.frames[:count], (160, 120)
    prepare = frames.Preprocess(preprocess, size, 256, device, stages)
    ahead, times = frames.decode_ahead(paths, size, prepare)
    feed = frames.Feed(paths, size, prepare, stages, ahead)
    prompt = prompts.prompt_from_mask(clip.objects[0].mask(0), kind)
    session = MetaSession(model, stages, drop=drop)
    with torch.inference_mode():
        done = PassRunner(device, stages).run(session, feed, 0, times, prompt, keep=True, marks=marks)
    for name in ("forward_image", "_encode_new_memory", "_forward_sam_heads"):
        delattr(model, name)
    return done, [unpack(bits, 160) for bits in done.masks], prompt


def exchanging(model, split, kind, teacher=None, hear=None):
    """A pass that hands out its logits or takes a teacher's -> Pass, masks, logits [frames,L,L]."""
    clip = split.clip("a")
    stages, device = StageClock(False), torch.device("cpu")
    prepare = frames.Preprocess("cpu", (160, 120), 256, device, stages)
    ahead, times = frames.decode_ahead(clip.frames[:FRAMES], (160, 120), prepare)
    feed = frames.Feed(clip.frames[:FRAMES], (160, 120), prepare, stages, ahead)
    prompt = prompts.prompt_from_mask(clip.objects[0].mask(0), kind)
    session = MetaSession(model, stages)
    session.save_logits, session.teacher = True, teacher
    encoder = type(model)._encode_new_memory
    if hear is not None:
        type(model)._encode_new_memory = lambda self, **kwargs: (hear(**kwargs), encoder(self, **kwargs))[1]
    try:
        with torch.inference_mode():
            done = PassRunner(device, stages).run(session, feed, 0, times, prompt, keep=True)
    finally:
        type(model)._encode_new_memory = encoder
        for name in ("forward_image", "_encode_new_memory", "_forward_sam_heads"):
            delattr(model, name)
    return done, [unpack(bits, 160) for bits in done.masks], np.stack(session.logits)


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

    def test_a_teacher_is_upsampled_as_meta_does_and_reaches_later_frames_only(self):
        model, split = original(), Split(self.split, "sav_val")
        for kind in ("points", "mask"):
            given = []
            hear = lambda **kwargs: given.append(kwargs["pred_masks_high_res"].clone())
            _, masks, low = exchanging(model, split, kind, hear=hear)
            self.assertEqual(low.shape, (FRAMES, 64, 64))
            own = list(given)
            # What is saved is what the memory encoder was given, before Meta's upsampling.
            for t, (frame, high) in enumerate(zip(low, own, strict=True)):
                up = torch.nn.functional.interpolate(
                    torch.from_numpy(frame.astype(np.float32))[None, None], (256, 256), mode="bilinear", align_corners=False
                )
                rounding = float(high.abs().max()) / 2**11  # of float16, in which the logits are saved
                self.assertLess(float((up - high).abs().max()), rounding + 1e-4, f"{kind}, frame {t}")
            # Its own logits change nothing: half precision is enough.
            _, again, _ = exchanging(model, split, kind, teacher=low)
            self.assertLessEqual(max(int((a != b).sum()) for a, b in zip(masks, again)), 1, kind)
            # A frame that never was is read by the six frames after it, and by no other.
            turned = low.copy()
            turned[5] = -turned[5]
            given.clear()
            _, taught, _ = exchanging(model, split, kind, teacher=turned, hear=hear)
            self.assertGreater(float((given[5] - own[5]).abs().max()), 1.0)
            wrong = [int((a != b).sum()) for a, b in zip(masks, taught)]
            self.assertGreater(sum(wrong[6:12]), 5, f"{kind}: {wrong}")
            self.assertLessEqual(sum(wrong[:6]), 1, f"{kind}: {wrong}")
            # Later frames read the object pointers of those six, which no teacher gives: a hundredth of the effect.
            self.assertLess(sum(wrong[12:]), max(1, 0.02 * sum(wrong[6:12])), f"{kind}: {wrong}")

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
        prepare = frames.Preprocess(kind, (160, 120), 256, torch.device("cpu"), StageClock(False))
        return prepare(prepare.host(frames.decode(path)))

    def test_both_ways_to_prepare_make_meta_s_input_bit_for_bit(self):
        original()  # puts EdgeTAM's sam2 on the path
        from sam2.utils.misc import load_video_frames

        folder = self.split / "JPEGImages_24fps" / "a"
        theirs, height, width = load_video_frames(str(folder), 256, True, compute_device=torch.device("cpu"))
        self.assertEqual((height, width), (120, 160))
        for i in (0, 7):
            path = folder / f"{i:05}.jpg"
            for kind in ("cpu", "gpu"):
                self.assertTrue(torch.equal(self.prepared(kind, path), theirs[i]), kind)


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
        shared = rust_columns((ROOT / "crates/vos/src/files/columns.rs").read_text(), {})
        for file, ours in (("summary_csv.rs", tables.SUMMARY), ("profile_csv.rs", tables.PROFILE)):
            source = (ROOT / "crates/vos/src/files" / file).read_text()
            own = rust_columns(source, shared)
            order = re.search(r"let columns[^=]*=\s*\[(.*?)\];", source, re.S)[1]
            # Where the table has two forms the first part is put together apart; what only the extended one has is left out.
            first = re.search(r"fn predecessor.*?\n    }", source, re.S)
            lines = [line for line in first[0].splitlines() if "extended" not in line] if first else []
            order = "\n".join(lines) + order.replace("&detail", "&columns::DETAIL")
            parts = [part for part in re.findall(r"\b([A-Z]{2}[A-Z_]+)\b", order) if part in own]
            names = list(dict.fromkeys(n for part in parts for n in own[part]))
            self.assertEqual([name for name, _ in ours], names, file)


def rust_columns(source, shared):
    """Names of each `const` of columns in a Rust file; `shared` are those of columns.rs."""
    found = dict(shared)
    # A stage's column is `stage::<3>()`: its name lies in the one list of the stages.
    stages = re.findall(r'names!\("(\w+)"', (ROOT / "crates/vos/src/stage.rs").read_text())
    source = re.sub(r"\bstage::<(\d+)>\(\)", lambda at: f'("{stages[int(at[1])]}_ms", stage)', source)
    both = lambda at: ", ".join(f'("{stages[int(at[1])]}_{p}_ms", stage)' for p in ("p50", "p99"))
    source = re.sub(r"\bpercentiles::<(\d+)>\(\)", both, source)
    source = re.sub(r'\broofline::<[^>]*>\(("\w+")\)', r"(\1, stage)", source)
    kind = r"(?:\[Column; \d+\]|\[\[Column; 2\]; \d+\]|Column)"
    for name, body in re.findall(rf"const (\w+): {kind} =(.*?);\n(?=\n|/|pub|const|$)", source, re.S):
        entries = re.findall(r'\(\s*"(\w+)",|(?:columns::|^\s+)([A-Z_]+)\b', body, re.M)
        found[name] = [n for text, other in entries for n in ([text] if text else found[other])]
    return found


class Words(unittest.TestCase):
    def test_flags_are_whole_words(self):
        """`segtrt compare` keeps --tf32 from its reference by name."""
        plain = ["--split-dir", "s", "--models", "m", "--out-dir", "o"]
        self.assertTrue(arguments.parse([*plain, "--tf32"]).tf32)
        for shortened in ("--tf", "--prec=fp16"):
            with self.assertRaises(RunError):
                arguments.parse([*plain, shortened])


class CudaGraphs(unittest.TestCase):
    PARTS = ("image_encoder", "memory_attention", "memory_encoder", "sam_prompt_encoder", "sam_mask_decoder")

    def outlive(self, compile_mode):
        """The parts whose outputs are not overwritten by their next run, where torch.compile replays CUDA graphs."""

        def replayed(forward, **_):
            kept = []

            def run(x):
                out = forward(x)
                kept or kept.append(out.clone())
                return kept[0].copy_(out)  # a graph's output is the same memory in each run

            return run

        parts = {name: SimpleNamespace(forward=lambda x: x + 1) for name in self.PARTS}
        with mock.patch.object(torch, "compile", replayed):
            compiling.compile_model(SimpleNamespace(**parts), "sam2", "compile", compile_mode)
        found = set()
        for name, part in parts.items():
            first = part.forward(torch.zeros(2))
            part.forward(torch.ones(2))
            if first.tolist() == [1, 1]:
                found.add(name)
        return found

    def test_no_part_s_output_is_overwritten_by_its_next_run(self):
        self.assertEqual(self.outlive("reduce-overhead"), set(self.PARTS))
        self.assertEqual(self.outlive("max-autotune"), set(self.PARTS))
        self.assertEqual(self.outlive("default"), set(), "the stand-in does overwrite; without CUDA graphs nothing is copied")


class Turns(unittest.TestCase):
    def test_the_first_object_of_a_turn_is_warmed_up_until_the_other_side_is_gone(self):
        side, calls = Side.__new__(Side), []
        side._warm = lambda *_: (calls.append(time.perf_counter()), time.sleep(0.02))
        side.args = SimpleNamespace(warmup_runs=1, turn_warmup_seconds=0.1)
        side.turn_begun = begun = time.perf_counter()
        side._settle(None, None)
        self.assertGreaterEqual(time.perf_counter() - begun, 0.1)
        self.assertGreaterEqual(len(calls), 2)
        warmed = len(calls)
        side._settle(None, None)  # the second object
        side.turn_begun = time.perf_counter()
        side.args.warmup_runs = 0  # nothing is to be warmed up
        side._settle(None, None)
        self.assertEqual(len(calls), warmed)


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

    def test_percentiles_of_stages_leave_out_the_prompted_frame(self):
        of = lambda **stages: {"stages": {f"{stage}_ms": ms for stage, ms in stages.items()}}
        passes = [
            [of(prompt=5.0, encoder=9.0), of(encoder=1.0), of(encoder=3.0)],
            [of(prompt=7.0), of(encoder=2.0)],
        ]
        found = records.stage_percentiles(passes)
        self.assertEqual((found["p50"]["encoder_ms"], found["p50"]["prompt_ms"]), (2.0, 6.0))
        self.assertAlmostEqual(found["p99"]["encoder_ms"], 2.98, places=12)
        self.assertIsNone(found["p99"]["track_ms"])

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
        seen = {"other_processes": 3}
        self.assertEqual(telemetry.beside_idle(seen, 0), {"other_processes": 3})
        self.assertEqual(telemetry.beside_idle(seen, 2), {"other_processes": 1, "idle_processes": 2})
        self.assertEqual(telemetry.beside_idle({"other_processes": None}, 2)["other_processes"], None)

    def test_weights_must_be_the_bundle_s(self):
        bundles = [ROOT / "onnx" / "bundles"]
        choice = weights_choice.choose("edgetam_mini", None, bundles, None, None, None)
        self.assertEqual((choice.checkpoint.name, choice.imgsz), ("edgetam_mini.safetensors", 256))
        weights_choice.verify(choice, dict(choice.expected, checkpoint_file="renamed.safetensors"))
        with self.assertRaisesRegex(RunError, "checkpoint_sha256 is 00, the bundle says"):
            weights_choice.verify(choice, dict(choice.expected, checkpoint_sha256="00"))
        with self.assertRaisesRegex(RunError, "exclude one another"):
            weights_choice.choose("edgetam_mini", None, bundles, Path("x.pt"), None, Path("x.safetensors"))

    def test_random_weights_must_be_the_bundle_s(self):
        with tempfile.TemporaryDirectory() as folder:
            text = '[model]\nname = "edgetam_mini"\nimgsz = 256\n[weights]\nsource = "random"\nseed = 0\n'
            (Path(folder) / "manifest.toml").write_text(text)
            choice = weights_choice.choose("edgetam_mini", None, [folder], None, None, None)
            self.assertEqual((choice.seed, choice.imgsz), (0, 256))
            weights_choice.verify(choice, {"source": "random", "seed": 0})
            with self.assertRaisesRegex(RunError, "seed is 1, the bundle says 0"):
                weights_choice.verify(choice, {"source": "random", "seed": 1})
            for options in ((None, 3, None), (Path("x.pt"), None, None), (None, None, Path("x.safetensors"))):
                with self.assertRaises(RunError):
                    weights_choice.choose("edgetam_mini", None, [folder], *options)

    def test_a_size_or_model_without_a_bundle_is_refused(self):
        bundles = [ROOT / "onnx" / "bundles"]
        with self.assertRaisesRegex(RunError, "no bundle of edgetam_mini at 512"):
            weights_choice.choose("edgetam_mini", 512, bundles, None, None, None)
        with self.assertRaisesRegex(RunError, "no weights were chosen"):
            weights_choice.choose("edgetam", None, [], None, None, None)


if __name__ == "__main__":
    unittest.main()
