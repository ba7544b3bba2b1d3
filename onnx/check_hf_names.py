"""Loads a randomly initialised transformers model through the name map and compares features.

    python onnx/check_hf_names.py edgetam|sam2.1

Run by the tests, in a process of its own per family. Needs `transformers`, no network.
"""

import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from segexport import models, weights
from segexport.encoder import Encoder


def hugging_face_model(family):
    """The transformers video model of a family, in the released configuration."""
    if family == "sam2.1":
        from transformers import Sam2VideoConfig, Sam2VideoModel

        return Sam2VideoModel(Sam2VideoConfig())
    from transformers import EdgeTamVideoConfig, EdgeTamVideoModel, EdgeTamVisionConfig
    from transformers import TimmWrapperConfig

    options = {"in_chans": 3, "features_only": True, "out_indices": (0, 1, 2, 3)}
    trunk = TimmWrapperConfig(architecture="repvit_m1", model_args=options)
    config = EdgeTamVideoConfig(
        vision_config=EdgeTamVisionConfig(backbone_config=trunk),
        enable_temporal_pos_encoding_for_object_pointers=False,
        enable_occlusion_spatial_embedding=False,
    )
    return EdgeTamVideoModel(config)


def main():
    family = sys.argv[1]
    name = {"edgetam": "edgetam", "sam2.1": "sam2.1_tiny"}[family]
    torch.manual_seed(0)
    theirs = hugging_face_model(family).eval()
    ours, _ = models.build(name, 1024)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        weights.load_checkpoint(ours, name, Path(folder) / "model.safetensors")
    image = torch.randn(1, 3, 1024, 1024)
    with torch.no_grad():
        feat, hr0, hr1 = Encoder(ours, 1024)(image)
        levels = theirs.get_image_features(image, return_dict=True).fpn_hidden_states
    for mine, level in zip((hr0, hr1, feat), levels, strict=True):
        tokens = mine.flatten(2).permute(2, 0, 1)
        error = float((tokens - level).abs().max())
        print(f"{name}: {tuple(mine.shape)} max error {error:.2e} (largest {float(level.abs().max()):.2f})")
        if error > 1e-4 * max(1.0, float(level.abs().max())):
            sys.exit("the features differ")


if __name__ == "__main__":
    main()
