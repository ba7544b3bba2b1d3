"""Tests of the exporter on the small model: `python -m unittest discover onnx` (about a minute).

EdgeTAM's source is found as in export.py (EDGETAM_SRC or onnx/.edgetam); without it,
what needs the original code is skipped, loudly.
"""

import needs_torch  # in front of what it looks for

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import ExportError, graphs, models, synthetic, verify, weights
from segexport.manifest import write_bundle
from segexport.ort_driver import Bundle, closed_loop, round_bf16
from segexport.reference_run import PromptInput, run_tensor

COMMITTED = HERE / "bundles" / "edgetam_mini_256_fp32"
GOLDEN = HERE.parent / "tests" / "data" / "tracker"
SIDE = 256
torch.set_num_threads(1)  # the small model gains nothing from more


def softmax(scores):
    weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def original():
    """The mini predictor with seed 0, or a loud skip."""
    try:
        model, reference = models.build("edgetam_mini", SIDE)
    except ExportError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        raise unittest.SkipTest(str(error)) from error
    weights.load_random(model, 0, family="edgetam", side=SIDE)
    return model, reference


class CommittedBundle(unittest.TestCase):
    """The bundle in the repository keeps its contract."""

    def setUp(self):
        self.bundle = Bundle(COMMITTED)

    def test_a_millionth_on_the_image_does_not_grow_in_closed_loop(self):
        images = synthetic.images(SIDE, 20).numpy()
        noise = 1e-6 * np.random.default_rng(1).standard_normal(images.shape).astype(np.float32)
        prompt = PromptInput("points", points=[list(synthetic.centre(SIDE, 0))])
        runs = [
            [answer["low"] for _, answer in closed_loop(self.bundle, x, prompt, SIDE, SIDE)]
            for x in (images, images + noise)
        ]
        self.assertGreater(np.abs(runs[0][0] - runs[1][0]).max(), 0.0)
        for a, b in zip(*runs):
            self.assertGreaterEqual(verify.iou(a > 0, b > 0), 0.999)
            share = (a > 0).mean()
            self.assertTrue(0.02 < share < 0.9, share)

    def test_golden_logits(self):
        golden = json.loads((GOLDEN / "edgetam_mini_20.json").read_text())
        prompt = PromptInput("points", points=[golden["click"]])
        images = synthetic.images(SIDE, len(golden["frames"])).numpy()
        loop = closed_loop(self.bundle, images, prompt, SIDE, SIDE)
        for frame, (_, answer) in zip(golden["frames"], loop, strict=True):
            low = answer["low"].reshape(-1)
            np.testing.assert_allclose(low[golden["sampled_logits"]], frame["logits"], atol=2e-3)
            self.assertAlmostEqual(float(answer["iou"].max()), frame["iou"], delta=1e-3)


