/*!
The sizes and types of a matmul.
*/

use std::ffi::c_int;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::sys;
use crate::Element;

/// Sizes of `out[rows, columns] = a[rows, depth] weight[columns, depth]ᵀ + bias[columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MatmulShape {
    /// Rows of `a` and `out`: tokens.
    pub rows: usize,
    /// Columns of `out`.
    pub columns: usize,
    /// Columns of `a` and `weight`: terms of each sum.
    pub depth: usize,
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
        2.0 * self.rows as f64 * self.columns as f64 * self.depth as f64
    }
}

/// "4096 x 384 x 1536 (rows x columns x depth) in f32, added to".
impl fmt::Display for MatmulShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, columns, depth, output, residual } = self;
        let output = if *output == Element::F32 { "f32" } else { "f16" };
        let added = if *residual { ", added to" } else { "" };
        write!(f, "{rows} x {columns} x {depth} (rows x columns x depth) in {output}{added}")
    }
}
