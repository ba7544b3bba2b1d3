"""Tests of encoders around their trunk, on small Hieras: `python -m unittest discover onnx`, or
`python onnx/test_trunk.py` alone.

The blocks are computed from the file of weights by trunk_run.py, which knows nothing of the
exporter's modules; stem and neck run in ONNX Runtime. Meta's SAM 2 or EdgeTAM's copy of it is
needed; without either most is skipped, loudly.
"""

import needs_torch  # in front of what it looks for

import hashlib
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from safetensors.numpy import load_file
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import ExportError, graphs, stem_neck, trunk, work
from segexport.fp16 import to_fp16
from segexport.manifest import _graph_entry, _trunk_entry
from segexport.onnx_write import check, to_onnx
from segexport.trunk_run import HieraRun, as_in_file, neck_run, stem_run, trunk_run
from test_encoder_parts import error, hiera_code, run, small_encoder

NO_WORK = work.Work(0, 0, 0, 0)
COMMITTED = HERE.parent / "tests" / "data" / "trunk"
# Hieras and what their blocks have that others' have not.
SMALL = {
    "windows that reach over the edge, pooled ones too":
    dict(side=96, channels=16, num_heads=2, stages=(1, 2, 3, 2)),
    "odd windows, one larger than its map":
    dict(side=64, channels=8, stages=(2, 2, 3, 2), attentions=(5, ), windows=(4, 6, 2, 3)),
    "neighbours that both attend over the whole map, heads of 56":
    dict(side=64, channels=56, stages=(1, 1, 3, 1), attentions=(3, 4)),
}


class ThroughTheFile:
    """Runs an encoder around its trunk, and whole."""

    def through_the_file(self, encoder, side, ports, image, half=False):
        """Features of the stem, the blocks as the file has them and the neck; and the graphs."""
        made = list(graphs.around_trunk(encoder, side, ports))
        protos = [to_onnx(graph) for graph in made]
        if half:
            protos = [to_fp16(proto, graph) for proto, graph in zip(protos, made)]
            for proto, graph in zip(protos, made):
                check(proto, graph.role)
        with tempfile.TemporaryDirectory() as folder:
            blocks = trunk.blocks_of(encoder.trunk, side)
            table = trunk.write(blocks, Path(folder))
            table = tomllib.loads(_trunk_entry(table))["trunk"]  # as whoever reads the manifest has it
            path = Path(folder) / table["file"]
            self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), table["sha256"])
            tensors = load_file(path)
        stem, neck = made
        y = run(protos[0], stem, {"image": image.astype(np.float16 if half else np.float32)})["y"]
        wide = np.float32 if blocks.PORT == "cast" or not half else np.float16
        self.assertEqual(y.dtype, wide)
        stages = [stage.astype(wide) for stage in trunk_run(table, tensors, half)(y)]
        return run(protos[1], neck, dict(zip(trunk.STAGES, stages))), protos

    def whole(self, encoder, side, ports, image):
        graph = graphs.Graph("encoder", encoder, [graphs.Port("image", "f", image.shape)], ports)
        return run(to_onnx(graph), graph, {"image": image.astype(np.float32)})


