/*!
The weights of a memory attention on the device, all of them in one piece of memory; projections in
the order in which `memory_attention_project` reads them. Hopper's MLP has the weights of the norm in
front of it in those of its first matmul.
*/

use anyhow::{Context, Result};
use half::f16;

use super::{HALF, WIDTH};
use crate::constants::constant;
use crate::device_weights::{Affine, DeviceWeights};
use crate::repvit::packed;
use cuda::{Gpu, Stream, View};
use vos::bundle::{FusedPart, MemoryAttentionPart, MemoryAttentionShape, MemoryAttentionWeights};

const TILE: usize = constant!(MemoryAttention, "TILE") as usize;
/// The names of what [`of_norm`] makes.
const OF_NORM: [&str; 3] = ["up_of_norm", "up_of_norm_bias", "up_of_norm_sums"];
/// From a column to the other of its pair.
const PARTNER: usize = constant!(MemoryAttention, "PARTNER") as usize;

/// The weights of one layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub norm1: Affine,
    /// Packed, as are the queries.
    pub qkv: Affine,
    pub norm2: Affine,
    pub query: Affine,
    pub value: Affine,
    pub norm3: Affine,
    pub up: Affine,
    /// On Hopper.
    pub up_of_norm: Option<UpOfNorm>,
    pub down: Affine,
}

/// The first matmul of an MLP with the weights and the bias of the norm in front of it.
#[derive(Debug)]
pub(super) struct UpOfNorm {
    pub product: Affine,
    /// f32, of the rows of its weight.
    pub sums: View,
}

#[derive(Debug)]
pub(super) struct Weights {
    pub positions: View,
    pub turns: View,
    pub layers: Vec<Layer>,
    pub norm: Affine,
}

impl Weights {
    /// Brings them to the device.
    ///
    /// # Errors
    /// Weights of another shape, too little memory, or what the driver says.
    pub fn load(
        gpu: &Gpu,
        shape: MemoryAttentionShape,
        file: &MemoryAttentionWeights,
        stream: &Stream,
    ) -> Result<Self> {
        let is_packed = |name: &str| name.ends_with(".qkv") || name.ends_with(".query");
        let tensors = MemoryAttentionPart::tensors(&shape);
        // Those in another order first: views of them must live as long as the upload.
        let packed = tensors.iter().filter(|tensor| is_packed(&tensor.name)).map(|tensor| {
            let columns = tensor.shape.first().copied().unwrap_or(0);
            Ok((tensor.name.clone(), in_pairs(file.get(&tensor.name)?, columns)))
        });
        let packed = packed.collect::<Result<Vec<(String, Vec<u8>)>>>()?;
        let layers = if gpu.runs_hopper_kernels() { shape.layers } else { 0 };
        let with_norms = (0..layers)
            .map(|at| {
                let of = |part: &str| file.get(&format!("attention.layers.{at}.{part}"));
                let (weight, bias) = (of("norm3.weight")?, of("norm3.bias")?);
                Ok(of_norm([of("up")?, of("up_bias")?], [weight, bias]))
            })
            .collect::<Result<Vec<[Vec<u8>; 3]>>>()?;
        let mut all: Vec<(String, &[u8])> = Vec::new();
        for tensor in &tensors {
            let own = packed.iter().find(|(name, _)| *name == tensor.name);
            let bytes = own.map_or_else(|| file.get(&tensor.name), |(_, bytes)| Ok(bytes))?;
            all.push((tensor.name.clone(), bytes));
        }
        for (at, tensors) in with_norms.iter().enumerate() {
            let names = OF_NORM.map(|part| format!("attention.layers.{at}.{part}"));
            all.extend(names.into_iter().zip(tensors.iter().map(Vec::as_slice)));
        }
        DeviceWeights::upload(gpu, &all, stream)
            .and_then(|weights| Self::of(&weights, shape, !with_norms.is_empty()))
            .with_context(|| format!("of a memory attention whose map has side {}", shape.grid))
    }

