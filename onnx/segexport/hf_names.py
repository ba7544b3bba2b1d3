"""Hugging Face tensor names -> Meta's (transformers' Sam2Video and EdgeTamVideo models)."""

import re

import torch

from . import ExportError

# Applied in order to every name.
_RULES = [
    (r"^no_memory_embedding$", "no_mem_embed"),
    (r"^no_memory_positional_encoding$", "no_mem_pos_enc"),
    (r"^memory_temporal_positional_encoding$", "maskmem_tpos_enc"),
    (r"^no_object_pointer$", "no_obj_ptr"),
    (r"^occlusion_spatial_embedding_parameter$", "no_obj_embed_spatial"),
    (r"^temporal_positional_encoding_projection_layer\.", "obj_ptr_tpos_proj."),
    (r"^object_pointer_proj\.", "obj_ptr_proj."),
    # image encoder
    (r"^vision_encoder\.neck\.convs\.(\d)\.", r"image_encoder.neck.convs.\1.conv."),
    (r"^vision_encoder\.backbone\.timm_model\.", "image_encoder.trunk.body."),
    (r"^vision_encoder\.backbone\.", "image_encoder.trunk."),
    (r"\.patch_embed\.projection\.", ".patch_embed.proj."),
    (r"(trunk\.blocks\.\d+)\.layer_norm", r"\1.norm"),
    # prompt encoder
    (
        r"^prompt_encoder\.shared_embedding\.positional_embedding$",
        "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
    ),
    (r"^prompt_encoder\.mask_embed\.conv1\.", "sam_prompt_encoder.mask_downscaling.0."),
    (r"^prompt_encoder\.mask_embed\.layer_norm1\.", "sam_prompt_encoder.mask_downscaling.1."),
    (r"^prompt_encoder\.mask_embed\.conv2\.", "sam_prompt_encoder.mask_downscaling.3."),
    (r"^prompt_encoder\.mask_embed\.layer_norm2\.", "sam_prompt_encoder.mask_downscaling.4."),
    (r"^prompt_encoder\.mask_embed\.conv3\.", "sam_prompt_encoder.mask_downscaling.6."),
    (r"^prompt_encoder\.", "sam_prompt_encoder."),
    # mask decoder
    (r"^mask_decoder\.upscale_conv1\.", "sam_mask_decoder.output_upscaling.0."),
    (r"^mask_decoder\.upscale_layer_norm\.", "sam_mask_decoder.output_upscaling.1."),
    (r"^mask_decoder\.upscale_conv2\.", "sam_mask_decoder.output_upscaling.3."),
    (r"^mask_decoder\.", "sam_mask_decoder."),
    (r"\.layer_norm_final_attn\.", ".norm_final_attn."),
    # memory attention
    (r"^(memory_attention\.layers\.\d+)\.mlp\.up_proj\.", r"\1.linear1."),
    (r"^(memory_attention\.layers\.\d+)\.mlp\.down_proj\.", r"\1.linear2."),
    (r"^memory_attention\.layer_norm\.", "memory_attention.norm."),
    (r"((?:transformer|memory_attention)\.layers\.\d+)\.layer_norm(\d)\.", r"\1.norm\2."),
    # memory encoder
    (r"^memory_encoder\.mask_downsampler\.final_conv\.", "memory_encoder.mask_downsampler.encoder.12."),
    (r"^memory_encoder\.feature_projection\.", "memory_encoder.pix_feat_proj."),
    (r"^memory_encoder\.projection\.", "memory_encoder.out_proj."),
    (r"^memory_encoder\.memory_fuser\.", "memory_encoder.fuser."),
    (r"(fuser\.layers\.\d)\.scale$", r"\1.gamma"),
    (r"(fuser\.layers\.\d)\.depthwise_conv\.", r"\1.dwconv."),
    (r"(fuser\.layers\.\d)\.layer_norm\.", r"\1.norm."),
    (r"(fuser\.layers\.\d)\.pointwise_conv", r"\1.pwconv"),
]