class Trunk(ThroughTheFile, unittest.TestCase):
    def test_stem_blocks_and_neck_give_what_the_whole_encoder_gives(self):
        worst = {"rounded weights": 0.0, "f16 weights": 0.0, "f16 throughout": 0.0}
        for what, options in SMALL.items():
            encoder, ports = small_encoder(**options)
            side = options["side"]
            image = np.random.default_rng(0).standard_normal((1, 3, side, side))
            exact = self.whole(encoder, side, ports, image)
            ways = {
                "f16 weights": (self.through_the_file(encoder, side, ports, image)[0], exact, 1e-3),
                "f16 throughout": (self.through_the_file(encoder, side, ports, image,
                                                         half=True)[0], exact, 5e-3),
            }
            as_in_file(encoder.trunk)
            found = self.through_the_file(encoder, side, ports, image)[0]
            ways["rounded weights"] = (found, self.whole(encoder, side, ports, image), 1e-5)
            for way, (found, expected, limit) in ways.items():
                for name, value in expected.items():
                    off = error(found[name], value)
                    worst[way] = max(worst[way], off)
                    self.assertLess(off, limit, f"{name}, {way}: {what}")
        self.assertGreater(worst["f16 weights"], worst["rounded weights"], worst)

    def test_stem_and_neck_by_their_weights_give_what_the_whole_encoder_gives(self):
        options = SMALL["windows that reach over the edge, pooled ones too"]
        encoder, ports = small_encoder(**options)
        side = options["side"]
        encoder.trunk.pos.normal_()  # zeros without a checkpoint
        blocks = trunk.blocks_of(encoder.trunk, side)
        both = stem_neck.of(encoder, blocks)
        self.assertEqual(both.tables()["stem"], {"kernel": 7})
        tensors = blocks.tensors() | both.tensors()
        grid = side // 4
        self.assertEqual(tensors["stem.patch.weight"].shape, (16, 147))
        self.assertEqual(tensors["stem.position"].shape, (grid, grid, 16))
        image = np.random.default_rng(0).standard_normal((1, 3, side, side))
        table = {"block": blocks.tables(), "ends": blocks.ends}
        for half, limit in ((False, 2e-3), (True, 5e-3)):
            y = stem_run(tensors, image, half)
            found = neck_run(tensors, trunk_run(table, tensors, half)(y), half)
            for name, value in self.whole(encoder, side, ports, image).items():
                self.assertLess(error(found[name], value), limit, (name, half))
        for name in ("stem.position", "stem.patch.bias", "neck.coarse.weight"):  # each counts
            without = tensors | {name: np.zeros_like(tensors[name])}
            y = stem_run(without, image)
            off = error(neck_run(without, trunk_run(table, without)(y))["feat"], found["feat"])
            self.assertGreater(off, 1e-2, name)
        text = _trunk_entry({"file": "f", "ends": blocks.ends, blocks.KEY: blocks.tables()} | both.tables())
        self.assertEqual(tomllib.loads(text)["trunk"]["stem"], {"kernel": 7})

    def test_a_stem_that_no_kernel_computes_stays_an_engine(self):
        encoder, _ = small_encoder(64)
        said, patch = [], encoder.trunk.patch
        encoder.trunk.patch = nn.Conv2d(3, patch.out_channels, 8, stride=4, padding=2)
        self.assertIsNone(stem_neck.of(encoder, trunk.blocks_of(encoder.trunk, 64), said.append))
        self.assertIn("expected a 7x7 convolution with stride 4", said[-1])

    def test_what_stands_in_padding_counts(self):
        # Else the test above would not see whether padding tokens have the bias.
        encoder, _ = small_encoder(**SMALL["windows that reach over the edge, pooled ones too"])
        padded = [at for at, block in enumerate(encoder.trunk.blocks) if block.padded > block.grid]
        self.assertEqual(padded, [5, 6, 7])
        blocks = trunk.blocks_of(encoder.trunk, 96)
        table, tensors = {"block": blocks.tables(), "ends": blocks.ends}, blocks.tensors()

        class Zeros(HieraRun):
            def _attend(self, qkv, bias, block):
                return super()._attend(qkv, np.zeros_like(bias), block)

        y = np.random.default_rng(0).standard_normal(trunk.shapes_of(blocks)["y"]).astype(np.float32)
        stages, zeros = HieraRun(table, tensors)(y), Zeros(table, tensors)(y)
        # No window of the first stage reaches over the edge.
        self.assertEqual(error(zeros[0], stages[0]), 0.0)
        self.assertGreater(error(zeros[3], stages[3]), 1e-2)

    def test_tokens_are_cast_once_at_the_edge_and_all_else_is_half(self):
        encoder, ports = small_encoder(64)
        image = np.random.default_rng(0).standard_normal((1, 3, 64, 64))
        _, (stem, neck) = self.through_the_file(encoder, 64, ports, image, half=True)
        casts = [node for node in stem.graph.node if node.op_type == "Cast"]
        self.assertEqual([list(node.output) for node in casts], [["y"]])
        self.assertEqual(stem.graph.node[-1].op_type, "Cast")
        add, = (node for node in stem.graph.node if node.op_type == "Add")
        self.assertEqual(list(add.output), list(casts[0].input))
        taken = [node for node in neck.graph.node if node.op_type == "Cast" and node.attribute[0].i == 10]
        self.assertGreaterEqual(len(taken), 4)
        halves = {i.name for i in neck.graph.initializer if i.data_type == 10}
        products = [node for node in neck.graph.node if node.op_type == "MatMul"]
        self.assertEqual(len(products), 4)
        self.assertTrue(all(node.input[1] in halves for node in products))

    def test_the_manifest_says_tokens_and_blocks(self):
        encoder, ports = small_encoder(64, stages=(1, 2, 3, 1), attentions=(4,), num_heads=2)
        stem, neck = graphs.around_trunk(encoder, 64, ports)
        entry = tomllib.loads(_graph_entry(stem, "fp16", "-", NO_WORK))["graph"][0]
        self.assertEqual(entry["input"], [{"name": "image", "dtype": "f16", "shape": [1, 3, 64, 64]}])
        self.assertEqual(entry["output"], [{"name": "y", "dtype": "f32", "shape": [1, 16, 16, 16]}])
        entry = tomllib.loads(_graph_entry(neck, "fp16", "-", NO_WORK))["graph"][0]
        shapes = [(port["name"], port["dtype"], port["shape"]) for port in entry["input"]]
        self.assertEqual(shapes[2:], [("m2", "f32", [1, 4, 4, 64]), ("m3", "f32", [1, 2, 2, 128])])
        self.assertEqual({port["name"]: port["dtype"]
                          for port in entry["output"]}, {"feat": "f16", "hr0": "f16", "hr1": "f16"})
        blocks = trunk.blocks_of(encoder.trunk, 64).tables()
        self.assertEqual(blocks[1],
                         {"dim": 16, "dim_out": 32, "heads": 4, "grid": 16, "window": 4, "pooled": True})
        self.assertEqual(blocks[4],
                         {"dim": 64, "dim_out": 64, "heads": 8, "grid": 4, "window": 0, "pooled": False})

    def test_work_is_the_wholes_without_padding(self):
        # No window reaches over the edge: what the blocks do is what the whole does beside stem and neck.
        encoder, ports = small_encoder(128)
        whole = graphs.Graph("encoder", encoder, [graphs.Port("image", "f", (1, 3, 128, 128))], ports)
        outside = sum(work.count(to_onnx(graph)).flops for graph in graphs.around_trunk(encoder, 128, ports))
        inside = trunk.blocks_of(encoder.trunk, 128).flops()
        self.assertEqual(inside + outside, work.count(to_onnx(whole)).flops)

    def test_what_no_kernel_computes_is_refused_with_its_block(self):
        refused = (
            (dict(channels=12), "block 0: heads of 12 columns"),
            (dict(channels=104), "block 0: heads of 104 columns"),
            (dict(side=512, windows=(4, 4, 18, 4)), "block 4: windows of 18 tokens"),
            (dict(attentions=(3,)), "block 3: pooling in windows of 0"),
            (dict(windows=(4, 3, 4, 4)), "block 3: pooling in windows of 3"),
            (dict(q_pool=2), "block 6: pooling or more columns elsewhere"),
        )
        for options, says in refused:
            side = options.setdefault("side", 64)
            options.setdefault("attentions", ())
            encoder, ports = small_encoder(**options)
            with self.assertRaisesRegex(ExportError, says + ".*--encoder engine"):
                list(graphs.around_trunk(encoder, side, ports))
        encoder, ports = small_encoder(64)
        encoder.trunk.blocks[1].up.weight.data[0, 0] = 1e6
        with self.assertRaisesRegex(ExportError, r"blocks.1.up.weight has values beyond f16"):
            trunk.blocks_of(encoder.trunk, 64).tensors()
        encoder.trunk = nn.Identity()
        with self.assertRaisesRegex(ExportError, "Identity has no blocks"):
            list(graphs.around_trunk(encoder, 64, ports))


