"""Tests of what learn_tracking.py decides and teaches, on edgetam_mini with random weights: `python -m unittest discover onnx`, or this file alone.

EdgeTAM's code is needed; without it all is skipped, loudly.
"""

import random
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

import torch

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import learn_tracking
from segexport import ExportError
from segexport.models import build
from segexport.weights import load_random
from segtrain import following
from segtrain.photos import backbone

SIDE = 128
torch.set_num_threads(1)


def network():
    try:
        model = build("edgetam_mini", SIDE)[0]
    except ExportError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        raise unittest.SkipTest(str(error)) from error
    load_random(model, 0)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(learn_tracking.FROZEN))
    return model.eval()


def clip(model, frames=4, between=0):
    """A bright square that moves over noise; so many frames between annotated ones."""
    dice = torch.Generator().manual_seed(0)
    backbones, masks = [], []
    for t in range(frames + between * (frames - 1)):
        image = torch.randint(0, 80, (3, SIDE, SIDE), generator=dice, dtype=torch.uint8)
        mask = torch.zeros(SIDE // 4, SIDE // 4)
        mask[8:20, 4 + t : 16 + t] = 1
        image[:, 32:80, 16 + 4 * t : 64 + 4 * t] += 150
        with torch.no_grad():
            out = backbone(model, image[None])
        backbones.append({k: v for k, v in out.items() if isinstance(v, list)})
        masks.append(mask)
    every = between + 1
    walk = [(b, None if t % every else t // every) for t, b in enumerate(backbones)]
    return following.Clip("square/000", backbones[::every], masks[::every], walk)


def present(model):
    """Of random weights the object may seem absent, and its mask be hidden."""
    with torch.no_grad():
        head = model.sam_mask_decoder.pred_obj_score_head
        (head.layers[-1] if hasattr(head, "layers") else head).bias.fill_(20.0)


class Deciding(unittest.TestCase):
    def setUp(self):
        self.model = network()
        self.clip = clip(self.model)
        self.args = SimpleNamespace(model="edgetam_mini", imgsz=SIDE, device="cpu", rate=1e-3, frames=4, together=2, walking_from=0.5)

    def answers(self):
        point = following.clicks(self.args, [self.clip], [0], random.Random(0))
        return list(following.answers(self.model, self.clip, range(4), point))

    def test_the_mask_that_was_decided_on_is_taken_on_every_frame_and_by_far(self):
        for mask in range(3):
            model = self.model = network()
            unambiguous = model.sam_mask_decoder.iou_prediction_head.layers[-1].bias[0].item()
            learn_tracking.decide(model, mask)
            with torch.no_grad():
                for answer in self.answers():
                    others = [answer.ious[0, k].item() for k in range(3) if k != mask]
                    self.assertGreater(answer.ious[0, mask].item(), 100 * max(others))
                    torch.testing.assert_close(answer.taken, answer.masks[:, mask])
            self.assertEqual(model.sam_mask_decoder.iou_prediction_head.layers[-1].bias[0].item(), unambiguous)
            margins = learn_tracking.judged(self.args, model, [self.clip]).margin
            self.assertEqual(len(margins), 4)
            self.assertGreater(min(margins), 0.05)

    def test_the_prompted_frame_teaches_the_decoder_and_tracked_ones_the_memory_too(self):
        learn_tracking.decide(self.model, 1)
        present(self.model)
        for frame, reaches_memory in ((0, False), (2, True)):
            self.model.zero_grad(set_to_none=True)
            following.losses_of(self.answers()[frame], self.clip.masks[frame][None])[0].sum().backward()
            learns = {name for name, p in self.model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
            self.assertIn("sam_mask_decoder.output_hypernetworks_mlps.2.layers.0.weight", learns, "mask 1 of 0 to 2, behind the unambiguous one")
            self.assertIn("sam_mask_decoder.iou_prediction_head.layers.0.weight", learns)
            self.assertEqual(any(name.startswith("memory_attention.") for name in learns), reaches_memory)
            self.assertFalse([name for name in learns if name.startswith(learn_tracking.FROZEN)])

    def test_learning_lowers_the_loss_and_keeps_the_decision_and_the_names(self):
        names = {name: value.shape for name, value in self.model.state_dict().items()}
        before = learn_tracking.judged(self.args, self.model, [self.clip])
        learn_tracking.decide(self.model, before.best)

        def cost():
            with torch.no_grad():
                return sum(following.losses_of(a, m[None])[0].item() for a, m in zip(self.answers(), self.clip.masks))

        begin = cost()
        self.args.seconds = 5
        self.assertGreater(learn_tracking.learn(self.args, self.model, [self.clip]), 3)
        self.assertLess(cost(), begin)
        self.assertEqual({int(answer.ious.argmax()) for answer in self.answers()}, {before.best})
        self.assertEqual({name: value.shape for name, value in self.model.state_dict().items()}, names)


class Following(unittest.TestCase):
    def setUp(self):
        self.model = network()
        present(self.model)
        learn_tracking.decide(self.model, 0)
        self.args = SimpleNamespace(model="edgetam_mini", imgsz=SIDE, device="cpu", rate=1e-3, frames=2, together=2, walking_from=0.5)

    def test_clips_together_are_answered_as_each_alone(self):
        both = [clip(self.model), clip(self.model, 5)]
        both[1].backbones.reverse()
        point = following.clicks(self.args, both, [0, 0], random.Random(0))
        banks = following.empty_bank(), following.empty_bank(), following.empty_bank()
        with torch.no_grad():
            for t in range(3):
                together = following.answer(self.model, banks[0], t, [c.backbones[t] for c in both], point, 5)
                for k, one in enumerate(both):
                    own = {name: value[k : k + 1] for name, value in point.items()}
                    alone = following.answer(self.model, banks[k + 1], t, [one.backbones[t]], own, 5)
                    torch.testing.assert_close(together.taken[k], alone.taken[0], rtol=1e-3, atol=1e-3)
                    torch.testing.assert_close(together.score[k], alone.score[0], rtol=1e-3, atol=1e-3)

    def test_a_walk_meets_every_frame_once_and_ends_with_the_longest_clip(self):
        both = [clip(self.model, 3, between=2), clip(self.model, 5, between=2)]
        walk = learn_tracking.Walk(self.args, list(both), random.Random(0))
        met = []
        while told := walk.step(self.model):
            self.assertTrue(told.mean.requires_grad)
            met += [(both.index(of), frame) for of, frame in told.frames]
            told.remember()
        self.assertEqual(sorted(met), [(k, frame) for k, one in enumerate(both) for frame in range(len(one.masks))])
        self.assertEqual(walk.t, 13)
        self.assertNotIn(1.0, both[0].costs)

    def test_what_a_walk_found_is_what_the_loop_finds_over_every_frame(self):
        one = clip(self.model, 4, between=2)
        walk = learn_tracking.Walk(self.args, [one], random.Random(0))
        costs = []
        while told := walk.step(self.model):
            costs += told.costs.tolist()
        every, bank = [], following.empty_bank()
        with torch.no_grad():
            for t, (features, frame) in enumerate(one.walk):
                given = following.answer(self.model, bank, t, [features], walk.point, len(one.walk))
                every += [] if frame is None else following.losses_of(given, one.masks[frame][None])[0].tolist()
        torch.testing.assert_close(torch.tensor(costs), torch.tensor(every), rtol=1e-3, atol=1e-3)

    def test_frames_without_a_gradient_do_not_take_it_from_those_behind_them(self):
        one = clip(self.model, 4, between=1)
        for skipped in (0, 1):  # the second step begins on a frame that is not annotated
            walk = learn_tracking.Walk(self.args, [one], random.Random(0))
            with torch.autocast("cpu", torch.bfloat16):
                for _ in range(skipped):
                    walk.step(self.model)
            self.model.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16):
                told = walk.step(self.model)
            told.mean.backward()
            learns = {name for name, p in self.model.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
            self.assertTrue([name for name in learns if name.startswith("memory_attention.") and name.endswith("linear1.weight")])
            self.assertTrue([name for name in learns if name.startswith("memory_encoder.")])

    def test_a_hinge_asks_for_logits_away_from_the_outline_alone(self):
        target = torch.zeros(1, 16, 16)
        target[:, 4:12, 4:12] = 1
        sure = (target * 2 - 1) * 2 * following.SURE
        self.assertEqual(following.unsure(sure, target).item(), 0.0)
        edge = sure.clone()
        edge[:, 4, 4:12] = 0.0
        self.assertEqual(following.unsure(edge, target).item(), 0.0)
        for y, x in ((8, 8), (0, 0)):
            doubt = sure.clone()
            doubt[:, y, x] = 0.0
            self.assertAlmostEqual(following.unsure(doubt, target).item(), 1 / 65, places=5)

    def test_what_costs_more_is_taken_more_often(self):
        easy, hard = clip(self.model, 6), clip(self.model, 6)
        easy.costs, hard.costs = [0.01] * 6, [0.01] * 4 + [1.0] * 2
        self.args.together, generator = 1, random.Random(0)
        met = []
        with torch.no_grad():
            for _ in range(12):
                met.append(learn_tracking.window(self.args, self.model, [easy, hard], generator).frames)
        self.assertGreater(sum(frames[0][0] is hard for frames in met), 9)
        self.assertGreater(sum(frames[-1][1] == 5 for frames in met), 4)


if __name__ == "__main__":
    unittest.main()
