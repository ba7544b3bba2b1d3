"""Tests of a RepViT around its trunk: `python -m unittest discover onnx`, or `python
onnx/test_trunk_repvit.py` alone.

As in test_trunk.py the blocks are computed from the file of weights by trunk_run.py. timm is needed,
and Meta's SAM 2 or EdgeTAM's copy of it; without them this is skipped, loudly.
"""

import needs_torch  # in front of what it looks for

import sys
import tomllib
import unittest
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from segexport import ExportError, graphs, mini, models, stem_neck, trunk, weights, work
from segexport.encoder import Encoder
from segexport.manifest import _graph_entry, _trunk_entry
from segexport.onnx_write import to_onnx
from segexport.trunk_run import RepVitRun, as_in_file, neck_run, stem_run, trunk_run
from test_encoder_parts import error, hiera_code
from test_trunk import NO_WORK, ThroughTheFile

SIDE, WIDTH = 64, 24


def small_encoder(channels=(16, 24, 48, 64), blocks=(1, 2, 3, 1), side=SIDE, **options):
    """An Encoder with a RepViT and random weights, and the ports of its features."""
    hiera_code()
    from sam2.modeling.backbones.image_encoder import FpnNeck

    torch.manual_seed(0)
    try:
        made = mini.SmallRepVit(channels, blocks, **options)
    except ModuleNotFoundError as missing:
        print(f"SKIPPED: {missing}", file=sys.stderr)
        raise unittest.SkipTest(str(missing)) from missing
    with torch.no_grad():
        for module in made.modules():  # norms that do something, as trained ones
            if isinstance(module, nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.3)
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 1.5)
    neck = FpnNeck(nn.Identity(), WIDTH, list(channels[::-1]), fpn_interp_model="nearest",
                   fpn_top_down_levels=[2, 3])
    decoder = SimpleNamespace(conv_s0=nn.Conv2d(WIDTH, 3, 1), conv_s1=nn.Conv2d(WIDTH, 6, 1))
    model = SimpleNamespace(image_encoder=SimpleNamespace(trunk=made.eval(), neck=neck),
                            sam_mask_decoder=decoder)
    grid = side // 16
    shapes = {
        "feat": (1, WIDTH, grid, grid), "hr0": (1, 3, 4 * grid, 4 * grid), "hr1": (1, 6, 2 * grid, 2 * grid)
    }
    return Encoder(model, side).eval(), [graphs.Port(name, "f", shape) for name, shape in shapes.items()]


