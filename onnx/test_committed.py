"""Tests of what is committed and of what needs no PyTorch: `python -m unittest discover onnx`, or
`python onnx/test_committed.py` alone.

`make test` runs these in its own environment, which has numpy, onnx and ONNX Runtime.
"""

import hashlib
import json
import sys
import unittest
from pathlib import Path

import numpy as np
import onnx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import bank
from segexport.onnx_write import FORBIDDEN
from segexport.ort_driver import Bundle

MINI = HERE / "bundles" / "edgetam_mini_256_fp32"
GOLDEN = HERE.parent / "tests" / "data" / "tracker"
SIDE = 256


class SmallBundle(unittest.TestCase):
    """The bundle in the repository keeps its contract."""

    def setUp(self):
        self.bundle = Bundle(MINI)

    def test_files_match_their_hashes_and_stay_small(self):
        total = 0
        for graph in self.bundle.manifest["graph"]:
            data = (MINI / graph["file"]).read_bytes()
            self.assertEqual(hashlib.sha256(data).hexdigest(), graph["sha256"], graph["file"])
            self.assertGreater(graph["flops"], 1_000_000)
            total += len(data)
        # Every clone carries it, and the package, of which crates.io takes 10 MB: it is nearly half
        # of that. Graphs repeat the weights that they share; the encoder of two frames and the
        # padded track step, which made 4.3 MB of 3.1, are there because benches of batches and runs
        # on GPUs are tested with them.
        self.assertLess(total, 5_000_000)

    def test_graphs_are_static_opset_17_with_the_declared_ports(self):
        numbers = {"f32": 1, "i32": 6}
        for graph in self.bundle.manifest["graph"]:
            model = onnx.load(MINI / graph["file"])
            self.assertEqual([(o.domain, o.version) for o in model.opset_import], [("", 17)])
            self.assertFalse({n.op_type for n in model.graph.node} & FORBIDDEN, graph["role"])
            for title, infos in (("input", model.graph.input), ("output", model.graph.output)):
                for port, info in zip(graph[title], infos, strict=True):
                    kind = info.type.tensor_type
                    dims = [d.dim_param or d.dim_value for d in kind.shape.dim]
                    self.assertEqual((port["name"], port["shape"]), (info.name, dims))
                    self.assertEqual(numbers[port["dtype"]], kind.elem_type)

    def test_three_objects_equal_three_single_runs(self):
        c, rng = self.bundle.contract, np.random.default_rng(0)
        features = self.bundle.encode(rng.standard_normal((3, SIDE, SIDE)).astype(np.float32))
        for frames, pointers in ((1, 1), (3, 5), (7, 16)):
            feed = {
                "mem": rng.standard_normal((3, frames, c["memory_tokens"], c["memory_channels"])),
                "tidx": np.arange(frames) % 7,
                "ptrs": rng.standard_normal((3, pointers, c["pointer_channels"])),
            }
            together = self.bundle("track", **features, **feed)
            for b in range(3):
                single = feed | {"mem": feed["mem"][b : b + 1], "ptrs": feed["ptrs"][b : b + 1]}
                alone = self.bundle("track", **features, **single)
                for name, value in alone.items():
                    np.testing.assert_allclose(together[name][b : b + 1], value, atol=2e-5)

    def test_selection_matches_the_original_predictor(self):
        golden = json.loads((GOLDEN / "edgetam_mini_20.json").read_text())
        for frame in golden["frames"][1:]:
            chosen = bank.select(frame["frame"], [0], len(golden["frames"]))
            self.assertEqual([list(m) for m in chosen.memories], frame["memories"])
            self.assertEqual([list(p) for p in chosen.pointers], frame["pointers"])


if __name__ == "__main__":
    unittest.main()
