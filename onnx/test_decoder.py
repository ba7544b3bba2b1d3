"""Tests of the mask decoder from its file of weights: `python onnx/test_decoder.py` (half a minute).

What segexport/decoder_run.py computes from the file, as segtrt's kernels do, against the track
step's decoder in fp32. Meta's SAM 2 and EdgeTAM are needed, each in a process of its own; the tests
of one that is missing are skipped, loudly.
"""

import needs_torch  # in front of what it looks for

import copy
import hashlib
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import onnxruntime as ort
import torch
from safetensors.numpy import load_file
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import ExportError, decoder_weights, graphs, models, weights, work
from segexport.decoder_run import ABSENT, compute
from segexport.fp16 import to_fp16
from segexport.head import Track
from segexport.manifest import _table_entry, write_bundle
from segexport.onnx_write import check, to_onnx

torch.set_num_threads(1)
# Of what fp32 gives: the logits' spread, and the pointer's.
LOGITS, POINTER, NUMBERS = 1e-2, 5e-3, 1e-3


def track_of(model, name, side, seed=0):
    """A Track with random weights whose attentions tell tokens apart and whose biases are not next
    to nothing."""
    weights.load_random(model, seed, family=models.spec_of(name).family, side=side)
    for key, value in model.sam_mask_decoder.transformer.named_parameters():
        if key.endswith("q_proj.weight"):
            value.data *= 3.0
        elif key.endswith("bias"):
            value.data *= 10.0
    return Track(model, side).eval().requires_grad_(False)