class RepVit(ThroughTheFile, unittest.TestCase):
    def test_stem_blocks_and_neck_give_what_the_whole_encoder_gives(self):
        for legacy in (False, True):
            encoder, ports = small_encoder(legacy=legacy)
            image = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE))
            exact = self.whole(encoder, SIDE, ports, image)
            halves = self.through_the_file(encoder, SIDE, ports, image)[0]
            rounded = self.through_the_file(encoder, SIDE, ports, image, half=True)[0]
            as_in_file(trunk.blocks_of(encoder.trunk, SIDE))
            same = self.through_the_file(encoder, SIDE, ports, image)[0]
            as_file = self.whole(encoder, SIDE, ports, image)
            for name, value in exact.items():
                self.assertLess(error(same[name], as_file[name]), 1e-5, f"{name}, rounded weights")
                self.assertLess(error(halves[name], value), 1e-3, f"{name}, f16 weights")
                self.assertLess(error(rounded[name], value), 5e-3, f"{name}, f16 throughout")
                self.assertGreater(error(halves[name], value), error(same[name], as_file[name]))

    def test_each_layer_counts(self):
        # Else the test above would not see whether one is left out.
        encoder, _ = small_encoder()
        blocks = trunk.blocks_of(encoder.trunk, SIDE)
        table, tensors = {"repvit": blocks.tables(), "ends": blocks.ends}, blocks.tensors()
        y = np.random.default_rng(0).standard_normal(trunk.shapes_of(blocks)["y"])
        exact = RepVitRun(table, tensors)(y)[-1]
        for layer in ("dw", "squeeze", "excite", "pw", "up", "down"):
            for part in ("weight", "bias"):
                without = {name: np.zeros_like(value) if f".{layer}.{part}" in name else value
                           for name, value in tensors.items()}
                self.assertGreater(error(RepVitRun(table, without)(y)[-1], exact), 1e-3, (layer, part))
        turned = {name: value[::-1] if ".dw.weight" in name else value for name, value in tensors.items()}
        self.assertGreater(error(RepVitRun(table, turned)(y)[-1], exact), 1e-2)

    def test_edgetams_blocks_give_the_maps_of_the_original(self):
        side = 256
        try:
            model, _ = models.build("edgetam", side)
        except ExportError as missing:
            print(f"SKIPPED: {missing}", file=sys.stderr)
            raise unittest.SkipTest(str(missing)) from missing
        weights.load_random(model, 0, family="edgetam", side=side)
        encoder = Encoder(model, side).eval()
        blocks = trunk.blocks_of(encoder.trunk, side)
        self.assertEqual((len(blocks.blocks), blocks.ends), (26, [1, 5, 21, 25]))
        self.assertEqual(sum(block.squeeze > 0 for block in blocks.blocks), 10)
        torch.manual_seed(0)
        image = torch.randn(1, 3, side, side)
        with torch.no_grad():
            y = blocks.Stem(encoder.trunk)(image).numpy()
            maps = [each.permute(0, 2, 3, 1).numpy() for each in model.image_encoder.trunk(image)]
        table = {"repvit": blocks.tables(), "ends": blocks.ends}
        for half, limit in ((False, 2e-3), (True, 5e-3)):
            for stage, (found, expected) in enumerate(zip(trunk_run(table, blocks.tensors(), half)(y), maps)):
                self.assertLess(error(found, expected), limit, (stage, half))

    def test_the_manifest_says_tokens_and_blocks(self):
        encoder, ports = small_encoder()
        stem, neck = graphs.around_trunk(encoder, SIDE, ports)
        entry = tomllib.loads(_graph_entry(stem, "fp16", "-", NO_WORK))["graph"][0]
        self.assertEqual(entry["output"], [{"name": "y", "dtype": "f16", "shape": [1, 16, 16, 16]}])
        entry = tomllib.loads(_graph_entry(neck, "fp16", "-", NO_WORK))["graph"][0]
        shapes = [(port["name"], port["dtype"], port["shape"]) for port in entry["input"]]
        self.assertEqual(shapes[2:], [("m2", "f16", [1, 4, 4, 48]), ("m3", "f16", [1, 2, 2, 64])])
        blocks = trunk.blocks_of(encoder.trunk, SIDE)
        text = _trunk_entry({"file": "f", "ends": blocks.ends, blocks.KEY: blocks.tables()})
        table = tomllib.loads(text)["trunk"]
        self.assertEqual((len(table["repvit"]), table["ends"]), (13, [0, 4, 9, 12]))
        plain = {"dim": 16, "dim_out": 16, "grid": 16, "stride": 1, "squeeze": 0, "hidden": 32}
        self.assertEqual(table["repvit"][0], plain | {"squeeze": 8})
        self.assertEqual(table["repvit"][1], plain)
        self.assertEqual(table["repvit"][2], plain | {"dim_out": 24, "stride": 2, "hidden": 48})

    def test_stem_and_neck_by_their_weights_give_what_the_whole_encoder_gives(self):
        encoder, ports = small_encoder()
        blocks = trunk.blocks_of(encoder.trunk, SIDE)
        both = stem_neck.of(encoder, blocks)
        self.assertEqual(both.tables(), {"stem": {"middle": 8}, "neck": {"hr0": 3, "hr1": 6, "feat": WIDTH}})
        tensors = blocks.tensors() | both.tensors()
        self.assertEqual(tensors["stem.second.weight"].shape, (16, 72))
        image = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE))
        table = {"repvit": blocks.tables(), "ends": blocks.ends}
        for half, limit in ((False, 2e-3), (True, 5e-3)):
            stages = trunk_run(table, tensors, half)(stem_run(tensors, image, half))
            found = neck_run(tensors, stages, half)
            for name, value in self.whole(encoder, SIDE, ports, image).items():
                self.assertLess(error(found[name], value), limit, (name, half))
        text = _trunk_entry({"file": "f", "ends": blocks.ends, blocks.KEY: blocks.tables()} | both.tables())
        table = tomllib.loads(text)["trunk"]
        self.assertEqual((table["stem"], table["neck"]["feat"]), ({"middle": 8}, WIDTH))

    def test_stem_and_neck_that_no_kernel_computes_stay_engines(self):
        said = []
        encoder, _ = small_encoder(channels=(64, 64, 64, 64))
        self.assertIsNone(stem_neck.of(encoder, trunk.blocks_of(encoder.trunk, SIDE), said.append))
        self.assertIn("32 columns between the stem's convolutions, expected a multiple of 8 up to 24", said[-1])
        encoder, _ = small_encoder()
        encoder.trunk.body["stem"].act1 = nn.ReLU()
        self.assertIsNone(stem_neck.of(encoder, trunk.blocks_of(encoder.trunk, SIDE), said.append))
        self.assertIn("expected the exact GELU", said[-1])

    def test_work_is_the_wholes(self):
        encoder, ports = small_encoder()
        whole = graphs.Graph("encoder", encoder, [graphs.Port("image", "f", (1, 3, SIDE, SIDE))], ports)
        outside = sum(work.count(to_onnx(graph)).flops for graph in graphs.around_trunk(encoder, SIDE, ports))
        inside = trunk.blocks_of(encoder.trunk, SIDE).flops()
        self.assertEqual(inside + outside, work.count(to_onnx(whole)).flops)

    def test_what_no_kernel_computes_is_refused_with_its_block(self):
        refused = (
            (dict(channels=(12, 24, 48, 64)), "block 0: 12 columns, expected a multiple of 8 up to 1024"),
            (dict(channels=(16, 24, 48, 1032)), "block 11: 1032 columns, expected"),
            (dict(act_layer=nn.ReLU), "block 0: ReLU.* in its hidden layer, expected the exact GELU"),
            (dict(side=32), "block 12: squeeze-and-excite in a map of one token"),
        )
        for options, says in refused:
            encoder, _ = small_encoder(**options)
            with self.assertRaisesRegex(ExportError, says):
                trunk.blocks_of(encoder.trunk, options.get("side", SIDE))
        encoder, _ = small_encoder()
        blocks = trunk.blocks_of(encoder.trunk, SIDE)
        blocks.blocks[0].excite.gate = nn.Hardsigmoid()
        with self.assertRaisesRegex(ExportError, "block 0: a squeeze-and-excite that is not.*--encoder engine"):
            trunk.blocks_of(encoder.trunk, SIDE)
        encoder, _ = small_encoder()
        encoder.trunk.body["stages"][0].blocks[0].token_mixer = nn.Conv2d(16, 16, 5, padding=2, groups=16)
        with self.assertRaisesRegex(ExportError, "block 0: Conv2d.*expected a 3x3 convolution"):
            trunk.blocks_of(encoder.trunk, SIDE)
        encoder.trunk.body["stages"] = encoder.trunk.body["stages"][:3]
        with self.assertRaisesRegex(ExportError, "a RepViT of 3 stages, expected 4"):
            trunk.blocks_of(encoder.trunk, SIDE)
        blocks.blocks[3].mixer.conv1.weight.data[0, 0] = 1e6
        with self.assertRaisesRegex(ExportError, r"blocks.3.up.weight has values beyond f16"):
            blocks.tensors()


if __name__ == "__main__":
    unittest.main()
