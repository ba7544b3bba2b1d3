"""Tests of what `learn_unseen.py` is made of; the network itself needs Meta's `sam2` package and is
skipped without it."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "onnx")]
import needs_torch  # in front of what it looks for

import json
import tempfile
import unittest

import numpy as np
import torch

import segtrain
from segexport import ExportError
from segtrain import davis, pieces, real
from segtrain.collage import LAYERS, TARGETS, clicks, collage
from segtrain.cutouts import Bank, _apart, _boxes
from segtrain.draw import Draw

SIDE = 64
torch.set_num_threads(1)


def bank():
    """Two videos of three frames; a bright square, which is whole, and a stripe that the frame
    cuts."""
    frames = torch.full((6, 3, SIDE, SIDE), 60, dtype=torch.uint8)
    frames[:, :, 16:48, 16:48] = 220
    masks = torch.zeros(2, 32, 32, dtype=torch.uint8)
    masks[0, 8:24, 8:24] = 255
    masks[1, :, 4:10] = 255
    box, whole = _boxes(masks)
    first, last = torch.tensor([0, 0, 0, 3, 3, 3]), torch.tensor([2, 2, 2, 5, 5, 5])
    return Bank(frames, first, last, masks, torch.tensor([1, 4]), box, whole)


class Collages(unittest.TestCase):
    def test_boxes_are_centres_and_half_extents_and_cut_objects_are_known(self):
        made = bank()
        torch.testing.assert_close(made.box[0], torch.tensor([0.0, 0.0, 0.5, 0.5]))
        self.assertEqual(made.whole.tolist(), [True, False])

    def test_shares_of_a_clip_are_exact_masks_of_usable_targets(self):
        made = collage(Draw(0, "cpu"), bank(), 6, 5, SIDE)
        self.assertEqual(made.images.shape, (6, 5, 3, SIDE, SIDE))
        self.assertEqual(made.masks.shape, (6 * TARGETS, 5, SIDE // 4, SIDE // 4))
        self.assertGreater(float(made.usable.mean()), 0.6)
        for scene in range(6):
            together = made.masks[made.scene == scene].sum(dim=0)
            self.assertLessEqual(float(together.max()) if len(together) else 0.0, 1 + 1e-4)
        self.assertTrue(bool(torch.isfinite(made.images).all()))
        self.assertLess(len(made.masks), 6 * (LAYERS + 1))

    def test_clicks_lie_on_their_masks(self):
        made = collage(Draw(1, "cpu"), bank(), 8, 2, SIDE)
        points = clicks(Draw(2, "cpu"), made.first)[:, 0].long()
        for target, (x, y) in enumerate(points.tolist()):
            thick = made.first[target].unfold(0, 4, 4).unfold(1, 4, 4).mean(dim=(2, 3)) > 0.5
            if made.usable[target] and thick.any():
                self.assertTrue(bool(thick[y // 4, x // 4]))

    def test_of_equal_masks_one_is_kept_and_the_best_first(self):
        masks = torch.zeros(3, 16, 16)
        masks[:2, :8] = 1
        masks[2, 8:] = 1
        self.assertEqual(_apart(masks > 0, torch.tensor([0.1, 0.9, 0.5])).tolist(), [1, 2])


class Judging(unittest.TestCase):
    def test_a_boundary_within_reach_counts_and_one_beyond_does_not(self):
        truth = np.zeros((100, 120), bool)
        truth[30:60, 40:80] = True
        self.assertEqual(davis.frame_score(truth, truth), (1.0, 1.0))
        near, far = np.roll(truth, 2, axis=1), np.roll(truth, 12, axis=1)
        self.assertEqual(davis.frame_score(truth, near)[1], 1.0)
        self.assertLess(davis.frame_score(truth, far)[1], 0.7)
        self.assertEqual(davis.frame_score(truth, np.zeros_like(truth)), (0.0, 0.0))

    def test_first_and_last_frames_do_not_count(self):
        truth = np.zeros((40, 40), bool)
        truth[5:20, 5:20] = True
        none = np.zeros_like(truth)
        self.assertEqual(davis.clip_score([truth] * 4, [none, truth, none, none]), (0.5, 0.5))

    def test_distances_count_as_a_dilation_by_a_disk_does(self):
        generator = np.random.default_rng(0)
        shape = (60, 80)
        reach = 1  # ceil(0.008 * 100)
        for _ in range(5):
            truth, found = (generator.random(shape) > 0.6 for _ in range(2))
            edges = [davis.boundary(m) for m in (truth, found)]
            grown = []
            for edge in edges:
                wide = np.pad(edge, reach)
                grown.append(wide[1:-1, 1:-1] | wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2]
                             | wide[1:-1, 2:])
            recall, precision = (np.count_nonzero(e & g) / np.count_nonzero(e)
                                 for e, g in zip(edges, grown[::-1]))
            self.assertAlmostEqual(davis.frame_score(truth, found)[1],
                                   2 * precision * recall / (precision + recall),
                                   places=12)


class Pieces(unittest.TestCase):
    def test_pieces_join_to_what_was_written_and_a_foreign_one_is_refused(self):
        value = {"a": torch.randn(5000).half(), "b": torch.arange(7)}
        with tempfile.TemporaryDirectory() as folder:
            pieces.write(value, folder, "x", largest=3000)
            self.assertGreater(len(json.loads((Path(folder) / "x.json").read_text())), 2)
            back = pieces.read(folder, "x")
            self.assertTrue(torch.equal(back["a"], value["a"]) and torch.equal(back["b"], value["b"]))
            (Path(folder) / "x.01").write_bytes(b"other")
            with self.assertRaises(ValueError):
                pieces.read(folder, "x")

    def test_odd_and_empty_bytes_come_back(self):
        for data in (b"", b"a", b"abc", bytes(range(200))):
            self.assertEqual(pieces.unsqueezed(pieces.squeezed(data)), data)


class Network(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        from segexport.models import build

        torch.manual_seed(0)
        try:
            cls.model = real.freeze(build("sam2.1_tiny", 128)[0])
        except ExportError as error:
            print(f"SKIPPED: {error}", file=sys.stderr)
            raise unittest.SkipTest(str(error)) from error
        real.prepare(cls.model, torch.randn(2, 3, 128, 128))

    def test_only_the_memory_learns(self):
        taught = {n for n, p in self.model.named_parameters() if p.requires_grad}
        self.assertTrue(all(map(real.is_learnt, taught)))
        self.assertIn("sam_mask_decoder.pred_obj_score_head.layers.2.bias", taught)
        self.assertLess(sum(p.numel() for p in self.model.parameters() if p.requires_grad), 8_000_000)

    @torch.no_grad()
    def test_a_place_first_looks_at_the_memory_of_the_same_place(self):
        cross = self.model.memory_attention.layers[0].cross_attn_image
        from sam2.modeling.position_encoding import apply_rotary_enc

        bias = cross.q_proj.bias[None, None, None].expand(1, 1, 64, -1)
        q, k = apply_rotary_enc(bias, bias, cross.compute_cis(end_x=8, end_y=8))
        weights = torch.softmax((q @ k.transpose(2, 3))[0, 0] / 16, dim=1)
        self.assertEqual(weights.argmax(dim=1).tolist(), list(range(64)))
        self.assertGreater(float(weights.diagonal().mean()), 3 / 64)

    def test_a_memory_without_a_message_leaves_the_features_of_a_prompted_frame(self):
        images = torch.randn(2, 3, 128, 128)
        out = self.model.forward_image(images)
        plain = out["backbone_fpn"][-1].flatten(2).transpose(1, 2)
        position = out["vision_pos_enc"][-1].flatten(2).transpose(1, 2)
        left = self.model.memory_attention.norm(plain + 0.1 * position) - self.model.no_mem_embed
        self.assertLess(float((left.mean(dim=(0, 1)) - plain.mean(dim=(0, 1))).abs().mean()),
                        0.2 * float(plain.std()))

    def test_losses_reach_every_part_that_learns(self):
        loop = real.Loop(self.model)
        maps, positions = loop.features(torch.randn(2 * 3, 3, 128, 128))
        points, scene = torch.full((3, 1, 2), 60.0), torch.tensor([0, 1, 1])
        target = torch.zeros(3, 32, 32)
        target[:, 8:20, 8:20] = 1
        total = 0.0
        for t, answer in enumerate(loop.clip(maps, positions, 3, scene, points=points)):
            losses, iou = real.frame_loss(answer, target)
            self.assertEqual(answer.masks.shape, (3, 3, 32, 32))
            self.assertEqual(iou.shape, (3,))
            total = total + sum(loss.sum() for loss in losses.values()) * (t > 0)
        total.backward()
        silent = [
            n for n, p in self.model.named_parameters()
            if p.requires_grad and (p.grad is None or not p.grad.any())
        ]
        # Nothing was hidden here, and no mask was the prompt.
        rest = [n for n in silent if not n.startswith(("no_obj", "mask_downsample"))]
        self.assertEqual(rest, [])


if __name__ == "__main__":
    unittest.main()
