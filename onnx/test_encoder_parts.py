"""Tests of encoders in parts, on small Hieras: `python -m unittest discover onnx`, or `python
onnx/test_encoder_parts.py` alone.

Meta's SAM 2 or EdgeTAM's copy of it is needed; without either most is skipped, loudly.
"""

import needs_torch  # in front of what it looks for

import subprocess
import sys
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

from segexport import ExportError, graphs
from segexport.encoder import Encoder
from segexport.encoder_parts import bounds_of
from segexport.manifest import write_bundle
from segexport.onnx_write import to_onnx
from segexport.reference_code import activate

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


def small_encoder(side=SIDE,
                  channels=16,
                  stages=(1, 2, 3, 1),
                  attentions=(4, ),
                  windows=(4, 4, 4, 4),
                  **options):
    """An Encoder with a Hiera trunk and random weights, and the ports of its features."""
    hiera_code()
    from sam2.modeling.backbones.hieradet import Hiera
    from sam2.modeling.backbones.image_encoder import FpnNeck

    torch.manual_seed(0)
    trunk = Hiera(embed_dim=channels,
                  stages=stages,
                  global_att_blocks=attentions,
                  window_spec=windows,
                  **options)
    with torch.no_grad():
        # Attention that tells places apart, and biases that are not next to nothing.
        for block in trunk.blocks:
            block.attn.qkv.weight.mul_(3.0)
            block.attn.qkv.bias.normal_()
    neck = FpnNeck(nn.Identity(),
                   24, [channels * n for n in (8, 4, 2, 1)],
                   fpn_interp_model="nearest",
                   fpn_top_down_levels=[2, 3])
    decoder = SimpleNamespace(conv_s0=nn.Conv2d(24, 3, 1), conv_s1=nn.Conv2d(24, 6, 1))
    model = SimpleNamespace(image_encoder=SimpleNamespace(trunk=trunk.eval(), neck=neck),
                            sam_mask_decoder=decoder)
    grid = side // 16
    shapes = {
        "feat": (1, 24, grid, grid), "hr0": (1, 3, 4 * grid, 4 * grid), "hr1": (1, 6, 2 * grid, 2 * grid)
    }
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
        self.assertEqual(bounds_of(48), [(0, 12), (12, 24), (24, 36), (36, 48)])


class Options(unittest.TestCase):
    """What `--encoder` takes, and what it is its default."""

    def test_segments_cut_an_encoder_around_its_trunk_where_the_kernels_serve(self):
        import export

        for flags, cut in (
            (["--precision", "fp16", "--segments"], "trunk"),
            (["--precision", "fp16"], "engine"),
            (["--precision", "fp32", "--segments"], "engine"),
            (["--precision", "fp16", "--segments", "--encoder", "engine"], "engine"),
            (["--precision", "fp32", "--encoder", "engine"], "engine"),
            (["--precision", "fp16", "--segments", "--encoder", "trunk"], "trunk"),
        ):
            for model in ("sam2.1_tiny", "edgetam"):
                command = ["export.py", "--model", model, "--random-weights", "0", "--out", "-", *flags]
                with mock.patch.object(sys, "argv", command):
                    self.assertEqual(export.parse().encoder, cut, command)

    def test_mask_decoder_and_memory_encoder_run_as_kernels_where_these_fit(self):
        import export

        engine = ["--mask-decoder", "engine", "--memory-encoder", "engine"]
        for model, flags, wanted in (
            ("edgetam", ["--precision", "fp16", "--segments"], "cuda"),
            ("sam2.1_tiny", ["--precision", "fp16", "--segments"], "cuda"),
            ("sam2.1_large", ["--precision", "fp16", "--segments"], "cuda"),
            ("edgetam_mini", ["--precision", "fp16", "--segments"], "engine"),
            ("sam2.1_tiny", ["--precision", "fp16"], "engine"),
            ("sam2.1_tiny", ["--precision", "fp32", "--segments"], "engine"),
            ("sam2.1_tiny", ["--precision", "fp16", "--segments", *engine], "engine"),
        ):
            command = ["export.py", "--model", model, "--random-weights", "0", "--out", "-", *flags]
            with mock.patch.object(sys, "argv", command):
                args = export.parse()
            found = (args.mask_decoder, args.memory_attention, args.memory_encoder)
            self.assertEqual(found, (wanted,) * 3, command)

    def test_what_cannot_be_exported_is_refused_at_once(self):
        for flags, says in (
            (["--model", "edgetam"], "--encoder trunk needs --precision fp16"),
            (["--model", "sam2.1_tiny"], "--encoder trunk needs --precision fp16"),
        ):
            command = [
                sys.executable,
                str(HERE / "export.py"), "--encoder", "trunk", "--random-weights", "0", "--out", "-"
            ]
            result = subprocess.run([*command, *flags], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(says, result.stderr)
        with self.assertRaisesRegex(ExportError, "take fp16, found fp32"):
            write_bundle(None, "sam2.1_tiny", SIDE, "fp32", {}, "-", "/nowhere", encoder="trunk")


if __name__ == "__main__":
    unittest.main()
