"""The same models in Hugging Face's transformers, as a cross-check: another implementation, the same weights.

The weights come from Meta's predictor, built as ever, so that seeds, overlays and checkpoints mean
the same. The exporter knows how transformers' tensor names become Meta's; it is run on tensors of
consecutive numbers, which tells where each number of transformers' model lies in Meta's, renamed,
split or joined.
"""

import time

import torch

from . import RunError, meta_model, weights_choice
from .transformers_session import TransformersSession

SIDE = 1024  # of the released configurations; their tables of positions fit no other
# What differs from the released tiny model, which is transformers' default.
_HIERA = {
    "sam2.1_tiny": {},
    "sam2.1_small": {"blocks_per_stage": [1, 2, 11, 2], "global_attention_blocks": [7, 10, 13]},
    "sam2.1_base_plus": {
        "hidden_size": 112,
        "num_attention_heads": 2,
        "blocks_per_stage": [2, 3, 16, 3],
        "embed_dim_per_stage": [112, 224, 448, 896],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "global_attention_blocks": [12, 16, 20],
        "window_positional_embedding_background_size": [14, 14],
    },
    "sam2.1_large": {
        "hidden_size": 144,
        "num_attention_heads": 2,
        "blocks_per_stage": [2, 6, 36, 4],
        "embed_dim_per_stage": [144, 288, 576, 1152],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "window_size_per_stage": [8, 4, 16, 8],
        "global_attention_blocks": [23, 33, 43],
    },
}


def build(name):
    """transformers' untrained model of `name` and the class of its sessions."""
    try:
        import transformers
    except ImportError as error:
        raise RunError("the Python package transformers is missing",
                       "pip install 'transformers>=5.17'") from error
    if name in _HIERA:
        from transformers.models.sam2_video.modeling_sam2_video import Sam2VideoInferenceSession as Session

        backbone = transformers.Sam2HieraDetConfig(**_HIERA[name])
        vision = transformers.Sam2VisionConfig(
            backbone_config=backbone, backbone_channel_list=backbone.embed_dim_per_stage[::-1]
        )
        return transformers.Sam2VideoModel(transformers.Sam2VideoConfig(vision_config=vision)), Session
    if name != "edgetam":
        raise RunError(f"transformers has no model {name}", "use --implementation meta", usage=True)
    from transformers.models.edgetam_video.modeling_edgetam_video import EdgeTamVideoInferenceSession as Session

    # The default configuration has Hiera as its trunk and switches that EdgeTAM does not have.
    options = {"in_chans": 3, "features_only": True, "out_indices": (0, 1, 2, 3)}
    trunk = transformers.TimmWrapperConfig(architecture="repvit_m1", model_args=options)
    config = transformers.EdgeTamVideoConfig(
        vision_config=transformers.EdgeTamVisionConfig(backbone_config=trunk),
        enable_temporal_pos_encoding_for_object_pointers=False,
        enable_occlusion_spatial_embedding=False,
    )
    return transformers.EdgeTamVideoModel(config), Session


def copy_weights(theirs, meta):
    """Puts the weights of Meta's predictor into transformers' model; every number must have its place."""
    from segexport.hf_names import to_meta_names

    state, places, start = theirs.state_dict(), {}, 0
    for key, tensor in state.items():
        places[key] = torch.arange(start, start + tensor.numel()).reshape(tensor.shape)
        start += tensor.numel()
    known = {k: v for k, v in meta.state_dict().items() if not k.endswith("num_batches_tracked")}
    renamed = {k: v for k, v in to_meta_names(places).items() if not k.endswith("num_batches_tracked")}
    if renamed.keys() != known.keys():
        odd = sorted(renamed.keys() ^ known.keys())
        raise RunError(f"transformers' tensors are not Meta's: {', '.join(odd[:4])}",
                       "use --implementation meta")
    values, filled = torch.zeros(start), torch.zeros(start, dtype=torch.bool)
    for key, where in renamed.items():
        values[where.reshape(-1)] = known[key].float().reshape(-1)
        filled[where.reshape(-1)] = True
    for key, tensor in state.items():
        where = places[key].reshape(-1)
        if bool(filled[where].all()):
            tensor.copy_(values[where].reshape(tensor.shape))
        elif key.startswith("shared_image_embedding."):
            tensor.copy_(known["sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix"].reshape(
                tensor.shape))
        elif not key.endswith("num_batches_tracked"):
            raise RunError(f"nothing in Meta's weights belongs to transformers' {key}",
                           "use --implementation meta")


def load(tag, choice, args, device, stages):
    """Like meta_model.load."""
    if choice.imgsz != SIDE:
        raise RunError(f"--implementation transformers runs at {SIDE} px", "leave out --imgsz", usage=True)
    start = time.perf_counter()
    meta, weights, reference = meta_model.build_original(tag, choice, args.edgetam_src)
    model, session_class = build(tag.model)
    with torch.no_grad():
        copy_weights(model, meta)
    trunk = meta.image_encoder.trunk
    if "_get_pos_embed" in vars(trunk):
        table = trunk._get_pos_embed(None).to(device)
        model.vision_encoder.backbone._get_pos_embed = lambda size: table
    model = model.eval().to(device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    setup_ms = (time.perf_counter() - start) * 1e3
    import transformers

    memory_dtype = torch.float16 if args.precision == "fp16" else None
    session = TransformersSession(model, session_class, stages, memory_dtype, drop=not args.keep_memories)
    notes = [
        f"transformers {transformers.__version__}: its model in place of Meta's, with weights copied from "
        f"it; "
        "setup_ms includes building both"
    ]
    return meta_model.Loaded(
        session,
        choice,
        weights_choice.phrase(weights),
        meta_model.files_of(choice, weights),
        f"transformers {transformers.__version__}, weights by {reference}",
        setup_ms,
        model.num_maskmem,
        model.config.max_object_pointers_in_encoder,
        notes,
    )