_ATTENTIONS = re.compile(r"^(memory_attention|sam_mask_decoder)\..*attn.*\.o_proj\.")
# Three-layer MLPs: proj_in, layers.0, proj_out are layers 0, 1, 2; two-layer ones lack the middle.
_MLP3 = re.compile(
    r"^(sam_mask_decoder\.(?:output_hypernetworks_mlps\.\d|iou_prediction_head|pred_obj_score_head)"
    r"|obj_ptr_proj)\.(proj_in|layers\.0|proj_out)\."
)
_MLP2 = re.compile(
    r"^((?:sam_mask_decoder\.transformer|image_encoder\.trunk)\..*\.mlp)\.(proj_in|proj_out)\.")
_DOWNSAMPLER = re.compile(r"^memory_encoder\.mask_downsampler\.layers\.(\d)\.(conv|layer_norm)\.")


def to_meta_names(state):
    """A state dict with Meta's names, whichever of the two it came with."""
    if not any(name.startswith(("vision_encoder.", "prompt_encoder.")) for name in state):
        return state
    renamed = {}
    for name, tensor in state.items():
        if name.startswith("shared_image_embedding."):
            # The same matrix as prompt_encoder.shared_embedding; kept when only this one is stored.
            renamed.setdefault(
                "sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix", tensor
            )
        elif name.endswith("prompt_encoder.point_embed.weight"):
            for i, row in enumerate(tensor):
                renamed[f"sam_prompt_encoder.point_embeddings.{i}.weight"] = row[None]
        else:
            renamed[_rename(name)] = tensor
    return _join_keys_and_values(renamed)


def _rename(name):
    for pattern, replacement in _RULES:
        name = re.sub(pattern, replacement, name)
    if _ATTENTIONS.match(name):
        name = name.replace(".o_proj.", ".out_proj.")
    if match := _MLP3.match(name):
        index = {"proj_in": 0, "layers.0": 1, "proj_out": 2}[match[2]]
        name = f"{match[1]}.layers.{index}.{name[match.end():]}"
    if match := _MLP2.match(name):
        index = {"proj_in": 0, "proj_out": 1}[match[2]]
        name = f"{match[1]}.layers.{index}.{name[match.end():]}"
    if match := _DOWNSAMPLER.match(name):
        index = 3 * int(match[1]) + (match[2] == "layer_norm")
        name = f"memory_encoder.mask_downsampler.encoder.{index}.{name[match.end():]}"
    return _perceiver(name) if name.startswith("spatial_perceiver.") else name


_PERCEIVER = [
    (r"\.latents_1d$", ".latents"),
    (r"^spatial_perceiver\.layer_norm\.", "spatial_perceiver.norm."),
    (r"\.cross_attention\.o_proj\.", ".attn.to_out."),
    (r"\.cross_attention\.q_proj\.", ".attn.to_q."),
    (r"\.cross_attention\.(k|v)_proj\.", r".attn.to_\1."),
    (r"\.self_attention\.o_proj\.", ".self_attn.to_out."),
    (r"\.self_attention\.q_proj\.", ".self_attn.to_q."),
    (r"\.self_attention\.(k|v)_proj\.", r".self_attn.to_\1."),
    (r"\.layer_norm_input\.", ".attn.norm_x."),
    (r"\.layer_norm_latents\.", ".attn.norm_latents."),
    (r"\.layer_norm_self\.", ".self_attn.norm."),
    (r"\.mlp\.layer_norm\.", ".ff.0."),
    (r"\.mlp\.up_proj\.", ".ff.1."),
    (r"\.mlp\.down_proj\.", ".ff.3."),
    (r"\.self_mlp\.layer_norm\.", ".self_ff.0."),
    (r"\.self_mlp\.up_proj\.", ".self_ff.1."),
    (r"\.self_mlp\.down_proj\.", ".self_ff.3."),
]


def _perceiver(name):
    for pattern, replacement in _PERCEIVER:
        name = re.sub(pattern, replacement, name)
    return name


def _join_keys_and_values(state):
    """Meta keeps the perceiver's key and value projections as one matrix."""
    joined = {}
    for name, tensor in state.items():
        if name.endswith(".to_k.weight"):
            value = name.replace(".to_k.", ".to_v.")
            if value not in state:
                raise ExportError(f"the checkpoint has {name} but not {value}")
            joined[name.replace(".to_k.", ".to_kv.")] = torch.cat([tensor, state[value]])
        elif not name.endswith(".to_v.weight"):
            joined[name] = tensor
    return joined
