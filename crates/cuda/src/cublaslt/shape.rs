/*!
The sizes and types of a matmul.
*/

use std::ffi::c_int;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::sys;
use crate::Element;

/// M, N and K of `out[m, n] = a[m, k] weight[n, k]ᵀ + bias[n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MatmulShape {
    /// Rows of `a` and `out`: tokens.
    #[serde(alias = "rows")]
    pub m: usize,
    /// Columns of `out`.
    #[serde(alias = "columns")]
    pub n: usize,
    /// Columns of `a` and `weight`: terms of each sum.
    #[serde(alias = "depth")]
    pub k: usize,
    /// Type of `out` and `bias`; `a` and `weight` are fp16.
    pub output: Element,
    /// The previous contents of `out` are added.
    pub residual: bool,
}

impl MatmulShape {
    pub(super) fn data_type(&self) -> c_int {
        match self.output {
            Element::F32 => sys::R_32F,
            Element::F16 => sys::R_16F,
        }
    }

    /// Additions and multiplications.
    pub fn operations(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

/// "4096 x 384 x 1536 (M x N x K) in f32, added to".
impl fmt::Display for MatmulShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, output, residual } = self;
        let output = if *output == Element::F32 { "f32" } else { "f16" };
        let added = if *residual { ", added to" } else { "" };
        write!(f, "{m} x {n} x {k} (M x N x K) in {output}{added}")
    }
}
