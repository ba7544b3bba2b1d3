#!/usr/bin/env python3
"""Writes an encoder with a trunk, whole and as stem, weights and neck, for the bundle of
tests/data/fused in the place of its own, with the lines for its manifest.

pip install -r onnx/requirements.txt && SAM2_BUILD_CUDA=0 pip install --no-build-isolation --no-deps
-r pytorch/requirements-sam2.txt
    python tests/data/trunk/make_parts.py [FOLDER]

The blocks are Meta's, six of 8 and 16 columns with seeded random weights, put together by hand so
that each kind of work occurs once: windows that divide the map and such that reach over its edge,
odd ones, pooled ones of both kinds, two heads, the whole map. The exporter divides them as
`onnx/export.py --encoder trunk` does; heads have eight columns. The graphs compute in fp32, because
the tests' stand-in for TensorRT runs them so, and the whole has the weights as the file rounds
them.
"""
import hashlib
import pathlib
import sys
from types import SimpleNamespace

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent / "fused"), str(ROOT / "onnx")]
import make_bundle as hand_made  # noqa: E402
from segexport import graphs, trunk, work  # noqa: E402
from segexport.encoder import Encoder  # noqa: E402
from segexport.manifest import _graph_entry, _trunk_entry  # noqa: E402
from segexport.onnx_write import to_onnx  # noqa: E402
from segexport.random_weights import random_tensor  # noqa: E402
from segexport.reference_code import activate  # noqa: E402
from segexport.trunk_run import as_in_file  # noqa: E402

SIDE, WIDTH, DEPTH = hand_made.SIDE, hand_made.WIDTH, 8
# Columns in and out, and the window; where columns change the map shrinks.
BLOCKS = [(8, 8, 4), (8, 16, 4), (16, 16, 0), (16, 8, 6), (8, 8, 3), (8, 16, 2)]
ENDS = [0, 2, 4, 5]
# Attention that tells places apart and counts beside the residual; features as large as the
# hand-made encoder's.
GAINS = {
    "attn.qkv": 2.0, "attn.proj": 2.0, "neck.convs.0": 0.02, "neck.convs.1": 0.02, "neck.convs.2": 0.06,
    "neck.convs.3": 0.06
}


def encoder():
    """Meta's modules, small, and with weights that depend on their names alone."""
    activate("sam2.1")
    import torch
    from sam2.modeling.backbones.hieradet import MultiScaleBlock, PatchEmbed
    from sam2.modeling.backbones.image_encoder import FpnNeck
    from torch import nn

    first = BLOCKS[0][0]
    made = nn.Module()
    made.patch_embed = PatchEmbed(embed_dim=first)
    made.pos_embed = nn.Parameter(torch.zeros(1, SIDE // 4, SIDE // 4, first))
    made.blocks = nn.ModuleList(
        MultiScaleBlock(dim, out, out // DEPTH, q_stride=(2, 2) if dim != out else None, window_size=window)
        for dim, out, window in BLOCKS
    )
    made.stage_ends, made._get_pos_embed = ENDS, lambda _: made.pos_embed
    widths = [BLOCKS[end][1] for end in reversed(ENDS)]
    neck = FpnNeck(nn.Identity(), WIDTH, widths, fpn_interp_model="nearest", fpn_top_down_levels=[2, 3])
    skips = nn.ModuleDict(
        {"conv_s0": nn.Conv2d(WIDTH, WIDTH // 8, 1), "conv_s1": nn.Conv2d(WIDTH, WIDTH // 4, 1)})
    for top, module in {"trunk": made, "neck": neck, "skips": skips}.items():
        state = module.state_dict()
        module.load_state_dict(
            {name: random_tensor(f"{top}.{name}", like, 0, GAINS)
             for name, like in state.items()})
    decoder = SimpleNamespace(conv_s0=skips["conv_s0"], conv_s1=skips["conv_s1"])
    model = SimpleNamespace(image_encoder=SimpleNamespace(trunk=made.eval(), neck=neck),
                            sam_mask_decoder=decoder)
    whole = Encoder(model, SIDE).eval()
    as_in_file(whole.trunk)
    return whole


def write(graph, folder):
    proto = to_onnx(graph)
    data = proto.SerializeToString()
    (folder / f"{graph.role}.onnx").write_bytes(data)
    return _graph_entry(graph, "fp32", hashlib.sha256(data).hexdigest(), work.count(proto))


def main(folder):
    made = encoder()
    features = [graphs.Port(name, "f", tuple(shape)) for name, _, shape in hand_made.FEATURES]
    whole = graphs.Graph("encoder", made, [graphs.Port("image", "f", (1, 3, SIDE, SIDE))], features)
    entries = [write(graph, folder) for graph in (whole, *graphs.around_trunk(made, SIDE, features))]
    entries.append(_trunk_entry(trunk.write(trunk.blocks_of(made.trunk, SIDE), folder)))
    (folder / "graphs.toml").write_text("\n".join(entries))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
