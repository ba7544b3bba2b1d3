/*!
The weights of an encoder's trunk on the device.
*/

use anyhow::{Context, Result};

use crate::bundle::{Trunk, TrunkWeights};
use crate::gpu::{Gpu, Purpose, Stream, View};

/// What scales and what is added: of a norm, or of a product.
pub struct Affine {
    pub weight: View,
    pub bias: View,
}

/// The weights of one block.
pub struct BlockWeights {
    pub norm1: Affine,
    pub skip: Option<Affine>,
    pub qkv: Affine,
    pub proj: Affine,
    pub norm2: Affine,
    pub up: Affine,
    pub down: Affine,
}
