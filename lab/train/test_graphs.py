"""Tests of what a training step needs to be recorded as a CUDA graph, without a CUDA device.

A step runs on pretended CUDA tensors, which have shapes but no values: what waits for the
device fails there by itself, and copies from the host are looked for.
"""

import needs_torch  # in front of what it looks for

import copy
import io
import unittest
from contextlib import nullcontext, redirect_stdout
from types import SimpleNamespace
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import test_segtrain
from segtrain import prompts
from segtrain.draw import Draw
from segtrain.graphs import Steps
from segtrain.losses import frame_loss, truth_of
from segtrain.start import prepare
from segtrain.step import Batch, clip_loss, draw_batch, first_answers
from segtrain.unroll import Unroll

SIDE = test_segtrain.SIDE
WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "bincount", "is_nonzero", "item",
         "equal")


def trained():
    """An edgetam_mini in the modes of training."""
    model = test_segtrain.network()
    prepare(model)
    model.eval().image_encoder.trunk.train()
    import sam2.modeling.sam.transformer as transformer

    transformer.ALLOW_ALL_KERNELS = True
    return model


class Watch(TorchDispatchMode):
    """Collects operations that a CUDA graph cannot hold."""

    def __init__(self):
        super().__init__()
        self.found, self.count = set(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.count += 1
        name = func._schema.name.removeprefix("aten::")
        given = [x for x in tree_flatten((args, kwargs or {}))[0] if isinstance(x, torch.Tensor)]
        made = [x for x in tree_flatten(result)[0] if isinstance(x, torch.Tensor)]
        if name in WAITS:
            self.found.add(f"{name} waits")
        if "index" in name and any(x.dtype in (torch.bool, torch.uint8) for x in given[1:]):
            self.found.add(f"{name} by a mask")
        # Numbers may be on the host: kernels take them as arguments, copies do not.
        if any(x.device.type == "cpu" and (x.dim() or "copy" in name) for x in given + made):
            self.found.add(f"{name} on the host")
        return result


def pretend(model, device):
    """Makes every tensor of `model` one without values on `device`."""
    empty = lambda x: torch.empty(x.shape, dtype=x.dtype, device=device)
    for module in model.modules():
        for name, weight in module._parameters.items():
            module._parameters[name] = None if weight is None else torch.nn.Parameter(empty(weight))
        for name, buffer in module._buffers.items():
            module._buffers[name] = empty(buffer)
        # What Meta's rotary attention moves to the device on its first call.
        for name in ("freqs_cis", "freqs_cis_q", "freqs_cis_k"):
            if hasattr(module, name):
                setattr(module, name, empty(getattr(module, name)))


def pretended_batch(scenes, frames, device):
    targets = 2 * scenes
    counts = dict(zip(prompts.KINDS, prompts.share_out(targets)))
    points = {"point": 1, "points": prompts.SEVERAL, "box": 2}
    empty = lambda *shape, **how: torch.empty(shape, device=device, **how)
    return Batch(
        empty(scenes, frames, 3, SIDE, SIDE),
        empty(targets, dtype=torch.long),
        empty(targets, frames, SIDE, SIDE),
        empty(targets),
        {kind: empty(counts[kind], points[kind], 2) for kind in points if counts[kind]},
    )


class Recordable(unittest.TestCase):
    SHAPES = ((1, 0), (4, 0), (12, 6))

    def watch(self, device, mode, step):
        """Runs `step(unroll, batch, quiet)`; nothing on its second call may be beyond recording."""
        for frames, quiet in self.SHAPES:
            model = trained()
            with mode():
                pretend(model, device)
                unroll, batch = Unroll(model, SIDE), pretended_batch(8, frames, device)
                step(unroll, batch, quiet)  # as before a recording: it fills the caches
                with Watch() as watch:
                    place = step(unroll, batch, quiet).device.type
            self.assertEqual((place, watch.found), (device, set()))
            self.assertGreater(watch.count, 500)
            yield frames, model

    def test_a_forward_pass_on_a_cuda_device_neither_waits_for_it_nor_copies_to_it(self):
        step = lambda *args: clip_loss(*args, bf16=True)[0].detach()
        missing = mock.patch("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
        with missing, mock.patch("torch.cuda.is_bf16_supported", lambda *_: True):
            for _ in self.watch("cuda", FakeTensorMode, step):
                pass

    def test_nor_does_a_backward_pass(self):
        # PyTorch's backward pass wants a real CUDA device for pretended CUDA tensors: these are on
        # none.
        def step(unroll, batch, quiet):
            return Steps(unroll)._learn(batch, quiet)[0]

        for frames, model in self.watch("meta", nullcontext, step):
            self.assertIsNotNone(model.no_mem_embed.grad)
            self.assertEqual(model.memory_attention.layers[0].linear1.weight.grad is None, frames == 1)

    def test_what_cannot_be_recorded_is_found(self):
        for wrong in (
            lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]).to("cuda"),
            lambda x: x + torch.tensor(3.0).to("cuda"),
            lambda x: x + torch.arange(4).to(x),
        ):
            with FakeTensorMode(), Watch() as watch:
                wrong(torch.empty(4, device="cuda"))
            self.assertTrue(watch.found)
        for wrong in (lambda x: float(x.sum()), lambda x: x[x > 0], lambda x: x.nonzero()):
            with FakeTensorMode(), self.assertRaises(Exception):
                wrong(torch.empty(4, device="cuda"))


