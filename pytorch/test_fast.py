"""Tests of what makes PyTorch's side fast: none of it may change a result (a minute or two on a CPU)."""

import contextlib
import copy
import shutil
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from support import OnOneSplit, original, skip  # first: it finds the packages

import numpy as np
import PIL
import torch
from PIL import Image

from segtorch import RunError, arguments, environment, passes, resize, side, tuning
from segtorch.frames import MEAN, STD
from segtorch.split import Split
from test_runner import one_pass


def meta_input(pixels, size):
    """What Meta's loader makes of an image."""
    small = np.array(Image.fromarray(pixels).resize((size, size), Image.BICUBIC))
    column = lambda values: torch.tensor(values)[:, None, None]
    return (torch.from_numpy(small / 255.0).permute(2, 0, 1).float() - column(MEAN)) / column(STD)


class Resize(unittest.TestCase):
    def test_every_shape_is_pillow_s_to_the_last_bit(self):
        """Upright frames too, of which Pillow 13 resizes the columns first."""
        if int(PIL.__version__.split(".")[0]) != resize.PILLOW:
            skip(f"Pillow {PIL.__version__} is not {resize.PILLOW}: pip install -r pytorch/requirements.txt")
        rng = np.random.default_rng(0)
        first = []
        for width, height, to in (
            (854, 480, 1024),
            (475, 533, 512),
            (720, 1280, 1024),
            (480, 848, 768),
            (1080, 1920, 512),
            (1440, 1920, 512),
            (480, 848, 1024),
            (256, 300, 256),
            (64, 64, 64),
            (3000, 7, 256),
            (1, 1, 64),
        ):
            pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
            for device in ("cpu", *["cuda"] * torch.cuda.is_available()):
                with torch.inference_mode():
                    ready = resize.DeviceResize((width, height), to, torch.device(device), MEAN, STD,
                                                device == "cuda", print)
                    ready.upload(torch.from_numpy(pixels))
                    self.assertTrue(torch.equal(ready().cpu(), meta_input(pixels, to)),
                                    (device, width, height, to))
            self.assertEqual("replayed as a CUDA graph" in ready.told(), torch.cuda.is_available())
            first.append(resize.columns_first((width, height), (to, to)))
        self.assertEqual(first, [False, True, True, True, True, False, False, True, False, False, False])

    def test_compiled_it_is_two_kernels_and_the_same(self):
        if not (shutil.which("g++") or shutil.which("c++")):
            skip("no C++ compiler")
        from torch._inductor import metrics

        pixels = np.random.default_rng(1).integers(0, 256, (192, 108, 3), dtype=np.uint8)
        metrics.reset()
        found = []
        for compiled in (True, False):
            with torch.inference_mode():
                ready = resize.DeviceResize((108, 192), 64, torch.device("cpu"), MEAN, STD, compiled, print)
                ready.upload(torch.from_numpy(pixels))
                found.append(ready())
            self.assertEqual("by compiled kernels" in ready.told(), compiled)
        self.assertEqual(metrics.generated_kernel_count, 2)
        self.assertTrue(torch.equal(*found))


class Weights(OnOneSplit):
    def test_weights_cast_once_give_the_bits_of_autocast(self):
        plain, split = original(), Split(self.split, "sav_val")
        cast = copy.deepcopy(plain)
        self.assertGreater(tuning.cast_weights(cast, torch.bfloat16), 100)
        kinds = {
            type(m).__name__
            for m in cast.modules()
            if any(p.dtype == torch.bfloat16 for p in m.parameters(recurse=False))
        }
        self.assertEqual(kinds, {"Linear", "Conv2d", "ConvTranspose2d"})
        found = []
        for model in (plain, cast):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                found.append(one_pass(model, split, count=10))
        (done, masks, _), (again, same, _) = found
        self.assertEqual(done.extra, again.extra)
        for mine, theirs in zip(masks, same):
            np.testing.assert_array_equal(mine, theirs)


