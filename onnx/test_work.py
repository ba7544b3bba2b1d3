"""The numbers of work in a manifest: FLOPs, bytes, launches, activations. Needs no PyTorch."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import work
from segexport.ort_driver import Bundle

MINI = HERE / "bundles" / "edgetam_mini_256_fp32"


def model(nodes, inputs, outputs, weights=()):
    """An onnx.ModelProto; inputs, outputs and weights are (name, shape)."""
    ports = lambda all: [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in all]
    made = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in weights]
    graph = helper.make_graph(nodes, "one", ports(inputs), ports(outputs), made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


class Counted(unittest.TestCase):

    def test_a_convolution_and_what_is_fused_into_it(self):
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"])
        ]
        found = work.count(model(nodes, [("x", [1, 4, 8, 8])], [("y", [1, 2, 8, 8])], [("w", [2, 4, 3, 3])]), "fp16")
        sizes = {"x": 4 * 64, "w": 2 * 4 * 9, "c": 2 * 64}
        self.assertEqual(found.flops, 2 * 2 * 64 * 4 * 9)
        self.assertEqual(found.bytes, 2 * sum(sizes.values()))
        self.assertEqual(found.launches, 1)
        self.assertEqual(found.activation_bytes, 2 * (sizes["x"] + sizes["c"]))

    def test_an_attention_is_one_launch_whose_scores_stay_on_chip_written_out_or_not(self):
        q, k, o = ("q", [1, 64, 8]), ("k", [1, 8, 512]), ("o", [1, 64, 8])
        scores = helper.make_node("MatMul", ["q", "k"], ["s"])
        short = [helper.make_node("Softmax", ["s"], ["p"], axis=-1)]
        long = [
            helper.make_node("ReduceMax", ["s"], ["m"], axes=[2]),
            helper.make_node("Sub", ["s", "m"], ["d"]),
            helper.make_node("Exp", ["d"], ["p"])
        ]
        answer = helper.make_node("MatMul", ["p", "v"], ["o"])
        for middle in (short, long):
            found = work.count(model([scores, *middle, answer], [q, k, ("v", [1, 512, 8])], [o]))
            self.assertEqual((found.flops, found.launches), (2 * 2 * 64 * 512 * 8, 1))
            self.assertEqual(found.bytes, 4 * (64 * 8 + 8 * 512 + 512 * 8 + 64 * 8))
            self.assertLess(found.activation_bytes, 4 * 64 * 512)
        plain = work.count(model([scores, helper.make_node("Relu", ["s"], ["p"]), answer],
                                 [q, k, ("v", [1, 512, 8])], [o]))
        self.assertEqual(plain.launches, 2)

    def test_the_bundle_in_the_repository_has_the_numbers_of_its_graphs(self):
        for graph in Bundle(MINI).manifest["graph"]:
            found = work.count(onnx.load(MINI / graph["file"]))
            self.assertEqual({key: graph[key] for key in vars(found)}, vars(found), graph["role"])

    def test_an_older_bundle_gets_them_once(self):
        whole = (MINI / "manifest.toml").read_text()
        lines = [line for line in whole.splitlines(True)
                 if not line.startswith(("bytes =", "launches =", "activation_bytes ="))]
        with tempfile.TemporaryDirectory() as folder:
            for path in MINI.glob("*.onnx"):
                shutil.copy(path, folder)
            manifest = Path(folder) / "manifest.toml"
            manifest.write_text("".join(lines))
            self.assertTrue(work.add(folder))
            self.assertEqual(manifest.read_text(), whole)
            self.assertFalse(work.add(folder))


if __name__ == "__main__":
    unittest.main()
