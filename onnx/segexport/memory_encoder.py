"""The memory graph: features and low-resolution logits -> memory tokens.

Meta's `_encode_new_memory`, with EdgeTAM's perceiver behind it. Kept out of the
track graph so that a mask can leave before its memory is written.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .layers import ChannelsLastNorm, NormChannels, linear, tokens_of
from .perceiver import Perceiver


class MemoryEncoder(nn.Module):
    """feat [1,C,g,g], low [B,1,4g,4g], score [B,1], binar [1] -> mem [B,T,Cm]."""

    def __init__(self, model, side):
        super().__init__()
        original = model.memory_encoder
        self.pixels, self.depth = (side // 16) ** 2, model.mem_dim
        self.scale, self.offset = model.sigmoid_scale_for_mem_enc, model.sigmoid_bias_for_mem_enc
        layers = []
        for layer in original.mask_downsampler.encoder:
            is_norm = hasattr(layer, "eps") and hasattr(layer, "weight")
            layers.append(NormChannels(layer) if is_norm else layer)
        self.downsample = nn.Sequential(*layers)
        self.feature = original.pix_feat_proj
        self.fuser = nn.ModuleList(ConvNext(block) for block in original.fuser.layers)
        self.out = original.out_proj
        spatial = model.no_obj_embed_spatial
        self.register_buffer(
            "absent", None if spatial is None else spatial.detach().reshape(1, -1, 1, 1)
        )
        perceiver = getattr(model, "spatial_perceiver", None)
        if perceiver is None:
            self.perceiver = None
        else:
            position = original.position_encoding(torch.zeros(1, 1, side // 16, side // 16))
            self.perceiver = Perceiver(perceiver, position, side // 16)

    def forward(self, feat, low, score, binar):
        high = F.interpolate(low, scale_factor=4.0, mode="bilinear", align_corners=False)
        hard = (high > 0).float()
        mask = torch.where(binar > 0.5, hard, torch.sigmoid(high))
        x = self.feature(feat) + self.downsample(mask * self.scale + self.offset)
        for block in self.fuser:
            x = block(x)
        x = self.out(x)
        if self.absent is not None:
            x = x + (score <= 0).float()[:, :, None, None] * self.absent
        x = tokens_of(x, self.depth, self.pixels)
        return x if self.perceiver is None else self.perceiver(x)


class ConvNext(nn.Module):
    """Depthwise 7x7, then a channels-last MLP with the layer scale folded in."""

    def __init__(self, block):
        super().__init__()
        self.dw, self.norm = block.dwconv, ChannelsLastNorm(block.norm)
        self.up, self.act = block.pwconv1, block.act
        gamma = block.gamma if block.gamma is not None else torch.ones(1)
        down = block.pwconv2
        self.down = linear(down.weight * gamma[:, None], down.bias * gamma)

    def forward(self, x):
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        y = self.down(self.act(self.up(y)))
        return x + y.permute(0, 3, 1, 2)
