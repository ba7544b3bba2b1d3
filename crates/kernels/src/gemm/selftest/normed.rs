/*!
A LayerNorm folded into the GEMM behind it: operands, float64 reference, and the comparison of the
kernels that take tokens as they come, with moments of their rows.
*/

use anyhow::{Context, Result};
use half::f16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;
use zerocopy::IntoBytes;

use super::super::{FoldedNorm, GemmKernels};
use super::sample_of;
use crate::hiera::selftest::EPSILON;
use crate::selftest::f64_reference::{gelu, layer_norm};
use crate::selftest::{Bench, Checked, Limits, POISON};
use cuda::{LaunchMode, Stream, View};
use vos::noise::Noise;

/// Runs that must give the same bits: a race need not show in each.
const RUNS: u8 = 5;
/// The rounding of weights to f16 once more, and of the output; deviations as without a norm.
const LIMITS: Limits = Limits { error: 6e-4, deviation: 8e-3 };
/// Offsets of rows, in deviations.
pub(super) const OFFSETS: [f32; 4] = [0.0, 3.0, 0.0, -3.0];
/// The least columns of a part.
const PART: usize = 96;

/// Norm and GEMM as a model has them, and folded.
pub(super) struct Folded {
    /// Of the norm.
    scale: Vec<f32>,
    shift: Vec<f32>,
    /// Of the GEMM: `[n, k]` and `[n]`.
    weight: Vec<f16>,
    bias: Vec<f32>,
    /// `[n, k]`, its rows' sums, and what is added.
    pub folded_weight: Vec<f16>,
    pub column_sums: Vec<f32>,
    pub folded_bias: Vec<f32>,
}

impl Folded {
    pub fn new(noise: &mut Noise, n: usize, k: usize) -> Self {
        let weight = noise.halves(n * k, (k as f32).sqrt().recip());
        let scale: Vec<f32> = noise.normals(k).into_iter().map(|value| 1.0 + 0.5 * value).collect();
        let shift: Vec<f32> = noise.normals(k).into_iter().map(|value| 0.5 * value).collect();
        let bias = noise.normals(n);
        let rows = weight.par_chunks(k).zip(&bias).map(|(weight, bias)| {
            let weight = weight.to_f32_vec();
            let row: Vec<f16> = weight
                .iter()
                .zip(&scale)
                .map(|(weight, scale)| f16::from_f32(weight * scale))
                .collect();
            let sum: f64 = row.iter().map(|value| value.to_f64()).sum();
            let more = weight.iter().zip(&shift);
            let more: f64 =
                more.map(|(weight, shift)| f64::from(*weight) * f64::from(*shift)).sum();
            (row, (sum as f32, (f64::from(*bias) + more) as f32))
        });
        let (rows, vectors): (Vec<Vec<f16>>, Vec<(f32, f32)>) = rows.unzip();
        let (column_sums, folded_bias) = vectors.into_iter().unzip();
        let folded_weight = rows.concat();
        Self { scale, shift, weight, bias, folded_weight, column_sums, folded_bias }
    }

    /// A sample of the elements of `norm(row) weightᵀ + bias`, with GELU or without, each with its
    /// place in `[m, n]`.
    pub fn expected(
        &self,
        m: usize,
        activated: bool,
        row: impl Fn(usize) -> Vec<f64> + Sync,
    ) -> Vec<(usize, f64)> {
        let (n, k) = (self.bias.len(), self.scale.len());
        let normed = |at: usize| layer_norm(&row(at), &self.scale, &self.shift, EPSILON);
        let sums = sample_of(normed, &self.weight, [m, n, k]).into_iter().map(|(place, sum)| {
            let sum = sum + f64::from(self.bias[place % n]);
            (place, if activated { gelu(sum) } else { sum })
        });
        sums.collect()
    }

    /// The GEMM's own operands, on the device: weight and f16 bias.
    pub fn put_plain(&self, bench: &Bench) -> Result<[View; 2]> {
        let bias: Vec<f16> = self.bias.iter().map(|value| f16::from_f32(*value)).collect();
        Ok([bench.put(self.weight.as_bytes())?, bench.put(bias.as_bytes())?])
    }

    /// The norm's weight and bias, on the device.
    pub fn put_norm(&self, bench: &Bench) -> Result<[View; 2]> {
        Ok([bench.put(self.scale.as_bytes())?, bench.put(self.shift.as_bytes())?])
    }

    /// Folded weight, sums and bias, on the device.
    pub fn put(&self, bench: &Bench) -> Result<[View; 3]> {
        Ok([
            bench.put(self.folded_weight.as_bytes())?,
            bench.put(self.column_sums.as_bytes())?,
            bench.put(self.folded_bias.as_bytes())?,
        ])
    }
}

/// Operands on the host, and what must come out.
pub(super) struct Data {
    sizes: [usize; 3],
    tokens: Vec<f16>,
    parts: usize,
    moments: Vec<f32>,
    folded: Folded,
    expected: Vec<(usize, f64)>,
}

impl Data {
    pub fn new(seed: u64, sizes: [usize; 3], activated: bool) -> Self {
        let [m, n, k] = sizes;
        let mut noise = Noise::new(seed, &format!("to be normed {sizes:?}"));
        let mut values = noise.normals(m * k);
        values.par_chunks_mut(k).enumerate().for_each(|(row, values)| {
            let offset = OFFSETS[row % OFFSETS.len()];
            values.iter_mut().for_each(|value| *value += offset);
        });
        let tokens: Vec<f16> = values.par_iter().map(|value| f16::from_f32(*value)).collect();
        let folded = Folded::new(&mut noise, n, k);
        let row = |at: usize| -> Vec<f64> {
            tokens[at * k..][..k].iter().map(|value| value.to_f64()).collect()
        };
        let expected = folded.expected(m, activated, row);
        let parts = parts_of(k);
        let of_part = |part: usize| {
            let columns = k / parts;
            let of_row = |at: usize| {
                let values = tokens[at * k + part * columns..][..columns].to_f32_vec();
                let sum: f64 = values.iter().copied().map(f64::from).sum();
                let mean = sum / columns as f64;
                let squares: f64 =
                    values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum();
                [mean as f32, squares as f32]
            };
            (0..m).into_par_iter().flat_map_iter(of_row).collect::<Vec<f32>>()
        };
        let moments = (0..parts).flat_map(of_part).collect();
        Self { sizes, tokens, parts, moments, folded, expected }
    }
}

