"""Every operator of an exported graph is one that TensorRT's parser lists, with types that it lists.

`make test` checks the committed bundle; bundles of SEGTRT_BUNDLES, a folder, are checked too. The
exporter checks each graph that it writes.
"""

import os
import re
import sys
import unittest
from pathlib import Path

import onnx
from onnx import TensorProto, helper

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import ExportError, operators

PAGE = HERE.parent / "docs" / "reference" / "operators.md"


def graph(op, kind=TensorProto.FLOAT, constant=None, opset=17, outputs=1, **attributes):
    """A model of one node, whose second input, if any, is an initializer or (False) computed."""
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [1], [0])
    inputs = [helper.make_tensor_value_info("x", kind, [1, 4, 4, 4])]
    names = ["x"] + ([] if constant is None else ["sizes"])
    if constant is False:
        inputs.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [1]))
    made = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, made, name="it", **attributes)
    results = [helper.make_tensor_value_info(name, kind, None) for name in made]
    body = helper.make_graph([node], "one", inputs, results, [sizes] if constant else [])
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", opset)])


class Operators(unittest.TestCase):

    def test_committed_and_further_graphs_are_taken_by_tensorrt_10_and_differ_on_8_5_by_layer_normalization_alone(
            self):
        folders = [HERE / "bundles", Path(os.environ.get("SEGTRT_BUNDLES", HERE / "bundles"))]
        paths = sorted({path for folder in folders for path in folder.glob("**/*.onnx")})
        self.assertGreater(len(paths), 5)
        for path in paths:
            model = onnx.load(path)
            operators.check(model, path.name)
            older = operators.problems(model, "8.5")
            self.assertEqual({why.split(" ")[0] for why in older} - {"LayerNormalization"}, set(), path)

    def test_what_the_parser_lacks_is_found(self):
        found = lambda model, release="10.1": " ".join(operators.problems(model, release))
        self.assertEqual(found(graph("Relu")), "")
        self.assertIn("NonZero (it): no operator", found(graph("NonZero")))
        self.assertIn("LayerNormalization (it): no operator",
                      found(graph("LayerNormalization", constant=True), "8.5"))
        self.assertEqual(found(graph("LayerNormalization", constant=True)), "")
        self.assertIn("Erf (it): DOUBLE", found(graph("Erf", TensorProto.DOUBLE)))
        self.assertIn("Sin (it): INT64", found(graph("Sin", TensorProto.INT64), "8.5"))
        self.assertEqual(found(graph("Unsqueeze", TensorProto.INT64, constant=True), "8.5"), "")
        self.assertIn("have to be constants", found(graph("Unsqueeze", constant=False)))
        self.assertIn("one output", found(graph("MaxPool", outputs=2, kernel_shape=[2, 2])))
        self.assertIn("mode cubic", found(graph("Resize", mode="cubic")))
        self.assertIn("opset 18", found(graph("Relu", opset=18), "8.5"))
        with self.assertRaisesRegex(ExportError, "track: .*NonZero"):
            operators.check(graph("NonZero"), "track")

    def test_the_page_has_this_list(self):
        rows = re.findall(r"^\| (\w+) \| (.*?) \| (.*?) \| .*\|$", PAGE.read_text(), re.M)
        listed = [(name, old or "no", new) for name, (old, new) in operators.PARSED.items()]
        self.assertEqual([row for row in rows if row[0] != "operator"], listed)


if __name__ == "__main__":
    unittest.main()
