/*!
Arithmetic of an engine.
*/

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Arithmetic that a plan may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats, TF32 off.
    #[default]
    Fp32,
    /// Half precision with layers pinned to fp32.
    Fp16,
    /// Halves between the layers of the memory attention and between graphs; encoder, mask decoder
    /// and memory encoder compute in fp32 with TF32 products: masks as near to fp32 as PyTorch's
    /// fp16 (8.x, 10.x; the bank must be fused).
    Mixed,
    /// Brain floats with layers pinned to fp32 (TensorRT 10, weakly typed).
    Bf16,
    /// Whatever of fp16, bf16, TF32 is fastest; pinned layers stay fp32.
    Best,
}

impl Precision {
    /// The name in file names and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Mixed => "mixed",
            Self::Bf16 => "bf16",
            Self::Best => "best",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