class AgainstTheOriginal(unittest.TestCase):
    """A fresh export of the small model and Meta's predictor class."""

    @classmethod
    def setUpClass(cls):
        cls.model, reference = original()
        cls.folder = tempfile.TemporaryDirectory()
        cls.bundles = {}
        for precision in ("fp32", "fp16"):
            path = write_bundle(
                cls.model, "edgetam_mini", SIDE, precision, {"source": "random", "seed": 0},
                reference, cls.folder.name, padded_track=True, segments=True, say=lambda line: None,
            )
            cls.bundles[precision] = Bundle(path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def reports(self, prompt, padded=False, precision="fp32", frames=8):
        run = run_tensor(self.model, synthetic.images(SIDE, frames), SIDE, SIDE, prompt)
        return list(verify.compare(self.bundles[precision], run, prompt, padded=padded))

    def prompts(self):
        x, y = synthetic.centre(SIDE, 0)
        disc = np.hypot(*np.mgrid[-y : SIDE - y, -x : SIDE - x]) <= SIDE // 6
        yield PromptInput("points", points=[[x, y]])
        yield PromptInput("points", points=[[x, y], [x + 20, y - 10]])
        yield PromptInput("points", points=[[x, y], [x + 20, y - 10], [x + 70, y]], labels=[1, 1, 0])
        corners = [x - 42, y - 42, x + 42, y + 42]
        yield PromptInput("points", points=[[x, y], [x + 70, y]], labels=[1, 0], box=corners)
        yield PromptInput("bbox", box=[x - 42, y - 42, x + 42, y + 42])
        yield PromptInput("mask", mask=disc)

    def test_every_prompt_kind_matches_in_closed_loop_and_teacher_forced(self):
        for prompt in self.prompts():
            frames = 20 if prompt.kind == "points" and len(prompt.points) == 1 else 6
            for r in self.reports(prompt, frames=frames):
                self.assertGreaterEqual(min(r.closed_iou, r.forced_iou), 0.999, prompt.kind)
                self.assertLess(r.forced_error, 1e-3 * max(r.largest, 1.0), prompt.kind)
                self.assertLess(r.forced_ptr, 1e-3, prompt.kind)

    def test_the_ious_of_the_candidate_masks_are_the_original_ones(self):
        prompt = next(self.prompts())
        run = run_tensor(self.model, synthetic.images(SIDE, 8), SIDE, SIDE, prompt)
        for padded in (False, True):
            loop = closed_loop(self.bundles["fp32"], run.images.numpy(), prompt, SIDE, SIDE, padded=padded)
            for frame, (_, answer) in zip(run.frames, loop, strict=True):
                np.testing.assert_allclose(answer["ious"][0], frame.ious, atol=1e-4)
                self.assertEqual(answer["iou"].max(), answer["ious"].max())

    def test_padded_and_masked_equals_dynamic(self):
        prompt = next(self.prompts())
        for r in self.reports(prompt, padded=True):
            self.assertGreaterEqual(min(r.closed_iou, r.forced_iou), 0.999)
            self.assertLess(r.forced_error, 1e-3 * max(r.largest, 1.0))

    def test_segments_with_attention_between_them_equal_the_track_step(self):
        bundle = self.bundles["fp32"]
        random = np.random.default_rng(0)
        sizes = {"B": 1, "F": graphs.MAX_MEMORIES, "N": graphs.MAX_POINTERS}
        known = {}
        for port in bundle.ports["track"][0]:
            shape = [sizes.get(extent, extent) for extent in port["shape"]]
            known[port["name"]] = random.standard_normal(shape)
        known["tidx"] = np.arange(graphs.MAX_MEMORIES)
        expected = bundle("track", **known)

        keys = list(bundle("track_keys", **known).values())
        width = bundle.contract["memory_channels"]
        values = np.concatenate([known[name].reshape(1, -1, width) for name in ("mem", "ptrs")], axis=1)
        for index in range(2 * len(keys) + 1):
            out = bundle(f"track_seg{index}", **known)
            if "k" in out:
                known["o"] = softmax(out["q"] @ out["k"].swapaxes(1, 2)) @ out["v"]
            elif "q" in out:
                known["o"] = softmax(out["q"] @ keys.pop(0).swapaxes(1, 2)) @ values
            known["x"] = out.get("y")
        self.assertEqual(keys, [])
        for name, value in expected.items():
            np.testing.assert_allclose(out[name], value, atol=1e-4, err_msg=name)

    def test_absent_objects_get_the_fixed_logit_and_pointer(self):
        with torch.no_grad():
            head = self.model.sam_mask_decoder.pred_obj_score_head.layers[-1]
            kept = head.bias.clone()
            head.bias.fill_(-2.0)
        try:
            for graph in graphs.graphs_of(self.model, SIDE):
                if graph.role == "track":
                    low, _, ptr, score, _ = graph.module(*graph.example({"B": 1, "F": 2, "N": 2}))
        finally:
            with torch.no_grad():
                head.bias.copy_(kept)
        self.assertLess(score.item(), 0)
        self.assertTrue(bool((low == -1024).all()))
        torch.testing.assert_close(ptr, self.model.no_obj_ptr)

    def test_half_precision_stays_close_and_keeps_its_declared_types(self):
        for r in self.reports(next(self.prompts()), precision="fp16"):
            self.assertLess(r.forced_error, 0.05 * max(r.largest, 1.0))
        ports = {p["name"]: p["dtype"] for p in self.bundles["fp16"].ports["track"][0]}
        self.assertEqual((ports["feat"], ports["mem"], ports["tidx"]), ("f16", "f16", "i32"))

class Weights(unittest.TestCase):
    """Checkpoints of every origin, and clear refusals."""

    def test_meta_checkpoint_round_trip_and_refusals(self):
        model, _ = original()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mini.pt"
            torch.save({"model": model.state_dict()}, path)
            entries = weights.load_checkpoint(model, "edgetam_mini", path)
            self.assertEqual(entries["checkpoint_sha256"], hashlib.sha256(path.read_bytes()).hexdigest())
            state = model.state_dict()
            del state["no_mem_embed"]
            state["stranger"] = torch.zeros(1)
            torch.save({"model": state}, path)
            with self.assertRaisesRegex(ExportError, "1 tensors missing .no_mem_embed.*stranger"):
                weights.load_checkpoint(model, "edgetam_mini", path)
            path.write_bytes(b"not a checkpoint")
            with self.assertRaisesRegex(ExportError, "not readable"):
                weights.load_checkpoint(model, "edgetam_mini", path)

    def test_hugging_face_checkpoints_fit_and_give_the_same_features(self):
        original()
        try:
            import transformers  # noqa: F401
        except ImportError:
            print("SKIPPED: transformers is not installed", file=sys.stderr)
            self.skipTest("transformers is not installed")
        for family in ("edgetam", "sam2.1"):  # one process each: both packages are named `sam2`
            result = subprocess.run(
                [sys.executable, str(HERE / "check_hf_names.py"), family],
                capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "2"},
            )
            self.assertEqual(result.returncode, 0, result.stderr[-2000:])

    def test_sizes_that_the_architecture_cannot_take_are_refused_with_those_it_can(self):
        with self.assertRaisesRegex(ExportError, "multiple of 256.*nearest: 512, 768"):
            models.spec_of("edgetam").check_size(640)
        with self.assertRaisesRegex(ExportError, "multiple of 32.*nearest: 992, 1024"):
            models.spec_of("sam2.1_large").check_size(1000)
        for name, side in (("edgetam", 768), ("sam2.1_tiny", 992), ("sam2.1_base_plus", 1024)):
            models.spec_of(name).check_size(side)

    def test_bf16_rounding_is_torchs(self):
        x = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
        np.testing.assert_array_equal(round_bf16(x.numpy()), x.bfloat16().float().numpy())


if __name__ == "__main__":
    unittest.main()