def frame_of(track, seed=0):
    """The image [1,N,C] as the memory attention's norm leaves it, and the finer features; f16
    values as f32."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(shape, generator=generator)
    grid, norm = track.grid, track.memory.norm
    image = draw(1, grid**2, 256) * norm.weight + norm.bias
    frame = (image, 0.3 * draw(1, 32, 4 * grid, 4 * grid), 0.3 * draw(1, 64, 2 * grid, 2 * grid))
    return [x.half().float() for x in frame]


def of_file(track):
    """The file's tensors and the manifest's table, as whoever reads them has them."""
    with tempfile.TemporaryDirectory() as folder:
        table = decoder_weights.write(track, Path(folder))
        table = tomllib.loads(_table_entry("mask_decoder", table))["mask_decoder"]
        data = (Path(folder) / table["file"]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (table["sha256"], table["bytes"])
        return load_file(Path(folder) / table["file"]), table


def off(answer, low, iou, pointer, score, ious):
    """How far an Answer is away, as parts of what is allowed."""
    low, pointer = low[0, 0].numpy(), pointer[0].numpy()
    spread = low.std() or 1.0
    return {
        "low": np.abs(answer.low - low).max() / spread / LOGITS,
        "iou": abs(answer.iou - iou.item()) / NUMBERS,
        "ious": np.abs(answer.ious - ious[0].numpy()).max() / NUMBERS,
        "pointer": np.abs(answer.pointer - pointer).max() / pointer.std() / POINTER,
        "score": abs(answer.score - score.item()) / NUMBERS,
    }


class Decoder:
    """What holds of each model; unittest runs it in the classes below."""

    @classmethod
    def setUpClass(cls):
        try:
            cls.model, _ = models.build(cls.NAME, cls.SIDE)
        except ExportError as error:
            print(f"SKIPPED: {error}", file=sys.stderr)
            raise unittest.SkipTest(str(error)) from error

    def build(self, side):
        return self.model if side == self.SIDE else models.build(self.NAME, side)[0]

    def test_the_file_gives_the_answer_of_the_track_step(self):
        worst, chosen = {}, []
        for side in self.SIDES:
            track = track_of(self.build(side), self.NAME, side)
            for seed, mask in enumerate((None, 0, 1, 2)):
                if mask is not None:  # makes it the best one
                    track.f32_heads.outer.bias[1, 0, 1:4] = 3.0 * (torch.arange(3) == mask)
                track.f32_heads.probable = seed % 2 == 0
                tensors, table = of_file(track)
                self.assertEqual((table["grid"], table["probable"]), (side // 16, seed % 2 == 0))
                frame = frame_of(track, seed)
                expected = track.decode(*frame)
                tokens, _ = track.decoder.attend_constant(frame[0])
                answer = compute(tensors, *(x[0].numpy() for x in frame), table["probable"])
                chosen.append((mask, answer.choice))
                self.assertEqual(answer.choice, int(track.f32_heads(tokens)[1][0, 1:].argmax()))
                self.assertGreater(expected[0].std(), 0.1)
                for name, value in off(answer, *expected).items():
                    worst[name] = max(worst.get(name, 0.0), float(value))
                    self.assertLess(value, 1.0, f"{name}, mask {answer.choice} at {side} pixels")
        self.assertTrue(all(mask in (None, choice) for mask, choice in chosen), chosen)
        print(f"{self.NAME}: of what is allowed "
              f"{({name: round(value, 2) for name, value in worst.items()})}", file=sys.stderr)

    def test_an_object_that_is_gone_has_no_mask_and_no_pointer_of_its_own(self):
        track = track_of(self.model, self.NAME, self.SIDE)
        track.f32_heads.outer.bias[0] -= 20.0
        tensors, table = of_file(track)
        frame = frame_of(track)
        low, iou, pointer, score, ious = track.decode(*frame)
        answer = compute(tensors, *(x[0].numpy() for x in frame), table["probable"])
        self.assertLess(answer.score, 0.0)
        self.assertTrue((answer.low == ABSENT).all() and answer.low.shape == low.shape[2:]
                        and (low == float(ABSENT)).all())
        np.testing.assert_array_equal(answer.pointer, track.no_pointer.reshape(-1).numpy())
        self.assertLess(max(off(answer, low, iou, pointer, score, ious).values()), 1.0)

    def test_every_tensor_counts(self):
        # Else the tests above would not see a wrong layout.
        track = track_of(self.model, self.NAME, self.SIDE)
        tensors, table = of_file(track)
        frame = frame_of(track)
        expected = track.decode(*frame)
        for name, value in tensors.items():
            answer = compute(tensors | {name: np.flip(value)}, *(x[0].numpy() for x in frame),
                             table["probable"])
            away = max(off(answer, *expected).values())
            # The former is of objects that are gone; the latter adds the same to a head's scores of
            # all tokens.
            if name == "decoder.heads.no_pointer" or name.endswith(".write.key_bias"):
                self.assertLess(away, 1.0, name)
            else:
                self.assertGreater(away, 1.0, name)

    def test_what_no_kernel_computes_is_refused(self):
        def refused(says, change):
            track = copy.deepcopy(sound)
            change(track, track.decoder.two_way)
            with self.assertRaisesRegex(ExportError, says + ".*--mask-decoder engine"):
                decoder_weights.tensors_of(track)

        sound = track_of(self.model, self.NAME, self.SIDE)

        def widen(track, two_way):
            two_way.last.v = nn.Linear(256, 256)

        refused("attention with 4 heads, expected 8",
                lambda track, two_way: setattr(two_way.blocks[1].to_image, "heads", 4))
        refused("norms with 1e-06 below", lambda track, two_way: setattr(two_way.norm, "eps", 1e-6))
        refused("a hidden layer without ReLU",
                lambda track, two_way: setattr(two_way.blocks[0], "act", nn.GELU()))
        refused("expected the exact GELU",
                lambda track, two_way: setattr(track.decoder, "act", nn.GELU(approximate="tanh")))
        refused("1 layers", lambda track, two_way: setattr(two_way, "blocks", two_way.blocks[:1]))
        refused("a map of 3 tokens", lambda track, two_way: setattr(track.decoder, "grid", 3))
        refused(r"decoder.last.values has the shape \[256, 256\], .*\[128, 256\]", widen)
        refused("decoder.layers.0.up has values beyond f16",
                lambda track, two_way: two_way.blocks[0].up.weight.data[0].fill_(1e6))
        refused("decoder.first has values beyond f16",
                lambda track, two_way: two_way.blocks[0].to_image.k.weight.data.mul_(1e6))
        says = "no multimask_output_for_tracking; export with --mask-decoder engine"
        with mock.patch.object(self.model, "multimask_output_for_tracking",
                               False), self.assertRaisesRegex(ExportError, says):
            decoder_weights.check_tracking(self.model)

    def test_the_last_segment_ends_in_what_the_file_goes_on_from(self):
        track = track_of(self.model, self.NAME, self.SIDE)
        contract = graphs.contract_of(self.model, self.SIDE)
        features = [graphs.Port(name, "f", ()) for name in ("feat", "hr0", "hr1")]
        *_, whole = graphs._segments(track, contract, features, [], "engine")
        *_, last = graphs._segments(track, contract, features, [], "cuda")
        self.assertEqual([port.name for port in whole.inputs], ["x", "o", "hr0", "hr1"])
        self.assertEqual((last.role, [port.name for port in last.inputs]), ("track_image", ["x", "o"]))
        self.assertEqual([(port.name, port.dtype, port.shape) for port in last.outputs],
                         [("y", "f", ("B", track.grid**2, 256))])
        proto = to_onnx(last)
        self.assertLess(work.count(proto).flops, 2 * track.grid**2 * 256 * (64 + 2 * 2048) * 1.01)
        proto = to_fp16(proto, last)
        check(proto, last.role)
        random = np.random.default_rng(0)
        fed = {
            port.name: random.standard_normal([1 if n == "B" else n
                                               for n in port.shape]).astype(np.float16)
            for port in last.inputs
        }
        session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        y, = session.run(None, fed)
        self.assertEqual(y.dtype, np.float16)
        finer = frame_of(track)[1:]
        expected = whole.module(*(torch.from_numpy(x).float() for x in fed.values()), *finer)
        tensors, table = of_file(track)
        answer = compute(tensors, y[0], *(x[0].numpy() for x in finer), table["probable"])
        self.assertLess(max(off(answer, *expected).values()), 2.0)

    def test_fp32_and_bundles_without_segments_are_refused(self):
        for options in (dict(precision="fp32", segments=True), dict(precision="fp16", segments=False)):
            with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(
                    ExportError, "--segments --precision fp16"):
                write_bundle(self.model,
                             self.NAME,
                             self.SIDE,
                             options["precision"], {},
                             "-",
                             folder,
                             segments=options["segments"],
                             mask_decoder="cuda")


class OfSam21(Decoder, unittest.TestCase):
    NAME, SIDE, SIDES = "sam2.1_tiny", 160, (160, 512)  # 100 tokens are no multiple of a tile


class OfEdgeTam(Decoder, unittest.TestCase):
    NAME, SIDE, SIDES = "edgetam", 256, (256, 512)


class Families(unittest.TestCase):
    """Both families' code is a package called `sam2`: each is tested by a process of its own."""

    FILE = __file__

    def run_alone(self, name):
        result = subprocess.run([sys.executable, self.FILE, name], capture_output=True, text=True)
        print(result.stderr, end="", file=sys.stderr)
        self.assertEqual(result.returncode, 0, result.stdout)
        if "SKIPPED:" in result.stderr:
            self.skipTest(f"{name} needs code that is not there")

    def test_sam21(self):
        self.run_alone("OfSam21")

    def test_edgetam(self):
        self.run_alone("OfEdgeTam")


def load_tests(loader, tests, pattern):
    """Whoever asks for all tests gets those in processes of their own."""
    return loader.loadTestsFromTestCase(Families)


if __name__ == "__main__":
    unittest.main()
