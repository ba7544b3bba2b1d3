"""Tests of encoders in parts, on small Hieras: `python -m unittest discover onnx`, or `python onnx/test_encoder_parts.py` alone.

Meta's SAM 2 or EdgeTAM's copy of it is needed; without either most is skipped, loudly.
"""

import needs_torch  # in front of what it looks for

import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path
from unittest import mock
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from segexport import ExportError, flops, graphs
from segexport.encoder import Encoder
from segexport.encoder_parts import Part, attentions_of, bounds_of
from segexport.fp16 import to_fp16
from segexport.manifest import _graph_entry, write_bundle
from segexport.onnx_write import check, to_onnx
from segexport.ort_driver import Bundle
from segexport.reference_code import activate
from test_committed import attend

COMMITTED = HERE.parent / "tests" / "data" / "encoder_attention"
SIDE = 256
torch.set_num_threads(1)


def hiera_code():
    """Makes `sam2` importable, whichever family's is there or was imported before; or a loud skip."""
    refusals = []
    for family in ("edgetam", "sam2.1"):
        try:
            return activate(family)
        except ExportError as error:
            refusals.append(str(error))
    print(f"SKIPPED: {' / '.join(refusals)}", file=sys.stderr)
    raise unittest.SkipTest(refusals[-1])


def small_encoder(side=SIDE, channels=16, stages=(1, 2, 3, 1), attentions=(4,), windows=(4, 4, 4, 4), **options):
    """An Encoder with a Hiera trunk and random weights, and the ports of its features."""
    hiera_code()
    from sam2.modeling.backbones.hieradet import Hiera
    from sam2.modeling.backbones.image_encoder import FpnNeck

    torch.manual_seed(0)
    trunk = Hiera(embed_dim=channels, stages=stages, global_att_blocks=attentions, window_spec=windows, **options)
    with torch.no_grad():
        for block in trunk.blocks:  # attention that tells places apart, and biases that are not next to nothing
            block.attn.qkv.weight.mul_(3.0)
            block.attn.qkv.bias.normal_()
    neck = FpnNeck(nn.Identity(), 24, [channels * n for n in (8, 4, 2, 1)], fpn_interp_model="nearest", fpn_top_down_levels=[2, 3])
    decoder = SimpleNamespace(conv_s0=nn.Conv2d(24, 3, 1), conv_s1=nn.Conv2d(24, 6, 1))
    model = SimpleNamespace(image_encoder=SimpleNamespace(trunk=trunk.eval(), neck=neck), sam_mask_decoder=decoder)
    grid = side // 16
    shapes = {"feat": (1, 24, grid, grid), "hr0": (1, 3, 4 * grid, 4 * grid), "hr1": (1, 6, 2 * grid, 2 * grid)}
    return Encoder(model, side).eval(), [graphs.Port(name, "f", shape) for name, shape in shapes.items()]


def run(proto, graph, fed):
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for port, given in zip(session.get_inputs(), graph.inputs, strict=True):
        assert (port.name, tuple(port.shape)) == (given.name, given.shape), port
    found = dict(zip([port.name for port in graph.outputs], session.run(None, fed)))
    for port in graph.outputs:
        assert found[port.name].shape == port.shape, (port, found[port.name].shape)
    return found


def error(found, expected):
    """Relative to the expected values' norm."""
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


class EncoderParts(unittest.TestCase):
    def test_parts_in_turn_give_what_the_whole_encoder_gives(self):
        encoder, ports = small_encoder()
        image = torch.randn(1, 3, SIDE, SIDE)
        with torch.no_grad():
            expected = dict(zip(("feat", "hr0", "hr1"), encoder(image)))
        for bounds in ([(0, 1), (1, 4), (4, 7)], [(0, 2), (2, 7)], [(0, 5), (5, 7)]):
            fed, given = image.numpy(), {}
            for index, graph in enumerate(graphs.encoder_cuts(encoder, SIDE, ports, bounds)):
                self.assertEqual((graph.role, fed.shape), (f"encoder_cut{index}", graph.inputs[0].shape))
                given |= run(to_onnx(graph), graph, {graph.inputs[0].name: fed})
                fed = given.pop("y", None)
            self.assertEqual((index + 1, fed), (len(bounds), None))
            for name, value in expected.items():
                np.testing.assert_allclose(given[name], value, atol=1e-4, err_msg=f"{name} {bounds}")
        self.assertEqual(list(graphs.encoder_cuts(encoder, SIDE, ports)), [])  # seven blocks stay together
        with self.assertRaisesRegex(ValueError, "two coarsest"):
            list(graphs.encoder_cuts(encoder, SIDE, ports, [(0, 6), (6, 7)]))

    def test_only_the_deepest_trunk_is_cut_for_its_depth(self):
        self.assertEqual([len(bounds_of(blocks)) for blocks in (12, 16, 24, 48)], [1, 1, 1, 4])
        self.assertEqual([(a, b) for a, b, *_ in bounds_of(48)], [(0, 12), (12, 24), (24, 36), (36, 48)])


