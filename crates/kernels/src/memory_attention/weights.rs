/*!
The weights of a memory attention on the device, all of them in one piece of memory; projections in
the order in which `memory_attention_project` reads them.
*/

use anyhow::{Context, Result};

use super::{HALF, MEMORY, WIDTH};
use crate::constants::constant;
use crate::device_weights::{Affine, DeviceWeights};
use crate::repvit::packed;
use cuda::{Gpu, Stream, View};
use vos::bundle::{
    FileTensor, FusedPart, MemoryAttentionPart, MemoryAttentionShape, MemoryAttentionWeights,
};

const TILE: usize = constant!(MemoryAttention, "TILE") as usize;
/// From a column to the other of its pair.
const PARTNER: usize = constant!(MemoryAttention, "PARTNER") as usize;

/// A projection's weights: packed, with the bias; and row by row where the GPU is a Hopper, whose
/// kernel reads them so.
#[derive(Debug)]
pub(super) struct Product {
    pub packed: Affine,
    pub rows: Option<View>,
}

/// The weights of one layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub norm1: Affine,
    pub qkv: Product,
    pub norm2: Affine,
    pub query: Product,
    /// Row by row, and packed with the same bias.
    pub value: Affine,
    pub packed_value: View,
    pub norm3: Affine,
    pub up: Affine,
    pub down: Affine,
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
        let is_projection = |name: &str| name.ends_with(".qkv") || name.ends_with(".query");
        let tensors = MemoryAttentionPart::tensors(&shape);
        // Those in another order first: views of them must live as long as the upload.
        let mut ordered: Vec<(String, Vec<u8>)> = Vec::new();
        for FileTensor { name, shape, .. } in &tensors {
            let columns = shape.first().copied().unwrap_or(0);
            if is_projection(name) {
                ordered.push((name.clone(), in_pairs(file.get(name)?, columns)));
            } else if name.ends_with(".value") {
                ordered.push((packed_of(name), packed(file.get(name)?, columns, MEMORY, 1)));
            }
        }
        let mut all: Vec<(String, &[u8])> =
            ordered.iter().map(|(name, bytes)| (name.clone(), bytes.as_slice())).collect();
        for FileTensor { name, .. } in &tensors {
            if !is_projection(name) {
                all.push((name.clone(), file.get(name)?));
            } else if gpu.runs_hopper_kernels() {
                all.push((rows_of(name), file.get(name)?));
            }
        }
        DeviceWeights::upload(gpu, &all, stream)
            .and_then(|weights| Self::of(&weights, shape, gpu.runs_hopper_kernels()))
            .with_context(|| format!("of a memory attention whose map has side {}", shape.grid))
    }

    /// `rows`: projections lie there row by row, too.
    fn of(weights: &DeviceWeights, shape: MemoryAttentionShape, rows: bool) -> Result<Self> {
        let layer = |at: usize| -> Result<Layer> {
            let name = |part: &str| format!("attention.layers.{at}.{part}");
            let product = |part: &str| weights.matmul(&name(part));
            let norm = |part: &str| weights.layer(&name(part));
            let projection = |part: &str| -> Result<Product> {
                let rows = rows.then(|| weights.one(&rows_of(&name(part)))).transpose()?;
                Ok(Product { packed: product(part)?, rows })
            };
            Ok(Layer {
                norm1: norm("norm1")?,
                qkv: projection("qkv")?,
                norm2: norm("norm2")?,
                query: projection("query")?,
                value: product("value")?,
                packed_value: weights.one(&packed_of(&name("value")))?,
                norm3: norm("norm3")?,
                up: product("up")?,
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

/// The name of a projection's weight as the file has it, beside the packed one.
fn rows_of(name: &str) -> String {
    format!("{name}_rows")
}

/// The name of a packed weight beside the one as the file has it.
fn packed_of(name: &str) -> String {
    format!("{name}_packed")
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

#[cfg(test)]
mod tests {
    use super::*;

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
