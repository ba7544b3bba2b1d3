"""Tests of the memory attention's layers from their file of weights: `python -m unittest discover
onnx`, or `python onnx/test_attention.py OfSam21`.

What segexport/attention_run.py computes from the file, as segtrt's kernels do, against the graphs
`track_seg0`, ... in ONNX Runtime. Meta's SAM 2 and EdgeTAM are needed, each in a process of its own;
the tests of code that is not there are skipped, loudly.
"""

import needs_torch  # in front of what it looks for

import sys
import tempfile
import tomllib
import types
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import ExportError, attention_run, attention_weights, models, rope, weights
from segexport.manifest import write_bundle
from segexport.ort_driver import Bundle
import test_decoder

SIDE = 256
torch.set_num_threads(1)


class TurnsOfACoordinate(unittest.TestCase):

    def test_tables_of_all_tokens_are_those_of_their_coordinates(self):
        for grid in (4, 6):
            cos, sin = rope.axial_tables(grid, grid, attention_weights.WIDTH)
            turns = attention_weights.turns_of(cos, sin, grid).numpy()
            rows = np.random.default_rng(0).standard_normal((grid**2, 256)).astype(np.float32)
            expected = rope.rotate(torch.from_numpy(rows), cos, sin).numpy()
            found = attention_run._turned({"attention.turns": turns}, rows)
            np.testing.assert_allclose(found, expected, atol=1e-6)
            with self.assertRaisesRegex(ExportError, "one coordinate each"):
                attention_weights.turns_of(cos.roll(1, 0), sin, grid)
            with self.assertRaisesRegex(ExportError, "angles of the shape.*--memory-attention engine"):
                attention_weights.turns_of(cos[:, :1], sin[:, :1], grid)

    def test_other_memory_attentions_are_refused(self):
        norm = torch.nn.LayerNorm(256, eps=1e-5)
        layer = types.SimpleNamespace(norm1=norm, norm2=norm, norm3=norm)
        memory = lambda layers, tokens, norm=norm: types.SimpleNamespace(
            layers=layers, norm=norm, pos=torch.zeros(1, tokens, 256))
        attention_weights.check(memory([layer], 16))
        for wrong, says in (
            (memory([], 16), "0 layers, expected 1 to 4"),
            (memory([layer], 25), "25 tokens, expected the square of an even number"),
            (memory([layer], 16, torch.nn.LayerNorm(256, eps=1e-6)), "1e-06 below the root, expected 1e-05"),
        ):
            with self.assertRaisesRegex(ExportError, says):
                attention_weights.check(wrong)


class LayersOfAFile:
    NAME, LAYERS = "", 0

    def test_the_file_makes_what_the_graphs_make(self):
        try:
            model, _ = models.build(self.NAME, SIDE)
        except ExportError as error:
            print(f"SKIPPED: {error}", file=sys.stderr)
            raise unittest.SkipTest(str(error)) from error
        weights.load_random(model, 0, family=models.spec_of(self.NAME).family, side=SIDE)
        with tempfile.TemporaryDirectory() as folder:
            path = write_bundle(model,
                                self.NAME,
                                SIDE,
                                "fp16", {
                                    "source": "random",
                                    "seed": 0
                                },
                                "-",
                                folder,
                                segments=True,
                                mask_decoder="cuda",
                                memory_attention="cuda",
                                say=lambda line: None)
            table = tomllib.loads((path / "manifest.toml").read_text())["memory_attention"]
            tensors, bundle, grid = load_file(path / table["file"]), Bundle(path), SIDE // 16
            self.assertEqual((table["grid"], table["layers"]), (grid, self.LAYERS))
            self.assertEqual(table["flops"], attention_weights.work_of(grid, self.LAYERS))
            random = np.random.default_rng(0)
            draw = lambda *shape: random.standard_normal((1, *shape)).astype(np.float16)
            feat, x = draw(256, grid, grid), draw(grid**2, 256)
            frame, bank = draw(grid**2, 256), draw(grid**2, 64)
            end = self.LAYERS - 1
            pieces = [
                ("track_seg0", {"feat": feat}, attention_run.start(tensors, feat[0])),
                (f"track_seg{2 * end + 1}", {"x": x, "o": frame}, attention_run.query(tensors, end, x[0], frame[0])),
                ("track_seg2", {"x": x, "o": bank}, attention_run.finish(tensors, 0, x[0], bank[0])),
                ("track_image", {"x": x, "o": bank}, [attention_run.last(tensors, end, x[0], bank[0])]),
            ]
            for role, inputs, found in pieces:
                expected = bundle(role, **inputs)
                self.assertEqual(len(expected), len(found), role)
                for name, of_file in zip(expected, found):
                    of_graph = expected[name][0].astype(np.float64)
                    off = np.linalg.norm(of_file - of_graph) / np.linalg.norm(of_graph)
                    self.assertLess(off, 1.5e-3, f"{role}: {name}")
            # The comparison must be able to fail.
            tensors["attention.layers.0.norm3.bias"] += 1
            wrong = attention_run.finish(tensors, 0, x[0], bank[0])[0]
            expected = bundle("track_seg2", x=x, o=bank)["y"][0].astype(np.float64)
            self.assertGreater(np.linalg.norm(wrong - expected) / np.linalg.norm(expected), 1e-2)


class OfSam21(LayersOfAFile, unittest.TestCase):
    NAME, LAYERS = "sam2.1_tiny", 4


class OfEdgeTam(LayersOfAFile, unittest.TestCase):
    NAME, LAYERS = "edgetam", 2


class Families(test_decoder.Families):
    FILE = __file__


def load_tests(loader, tests, pattern):
    """Whoever asks for all tests gets those of a family in processes of their own."""
    both = [TurnsOfACoordinate, Families]
    return unittest.TestSuite(loader.loadTestsFromTestCase(one) for one in both)


if __name__ == "__main__":
    unittest.main()
