/*!
Element types of tensors that kernels and matmuls read and write.
*/

use serde::{Deserialize, Serialize};

/// A floating-point type of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Element {
    /// 32 bits.
    F32,
    /// 16 bits (IEEE 754 half).
    F16,
}

impl Element {
    /// Size of one element, bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}
