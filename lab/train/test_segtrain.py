"""Tests of edgetam_mini's training: `python3 -m unittest discover -s lab/train`, or this file
alone.

EdgeTAM's code is needed for the network; without it those tests are skipped, loudly.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "onnx")]
import needs_torch  # in front of what it looks for

import tempfile
import unittest
from types import SimpleNamespace

import torch

from segexport import ExportError
from segexport.models import build
from segtrain import prompts, schedule
from segtrain.clips import held_out_clips, training_clips
from segtrain.draw import Draw
from segtrain.loop import Training
from segtrain.scene import OBJECTS, Scenes
from segtrain.start import prepare
from segtrain.unroll import Unroll

SIDE = 128
torch.set_num_threads(1)


def network():
    torch.manual_seed(0)
    try:
        model = build("edgetam_mini", SIDE)[0]
    except ExportError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        raise unittest.SkipTest(str(error)) from error
    return model


class Clips(unittest.TestCase):
    def test_objects_of_a_plain_scene_start_apart_and_their_shares_never_overlap(self):
        scenes = Scenes(Draw(0, "cpu"), 6, plain=True, counts=(2, 3, 4))
        _, shares = scenes.render(torch.tensor([[0.0, 20.0]]).expand(6, -1), SIDE)
        self.assertLessEqual(float(shares.sum(dim=1).max()), 1 + 1e-5)
        self.assertEqual((shares[:, :, 0].sum(dim=(2, 3)) > 50).sum(dim=1).tolist(), scenes.count.tolist())

    def test_alike_objects_have_one_look_and_one_size(self):
        scenes = Scenes(Draw(1, "cpu"),
                        4,
                        plain=True,
                        alike=torch.tensor([True, True, False, False]),
                        counts=(2, ))
        for each in (scenes.colours, scenes.textures, scenes.striped, scenes.radius, scenes.outlines.kind,
                     scenes.breath.rate):
            self.assertTrue(torch.equal(each[:2, 0], each[:2, 1]))
        self.assertFalse(torch.equal(scenes.colours[2:, 0], scenes.colours[2:, 1]))

    def test_every_visible_object_of_a_scene_is_prompted(self):
        made = training_clips(Draw(2, "cpu"), 12, 2, SIDE)
        self.assertGreater(float(made.usable.mean()), 0.9)
        targets = torch.bincount(made.scene, minlength=12)
        self.assertGreater(int((targets > 1).sum()), 6)
        for scene in range(12):
            together = made.masks[made.scene == scene].sum(dim=0)
            self.assertLessEqual(float(together.max()) if len(together) else 0.0, 1 + 1e-5)

    def test_held_out_clips_are_the_same_on_every_call_and_have_company(self):
        one, two = (held_out_clips("cpu", 2, 64, alike=True) for _ in range(2))
        self.assertTrue(torch.equal(one.images, two.images))
        self.assertEqual(one.scene.tolist(), [0, 0, 1, 1])
        self.assertEqual(one.masks.shape[1], 48)

    def test_a_click_at_the_centroid_is_what_segtrt_makes_of_a_mask(self):
        mask = torch.zeros(1, 8, 8, dtype=torch.bool)
        mask[0, 2:5, 1:3] = True
        point, inside = prompts.centroids(mask)
        self.assertEqual((point.tolist(), inside.tolist()), ([[[1.5, 3.0]]], [True]))
        self.assertEqual(prompts.tight_boxes(mask).tolist(), [[[1.0, 2.0], [2.0, 4.0]]])
        self.assertEqual(sum(prompts.share_out(100)), 100)


class Starting(unittest.TestCase):
    @torch.no_grad()
    def test_every_attention_begins_by_looking_at_its_own_place(self):
        model = network()
        prepare(model)
        grid = SIDE // 16
        encoder, decoder = model.sam_prompt_encoder, model.sam_mask_decoder
        places = encoder.get_dense_pe()[0].flatten(1).T
        rows = torch.arange(grid * grid)
        away = (rows[:, None] // grid - rows // grid) ** 2 + (rows[:, None] % grid - rows % grid) ** 2
        near = torch.exp(-away / (2 * (0.15 * grid) ** 2))
        for layer in decoder.transformer.layers:
            for attention in (layer.cross_attn_token_to_image, layer.cross_attn_image_to_token):
                logits = attention.q_proj(places) @ attention.k_proj(places).T
                alike = torch.corrcoef(torch.stack([logits.flatten(), near.flatten()]))[0, 1]
                self.assertGreater(float(alike), 0.4)

    def test_learning_rates_warm_up_twice_and_clips_grow(self):
        self.assertEqual(schedule.stage(0.0).lengths, (1,))
        self.assertGreater(min(schedule.stage(1.0).lengths), schedule.stage(1.0).quiet + 2)
        self.assertLess(schedule.learning_rate(0, 0.0, 2e-3, 1e-3, None), 1e-4)
        self.assertAlmostEqual(schedule.learning_rate(60, 0.0, 2e-3, 1e-3, None), 2e-3, places=5)
        self.assertAlmostEqual(schedule.learning_rate(5000, 0.1, 2e-3, 1e-3, 5000),
                               1e-3 / schedule.CLIPS_WARM_UP)
        self.assertLess(schedule.learning_rate(9000, 1.0, 2e-3, 1e-3, 5000), 2e-5)


class Learning(unittest.TestCase):
    def options(self, folder, **given):
        plain = dict(
            device="cpu",
            seed=0,
            resume=None,
            out=Path(folder) / "mini.safetensors",
            batch=0.05,
            seconds=0.0,
            plan=1000.0,
            lr_single=2e-3,
            lr=1e-3,
            weight_decay=0.01,
            clip=1.0,
            ema=0.99,
            held_out=1,
            log_every=1,
            eval_seconds=1e9,
            save_seconds=1e9,
            begin=0.0,
            bf16=False,
            eager=False,
            finish=False,
            mix="usual",
        )
        return SimpleNamespace(**(plain | given))

    def test_frames_that_are_run_without_gradients_answer_as_the_others_do(self):
        model = network()
        prepare(model)
        made = training_clips(Draw(3, "cpu"), 2, 4, SIDE)
        unroll = Unroll(model, SIDE)
        click = torch.full((len(made.scene), 1, 2), 60.0)
        start = lambda f: unroll.prompt(f, click, (1,))
        whole, part = ([a.logits
                        for a in unroll.clip(made.images, start, made.scene, quiet)]
                       for quiet in (0, 2))
        self.assertEqual([p.requires_grad for p in part], [True, False, False, True])
        torch.testing.assert_close(torch.stack(whole), torch.stack(part), rtol=1e-4, atol=1e-4)

    def test_a_resumed_training_goes_on_where_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            first = Training(network(), SIDE, self.options(folder))
            first.began = 0.0
            first.seconds = lambda: 5.0
            first.advance()
            first.began, first.spent = 0.0, 5.0
            first.save()
            kept = Path(folder) / "mini.resume.pt"
            again = Training(network(), SIDE, self.options(folder, resume=kept))
            self.assertEqual(again.step, 1)
            again.seconds = first.seconds
            one, two = first.advance(), again.advance()
            self.assertEqual(float(one["loss"]), float(two["loss"]))
            for a, b in zip(first.average.model.parameters(), again.average.model.parameters()):
                self.assertTrue(torch.equal(a, b))


if __name__ == "__main__":
    unittest.main()
