"""Tests of Hieras that begin as a smaller one: `python3 -m unittest discover -s lab/train`, or this
file alone.

Meta's SAM 2 or EdgeTAM's copy of it is needed; without either all is skipped, loudly.
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "onnx")]
import needs_torch  # in front of what it looks for

import unittest
from types import SimpleNamespace
from unittest import mock

import torch
from torch import nn

from segtrain import grown
from test_encoder_parts import hiera_code

SIDE = 128
TINY = dict(embed_dim=24,
            num_heads=1,
            stages=(1, 2, 5, 2),
            global_att_blocks=(4, 6),
            window_spec=(4, 4, 4, 4))
TINY["window_pos_embed_bkg_spatial_size"] = (3, 3)
DEEP = TINY | dict(stages=(2, 3, 9, 2), global_att_blocks=(8, 12))
LARGE = DEEP | dict(embed_dim=36, num_heads=2)


def encoder(options, seed):
    """As its authors initialise it."""
    hiera_code()
    from sam2.modeling.backbones.hieradet import Hiera
    from sam2.modeling.backbones.image_encoder import FpnNeck

    torch.manual_seed(seed)
    channels = options["embed_dim"]
    neck = FpnNeck(nn.Identity(),
                   16, [channels * n for n in (8, 4, 2, 1)],
                   fpn_interp_model="nearest",
                   fpn_top_down_levels=[2, 3])
    return SimpleNamespace(trunk=Hiera(**options).eval(), neck=neck)


@torch.no_grad()
def trained():
    """A network whose blocks and positions matter."""
    made = encoder(TINY, 1)
    for block in made.trunk.blocks:
        block.attn.qkv.weight.mul_(2.0)
        block.attn.qkv.bias.normal_(std=0.5)
        for norm in (block.norm1, block.norm2):
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_(std=0.2)
    made.trunk.pos_embed.normal_(std=0.3)
    made.trunk.pos_embed_window.normal_(std=0.3)
    return made


@torch.no_grad()
def maps(made, seed=0):
    image = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))
    return made.neck(made.trunk(image))[0]


def unexplained(wanted, given):
    """Share of the variance of each map."""
    return [((g - w).square().mean() / w.var()).item() for w, g in zip(wanted, given)]


class Growing(unittest.TestCase):
    def setUp(self):
        self.small = trained()
        self.table = self.small.trunk._get_pos_embed((SIDE // 4, SIDE // 4))[0].detach()

    def grow(self, options, added=grown.ADDED):
        made = encoder(options, 2)
        with mock.patch.object(grown, "ADDED", added):
            grown.grow(made, self.small, self.table)
        return made

    def test_a_block_meets_one_of_its_kind_in_its_stage(self):
        for options in (TINY, DEEP, LARGE):
            into, own = encoder(options, 0).trunk, self.small.trunk
            met = grown.counterparts(own, into)
            self.assertEqual(list(met), list(range(len(own.blocks))))
            self.assertEqual(sorted(set(met.values())), list(met.values()), "their order is kept, none is "
                                                                            "met twice")
            for k, counterpart in met.items():
                block, other = own.blocks[k], into.blocks[counterpart]
                self.assertEqual((block.window_size == 0, block.q_stride),
                                 (other.window_size == 0, other.q_stride), (k, counterpart))
                self.assertEqual(block.dim_out / TINY["embed_dim"], other.dim_out / options["embed_dim"])

    def test_what_is_as_wide_computes_the_same_but_for_blocks_of_its_own(self):
        wanted = maps(self.small)
        for options, added in ((TINY, grown.ADDED), (DEEP, 0.0)):
            for w, g in zip(wanted, maps(self.grow(options, added))):
                torch.testing.assert_close(g, w, rtol=1e-3, atol=1e-3)
        self.assertGreater(max(unexplained(wanted, maps(self.grow(DEEP)))), 1e-5, "they do take part")

    def test_what_is_wider_and_has_narrower_heads_is_near(self):
        wanted = maps(self.small)
        near, fresh = unexplained(wanted,
                                  maps(self.grow(LARGE))), unexplained(wanted, maps(encoder(LARGE, 2)))
        self.assertLess(max(near), 0.3)
        self.assertGreater(min(fresh), 3 * max(near))

    def test_a_channel_that_is_repeated_is_read_once_in_all(self):
        spread = grown.Spread.of(24, 36, torch.Generator().manual_seed(0))
        read = torch.zeros(24).index_add(0, spread.source, spread.share)
        torch.testing.assert_close(read, torch.ones(24))
        self.assertGreater(spread.share.min().item(), 0.9 * grown.LEAST_SHARE)
        weight, value = torch.randn(5, 24), torch.randn(24)
        torch.testing.assert_close(spread.read(weight) @ value[spread.source],
                                   weight @ value,
                                   rtol=1e-4,
                                   atol=1e-5)

    def test_what_cannot_be_held_is_refused(self):
        with self.assertRaisesRegex(ValueError, "more than twice"):
            self.grow(LARGE | dict(embed_dim=56, num_heads=2))
        with self.assertRaisesRegex(ValueError, "no multiple"):
            grown._attention(*(SimpleNamespace(num_heads=n) for n in (3, 2)), None, None, None)


if __name__ == "__main__":
    unittest.main()
