/*!
The numbers in which a predecoded frame is stored.
*/

use clap::ValueEnum;
use half::f16;
use serde::{Deserialize, Serialize};

/// What a stored value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// Resized bytes; the network's normalisation is done when a frame is taken. Half the size, and
    /// the same masks to the last bit as without predecoding.
    U8,
    /// Normalised half-precision numbers, as an fp16 network takes them; an fp32 network gets rounded inputs.
    F16,
}

impl Values {
    /// Both.
    pub const ALL: [Self; 2] = [Self::U8, Self::F16];

    /// The name on the command line, in file names and in the fidelity column.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::F16 => "f16",
        }
    }

    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 => size_of::<f16>(),
        }
    }
}