class Attention(unittest.TestCase):
    """Cuts at the attention over the whole map."""

    def check(self, side, bounds=None, **options):
        """Parts with attention between them against the whole, in fp32 and fp16; returns the parts' graphs."""
        encoder, ports = small_encoder(side, **options)
        bounds = bounds or graphs.bounds_at_attentions(encoder)
        image = np.random.default_rng(0).standard_normal((1, 3, side, side))
        whole = graphs.Graph("encoder", encoder, [graphs.Port("image", "f", image.shape)], ports)
        parts = list(graphs.encoder_cuts(encoder, side, ports, bounds))
        exact = run(to_onnx(whole), whole, {"image": image.astype(np.float32)})
        for kind, limit in ((np.float32, 1e-5), (np.float16, 5e-3)):
            fed, given, met = {"image": image.astype(kind)}, {}, 0
            for graph, bound in zip(parts, bounds, strict=True):
                proto = to_onnx(graph)
                if kind == np.float16:
                    proto = to_fp16(proto, graph)
                    check(proto, graph.role)
                out = run(proto, graph, fed)
                fed = {"x": out.pop("y", None)}
                if "q" in out:
                    depth = encoder.trunk.blocks[Part(*bound).behind].depth
                    q, k, v = (out.pop(name) for name in "qkv")
                    for values in (q, k, v):
                        self.assertEqual(values.dtype, kind)
                        self.assertFalse(values[..., depth:].any(), "what is behind a head's columns must be zero")
                        self.assertTrue(values[..., :depth].any(axis=(0, 1)).all())
                    fed["o"] = attend(q, k, v)
                    # Whatever the kernel leaves in the padding.
                    fed["o"][..., depth:] = np.random.default_rng(1).standard_normal(fed["o"][..., depth:].shape)
                    met += 1
                given |= out
            self.assertEqual(met, len(attentions_of(encoder.trunk)))
            for name, value in exact.items():
                self.assertLess(error(given[name], value), limit, f"{name} {kind.__name__} {side}")
        return encoder, whole, parts

    def test_parts_give_what_the_whole_encoder_gives(self):
        _, _, parts = self.check(SIDE, stages=(1, 2, 4, 1), attentions=(4, 6))
        shapes = [{port.name: port.shape for port in graph.outputs} for graph in parts]
        tokens = (SIDE // 16) ** 2
        self.assertEqual([list(shape) for shape in shapes], [["hr0", "hr1", "y", *"qkv"], ["y", *"qkv"], ["feat"]])
        self.assertEqual((shapes[1]["y"], shapes[1]["q"]), ((1, 16, 16, 64), (4, tokens, 64)))
        self.assertEqual([[port.name for port in graph.inputs] for graph in parts], [["image"], ["x", "o"], ["x", "o"]])

    def test_wide_heads_go_into_128_columns_and_odd_maps_work(self):
        # 80 columns; 6 x 6 tokens, which the other blocks' windows of 4 x 4 do not divide; neighbours that both attend.
        _, _, parts = self.check(96, channels=20, head_mul=1.0, attentions=(4, 5))
        self.assertEqual(parts[1].inputs[1].shape, (1, 36, 128))

    def test_cuts_with_and_without_attention_follow_each_other(self):
        bounds = [Part(0, 1), Part(1, 4, gives_qkv=True), Part(4, 5, takes_o=True), Part(5, 7)]
        _, _, parts = self.check(128, bounds)
        taken = [[port.name for port in graph.inputs] for graph in parts]
        self.assertEqual(taken, [["image"], ["x"], ["x", "o"], ["x"]])

    def test_work_is_the_wholes_without_the_attention_and_with_the_padding(self):
        encoder, whole, parts = self.check(SIDE)
        block, tokens = encoder.trunk.blocks[4], (SIDE // 16) ** 2
        attention = 2 * 2 * tokens**2 * block.dim
        padding = 4 * 2 * tokens * block.dim * (block.heads * 64 - block.dim)
        counted = sum(flops.count(to_onnx(graph)) for graph in parts)
        self.assertEqual(counted, flops.count(to_onnx(whole)) - attention + padding)

    def test_the_manifest_says_half_precision_and_all_extents(self):
        encoder, ports = small_encoder()
        graph = list(graphs.encoder_cuts(encoder, SIDE, ports, graphs.bounds_at_attentions(encoder)))[1]
        entry = tomllib.loads(_graph_entry(graph, "fp16", "-", 1))["graph"][0]
        self.assertEqual(entry["role"], "encoder_cut1")
        self.assertEqual(entry["input"][1], {"name": "o", "dtype": "f16", "shape": [4, 256, 64]})

    def test_every_size_of_sam_2_1_is_divided(self):
        # Blocks and those that attend over the whole map, as in Meta's configurations.
        tiny, small = bounds_of(12, (5, 7, 9)), bounds_of(16, (7, 10, 13))
        base, large = bounds_of(24, (12, 16, 20)), bounds_of(48, (23, 33, 43))
        self.assertEqual([len(parts) for parts in (tiny, small, base, large)], [4, 4, 4, 5])
        self.assertEqual(tiny[1], Part(5, 7, takes_o=True, gives_qkv=True))
        cut = [(part.first, part.behind, part.takes_o, part.gives_qkv) for part in large]
        self.assertEqual(cut, [
            (0, 12, False, False), (12, 23, False, True), (23, 33, True, True), (33, 43, True, True), (43, 48, True, False),
        ])
        with self.assertRaisesRegex(ValueError, "roles for 8"):
            bounds_of(120, (60,))

    def test_blocks_that_cannot_be_cut_are_not(self):
        # Block 3 pools; block 6 is of the coarsest map, which must be the last part's with the one before it.
        encoder, _ = small_encoder(attentions=(3, 4, 6))
        self.assertEqual(attentions_of(encoder.trunk), [4])
        with self.assertRaisesRegex(ExportError, "no attention over the whole map"):
            graphs.bounds_at_attentions(small_encoder(attentions=())[0])
        wide, ports = small_encoder(channels=33, num_heads=1, head_mul=1.0)
        with self.assertRaisesRegex(ExportError, "heads of 132 columns.*128 at most"):
            list(graphs.encoder_cuts(wide, SIDE, ports, graphs.bounds_at_attentions(wide)))

    def test_segments_cut_an_encoder_at_its_attentions_where_the_kernels_serve(self):
        import export

        for flags, cut in (
            (["--precision", "fp16", "--segments"], "trunk"),
            (["--precision", "fp16"], "whole"),
            (["--precision", "fp32", "--segments"], "whole"),
            (["--precision", "fp16", "--segments", "--encoder", "whole"], "whole"),
            (["--precision", "fp32", "--encoder", "whole"], "whole"),
            (["--precision", "fp16", "--encoder", "attention"], "attention"),
            (["--precision", "fp16", "--segments", "--encoder", "trunk"], "trunk"),
        ):
            for model in ("sam2.1_tiny", "edgetam"):
                if model == "edgetam" and flags[-1] in ("attention", "trunk"):
                    continue  # refused
                command = ["export.py", "--model", model, "--random-weights", "0", "--out", "-", *flags]
                with mock.patch.object(sys, "argv", command):
                    self.assertEqual(export.parse().encoder, "whole" if model == "edgetam" else cut, command)

    def test_what_cannot_be_exported_is_refused_at_once(self):
        for kind in ("attention", "trunk"):
            for flags, says in (
                (["--model", "edgetam", "--precision", "fp16"], "edgetam's encoder consists of convolutions"),
                (["--model", "sam2.1_tiny"], f"--encoder {kind} needs --precision fp16"),
            ):
                command = [sys.executable, str(HERE / "export.py"), "--encoder", kind, "--random-weights", "0", "--out", "-"]
                result = subprocess.run([*command, *flags], capture_output=True, text=True)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(says, result.stderr)
            with self.assertRaisesRegex(ExportError, "take fp16, and fp32"):
                write_bundle(None, "sam2.1_tiny", SIDE, "fp32", {}, "-", "/nowhere", encoder=kind)


class CommittedBundle(unittest.TestCase):
    """tests/data/encoder_attention, which tests of the program run."""

    def test_its_script_makes_it_again(self):
        hiera_code()
        with tempfile.TemporaryDirectory() as folder:  # a process of its own, for its `sam2` may be the other one
            result = subprocess.run([sys.executable, str(COMMITTED / "make_bundle.py"), folder], capture_output=True, text=True)
            if "Meta's SAM 2 code is not importable" in result.stderr:
                print("SKIPPED: Meta's SAM 2 is not installed", file=sys.stderr)
                self.skipTest("Meta's SAM 2 is not installed")
            self.assertEqual(result.returncode, 0, result.stderr[-2000:])
            made, committed = Bundle(folder), Bundle(COMMITTED)
            for manifest in (made.manifest, committed.manifest):
                for graph in manifest["graph"]:
                    del graph["sha256"]  # another torch may write other bytes
            self.assertEqual(made.manifest, committed.manifest)
            image = np.random.default_rng(0).standard_normal((1, 3, made.side, made.side))
            for role in ("encoder", "encoder_cut0"):
                for name, value in committed(role, image=image).items():
                    np.testing.assert_allclose(made(role, image=image)[name], value, atol=1e-5, err_msg=f"{role} {name}")


if __name__ == "__main__":
    unittest.main()
