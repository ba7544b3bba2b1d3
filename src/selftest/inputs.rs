/*!
Random inputs that resemble a run on a clip, for each input of a graph.

White noise everywhere would find a missing kernel, but not a wrong one: attention over noise is
flat, and indices have few values that make sense. So features come from the reference encoder,
points lie in the image, and a bank looks as the tracker leaves it.
*/

use anyhow::{Result, bail};

use super::bank_inputs;
use super::case::{Case, Meaning};
use super::tensor::{Tensor, elements};
use vos::bundle::Contract;
use vos::noise::Noise;

/// The encoder's outputs, which all other graphs take.
pub const FEATURES: [&str; 3] = ["feat", "hr0", "hr1"];

/// Logits of a mask stay within this; the decoder clips nothing, but trained ones do not go much
/// further.
const GREATEST_LOGIT: f32 = 10.0;

/// Makes inputs for one model.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// Shapes and bank sizes.
    pub contract: &'a Contract,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// The same seed makes the same inputs.
    pub seed: u64,
    /// The reference encoder's outputs; white noise where there is none.
    pub features: &'a [Tensor],
}

impl Inputs<'_> {
    /// All inputs that the case's graph declares, in its order.
    ///
    /// # Errors
    /// An input of a name that the contract does not know.
    pub fn make(&self, case: &Case) -> Result<Vec<Tensor>> {
        case.shapes.iter().map(|(name, shape)| self.tensor(name, shape, case)).collect()
    }

    fn tensor(&self, name: &str, shape: &[i64], case: &Case) -> Result<Tensor> {
        let mut noise = Noise::new(self.seed, name);
        let count = elements(shape)?;
        let real = |values: Vec<f32>| Ok(Tensor::real(name, shape, values));
        match (name, case.meaning) {
            (_, Meaning::Tokens) if !FEATURES.contains(&name) => real(noise.normals(count)),
            ("image" | "mem" | "ptrs" | "x" | "o", _) => real(noise.normals(count)),
            ("feat" | "hr0" | "hr1", _) => {
                let known = self.features.iter().find(|t| t.name == name && t.shape == shape);
                Ok(known
                    .cloned()
                    .unwrap_or_else(|| Tensor::real(name, shape, noise.normals(count))))
            }
            ("coords", _) => real(self.coords(&mut noise, count / 2, case.extent("coords", 1)?)),
            ("labels", _) => {
                Ok(Tensor::whole(name, shape, labels(count, case.extent("labels", 1)?)))
            }
            // As the tracker asks: the multimask outputs for a single click, one mask for a box.
            ("multi", _) => real(vec![f32::from(u8::from(case.extent("coords", 1)? <= 1)); count]),
            ("mask", _) => real(blobs(&mut noise, count, self.imgsz)),
            ("low", _) => real(waves(&mut noise, count, self.contract.low_size)),
            ("score", _) => real((0..count).map(|_| noise.between(2.0, 8.0) as f32).collect()),
            ("binar", Meaning::Frame { prompted }) => {
                real(vec![f32::from(u8::from(prompted)); count])
            }
            ("tidx", Meaning::Bank { memories, pointers }) => {
                let rows = bank_inputs::temporal_rows(self.contract, memories, pointers, count)?;
                Ok(Tensor::whole(name, shape, rows))
            }
            ("ptr_t", Meaning::Bank { memories, pointers }) => {
                real(bank_inputs::pointer_times(self.contract, memories, pointers, count)?)
            }
            ("bias", Meaning::Bank { memories, pointers }) => {
                real(bank_inputs::key_bias(self.contract, memories, pointers, count)?)
            }
            _ => bail!(
                "the graph has an input '{name}', which this program cannot make; was it exported \
                 by a newer version?"
            ),
        }
    }

    /// Points inside the image; the two corners of a box in order.
    fn coords(&self, noise: &mut Noise, points: usize, per_object: usize) -> Vec<f32> {
        let side = self.imgsz as f64;
        let mut coords = Vec::with_capacity(2 * points);
        for index in 0..points {
            // Boxes: the first corner in the upper left half, the second in the lower right one.
            let (low, high) = match (per_object, index % per_object.max(1)) {
                (2, 0) => (0.1 * side, 0.45 * side),
                (2, _) => (0.55 * side, 0.9 * side),
                _ => (0.0, side),
            };
            coords.extend([noise.between(low, high) as f32, noise.between(low, high) as f32]);
        }
        coords
    }
}

/// One point of an object is a click on it (1); of two, both are corners of a box (2, 3); more are
/// clicks.
fn labels(count: usize, per_object: usize) -> Vec<i32> {
    (0..count)
        .map(|index| match (per_object, index % per_object.max(1)) {
            (2, corner) => 2 + corner as i32,
            _ => 1,
        })
        .collect()
}

/// Prompt masks: one ellipse an object, 1 inside and 0 outside.
fn blobs(noise: &mut Noise, count: usize, side: usize) -> Vec<f32> {
    let mut mask = Vec::with_capacity(count);
    let pixels = side * side;
    for _ in 0..count / pixels {
        let s = side as f64;
        let (cx, cy) = (noise.between(0.35, 0.65) * s, noise.between(0.35, 0.65) * s);
        let (rx, ry) = (noise.between(0.1, 0.3) * s, noise.between(0.1, 0.3) * s);
        mask.extend((0..pixels).map(|at| {
            let (x, y) = ((at % side) as f64 - cx, (at / side) as f64 - cy);
            f32::from(u8::from((x / rx).powi(2) + (y / ry).powi(2) <= 1.0))
        }));
    }
    mask
}

/// Smooth logits: a few hills of both signs, scaled so that the highest reaches
/// ±[`GREATEST_LOGIT`].
fn waves(noise: &mut Noise, count: usize, side: usize) -> Vec<f32> {
    const HILLS: usize = 6;
    let mut logits = Vec::with_capacity(count);
    for _ in 0..count / (side * side) {
        let s = side as f64;
        let hills: Vec<[f64; 4]> = (0..HILLS)
            .map(|index| {
                let height = noise.between(0.5, 1.0) * if index % 2 == 0 { 1.0 } else { -1.0 };
                let width = noise.between(0.08, 0.25) * s;
                [noise.between(0.0, s), noise.between(0.0, s), width, height]
            })
            .collect();
        let start = logits.len();
        logits.extend((0..side * side).map(|at| {
            let (x, y) = ((at % side) as f64, (at / side) as f64);
            // 1/(1+r²)² falls as smoothly as a Gaussian and needs no exponential.
            let hill = |[cx, cy, width, height]: &[f64; 4]| {
                let r2 = ((x - cx).powi(2) + (y - cy).powi(2)) / (width * width);
                height / (1.0 + r2).powi(2)
            };
            hills.iter().map(hill).sum::<f64>() as f32
        }));
        let greatest = logits[start..].iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
        logits[start..].iter_mut().for_each(|v| *v *= GREATEST_LOGIT / greatest);
    }
    logits
}

#[cfg(test)]
mod tests;