/// Parts of a row of so many columns: as the matmul in front has tiles, or about so.
fn parts_of(columns: usize) -> usize {
    let fits = |parts: &usize| columns.is_multiple_of(*parts) && columns / parts >= PART;
    [8, 4, 3, 2].into_iter().find(fits).unwrap_or(1)
}

/// Operands on the device.
pub(super) struct Setting {
    data: Data,
    a: View,
    moments: View,
    folded: [View; 3],
    out: View,
}

impl Setting {
    pub fn new(bench: &Bench, data: Data) -> Result<Self> {
        let [m, n, _] = data.sizes;
        Ok(Self {
            a: bench.put(data.tokens.as_bytes())?,
            moments: bench.put(data.moments.as_bytes())?,
            folded: data.folded.put(bench)?,
            out: View::new(bench.gpu, 2 * m * n)?,
            data,
        })
    }

    fn enqueue(&self, kernels: Option<&GemmKernels>, name: &str, stream: &Stream) -> Result<()> {
        let kernels = kernels.context("there are no GEMM kernels")?;
        let [weight, column_sums, bias] = &self.folded;
        let (moments, parts) = (&self.moments, self.data.parts);
        let norm = FoldedNorm { moments, parts, column_sums, bias };
        let operands = [&self.a, weight, &self.out];
        kernels.enqueue_normed(name, self.data.sizes, operands, &norm, LaunchMode::Ordered, stream)
    }

    /// One kernel, against float64 and itself.
    pub fn check(
        &self,
        bench: &Bench,
        kernels: Option<&GemmKernels>,
        name: &str,
    ) -> Result<Checked> {
        let enqueue = |stream: &Stream| self.enqueue(kernels, name, stream);
        check_halves(bench, &self.out, &self.data.expected, (LIMITS, RUNS), || Ok(()), enqueue)
    }
}

/// What launches write into `out`, f16, against a sample of float64 and against further runs, each
/// of which `begin` prepares; their time, without that, if all is right.
pub(super) fn check_halves(
    bench: &Bench,
    out: &View,
    expected: &[(usize, f64)],
    (limits, runs): (Limits, u8),
    begin: impl Fn() -> Result<()>,
    enqueue: impl Fn(&Stream) -> Result<()>,
) -> Result<Checked> {
    // Each run starts from another pattern, so that elements that a kernel leaves out differ.
    let again = |run: u8| -> Result<()> {
        begin()?;
        out.fill(POISON.wrapping_add(run), &bench.stream)?;
        enqueue(&bench.stream)
    };
    again(0)?;
    let found = out.download(&bench.stream)?;
    let mut checked = limits.judge(expected, |at| {
        f64::from(f16::from_le_bytes([found[2 * at], found[2 * at + 1]]).to_f32())
    });
    for run in 1..runs {
        again(run)?;
        if !bench.holds(out, &found)? && checked.first.is_none() {
            checked.first =
                Some("two runs on the same inputs gave other bits, or left some out".to_owned());
        }
    }
    if checked.first.is_none() {
        checked.timing = bench.time_recorded(bench.runs, enqueue)?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_models_have_the_parts_of_their_tiles() {
        for (columns, parts) in [(192, 2), (384, 4), (768, 8), (224, 2), (448, 4), (896, 8)] {
            assert_eq!(parts_of(columns), parts, "{columns}");
        }
        for (columns, parts) in [(288, 3), (576, 4), (1152, 8), (64, 1), (144, 1), (4608, 8)] {
            assert_eq!(parts_of(columns), parts, "{columns}");
        }
    }

    /// With moments, weights and vectors of this data, in float64, the kernels' arithmetic gives
    /// what is expected, and without one part it does not.
    #[test]
    fn the_folded_norm_is_the_norm() {
        let sizes @ [m, n, k] = [7, 64, 192];
        let Data { tokens, parts, moments, folded, expected, .. } = Data::new(1, sizes, true);
        assert_eq!(parts, 2);
        let judge = |used: usize| {
            let out = |place: usize| {
                let (row, column) = (place / n, place % n);
                let of = |part: usize| {
                    let at = 2 * (part * m + row);
                    (f64::from(moments[at]), f64::from(moments[at + 1]))
                };
                let mean = (0..used).map(|part| of(part).0).sum::<f64>() / used as f64;
                let squares = (0..used)
                    .map(|part| of(part).1 + (k / parts) as f64 * (of(part).0 - mean).powi(2));
                let scale = (squares.sum::<f64>() / k as f64 + EPSILON).sqrt().recip();
                let weight = &folded.folded_weight[column * k..][..k];
                let products = tokens[row * k..][..k].iter().zip(weight);
                let sum: f64 = products.map(|(a, b)| a.to_f64() * b.to_f64()).sum();
                let less = mean * f64::from(folded.column_sums[column]);
                gelu(scale * (sum - less) + f64::from(folded.folded_bias[column]))
            };
            LIMITS.judge(&expected, out).first
        };
        assert_eq!(judge(2), None);
        assert!(judge(1).is_some());
    }
}
