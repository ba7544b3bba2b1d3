"""edgetam_mini: EdgeTAM's architecture, reduced until a bundle of it fits in a repository.

The same modules from EdgeTAM's own package, with fewer channels, blocks and latents, in
Meta's own video predictor class, so that every tool treats it like the full model. All
modules are ordinary differentiable PyTorch: a trained checkpoint is a state dict of
what `build_mini` returns.
"""

from torch import nn

WIDTH = 48  # feature and pointer channels
MEMORY = 16  # memory channels (a pointer is split into 3 tokens)
FEED_FORWARD = 96  # of the memory attention
DECODER_MLP = 96
HEADS = 3
LATENTS = 64  # one-dimensional latents, and as many on an 8x8 map
TRUNK = (16, 24, 48, 64)
BLOCKS = (1, 1, 2, 1)

# The default initialisation is chaotic in closed loop: a random decoder amplifies a
# rounding error a thousandfold a frame. These factors on the random weights keep the
# recurrent path (memories and pointers) weak and the image path strong, so that masks
# follow the image and rounding stays rounding. A checkpoint replaces them.
GAINS = {
    "memory_attention.norm.weight": 0.35,
    "memory_attention.layers": 0.6,
    "neck.convs.3": 3.0,
    "neck.convs.2": 2.0,
}


class SmallRepVit(nn.Module):
    """A RepViT trunk of any width, with the interface of EdgeTAM's TimmBackbone."""

    def __init__(self, widths=TRUNK, blocks=BLOCKS, **options):
        super().__init__()
        from timm.models.repvit import RepVit

        net = RepVit(embed_dim=widths, depth=blocks, mlp_ratio=2, num_classes=0, **options)
        self.channel_list = list(widths[::-1])
        self.body = nn.ModuleDict({"stem": net.stem, "stages": net.stages})

    def forward(self, x):
        x = self.body["stem"](x)
        maps = []
        for stage in self.body["stages"]:
            x = stage(x)
            maps.append(x)
        return maps


def build_mini(side):
    """The reduced predictor for `side` px images (a multiple of 128)."""
    from sam2.modeling.backbones.image_encoder import FpnNeck, ImageEncoder
    from sam2.modeling.memory_attention import MemoryAttention, MemoryAttentionLayer
    from sam2.modeling.memory_encoder import CXBlock, Fuser, MaskDownSampler, MemoryEncoder
    from sam2.modeling.perceiver import PerceiverResampler
    from sam2.modeling.position_encoding import PositionEmbeddingSine
    from sam2.modeling.sam.transformer import RoPEAttention, RoPEAttentionv2

    grid, square = side // 16, round(LATENTS**0.5)
    attention = dict(embedding_dim=WIDTH, num_heads=1, downsample_rate=1, dropout=0.1)
    layer = MemoryAttentionLayer(
        activation="relu",
        d_model=WIDTH,
        dim_feedforward=FEED_FORWARD,
        dropout=0.1,
        pos_enc_at_attn=False,
        pos_enc_at_cross_attn_keys=True,
        pos_enc_at_cross_attn_queries=False,
        self_attention=RoPEAttention(feat_sizes=(grid, grid), **attention),
        cross_attention=RoPEAttentionv2(
            q_sizes=(grid, grid), k_sizes=(square, square), kv_in_dim=MEMORY, **attention
        ),
    )
    memory_encoder = MemoryEncoder(
        in_dim=WIDTH,
        out_dim=MEMORY,
        position_encoding=PositionEmbeddingSine(MEMORY),
        mask_downsampler=MaskDownSampler(WIDTH, kernel_size=3, stride=2, padding=1),
        fuser=Fuser(CXBlock(WIDTH, kernel_size=7, padding=3), num_layers=2),
    )
    perceiver = PerceiverResampler(
        depth=2,
        dim=MEMORY,
        dim_head=MEMORY,
        heads=1,
        ff_mult=4,
        hidden_dropout_p=0.0,
        attention_dropout_p=0.0,
        pos_enc_at_key_value=True,
        concat_kv_latents=False,
        num_latents=LATENTS,
        num_latents_2d=LATENTS,
        position_encoding=PositionEmbeddingSine(MEMORY),
        use_self_attn=True,
    )
    neck = FpnNeck(
        position_encoding=PositionEmbeddingSine(WIDTH),
        d_model=WIDTH,
        backbone_channel_list=list(TRUNK[::-1]),
        fpn_top_down_levels=[2, 3],
        fpn_interp_model="nearest",
    )
    model = _predictor_class()(
        image_encoder=ImageEncoder(SmallRepVit(), neck, scalp=1),
        memory_attention=MemoryAttention(WIDTH, pos_enc_at_input=True, layer=layer, num_layers=2),
        memory_encoder=memory_encoder,
        spatial_perceiver=perceiver,
        image_size=side,
        **_SWITCHES,
    )
    model.random_gains = GAINS
    return model.eval()


