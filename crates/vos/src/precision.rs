/*!
Precision of an engine.
*/

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Number formats that a plan may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats, TF32 off.
    #[default]
    Fp32,
    /// f16, with some layers pinned to fp32.
    Fp16,
    /// f16 in the memory attention and between graphs. Encoder, mask decoder and memory encoder
    /// compute in fp32 with TF32 matmuls. Masks are as close to fp32 as PyTorch's in fp16 (TensorRT
    /// 8.x and 10.x, segmented track step only).
    Mixed,
    /// bf16, with some layers pinned to fp32 (TensorRT 10, weakly typed).
    Bf16,
    /// The fastest of fp16, bf16 and TF32, with some layers pinned to fp32.
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
