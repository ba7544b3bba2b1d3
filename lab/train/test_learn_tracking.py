"""Tests of what learn_tracking.py decides and teaches, on edgetam_mini with random weights:
`python3 -m unittest discover -s lab/train`, or this file alone.

EdgeTAM's code is needed; without it all is skipped, loudly.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "onnx")]
import needs_torch  # in front of what it looks for

import random
import unittest
from types import SimpleNamespace

import torch

import learn_tracking
from segexport import ExportError
from segexport.models import build
from segexport.weights import load_random
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


def clip(model, frames=4):
    """A bright square that moves over noise."""
    dice = torch.Generator().manual_seed(0)
    backbones, masks = [], []
    for t in range(frames):
        image = torch.randint(0, 80, (3, SIDE, SIDE), generator=dice, dtype=torch.uint8)
        mask = torch.zeros(SIDE // 4, SIDE // 4)
        mask[8:20, 4 + 2 * t : 16 + 2 * t] = 1
        image[:, 32:80, 16 + 8 * t : 64 + 8 * t] += 150
        with torch.no_grad():
            out = backbone(model, image[None])
        backbones.append({k: v for k, v in out.items() if isinstance(v, list)})
        masks.append(mask)
    return learn_tracking.Clip("square/000", backbones, masks)


class Deciding(unittest.TestCase):
    def setUp(self):
        self.model = network()
        self.clip = clip(self.model)
        self.args = SimpleNamespace(model="edgetam_mini", imgsz=SIDE, device="cpu", rate=1e-3, frames=4, steps=None)

    def answers(self):
        point = learn_tracking.click(self.clip.masks[0], random.Random(0), SIDE)
        return list(learn_tracking.answers(self.model, self.clip, range(4), point))

    def test_the_mask_that_was_decided_on_is_taken_on_every_frame_and_by_far(self):
        for mask in range(3):
            model = self.model = network()
            unambiguous = model.sam_mask_decoder.iou_prediction_head.layers[-1].bias[0].item()
            learn_tracking.decide(model, mask)
            with torch.no_grad():
                for answer in self.answers():
                    others = [answer.ious[k].item() for k in range(3) if k != mask]
                    self.assertGreater(answer.ious[mask].item(), 100 * max(others))
                    torch.testing.assert_close(answer.taken, answer.masks[mask])
            self.assertEqual(model.sam_mask_decoder.iou_prediction_head.layers[-1].bias[0].item(),
                             unambiguous)
            margins = learn_tracking.judged(self.args, model, [self.clip]).margin
            self.assertEqual(len(margins), 4)
            self.assertGreater(min(margins), 0.05)

    def test_the_prompted_frame_teaches_the_decoder_and_tracked_ones_the_memory_too(self):
        learn_tracking.decide(self.model, 1)
        with torch.no_grad():  # of random weights the object may seem absent, and its mask be hidden
            head = self.model.sam_mask_decoder.pred_obj_score_head
            (head.layers[-1] if hasattr(head, "layers") else head).bias.fill_(20.0)
        for frame, reaches_memory in ((0, False), (2, True)):
            self.model.zero_grad(set_to_none=True)
            learn_tracking.loss_of(self.answers()[frame], self.clip.masks[frame])[0].backward()
            learns = {
                name
                for name, p in self.model.named_parameters()
                if p.grad is not None and p.grad.abs().max() > 0
            }
            self.assertIn("sam_mask_decoder.output_hypernetworks_mlps.2.layers.0.weight", learns,
                          "mask 1 of 0 to 2, behind the unambiguous one")
            self.assertIn("sam_mask_decoder.iou_prediction_head.layers.0.weight", learns)
            self.assertEqual(any(name.startswith("memory_attention.") for name in learns), reaches_memory)
            self.assertFalse([name for name in learns if name.startswith(learn_tracking.FROZEN)])

    def test_learning_lowers_the_loss_and_keeps_the_decision_and_the_names(self):
        names = {name: value.shape for name, value in self.model.state_dict().items()}
        before = learn_tracking.judged(self.args, self.model, [self.clip])
        learn_tracking.decide(self.model, before.best)

        def cost():
            with torch.no_grad():
                return sum(
                    learn_tracking.loss_of(a, m)[0].item() for a, m in zip(self.answers(), self.clip.masks))

        begin = cost()
        self.args.seconds = 5
        self.assertGreater(learn_tracking.learn(self.args, self.model, [self.clip]), 3)
        self.args.steps = 2
        self.assertEqual(learn_tracking.learn(self.args, self.model, [self.clip]), 2, "whatever time it takes")
        self.args.steps = None
        self.assertLess(cost(), begin)
        self.assertEqual({int(answer.ious.argmax()) for answer in self.answers()}, {before.best})
        self.assertEqual({name: value.shape for name, value in self.model.state_dict().items()}, names)


if __name__ == "__main__":
    unittest.main()
