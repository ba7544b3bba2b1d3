/*!
A memory attention with weights that are drawn, and what its pieces take.
*/

use std::collections::BTreeMap;

use anyhow::Result;
use half::f16;
use safetensors::tensor::Dtype;

use crate::selftest::weights_file;
use vos::bundle::memory_attention::{MEMORY, WIDTH};
use vos::bundle::{FusedPart, MemoryAttentionPart, MemoryAttentionShape, MemoryAttentionWeights};
use vos::noise::Noise;

/// Weights and inputs, as the kernels take them.
pub struct Drawn {
    pub shape: MemoryAttentionShape,
    /// In the values that are stored; without the `attention.` in front.
    tensors: BTreeMap<String, Vec<f32>>,
    /// Tokens, or features with as many elements.
    pub x: Vec<f16>,
    /// What was attended to: of the frame, of the bank.
    pub attended: [Vec<f16>; 2],
}

impl Drawn {
    pub fn new(shape: MemoryAttentionShape, seed: u64, name: &str) -> Self {
        let halves = |what: &str, count: usize| -> Vec<f16> {
            let values = Noise::new(seed, &format!("attention {name} {what}")).normals(count);
            values.into_iter().map(f16::from_f32).collect()
        };
        let tokens = shape.tokens();
        let of = |tensor: &vos::bundle::FileTensor| {
            let short = tensor.name.trim_start_matches("attention.");
            let mut noise = Noise::new(seed, &format!("attention {name} {short}"));
            let normals = noise.normals(tensor.elements());
            let columns = tensor.shape.last().copied().unwrap_or(1);
            let (scale, offset) = spread(short, columns);
            let value = |(at, value): (usize, f32)| {
                // Cosine and sine of one angle.
                let value = match (short, at % 2) {
                    ("turns", 0) => (30.0 * value).cos(),
                    ("turns", _) => (30.0 * normals[at - 1]).sin(),
                    _ => scale * value + offset,
                };
                if tensor.dtype == Dtype::F16 { f16::from_f32(value).to_f32() } else { value }
            };
            let values = normals.iter().copied().enumerate().map(value).collect();
            (short.to_owned(), values)
        };
        Self {
            shape,
            tensors: MemoryAttentionPart::tensors(&shape).iter().map(of).collect(),
            x: halves("x", tokens * WIDTH),
            attended: [halves("frame", tokens * WIDTH), halves("bank", tokens * MEMORY)],
        }
    }

    /// The values of a tensor, row by row; none of one that there is not.
    pub fn get(&self, name: &str) -> &[f32] {
        self.tensors.get(name).map_or(&[], Vec::as_slice)
    }

    /// The file of weights, read as a bundle's.
    pub fn weights(&self) -> Result<MemoryAttentionWeights> {
        weights_file(&self.shape, |name| self.get(name.trim_start_matches("attention.")))
    }
}

/// How far a tensor's elements spread, and around what: products then give about what they take.
fn spread(tensor: &str, columns: usize) -> (f32, f32) {
    let last = tensor.rsplit('.').next().unwrap_or(tensor);
    match last {
        "weight" => (0.1, 1.0),
        "positions" => (0.5, 0.0),
        "qkv" | "query" | "value" | "up" | "down" => (1.0 / (columns as f32).sqrt(), 0.0),
        _ => (0.2, 0.0),
    }
}