# EdgeTAM's switches (configs/edgetam.yaml and the predictor defaults of build_sam.py).
_SWITCHES = dict(
    num_maskmem=7,
    sigmoid_scale_for_mem_enc=20.0,
    sigmoid_bias_for_mem_enc=-10.0,
    use_mask_input_as_output_without_sam=True,
    directly_add_no_mem_embed=True,
    use_high_res_features_in_sam=True,
    multimask_output_in_sam=True,
    iou_prediction_use_sigmoid=True,
    use_obj_ptrs_in_encoder=True,
    add_tpos_enc_to_obj_ptrs=False,
    only_obj_ptrs_in_the_past_for_eval=True,
    pred_obj_scores=True,
    pred_obj_scores_mlp=True,
    fixed_no_obj_ptr=True,
    multimask_output_for_tracking=True,
    use_multimask_token_for_obj_ptr=True,
    multimask_min_pt_num=0,
    multimask_max_pt_num=1,
    use_mlp_for_obj_ptr_proj=True,
    binarize_mask_from_pts_for_mem_enc=True,
    fill_hole_area=0,
)


def _predictor_class():
    """Meta's predictor with a narrower mask decoder (its widths are constants in the original)."""
    from sam2.modeling.sam.mask_decoder import MaskDecoder
    from sam2.modeling.sam.prompt_encoder import PromptEncoder
    from sam2.modeling.sam.transformer import TwoWayTransformer
    from sam2.modeling.sam2_utils import MLP
    from sam2.sam2_video_predictor import SAM2VideoPredictor

    class MiniPredictor(SAM2VideoPredictor):
        def _build_sam_heads(self):
            self.sam_prompt_embed_dim = self.hidden_dim
            self.sam_image_embedding_size = self.image_size // self.backbone_stride
            self.sam_prompt_encoder = PromptEncoder(
                embed_dim=WIDTH,
                image_embedding_size=(self.sam_image_embedding_size,) * 2,
                input_image_size=(self.image_size,) * 2,
                mask_in_chans=16,
            )
            self.sam_mask_decoder = MaskDecoder(
                transformer_dim=WIDTH,
                transformer=TwoWayTransformer(
                    depth=2, embedding_dim=WIDTH, num_heads=HEADS, mlp_dim=DECODER_MLP
                ),
                num_multimask_outputs=3,
                iou_head_hidden_dim=WIDTH,
                use_high_res_features=True,
                iou_prediction_use_sigmoid=True,
                pred_obj_scores=True,
                pred_obj_scores_mlp=True,
                use_multimask_token_for_obj_ptr=True,
                dynamic_multimask_via_stability=True,
                dynamic_multimask_stability_delta=0.05,
                dynamic_multimask_stability_thresh=0.98,
            )
            self.obj_ptr_proj = MLP(WIDTH, WIDTH, WIDTH, 3)
            self.obj_ptr_tpos_proj = nn.Identity()

    return MiniPredictor
