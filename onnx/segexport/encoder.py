"""The image encoder graph: normalised RGB image -> feat, hr0, hr1.

`feat` is the raw FPN level at 1/16; hr0 (1/4) and hr1 (1/8) are what the mask
decoder's skip convolutions make of the two finer levels. Those levels have no
top-down path, so neck 1x1 and skip 1x1 compose into one convolution each (exact).
"""

import copy

from torch import nn
from torch.nn import functional as F

from .hiera import HieraTrunk
from .layers import compose_1x1


class Encoder(nn.Module):
    """image [n,3,S,S] -> feat [n,C,g,g], hr0 [n,C/8,4g,4g], hr1 [n,C/4,2g,2g]; g = S/16."""

    def __init__(self, model, side):
        super().__init__()
        original = model.image_encoder
        neck, decoder = original.neck, model.sam_mask_decoder
        if neck.fpn_top_down_levels != [2, 3] or neck.fuse_type != "sum":
            raise ValueError("the neck composition needs finer levels without a top-down path")
        if hasattr(original.trunk, "blocks"):
            self.trunk = HieraTrunk(original.trunk, side)
        else:
            self.trunk = fused_timm(original.trunk)
        finest, fine, middle, coarse = reversed([c.conv for c in neck.convs])
        self.hr0 = compose_1x1(finest, decoder.conv_s0)
        self.hr1 = compose_1x1(fine, decoder.conv_s1)
        self.middle, self.coarse = middle, coarse

    def forward(self, image):
        finest, fine, middle, coarse = self.trunk(image)
        top_down = F.interpolate(self.coarse(coarse), scale_factor=2.0, mode="nearest")
        return self.middle(middle) + top_down, self.hr0(finest), self.hr1(fine)


def fused_timm(trunk):
    """A copy of a RepViT trunk whose parallel branches and batch norms are single convolutions."""
    trunk = copy.deepcopy(trunk).eval()
    _fuse_children(trunk.body)
    _pool_in_steps(trunk.body)
    return trunk


def _pool_in_steps(module):
    """Squeeze-and-excite blocks take their mean over tiles first, then over the tiles' means."""
    from timm.layers.squeeze_excite import SEModule  # SAM 2.1 is exported without timm

    for name, child in module.named_children():
        if isinstance(child, SEModule):
            setattr(module, name, _SqueezeExcite(child))
        else:
            _pool_in_steps(child)


class _SqueezeExcite(nn.Module):
    """timm's `SEModule` with its spatial mean in two steps.

    TensorRT 8.6 reduces a whole map with few threads: 14 to 33 us for each of twelve means on an H200, and
    0.92 ms for the encoder; after pooling over tiles the rest is small, and the encoder takes 0.85 ms.
    """

    def __init__(self, original):
        super().__init__()
        if original.add_maxpool:
            raise ValueError("a squeeze-and-excite block with maximum pooling is not expected")
        self.down, self.norm, self.act = original.fc1, original.bn, original.act
        self.up, self.gate = original.fc2, original.gate

    def forward(self, x):
        side = int(x.shape[-1])
        # The largest tile that divides the map and leaves about as many tiles as it has places.
        tile = max(n for n in (1, 2, 4, 8, 16, 32) if side % n == 0 and n * n <= 2 * side)
        mean = F.avg_pool2d(x, tile).mean((2, 3), keepdim=True)
        return x * self.gate(self.up(self.act(self.norm(self.down(mean)))))


def _fuse_children(module):
    for name, child in module.named_children():
        if hasattr(child, "fuse"):
            setattr(module, name, child.fuse())
        else:
            _fuse_children(child)
