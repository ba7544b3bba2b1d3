"""Tests of the memory encoder from its file of weights: `python onnx/test_memory.py` (a minute).

What segexport/memory_run.py computes from the file, as segtrt's kernels do, against the memory
graph's module in fp32. Meta's SAM 2 and EdgeTAM are needed, each in a process of its own; the tests
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

from segexport import ExportError, graphs, manifest, memory_weights, models, weights, work
from segexport.memory_encoder import MemoryEncoder
from segexport.memory_run import HALVES, compute, encode, perceive
from segexport.onnx_write import to_onnx

torch.set_num_threads(1)
# How far the memory may be away, as root mean squares, of what it is.
LIMIT = 2e-3


def randomise(model, name, side, seed=0):
    """Random weights of which none is next to nothing or one for all channels, and attentions that
    tell tokens apart."""
    weights.load_random(model, seed, family=models.spec_of(name).family, side=side)
    generator = torch.Generator().manual_seed(seed)
    parts = [model.memory_encoder, getattr(model, "spatial_perceiver", None)]
    for key, value in (pair for part in parts if part is not None for pair in part.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        if key.endswith("gamma"):
            value.data = 0.5 + 0.2 * noise
        elif key.endswith("bias"):
            value.data = 0.4 * noise
        elif value.dim() == 1:
            value.data = 1.0 + 0.4 * noise
        elif key.endswith("to_q.weight"):
            value.data *= 3.0
    if model.no_obj_embed_spatial is not None:
        model.no_obj_embed_spatial.data = torch.randn(model.no_obj_embed_spatial.shape, generator=generator)


def frame_of(grid, seed=0):
    """Features and logits of both signs, f16 values as f32; some of the mask is far out, as tracked
    masks are."""
    generator = torch.Generator().manual_seed(seed)
    feat, low = torch.randn((1, 256, grid, grid), generator=generator), torch.randn(
        (1, 1, 4 * grid, 4 * grid), generator=generator)
    return feat.half().float(), (4.0 * low).half().float() - 30.0 * (low > 1.5)


def of_file(encoder):
    """The file's tensors and the manifest's table, as whoever reads them has them."""
    with tempfile.TemporaryDirectory() as folder:
        table = memory_weights.write(encoder, Path(folder))
        table = tomllib.loads(manifest._table_entry("memory_encoder", table))["memory_encoder"]
        data = (Path(folder) / table["file"]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (table["sha256"], table["bytes"])
        return load_file(Path(folder) / table["file"]), table


def size(x):
    return float(np.sqrt(np.square(x, dtype=np.float64).mean()))


def expected_of(encoder, feat, low, score, binary):
    return encoder(feat, low, torch.tensor([[score]]), torch.tensor([binary]))[0].numpy()


def made_of(tensors, table, feat, low, score, binary, made=compute):
    return made(tensors, table, feat[0].numpy(), low[0, 0].numpy(), score, binary)


def away_of(made, expected):
    """How far a memory is away from what is expected, relative; of latents the worse half of them."""
    assert made.shape == expected.shape, (made.shape, expected.shape)
    parts = 2 if len(made) == 2 * 256 else 1
    return max(size(a - b) / size(b) for a, b in zip(np.split(made, parts), np.split(expected, parts)))


class Memory:
    """What holds of each model; unittest runs it in the classes below."""

    @classmethod
    def setUpClass(cls):
        try:
            cls.model, _ = models.build(cls.NAME, cls.SIDE)
        except ExportError as error:
            print(f"SKIPPED: {error}", file=sys.stderr)
            raise unittest.SkipTest(str(error)) from error
        randomise(cls.model, cls.NAME, cls.SIDE)

    def encoder(self, side=None):
        return MemoryEncoder(self.model, side or self.SIDE).eval().requires_grad_(False)

    def test_the_file_gives_the_memory_of_the_graph(self):
        worst = {}
        for side in self.SIDES:
            encoder = self.encoder(side)
            tensors, table = of_file(encoder)
            numbers = dict(grid=side // 16, scale=20.0, offset=-10.0, latents=self.LATENTS)
            self.assertEqual({name: table[name] for name in numbers}, numbers)
            for seed, (score, binary) in enumerate(
                ((3.0, 0.0), (3.0, 1.0), (-3.0, 0.0), (0.0, 1.0), (-3.0, 0.0))):
                feat, low = frame_of(side // 16, seed)
                if seed == 4:  # as the track step leaves an object that is gone
                    low[:] = -1024.0
                frame = (feat, low, score, binary)
                away = away_of(made_of(tensors, table, *frame), expected_of(encoder, *frame))
                worst[side] = max(worst.get(side, 0.0), away)
                self.assertLess(away, LIMIT, f"score {score}, binary {binary} at {side} pixels")
        print(f"{self.NAME}: away by {({side: round(value, 5) for side, value in worst.items()})}",
              file=sys.stderr)

    def test_every_tensor_counts(self):
        # Else the test above would not see a wrong layout.
        side = self.SIDES[1]
        encoder, frame = self.encoder(side), (*frame_of(side // 16), -1.0, 0.0)
        tensors, table = of_file(encoder)
        expected = expected_of(encoder, *frame)
        of_latents = {name: value for name, value in tensors.items() if name.startswith("latents.")}
        self.assertEqual(bool(of_latents), self.LATENTS)
        memory = made_of(tensors, table, *frame, made=encode)
        for name, value in (of_latents or tensors).items():
            pieces = [len(value)]  # which of it is one thing
            if name == "latents.windows.halves":
                pieces = [rows * columns for rows, columns in HALVES.values()] * 2
            elif name.endswith((".kv", ".qkv", ".floats")):
                pieces = [64] * (len(value) // 64)
            for begin, count in zip(np.cumsum([0, *pieces]), pieces):
                changed = tensors | {name: value.copy()}
                changed[name][begin : begin + count] = np.flip(value[begin : begin + count])
                made = perceive(changed, memory, side //
                                16) if self.LATENTS else made_of(changed, table, *frame)
                away = away_of(made, expected)
                if name == "memory.absent" and encoder.absent is None:
                    self.assertFalse(value.any())
                else:
                    self.assertGreater(away, 2 * LIMIT, f"{name} from {begin} on")

    def test_an_object_that_is_gone_is_remembered_as_such(self):
        encoder, frame = self.encoder(), frame_of(self.SIDE // 16)
        tensors, table = of_file(encoder)
        there, gone = (made_of(tensors, table, *frame, score, 0.0) for score in (0.5, 0.0))
        self.assertEqual(np.array_equal(there, gone), encoder.absent is None)

    def test_the_work_is_the_graphs_less_what_is_multiplied_out(self):
        graph = next(graph for graph in graphs.graphs_of(self.model, self.SIDE) if graph.role == "memory")
        whole, own = work.count(to_onnx(graph)).flops, memory_weights.work_of(self.SIDE // 16, self.LATENTS)
        if self.LATENTS:
            # Keys and values of two layers' windows, the first queries of all tokens; for it,
            # elementwise there, two sums of windows.
            tokens = (self.SIDE // 16) ** 2
            whole += 2 * (2 * tokens * (2 * 64 - 2 * 64 * 64) - 256 * 64 * 64)
        self.assertEqual(own, whole)

    def test_what_no_kernel_computes_is_refused(self):
        sound = self.encoder()

        def refused(says, change):
            encoder = copy.deepcopy(sound)
            change(encoder)
            with self.assertRaisesRegex(ExportError, says + ".*--memory-encoder engine"):
                memory_weights.tensors_of(encoder)

        def put(layers, at, layer):
            layers[at] = layer

        def larger(value):
            value.data.flatten()[0] = 1e6

        mask, block = "a mask's convolution that is not 3x3", "a block whose convolution is not 7x7 in each of 256"
        refused("a mask that does not go through 4 times",
                lambda encoder: put(encoder.downsample, 2, nn.ReLU()))
        refused("a mask that does not go through 4 times",
                lambda encoder: setattr(encoder, "downsample", encoder.downsample[3:]))
        refused(mask, lambda encoder: setattr(encoder.downsample[3], "stride", (4, 4)))
        refused(
            mask,
            lambda encoder: put(encoder.downsample, 0, nn.Conv2d(1, 4, 3, 2, 1, padding_mode="reflect")))
        refused("no 1x1 convolution", lambda encoder: setattr(encoder, "out", nn.Identity()))
        refused("no 1x1 convolution",
                lambda encoder: setattr(encoder, "feature", nn.Conv2d(256, 256, 1, bias=False)))
        refused("1 blocks, expected 2", lambda encoder: setattr(encoder, "fuser", encoder.fuser[:1]))
        refused(
            block,
            lambda encoder: setattr(encoder.fuser[1], "dw", nn.Conv2d(256, 256, 5, padding=2, groups=256)))
        refused(block, lambda encoder: setattr(encoder.fuser[0], "dw", nn.Conv2d(256, 256, 7, padding=3)))
        refused("an activation that is not the exact",
                lambda encoder: setattr(encoder.fuser[0], "act", nn.GELU(approximate="tanh")))
        refused("norms of channels with 1e-05 below",
                lambda encoder: setattr(encoder.downsample[4], "eps", 1e-5))
        refused("norms of channels with 1e-05 below",
                lambda encoder: setattr(encoder.fuser[1].norm, "eps", 1e-5))
        refused("a map of 5 tokens", lambda encoder: setattr(encoder, "pixels", 25))
        refused("a mask times inf", lambda encoder: setattr(encoder, "scale", float("inf")))
        refused(r"memory.out has the shape \[32, 256\], .*\[64, 256\]",
                lambda encoder: setattr(encoder, "out", nn.Conv2d(256, 32, 1)))
        refused("memory.widen.weight has values beyond f16",
                lambda encoder: larger(encoder.downsample[6].weight))
        refused("memory.blocks.1.down has values beyond f16",
                lambda encoder: larger(encoder.fuser[1].down.weight))
        if not self.LATENTS:
            return

        def perceiver(says, change):
            refused(says, lambda encoder: change(encoder.perceiver, encoder.perceiver.layers))

        perceiver("128 latents of all tokens",
                  lambda whole, layers: setattr(whole, "flat", whole.flat[:, :128]))
        perceiver("1 layers of latents, expected 2",
                  lambda whole, layers: setattr(whole, "layers", layers[:1]))
        perceiver("norm, linear, GELU, linear", lambda whole, layers: put(layers[0].ff, 2, nn.ReLU()))
        perceiver("latents that is not the exact GELU",
                  lambda whole, layers: put(layers[1].self_ff, 2, nn.GELU(approximate="tanh")))
        perceiver("a product of latents with a bias",
                  lambda whole, layers: setattr(layers[1], "out", nn.Linear(64, 64)))
        perceiver("norms of latents with 1e-06 below",
                  lambda whole, layers: setattr(layers[1].norm_self, "eps", 1e-6))
        narrow = nn.Linear(64, 128, bias=False)
        perceiver(r"latents.layers.0.ff.up has the shape \[128, 64\]",
                  lambda whole, layers: put(layers[0].ff, 1, narrow))
        large = "latents.windows.halves has values beyond"
        perceiver(large,
                  lambda whole, layers: [part.weight.data.mul_(5e3) for part in (layers[1].k, layers[1].q)])
        refused("24 tokens a side, which are no 16 windows",
                lambda encoder: setattr(encoder, "pixels", 24**2))

    def test_a_bundle_has_the_file_beside_the_graph(self):
        alone = [graph for graph in graphs.graphs_of(self.model, self.SIDE) if graph.role == "memory"]
        with tempfile.TemporaryDirectory() as out, mock.patch.object(manifest, "graphs_of", lambda *_: alone):
            for memory in ("engine", "cuda"):
                folder = manifest.write_bundle(self.model,
                                               self.NAME,
                                               self.SIDE,
                                               "fp16", {},
                                               "-",
                                               out,
                                               say=lambda _: None,
                                               memory_encoder=memory)
                said = tomllib.loads((folder / "manifest.toml").read_text())
                self.assertEqual([graph["role"] for graph in said["graph"]], ["memory"])
                self.assertEqual(("memory_encoder" in said, (folder / memory_weights.FILE).exists()),
                                 (memory == "cuda", ) * 2)
            table = said["memory_encoder"]
            self.assertEqual(list(table),
                             ["file", "bytes", "sha256", "flops", "grid", "scale", "offset", "latents"])
            data = (folder / table["file"]).read_bytes()
            self.assertEqual((hashlib.sha256(data).hexdigest(), len(data)), (table["sha256"], table["bytes"]))
            tensors, frame = load_file(folder / table["file"]), (*frame_of(self.SIDE // 16), -1.0, 1.0)
            session = ort.InferenceSession(folder / "memory.onnx", providers=["CPUExecutionProvider"])
            fed = [
                frame[0].half().numpy(), frame[1].numpy(),
                np.full((1, 1), frame[2], np.float32),
                np.full(1, frame[3], np.float32)
            ]
            mem, = session.run(None, dict(zip(("feat", "low", "score", "binar"), fed)))
            self.assertLess(away_of(made_of(tensors, table, *frame), mem[0].astype(np.float32)), LIMIT)

    def test_fp32_is_refused(self):
        says = "--precision fp16"
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ExportError, says):
            manifest.write_bundle(self.model,
                                  self.NAME,
                                  self.SIDE,
                                  "fp32", {},
                                  "-",
                                  folder,
                                  memory_encoder="cuda")
        options = f"--model {self.NAME} --random-weights 0 --out nowhere --memory-encoder cuda --precision fp32".split(
        )
        result = subprocess.run([sys.executable, HERE / "export.py", *options],
                                capture_output=True,
                                text=True)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, says)


class OfSam21(Memory, unittest.TestCase):
    NAME, SIDE, SIDES, LATENTS = "sam2.1_tiny", 64, (64, 96, 512), False


class OfEdgeTam(Memory, unittest.TestCase):
    NAME, SIDE, SIDES, LATENTS = "edgetam", 256, (256, 512, 768), True  # windows of 1, 4 and 9 tokens


class Families(unittest.TestCase):
    """Both families' code is a package called `sam2`: each is tested by a process of its own."""

    def run_alone(self, name):
        result = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
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