    fn of(weights: &DeviceWeights, shape: MemoryAttentionShape, with_norms: bool) -> Result<Self> {
        let layer = |at: usize| -> Result<Layer> {
            let name = |part: &str| format!("attention.layers.{at}.{part}");
            let product = |part: &str| weights.matmul(&name(part));
            let norm = |part: &str| weights.layer(&name(part));
            let [up, bias, sums] = OF_NORM.map(name);
            let up_of_norm = || -> Result<UpOfNorm> {
                Ok(UpOfNorm { product: weights.both(&up, &bias)?, sums: weights.one(&sums)? })
            };
            Ok(Layer {
                norm1: norm("norm1")?,
                qkv: product("qkv")?,
                norm2: norm("norm2")?,
                query: product("query")?,
                value: product("value")?,
                norm3: norm("norm3")?,
                up: product("up")?,
                up_of_norm: with_norms.then(up_of_norm).transpose()?,
                down: product("down")?,
            })
        };
        Ok(Self {
            positions: weights.one("attention.positions")?,
            turns: weights.one("attention.turns")?,
            layers: (0..shape.layers).map(layer).collect::<Result<_>>()?,
            norm: weights.layer("attention.norm")?,
        })
    }
}

/// A weight f16 `[columns, 256]` with tiles of columns by turns with those 128 behind, packed.
fn in_pairs(weight: &[u8], columns: usize) -> Vec<u8> {
    let row = HALF * WIDTH;
    let mut ordered = Vec::with_capacity(weight.len());
    for section in weight.chunks(WIDTH * row) {
        for tile in (0..PARTNER).step_by(TILE) {
            for first in [tile, tile + PARTNER] {
                let rows = first * row..(first + TILE) * row;
                ordered.extend_from_slice(section.get(rows).unwrap_or(&[]));
            }
        }
    }
    packed(&ordered, columns, WIDTH, 2)
}

/// U diag(w) f16, u + U b f32 and the sums of the rows of U diag(w) f32, of U f16 `[hidden, 256]`, its
/// bias u and a norm's w and b. Sums are those of what is stored.
fn of_norm([up, up_bias]: [&[u8]; 2], [weight, bias]: [&[u8]; 2]) -> [Vec<u8>; 3] {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
    };
    let (weight, bias) = (floats(weight), floats(bias));
    let [mut product, mut biases, mut sums] = [Vec::new(), Vec::new(), Vec::new()];
    let rows = up.as_chunks::<HALF>().0.chunks(WIDTH).zip(floats(up_bias));
    for (row, own) in rows {
        let (mut plus, mut sum) = (f64::from(own), 0.0);
        for ((two, weight), bias) in row.iter().zip(&weight).zip(&bias) {
            let value = f16::from_le_bytes(*two).to_f32();
            let weighted = f16::from_f32(value * weight);
            plus += f64::from(value) * f64::from(*bias);
            sum += weighted.to_f64();
            product.extend_from_slice(&weighted.to_le_bytes());
        }
        biases.extend_from_slice(&(plus as f32).to_le_bytes());
        sums.extend_from_slice(&(sum as f32).to_le_bytes());
    }
    [product, biases, sums]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matmul_of_a_norm_has_its_weights_and_its_bias() {
        let halves = |values: &[f32]| -> Vec<u8> {
            values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()
        };
        let floats = |values: &[f32]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        // Rows of ones and of threes.
        let up = halves(&[[1.0; WIDTH], [3.0; WIDTH]].concat());
        let [mut weight, mut bias] = [[2.0; WIDTH], [0.0; WIDTH]];
        (weight[5], bias[7]) = (4.0, 0.5);
        let found = of_norm([&up, &floats(&[1.0, 2.0])], [&floats(&weight), &floats(&bias)]);
        let thrice = weight.map(|value| 3.0 * value);
        let expected = [
            halves(&[weight, thrice].concat()),
            floats(&[1.0 + 0.5, 2.0 + 1.5]),
            floats(&[514.0, 3.0 * 514.0]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_tile_and_its_partner_follow_each_other_step_by_step() {
        let halves: Vec<u8> =
            (0..2 * WIDTH * WIDTH).flat_map(|at| ((at / WIDTH) as u16).to_le_bytes()).collect();
        let packed = in_pairs(&halves, 2 * WIDTH);
        assert_eq!(packed.len(), halves.len());
        let (found, _) = packed.as_chunks::<2>();
        // Of the second section's second pair: 16 steps of two tiles of 256 halves.
        let pair = &found[(8 + 1) * 16 * 2 * 256..];
        let of = |at: usize| {
            let mut columns: Vec<u16> =
                pair[at..at + 256].iter().map(|two| u16::from_le_bytes(*two)).collect();
            columns.sort_unstable();
            columns.dedup();
            columns
        };
        let tile = |first: u16| (first..first + 16).collect::<Vec<u16>>();
        assert_eq!(of(0), tile(256 + 16));
        assert_eq!(of(256), tile(256 + 16 + 128));
        assert_eq!(of(512), tile(256 + 16));
    }
}
