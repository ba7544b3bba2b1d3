#!/usr/bin/env python3
"""Writes the small bundle that tests of an encoder cut at its attentions run: tests/data/fused with a Hiera as encoder.

    pip install -r onnx/requirements.txt && SAM2_BUILD_CUDA=0 pip install --no-build-isolation --no-deps -r pytorch/requirements-sam2.txt
    python tests/data/encoder_attention/make_bundle.py [FOLDER]

The encoder is Meta's Hiera with seven blocks of 4 to 32 channels and seeded random weights, whole and cut by the exporter as
`onnx/export.py --encoder attention` cuts SAM 2.1's: behind its first block as deep trunks are, then at the two blocks
that attend over the whole map, two heads of eight columns each in the 64 that the kernel takes. All else is made by the
hand-made bundle's own functions. The graphs compute in fp32, because the tests' stand-in for TensorRT runs them so; its ports are fp16.
"""
import hashlib
import pathlib
import sys
from types import SimpleNamespace

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE.parent / "fused"), str(ROOT / "onnx")]
import make_bundle as hand_made  # noqa: E402
from segexport import flops, graphs  # noqa: E402
from segexport.encoder import Encoder  # noqa: E402
from segexport.encoder_parts import Part  # noqa: E402
from segexport.manifest import _graph_entry  # noqa: E402
from segexport.onnx_write import to_onnx  # noqa: E402
from segexport.random_weights import random_tensor  # noqa: E402
from segexport.reference_code import activate  # noqa: E402

SIDE, WIDTH, CHANNELS = hand_made.SIDE, hand_made.WIDTH, 4
PARTS = [Part(0, 1), Part(1, 3, gives_qkv=True), Part(3, 5, True, True), Part(5, 7, takes_o=True)]
# Attention that tells places apart and counts beside the residual; features as large as the hand-made encoder's.
GAINS = {"attn.qkv": 2.0, "attn.proj": 2.0, "neck.convs.0": 0.06, "neck.convs.1": 0.06, "neck.convs.2": 0.5, "neck.convs.3": 0.5}


def encoder():
    """Meta's modules, small, and with weights that depend on their names alone."""
    activate("sam2.1")
    import torch
    from sam2.modeling.backbones.hieradet import Hiera
    from sam2.modeling.backbones.image_encoder import FpnNeck
    from torch import nn

    trunk = Hiera(
        embed_dim=CHANNELS, num_heads=2, head_mul=1.0, stages=(1, 1, 4, 1), global_att_blocks=(3, 5),
        window_spec=(4, 4, 2, 2), window_pos_embed_bkg_spatial_size=(4, 4),
    )
    neck = FpnNeck(nn.Identity(), WIDTH, [8 * CHANNELS, 4 * CHANNELS, 2 * CHANNELS, CHANNELS], fpn_interp_model="nearest",
                   fpn_top_down_levels=[2, 3])
    skips = nn.ModuleDict({"conv_s0": nn.Conv2d(WIDTH, WIDTH // 8, 1), "conv_s1": nn.Conv2d(WIDTH, WIDTH // 4, 1)})
    for top, module in {"trunk": trunk, "neck": neck, "skips": skips}.items():
        state = module.state_dict()
        module.load_state_dict({name: random_tensor(f"{top}.{name}", like, 0, GAINS) for name, like in state.items()})
    decoder = SimpleNamespace(conv_s0=skips["conv_s0"], conv_s1=skips["conv_s1"])
    model = SimpleNamespace(image_encoder=SimpleNamespace(trunk=trunk.eval(), neck=neck), sam_mask_decoder=decoder)
    return Encoder(model, SIDE).eval()


def encoder_graphs():
    made = encoder()
    features = [graphs.Port(name, "f", tuple(shape)) for name, _, shape in hand_made.FEATURES]
    yield graphs.Graph("encoder", made, [graphs.Port("image", "f", (1, 3, SIDE, SIDE))], features)
    yield from graphs.encoder_cuts(made, SIDE, features, PARTS)


def write(graph, folder):
    proto = to_onnx(graph)
    data = proto.SerializeToString()
    (folder / f"{graph.role}.onnx").write_bytes(data)
    return _graph_entry(graph, "fp32", hashlib.sha256(data).hexdigest(), flops.count(proto)).strip()


def main(folder):
    hand_made.HERE = folder
    entries = [write(graph, folder) for graph in encoder_graphs()]
    entries += [hand_made.write(role, g) for role, g in hand_made.steps()]
    hand_made.write_manifest(entries, "tests/data/encoder_attention/make_bundle.py")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
