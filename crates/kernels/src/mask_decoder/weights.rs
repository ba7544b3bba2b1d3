/*!
The weights of a mask decoder on the device, all of them in one piece of memory.
*/

use anyhow::{Context, Result};

use crate::device_weights::{Affine, DeviceWeights};
use cuda::{Gpu, Stream, View};
use vos::bundle::mask_decoder::LAYERS;
use vos::bundle::{FusedPart, MaskDecoderPart, MaskDecoderShape, MaskDecoderWeights};

/// Tokens read the image: from sums over it to queries.
#[derive(Debug)]
pub(super) struct Read {
    /// The image's values.
    pub values: View,
    pub value_bias: View,
    pub out: Affine,
    pub norm: Affine,
}

/// What a reading's queries are folded with, where they are no constants.
#[derive(Debug)]
pub(super) struct Asking {
    pub query: Affine,
    pub key: View,
}

/// The image reads the tokens.
#[derive(Debug)]
pub(super) struct Write {
    pub key: Affine,
    pub value: Affine,
    pub query: Affine,
    pub out: Affine,
    pub norm: Affine,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub read: Read,
    pub up: Affine,
    pub down: Affine,
    pub norm3: Affine,
    pub write: Write,
}

/// The second layer's attention of the tokens to each other.
#[derive(Debug)]
pub(super) struct Among {
    pub qkv: Affine,
    pub out: Affine,
    pub norm: Affine,
}

/// What is read from the decoded tokens.
#[derive(Debug)]
pub(super) struct Heads {
    pub inner: [Affine; 2],
    pub score: View,
    pub iou: View,
    pub hyper: View,
    pub pointer: View,
    pub no_pointer: View,
}

/// What upscales the image.
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
    /// The queries in front of layer 0's reading, and what its scores are made with.
    pub started: View,
    pub folded: View,
    pub layers: [Layer; LAYERS],
    /// In front of layer 1's reading.
    pub among: Among,
    pub asking: Asking,
    /// The reading behind both layers.
    pub last: Read,
    pub last_asking: Asking,
    pub heads: Heads,
    pub masks: Masks,
}

impl Weights {
    /// Brings them to the device.
    ///
    /// # Errors
    /// Weights of a decoder of other sizes, too little memory, or what the driver says.
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
            among: Among {
                qkv: self.norm("layers.1.self")?,
                out: self.matmul("layers.1.self.out")?,
                norm: self.norm("layers.1.self.norm")?,
            },
            asking: self.asking("layers.1.read")?,
            last: self.read("last")?,
            last_asking: self.asking("last")?,
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
            read: self.read(&of("read"))?,
            up: self.matmul(&of("up"))?,
            down: self.matmul(&of("down"))?,
            norm3: self.norm(&of("norm3"))?,
            write: Write {
                key: write("key")?,
                value: write("value")?,
                query: write("query")?,
                out: write("out")?,
                norm: self.norm(&of("write.norm"))?,
            },
        })
    }

    fn read(&self, name: &str) -> Result<Read> {
        Ok(Read {
            values: self.one(&format!("{name}.values"))?,
            value_bias: self.one(&format!("{name}.value_bias"))?,
            out: self.matmul(&format!("{name}.out"))?,
            norm: self.norm(&format!("{name}.norm"))?,
        })
    }

    fn asking(&self, name: &str) -> Result<Asking> {
        Ok(Asking {
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
