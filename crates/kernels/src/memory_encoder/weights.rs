/*!
The weights of a memory encoder on the device, all of them in one piece of memory.
*/

use anyhow::{Context, Result};

use crate::device_weights::{Affine, DeviceWeights};
use cuda::{Gpu, Stream, View};
use vos::bundle::memory_encoder::{BLOCKS, LAYERS};
use vos::bundle::{FusedPart, MemoryEncoderPart, MemoryEncoderShape, MemoryEncoderWeights};

/// A convolution and the norm behind it.
#[derive(Debug)]
pub(super) struct Convolution {
    pub product: Affine,
    pub norm: Affine,
}

/// Where mask and features meet.
#[derive(Debug)]
pub(super) struct Join {
    pub mask: Convolution,
    /// What multiplies the mask behind its convolutions, and the features.
    pub projections: [View; 2],
    /// Of both together.
    pub bias: View,
}

/// A depthwise convolution and an MLP.
#[derive(Debug)]
pub(super) struct Block {
    pub spread: Convolution,
    pub up: Affine,
    pub down: Affine,
}

/// An MLP of latents, which has no biases.
#[derive(Debug)]
pub(super) struct Mlp {
    pub norm: Affine,
    pub up: View,
    pub down: View,
}

/// A layer of the latents of all tokens.
#[derive(Debug)]
pub(super) struct Layer {
    /// Of the memory.
    pub norm: Affine,
    pub kv: View,
    pub out: View,
    pub ff: Mlp,
    pub self_norm: Affine,
    pub self_qkv: View,
    pub self_out: View,
    pub self_ff: Mlp,
}

/// What the second layer's latents ask all tokens with; those of the first are constants.
#[derive(Debug)]
pub(super) struct Asks {
    pub norm: Affine,
    pub weight: View,
}

#[derive(Debug)]
pub(super) struct Latents {
    pub flat: View,
    pub map: View,
    /// The first layer's queries.
    pub first: View,
    pub positions: View,
    pub layers: [Layer; LAYERS],
    pub asks: Asks,
    pub last: Affine,
    /// Of the windows' latents: products, and norms.
    pub halves: View,
    pub floats: View,
}

#[derive(Debug)]
pub(super) struct Weights {
    /// The first two convolutions, in one kernel.
    pub mask: [Convolution; 2],
    pub widen: Convolution,
    pub join: Join,
    pub blocks: [Block; BLOCKS],
    pub out: Affine,
    pub absent: View,
    pub latents: Option<Latents>,
}

impl Weights {
    /// Brings them to the device.
    ///
    /// # Errors
    /// Weights of a memory encoder of other sizes, too little memory, or what the driver says.
    pub fn load(
        gpu: &Gpu,
        shape: MemoryEncoderShape,
        file: &MemoryEncoderWeights,
        stream: &Stream,
    ) -> Result<Self> {
        let tensors = MemoryEncoderPart::tensors(&shape);
        DeviceWeights::of_file(gpu, &tensors, |name| file.get(name), stream)
            .and_then(|weights| MemoryEncoderTensors(weights).all(shape))
            .with_context(|| format!("of a memory encoder whose map has side {}", shape.grid))
    }
}

/// All tensors on the device.
struct MemoryEncoderTensors(DeviceWeights);

impl MemoryEncoderTensors {
    fn all(&self, shape: MemoryEncoderShape) -> Result<Weights> {
        let one = |name: &str| self.0.one(name);
        let mask = |at: usize| -> Result<Convolution> {
            let of = |part: &str| format!("memory.mask.{part}{at}");
            let product = self.0.both(&of("weight"), &of("bias"))?;
            Ok(Convolution { product, norm: self.0.layer(&of("norm"))? })
        };
        Ok(Weights {
            mask: [mask(1)?, mask(2)?],
            widen: self.convolution("memory.widen")?,
            join: Join {
                mask: self.convolution("memory.join")?,
                projections: [one("memory.join.mask")?, one("memory.join.feature")?],
                bias: one("memory.join.sum_bias")?,
            },
            blocks: [self.block("memory.blocks.0")?, self.block("memory.blocks.1")?],
            out: self.0.matmul("memory.out")?,
            absent: one("memory.absent")?,
            latents: shape.latents.then(|| self.latents()).transpose()?,
        })
    }

    fn convolution(&self, name: &str) -> Result<Convolution> {
        Ok(Convolution {
            product: self.0.layer(name)?,
            norm: self.0.layer(&format!("{name}.norm"))?,
        })
    }

    fn block(&self, name: &str) -> Result<Block> {
        let of = |part: &str| format!("{name}.{part}");
        Ok(Block {
            spread: Convolution {
                product: self.0.matmul(&of("spread"))?,
                norm: self.0.layer(&of("norm"))?,
            },
            up: self.0.matmul(&of("up"))?,
            down: self.0.matmul(&of("down"))?,
        })
    }

    fn latents(&self) -> Result<Latents> {
        let one = |name: &str| self.0.one(&format!("latents.{name}"));
        Ok(Latents {
            flat: one("flat")?,
            map: one("map")?,
            first: one("first")?,
            positions: one("positions")?,
            layers: [self.layer("latents.layers.0")?, self.layer("latents.layers.1")?],
            asks: Asks {
                norm: self.0.layer("latents.layers.1.query.norm")?,
                weight: one("layers.1.query.weight")?,
            },
            last: self.0.layer("latents.last")?,
            halves: one("windows.halves")?,
            floats: one("windows.floats")?,
        })
    }

    fn layer(&self, name: &str) -> Result<Layer> {
        let one = |part: &str| self.0.one(&format!("{name}.{part}"));
        let norm = |part: &str| self.0.layer(&format!("{name}.{part}"));
        let mlp = |part: &str| -> Result<Mlp> {
            let of = |inner: &str| format!("{part}.{inner}");
            Ok(Mlp { norm: norm(&of("norm"))?, up: one(&of("up"))?, down: one(&of("down"))? })
        };
        Ok(Layer {
            norm: norm("norm")?,
            kv: one("kv")?,
            out: one("out")?,
            ff: mlp("ff")?,
            self_norm: norm("self.norm")?,
            self_qkv: one("self.qkv")?,
            self_out: one("self.out")?,
            self_ff: mlp("self_ff")?,
        })
    }
}