class Committed(unittest.TestCase):
    """tests/data/trunk, which tests of the program run."""

    def features(self, folder):
        """Of the whole, and of stem, blocks and neck, for one image; and the manifest's lines."""
        table = tomllib.loads((folder / "graphs.toml").read_text())
        for entry in (*table["graph"], table["trunk"]):
            self.assertEqual(
                hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest(), entry["sha256"],
                entry["file"])

        def run_file(role, fed):
            session = ort.InferenceSession(str(folder / f"{role}.onnx"), providers=["CPUExecutionProvider"])
            return dict(zip([port.name for port in session.get_outputs()], session.run(None, fed)))

        side = table["graph"][0]["input"][0]["shape"][-1]
        image = {"image": np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)}
        tensors = load_file(folder / table["trunk"]["file"])
        y = run_file("encoder_cut0", image)["y"]
        found = [
            run_file("encoder_cut1", dict(zip(trunk.STAGES,
                                              trunk_run(table["trunk"], tensors, half)(y))))
            for half in (False, True)
        ]
        return run_file("encoder", image), found, table

    def test_its_parts_give_what_its_whole_encoder_gives(self):
        whole, (exact, half), table = self.features(COMMITTED)
        for name, value in whole.items():
            self.assertLess(error(exact[name], value), 1e-5, name)
            self.assertLess(error(half[name], value), 5e-3, name)
        blocks = table["trunk"]["block"]
        over = [bool(b["window"]) and b["grid"] % b["window"] > 0 for b in blocks]
        kinds = {(b["pooled"], b["window"] == 0, reaches) for b, reaches in zip(blocks, over)}
        # Windows inside the map and over its edge, pooled and not, and the whole map.
        self.assertEqual(len(kinds), 5, kinds)
        self.assertLess(sum(path.stat().st_size for path in COMMITTED.iterdir()), 300_000)

    def test_its_script_makes_it_again(self):
        hiera_code()
        # A process of its own, for its `sam2` may be the other one.
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(
                [sys.executable, str(COMMITTED / "make_parts.py"), folder], capture_output=True, text=True)
            if "Meta's SAM 2 code is not importable" in result.stderr:
                print("SKIPPED: Meta's SAM 2 is not installed", file=sys.stderr)
                self.skipTest("Meta's SAM 2 is not installed")
            self.assertEqual(result.returncode, 0, result.stderr[-2000:])
            (made, _, lines), (committed, _,
                               as_committed) = self.features(Path(folder)), self.features(COMMITTED)
            for table in (lines, as_committed):
                for entry in (*table["graph"], table["trunk"]):
                    del entry["sha256"]  # another torch may write other bytes
            self.assertEqual(lines, as_committed)
            for name, value in committed.items():
                np.testing.assert_allclose(made[name], value, atol=1e-5, err_msg=name)


if __name__ == "__main__":
    unittest.main()
