"""Start weights from which a small network learns that the click counts.

PyTorch's initialisation leaves attention blind to places: on a grid of 16 x 16 the Fourier
encoding of a point is one cell wide, and what a query looks at has nothing to do with where it
is. A network then learns to outline all shapes long before it learns which one was clicked, and
stays there. Three settings make every attention begin by looking at its own place.
"""

import torch

NEARNESS = 0.4  # widens the positional encoding's kernel from 1.3 cells of 16 x 16 to 3
SHARPNESS = 1.5  # of the decoder's products of positions
LAYER_SCALE = 0.1  # Meta's 1e-6 keeps the memory encoder's blocks shut for most of a short training


@torch.no_grad()
def prepare(model):
    """Changes a freshly built edgetam_mini in place."""
    model.sam_prompt_encoder.pe_layer.positional_encoding_gaussian_matrix *= NEARNESS
    for layer in model.sam_mask_decoder.transformer.layers:
        _look_near(layer.cross_attn_token_to_image)
        _look_near(layer.cross_attn_image_to_token)
    for layer in model.memory_attention.layers:
        # Rotary encoding turns equal constants into nearness.
        for projection in (layer.cross_attn_image.q_proj, layer.cross_attn_image.k_proj):
            projection.weight *= 0.5
            projection.bias.fill_(1.0)
    for block in model.memory_encoder.fuser.layers:
        block.gamma.fill_(LAYER_SCALE)


def _look_near(attention):
    """Queries and keys get one projection, so that equal positions attend to each other."""
    query, key = attention.q_proj, attention.k_proj
    for rows in query.weight.chunk(attention.num_heads):
        torch.nn.init.orthogonal_(rows, SHARPNESS)
    key.weight.copy_(query.weight)
    query.bias.zero_()
    key.bias.zero_()