class Tuning(unittest.TestCase):
    def encoder(self):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 8, 3))

    def tried(self, times):
        """What is kept where the settings take these times, in their order: plain, cuDNN, channels last, both."""
        seen, left = [], list(times)

        def clock(encoder, image):
            last = encoder[1].weight.is_contiguous(memory_format=torch.channels_last)
            seen.append((last, torch.backends.cudnn.benchmark))
            ms = left.pop(0)
            if ms is None:
                raise RuntimeError("no such kernel\nmore")
            return ms

        encoder = self.encoder()
        before = [p.clone() for p in encoder.parameters()]
        with torch.inference_mode():
            kept, tried = tuning.choose(encoder, 16, torch.device("cpu"), clock)
        self.assertEqual(seen, [(False, False), (False, True), (True, False), (True, True)])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, encoder.parameters())),
                        "the same numbers")
        last = encoder[1].weight.is_contiguous(memory_format=torch.channels_last)
        self.assertEqual((last, torch.backends.cudnn.benchmark),
                         ("channels-last" in kept, "cudnn-benchmark" in kept))
        self.assertEqual([one["encoder_ms"] for one in tried], times)
        return kept

    def test_the_fastest_settings_are_kept_where_they_gain_anything(self):
        self.addCleanup(setattr, torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
        self.assertEqual(self.tried([2.0, 1.9, 1.5, 1.4]), ["channels-last", "cudnn-benchmark"])
        self.assertEqual(self.tried([2.0, 1.4, 1.5, 1.6]), ["cudnn-benchmark"])
        self.assertEqual(self.tried([2.0, 1.99, 2.5, 2.1]), [], "less than times differ")
        self.assertEqual(self.tried([2.0, None, 1.5, None]), ["channels-last"])

    def test_settings_are_named_on_the_command_line(self):
        words = ["--split-dir", "s", "--models", "m", "--out-dir", "o"]
        of = lambda *more: arguments.parse([*words, *more]).settings
        self.assertEqual((of(), of("--tuning", "none")), ("auto", ()))
        self.assertEqual(of("--tuning", "half-weights,channels-last"), ("half-weights", "channels-last"))
        self.assertEqual(of("--implementation", "transformers"), ())
        for wrong in (["--tuning", "fast"], ["--implementation", "transformers", "--tuning", "half-weights"]):
            with self.assertRaises(RunError):
                of(*wrong)

    def test_tf32_is_strict_in_fp32_alone(self):
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        for backend in (matmul, cudnn):
            self.addCleanup(setattr, backend, "allow_tf32", backend.allow_tf32)
        for precision, tf32, allowed in (("fp32", False, False), ("fp32", True, True),
                                         ("bf16", False, True), ("fp16", False, True)):
            environment.set_arithmetic(SimpleNamespace(precision=precision, tf32=tf32, threads=None))
            self.assertEqual((matmul.allow_tf32, cudnn.allow_tf32), (allowed, allowed), precision)


class StagesApart(OnOneSplit):
    def test_a_timed_pass_on_a_gpu_marks_no_stage_and_gets_them_from_the_next(self):
        frame = lambda ms, stages: {"frame": 0, "latency_ms": ms, "stages": stages, "gpu_ms": None}
        ran = []

        def run(loaded, job, keep=False, marks=False, limit=None):
            ran.append((keep, marks))
            made = frame(5.0, {"track_ms": 4.0}) | {"gpu_ms": 4.5} if marks else frame(3.0, {})
            return passes.Pass([made], [], {})

        folder = SimpleNamespace(push=lambda *a: ran.append(a), path=None)
        mine = side.Side.__new__(side.Side)
        mine.args = SimpleNamespace(warmup_runs=0,
                                    profile_runs=1,
                                    save_logits=False,
                                    save_masks=False,
                                    decode="ahead")
        mine.device, mine.sensors, mine.teacher, mine.say = SimpleNamespace(
            type="cuda"), None, None, lambda *_: None
        loaded = SimpleNamespace(session=None, setup_ms=1.0, choice=SimpleNamespace(imgsz=256), tuned={})
        mine.loaded, mine.turn_begun, mine._pass = {"m": loaded}, None, run
        mine._job = lambda *_: {"start": 0, "size": (4, 3)}
        mine._feed, mine._conditions, mine._memory = lambda *_: (None, None), lambda _: {
        }, lambda _: {"gpu_peak_alloc_mib": 1.0}
        key = {"video": "v", "object": "0", "model": "m_points"}
        with mock.patch.object(torch.cuda, "reset_peak_memory_stats"), contextlib.suppress(KeyError):
            mine._object(folder, (0, 0, 0), key, SimpleNamespace(model="m"), None, None)
        (timed, staged, pushed) = ran
        self.assertEqual((timed[1], staged[1]), (False, True))
        _, summary, _, _, (times,) = pushed
        numbers = summary["measured"]
        self.assertEqual(
            (numbers["speed"]["duration_ms"], numbers["stages"]["track_ms"], numbers["gpu_ms"]),
            (3.0, 4.0, 4.5))
        self.assertIsNone(numbers["residue_ms"], "two passes do not explain one another")
        self.assertEqual((times["latency_ms"], times["track_ms"], times["stages_apart"]),
                         ([3.0], [4.0], True))

    def test_without_marks_nothing_is_marked(self):
        from segtorch.stages import StageClock

        with mock.patch.object(StageClock, "_mark", side_effect=AssertionError("marked")):
            done, _, _ = one_pass(original(), Split(self.split, "sav_val"), count=3, marks=False)
        self.assertEqual([frame["stages"].keys() for frame in done.frames], [{"decode_ms"}] * 3)


if __name__ == "__main__":
    unittest.main()
