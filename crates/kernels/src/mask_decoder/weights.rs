/*!
The weights of a mask decoder on the device, all of them in one piece of memory.
*/

use anyhow::{Context, Result};

use crate::device_weights::{Affine, DeviceWeights};
use cuda::{Gpu, Stream, View};
use vos::bundle::mask_decoder::LAYERS;
use vos::bundle::{FusedPart, MaskDecoderPart, MaskDecoderShape, MaskDecoderWeights};

/// Token-to-image attention: value bias, output projection, norm.
#[derive(Debug)]
pub(super) struct TokenToImageAttn {
    /// Value projection of the image.
    pub values: View,
    pub value_bias: View,
    pub out: Affine,
    pub norm: Affine,
}

/// Query and key projection of a token-to-image attention whose queries depend on the frame.
#[derive(Debug)]
pub(super) struct QueryKeyProj {
    pub query: Affine,
    pub key: View,
}

/// Image-to-token attention.
#[derive(Debug)]
pub(super) struct ImageToTokenAttn {
    pub key: Affine,
    pub value: Affine,
    pub query: Affine,
    pub out: Affine,
    pub norm: Affine,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub token_to_image: TokenToImageAttn,
    pub up: Affine,
    pub down: Affine,
    pub norm3: Affine,
    pub image_to_token: ImageToTokenAttn,
}

/// Self-attention of the tokens in layer 1.
#[derive(Debug)]
pub(super) struct SelfAttn {
    pub qkv: Affine,
    pub out: Affine,
    pub norm: Affine,
}

/// Output heads.
#[derive(Debug)]
pub(super) struct Heads {
    pub inner: [Affine; 2],
    pub score: View,
    pub iou: View,
    pub hyper: View,
    pub pointer: View,
    pub no_pointer: View,
}

/// Upscaling of the image, to mask logits.
#[derive(Debug)]
pub(super) struct Masks {
    pub first: Affine,
    pub norm: Affine,
    pub second: Affine,
}

#[derive(Debug)]
pub(super) struct Weights {
    pub positions: View,
    pub tokens: View,
    /// Queries of layer 0's token-to-image attention, and the same folded with its key projection.
    pub started: View,
    pub folded: View,
    pub layers: [Layer; LAYERS],
    /// Of layer 1, before its token-to-image attention.
    pub self_attn: SelfAttn,
    pub query_key: QueryKeyProj,
    /// The token-to-image attention after both layers.
    pub last: TokenToImageAttn,
    pub last_query_key: QueryKeyProj,
    pub heads: Heads,
    pub masks: Masks,
}

impl Weights {
    /// Uploads them to the device.
    ///
    /// # Errors
    /// Weights of a decoder of other sizes, too little memory, or another error of the driver.
    pub fn load(
        gpu: &Gpu,
        shape: MaskDecoderShape,
        file: &MaskDecoderWeights,
        stream: &Stream,
    ) -> Result<Self> {
        let tensors = MaskDecoderPart::tensors(&shape);
        DeviceWeights::of_file(gpu, &tensors, |name| file.get(name), stream)
            .and_then(|weights| MaskDecoderTensors(weights).all())
            .with_context(|| format!("of a mask decoder whose map has side {}", shape.grid))
    }
}

/// All tensors on the device, by their names in the file without the prefix `decoder.`
struct MaskDecoderTensors(DeviceWeights);

impl MaskDecoderTensors {
    fn all(&self) -> Result<Weights> {
        Ok(Weights {
            positions: self.one("pe")?,
            tokens: self.one("tokens")?,
            started: self.one("started")?,
            folded: self.one("first")?,
            layers: [self.layer("layers.0")?, self.layer("layers.1")?],
            self_attn: SelfAttn {
                qkv: self.norm("layers.1.self")?,
                out: self.matmul("layers.1.self.out")?,
                norm: self.norm("layers.1.self.norm")?,
            },
            query_key: self.query_key("layers.1.read")?,
            last: self.token_to_image("last")?,
            last_query_key: self.query_key("last")?,
            heads: Heads {
                inner: [self.matmul("heads.inner0")?, self.matmul("heads.inner1")?],
                score: self.one("heads.score")?,
                iou: self.one("heads.iou")?,
                hyper: self.one("heads.hyper")?,
                pointer: self.one("heads.pointer")?,
                no_pointer: self.one("heads.no_pointer")?,
            },
            masks: Masks {
                first: self.both("masks.weight1", "masks.bias1")?,
                norm: self.norm("masks.norm")?,
                second: self.both("masks.weight2", "masks.bias2")?,
            },
        })
    }

    fn layer(&self, name: &str) -> Result<Layer> {
        let of = |part: &str| format!("{name}.{part}");
        let write = |part: &str| self.matmul(&of(&format!("write.{part}")));
        Ok(Layer {
            token_to_image: self.token_to_image(&of("read"))?,
            up: self.matmul(&of("up"))?,
            down: self.matmul(&of("down"))?,
            norm3: self.norm(&of("norm3"))?,
            image_to_token: ImageToTokenAttn {
                key: write("key")?,
                value: write("value")?,
                query: write("query")?,
                out: write("out")?,
                norm: self.norm(&of("write.norm"))?,
            },
        })
    }

    fn token_to_image(&self, name: &str) -> Result<TokenToImageAttn> {
        Ok(TokenToImageAttn {
            values: self.one(&format!("{name}.values"))?,
            value_bias: self.one(&format!("{name}.value_bias"))?,
            out: self.matmul(&format!("{name}.out"))?,
            norm: self.norm(&format!("{name}.norm"))?,
        })
    }

    fn query_key(&self, name: &str) -> Result<QueryKeyProj> {
        Ok(QueryKeyProj {
            query: self.matmul(&format!("{name}.query"))?,
            key: self.one(&format!("{name}.key"))?,
        })
    }

    fn matmul(&self, name: &str) -> Result<Affine> {
        self.0.matmul(&of_decoder(name))
    }

    fn norm(&self, name: &str) -> Result<Affine> {
        self.0.layer(&of_decoder(name))
    }

    fn both(&self, weight: &str, bias: &str) -> Result<Affine> {
        self.0.both(&of_decoder(weight), &of_decoder(bias))
    }

    fn one(&self, name: &str) -> Result<View> {
        self.0.one(&of_decoder(name))
    }
}

fn of_decoder(name: &str) -> String {
    format!("decoder.{name}")
}