def frame_by_frame(unroll, batch, quiet, bf16):
    """`clip_loss` in its plain form: an autocast and the losses of each frame on their own."""
    frames, counts = batch.images.shape[1], prompts.share_out(len(batch.masks))
    given = torch.repeat_interleave(torch.tensor([0.0, 0.0, 0.0, 1.0]), torch.tensor(counts))
    weight = batch.usable / batch.usable.sum() / (frames - quiet)
    first = (batch.masks[:, 0] > 0.5).float()[:, None]
    start = lambda features: first_answers(unroll, features, batch.coords, first, counts)
    total, answers = 0.0, unroll.clip(batch.images, start, batch.scene, quiet)
    for t in range(frames):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            answer = next(answers)
        if not 0 < t <= quiet:
            answer = SimpleNamespace(**{n: getattr(answer, n).float() for n in ("logits", "ious", "score")})
            losses = frame_loss(answer, truth_of(batch.masks[:, t]), given if t == 0 else None)
            total = total + sum((loss * weight).sum() for loss in losses.values())
    return total


class AllFramesAtOnce(unittest.TestCase):
    def learn(self, model, loss):
        for weight in model.parameters():
            weight.grad = None
        loss.backward()
        return {n: p.grad for n, p in model.named_parameters()}

    def test_losses_and_gradients_are_those_of_frame_after_frame(self):
        model = trained()
        unroll = Unroll(model, SIDE)
        for frames, quiet, bf16, close in ((1, 0, False, 1e-5), (5, 2, False, 1e-5), (5, 2, True, 0.02)):
            batch = draw_batch(Draw(4, "cpu"), 5, frames, SIDE)
            ours, parts = clip_loss(unroll, batch, quiet, bf16)
            plain = frame_by_frame(unroll, batch, quiet, bf16)
            torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(sum(parts.values()), plain.detach(), rtol=1e-4, atol=1e-5)
            one, two = self.learn(model, ours), self.learn(model, plain)
            # Weights that are converted without gradients first must be taught all the same.
            self.assertEqual([n for n in one if one[n] is None], [n for n in two if two[n] is None])
            one, two = (torch.cat([g.flatten()
                                   for g in each.values()
                                   if g is not None])
                        for each in (one, two))
            self.assertLess(float((one - two).norm() / two.norm()), close)


class Refused(unittest.TestCase):
    def test_where_recording_fails_steps_are_taken_as_usual_and_the_reason_is_said(self):
        model = trained()
        batch = draw_batch(Draw(4, "cpu"), 3, 2, SIDE)
        steps = Steps(Unroll(model, SIDE))
        self.assertFalse(steps.records)
        plain = copy.deepcopy(model)
        expected = Steps(Unroll(plain, SIDE)).run(batch, 0, 0)
        steps.records = True  # there is no device here
        with redirect_stdout(io.StringIO()) as said:
            values = steps.run(batch, 0, 0)
        self.assertIn("goes on without", said.getvalue())
        self.assertFalse(steps.records)
        self.assertEqual({n: float(v) for n, v in values.items()}, {n: float(v) for n, v in expected.items()})
        for one, two in zip(model.state_dict().values(), plain.state_dict().values()):
            self.assertTrue(torch.equal(one, two))
        self.assertTrue(torch.equal(model.no_mem_embed.grad, plain.no_mem_embed.grad))


if __name__ == "__main__":
    unittest.main()
