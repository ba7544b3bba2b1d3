"""What each exportable model is: its family, its configuration, its image sizes.

`build` makes the ORIGINAL video predictor (Meta's class) with untrained weights;
everything else in the package reads its modules.
"""

from dataclasses import dataclass

from . import ExportError
from .reference_code import activate


@dataclass(frozen=True)
class ModelSpec:
    """One model: `family` decides the code and the graph contract's switches."""

    name: str
    family: str  # "edgetam" | "sam2.1"
    config: str  # Hydra config of the original package
    size_step: int  # the image side must be a multiple of this
    why: str  # why of that

    def check_size(self, side):
        """Refuses image sides that the architecture cannot take, naming those it can."""
        if side >= self.size_step and side % self.size_step == 0 and side <= 2048:
            return
        step = self.size_step
        near = sorted({max(step, side // step * step), min(2048, max(1, side // step + 1) * step)})
        raise ExportError(
            f"{self.name} cannot take {side}x{side} images: {self.why}, so the side must be "
            f"a multiple of {step} from {step} to 2048 (nearest: "
            f"{', '.join(str(min(n, 2048)) for n in near)})"
        )


_HIERA_WHY = (
    "Hiera's patch stride of 4 and three 2x2 poolings need /32, as does its 8x8 window table"
)
_PERCEIVER_WHY = (
    "its 16x16 two-dimensional memory latents each own an equal square of the 1/16 feature map"
)

MODELS = {
    spec.name: spec
    for spec in (
        ModelSpec("edgetam", "edgetam", "configs/edgetam.yaml", 256, _PERCEIVER_WHY),
        ModelSpec("sam2.1_tiny", "sam2.1", "configs/sam2.1/sam2.1_hiera_t.yaml", 32, _HIERA_WHY),
        ModelSpec("sam2.1_small", "sam2.1", "configs/sam2.1/sam2.1_hiera_s.yaml", 32, _HIERA_WHY),
        ModelSpec(
            "sam2.1_base_plus", "sam2.1", "configs/sam2.1/sam2.1_hiera_b+.yaml", 32, _HIERA_WHY
        ),
        ModelSpec("sam2.1_large", "sam2.1", "configs/sam2.1/sam2.1_hiera_l.yaml", 32, _HIERA_WHY),
        ModelSpec(
            "edgetam_mini",
            "edgetam",
            "",
            128,
            "its 8x8 two-dimensional memory latents each own an equal square of the 1/16 feature map",
        ),
    )
}


def spec_of(name):
    """The spec of a model name; ExportError names the known ones."""
    if name not in MODELS:
        raise ExportError(f"unknown model {name!r}: known are {', '.join(MODELS)}")
    return MODELS[name]


def build(name, side, edgetam_src=None):
    """The original video predictor of `name` at `side` px and its code's version.

    Hole filling is off: it is a CUDA post-process of Meta's that no graph contains.
    """
    spec = spec_of(name)
    spec.check_size(side)
    reference = activate(spec.family, edgetam_src)
    if name == "edgetam_mini":
        from .mini import build_mini

        return build_mini(side), reference

    from hydra import compose
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    overrides = [
        "++model._target_=sam2.sam2_video_predictor.SAM2VideoPredictor",
        f"++model.image_size={side}",
        "++model.sam_mask_decoder_extra_args.dynamic_multimask_via_stability=true",
        "++model.sam_mask_decoder_extra_args.dynamic_multimask_stability_delta=0.05",
        "++model.sam_mask_decoder_extra_args.dynamic_multimask_stability_thresh=0.98",
        "++model.binarize_mask_from_pts_for_mem_enc=true",
        "++model.fill_hole_area=0",
    ]
    if spec.family == "edgetam":
        # Only the query grid follows the image; the perceiver always emits a 16x16 map,
        # so k_sizes keeps the configuration's [16, 16] at every image size.
        grid = side // 16
        overrides.append(
            f"++model.memory_attention.layer.cross_attention.q_sizes=[{grid},{grid}]"
        )
        _build_timm_trunks_offline()
    config = compose(config_name=spec.config, overrides=overrides)
    OmegaConf.resolve(config)
    return instantiate(config.model, _recursive_=True).eval(), reference


def _build_timm_trunks_offline():
    """EdgeTAM asks timm for pretrained trunk weights; the checkpoint replaces them anyway."""
    import timm

    import sam2.modeling.backbones.timm as trunk_module

    def create(name, pretrained=False, **options):
        return timm.create_model(name.split(".")[0], pretrained=False, **options)

    trunk_module.create_model = create
