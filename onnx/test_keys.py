"""Tests of the memory attention's keys from the file beside a trunk: `python -m unittest discover
onnx` (a minute), or `python onnx/test_keys.py OfSam21`.

What segexport/keys.py computes from the file, as segtrt's kernel does, against the graph
`track_keys` in ONNX Runtime. Meta's SAM 2 and EdgeTAM are needed, each in a process of its own; the
tests of code that is not there are skipped, loudly.
"""

import needs_torch  # in front of what it looks for

import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import ExportError, graphs, keys, models, weights
from segexport.manifest import write_bundle
from segexport.ort_driver import Bundle
import test_decoder

SIDE = 256
torch.set_num_threads(1)


class KeysBesideATrunk:
    NAME, BLOCKS, KEYS = "", ("block", 0), {}

    def test_the_file_makes_the_keys_of_the_graph(self):
        try:
            model, _ = models.build(self.NAME, SIDE)
        except ExportError as error:
            print(f"SKIPPED: {error}", file=sys.stderr)
            raise unittest.SkipTest(str(error)) from error
        weights.load_random(model, 0, family=models.spec_of(self.NAME).family, side=SIDE)
        with tempfile.TemporaryDirectory() as folder:
            source = {"source": "random", "seed": 0}
            path = write_bundle(model,
                                self.NAME,
                                SIDE,
                                "fp16",
                                source,
                                "-",
                                folder,
                                segments=True,
                                encoder="trunk",
                                say=lambda line: None)
            trunk = tomllib.loads((path / "manifest.toml").read_text())["trunk"]
            tensors, bundle = load_file(path / trunk["file"]), Bundle(path)
            tokens, kind = self.KEYS["tokens"], self.BLOCKS[0]
            sizes = {"memories": graphs.MAX_MEMORIES, "pointers": graphs.MAX_POINTERS}
            self.assertEqual(trunk["keys"], sizes | self.KEYS)
            self.assertEqual((kind, len(trunk[kind])), self.BLOCKS)
            random = np.random.default_rng(0)
            bank = {
                "mem": random.standard_normal(
                    (1, graphs.MAX_MEMORIES, tokens, keys.TOKEN)).astype(np.float16),
                "tidx": np.array([6, 3, 4, 5, 0, 1, 2]),
                "ptrs": random.standard_normal((1, graphs.MAX_POINTERS, keys.KEY)).astype(np.float16),
            }
            if self.KEYS["pointer_times"]:
                bank["ptr_t"] = (np.arange(graphs.MAX_POINTERS) / 15).astype(np.float32)
            expected = bundle("track_keys", **bank)
        found = keys.compute(tensors, bank["mem"][0], bank["tidx"], bank["ptrs"][0], bank.get("ptr_t"))
        off = lambda found, expected: np.linalg.norm(found - expected) / np.linalg.norm(expected)
        for layer, of_graph in enumerate(expected.values()):
            of_graph, of_file = (x.astype(np.float64) for x in (of_graph[0], found[layer]))
            self.assertEqual(of_file.shape, of_graph.shape)
            of_pointers = slice(graphs.MAX_MEMORIES * tokens, None)
            self.assertLess(off(of_file, of_graph), 6e-4, f"layer {layer}")
            self.assertLess(off(of_file[of_pointers], of_graph[of_pointers]), 6e-4,
                            f"pointers, layer {layer}")
        # The comparison must be able to fail.
        wrong = keys.compute(tensors, bank["mem"][0], np.arange(7), bank["ptrs"][0], bank.get("ptr_t"))
        self.assertGreater(off(wrong[0].astype(np.float64), expected["k0"][0].astype(np.float64)), 1e-2)


class OfSam21(KeysBesideATrunk, unittest.TestCase):
    NAME, BLOCKS = "sam2.1_tiny", ("block", 12)
    KEYS = {"layers": 4, "tokens": (SIDE // 16)**2, "pointer_times": True}


class OfEdgeTam(KeysBesideATrunk, unittest.TestCase):
    NAME, BLOCKS = "edgetam", ("repvit", 26)
    KEYS = {"layers": 2, "tokens": 512, "pointer_times": False}


class Families(test_decoder.Families):
    FILE = __file__


def load_tests(loader, tests, pattern):
    """Whoever asks for all tests gets those in processes of their own."""
    return loader.loadTestsFromTestCase(Families)


if __name__ == "__main__":
    unittest.main()
