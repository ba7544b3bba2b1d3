/*!
Cases of GEMM, residual add and LayerNorm: by cuBLASLt, then the LayerNorm's kernel; and on Hopper
by each kernel that fuses both, or measures rows for a norm in the next matmul. Residual and norm are compared with float64 on the host, for a
sample of rows; a fused kernel's also with all of cuBLASLt's. If N = K the norm's output also lies
over the tokens, as in a trunk.
*/

mod data;
mod moments;

use anyhow::{Context, Result};
use zerocopy::IntoBytes;

use super::super::{GemmLayerNormKernels, GemmLayerNormOperands, GemmMomentsKernels};
use crate::HieraKernels;
use crate::selftest::{Bench, Checked, Limits, POISON, Planned, row};
use cuda::Element;
use cuda::cublaslt::{CublasLt, Matmul, MatmulShape};
use cuda::{LaunchMode, Stream, View};
use data::{Came, Case, Data, Expected};

/// The name of cuBLASLt's rows; a fused kernel's row has the kernel's name.
const NAME: &str = "matmul, then layernorm";
/// Runs that must give the same bits: a race need not show in each.
const RUNS: u8 = 5;
/// Of the added part by itself, which a residual far from zero would hide. Sums are f32, and tensor
/// cores truncate where they add.
const ADDED: Limits = Limits { error: 5e-5, deviation: 5e-4 };
/// Of the normalised output: a rounding to f16 of values of several root mean squares.
const NORMED: Limits = Limits { error: 6e-4, deviation: 8e-3 };
/// Bytes of a prefetch.
const LINE: usize = 128;

/// The cases, and their kernels.
pub(super) struct Cases {
    kernels: HieraKernels,
    fused: Option<GemmLayerNormKernels>,
    moments: Option<GemmMomentsKernels>,
    cases: Vec<Planned<Case>>,
}

impl Cases {
    pub fn new(bench: &Bench, kernels: &HieraKernels) -> Self {
        let fused = GemmLayerNormKernels::load_if_supported(bench.gpu, |_, _| true);
        let moments = GemmMomentsKernels::load_if_supported(bench.gpu, |_, _| true);
        let cases = bench.planned(data::cases(), |Case { sizes: [m, n, k], .. }| {
            let names = fused.iter().flat_map(|fused| fused.names(*n, *k)).count();
            let measuring = moments.iter().flat_map(|kernels| kernels.names(*n, *k)).count();
            (m * n, bench.theirs() + names + measuring)
        });
        Self { kernels: kernels.clone(), fused, moments, cases }
    }

    /// A row for each case and implementation.
    pub fn judge(&self, bench: &Bench, lt: &CublasLt) {
        let seed = bench.seed;
        let make = |case: &Case| {
            let data = Data::new(seed, case.sizes);
            let expected = data.expected();
            (data, expected)
        };
        bench.each(&self.cases, make, |case, (data, expected)| {
            match Setting::new(bench, lt, case, data, expected) {
                Ok(setting) => self.ways(bench, lt, &setting),
                Err(error) => bench.found(row(NAME, &case.title(), Err(error))),
            }
        });
    }

    fn ways(&self, bench: &Bench, lt: &CublasLt, setting: &Setting) {
        let [_, n, k] = setting.case.sizes;
        let found = |name: &str, library: Option<String>, checked: Result<Checked>| {
            let mut row = row(name, &setting.case.title(), checked);
            let operations = setting.product.shape().operations();
            row.library = library;
            row.tflops = row.timing.map(|timing| operations / timing.median_ms / 1e9);
            bench.found(row);
        };
        let mut theirs = None;
        if !bench.without_cublaslt {
            let first = setting.check(bench, None, |stream| setting.both(&self.kernels, stream));
            let first = first.map(|(checked, came)| {
                theirs = Some(came);
                checked
            });
            found(NAME, Some(lt.to_string()), first);
        }
        for name in self.fused.iter().flat_map(|fused| fused.names(n, k)) {
            let one = |stream: &Stream| setting.one(self.fused.as_ref(), name, stream);
            let checked = setting.check(bench, theirs.as_ref(), one);
            found(name, None, checked.map(|(checked, _)| checked));
        }
        let measuring = self.moments.as_ref();
        for name in measuring.into_iter().flat_map(|kernels| kernels.names(n, k)) {
            let checked = setting.check_moments(bench, measuring, name, theirs.as_ref());
            found(name, None, checked);
        }
    }
}

/// Operands on the device and on the host, and what must come out.
struct Setting {
    product: Matmul,
    case: Case,
    data: Data,
    expected: Expected,
    a: View,
    weight: View,
    bias: View,
    residual: View,
    norm: [View; 2],
    /// The tokens' fused memory, in place.
    out: View,
    workspace: View,
}

impl Setting {
    fn new(
        bench: &Bench,
        lt: &CublasLt,
        case: &Case,
        data: Data,
        expected: Expected,
    ) -> Result<Self> {
        let [m, n, k] = case.sizes;
        let shape = MatmulShape { m, n, k, output: Element::F32, residual: true };
        let product = Matmul::new(lt, shape)?;
        let floats = |values: &[f32]| bench.put(values.as_bytes());
        let a = bench.put(data.tokens.as_bytes())?;
        let out = if case.in_place { a.clone() } else { View::new(bench.gpu, 2 * m * n)? };
        Ok(Self {
            weight: bench.put(data.weight.as_bytes())?,
            bias: floats(&data.bias)?,
            residual: floats(&data.before)?,
            norm: [floats(&data.norm[0])?, floats(&data.norm[1])?],
            // The driver fills no empty memory.
            workspace: bench.poisoned(product.workspace_bytes().max(1))?,
            case: *case,
            product,
            data,
            expected,
            a,
            out,
        })
    }

    /// The prefetched memory may be any: here the weights.
    fn prefetch(&self) -> Result<View> {
        Ok(self.weight.part(0, self.weight.len() / LINE * LINE)?)
    }

    /// cuBLASLt's first algorithm and the norm.
    fn both(&self, kernels: &HieraKernels, stream: &Stream) -> Result<()> {
        let Self { product, a, weight, bias, residual, norm: [norm_weight, norm_bias], .. } = self;
        let ([m, n, _], out, prefetch) = (self.case.sizes, &self.out, self.prefetch()?);
        product.enqueue(a, weight, bias, residual, &self.workspace, stream)?;
        let prefetch = Some(&prefetch);
        kernels.layernorm(
            residual,
            norm_weight,
            norm_bias,
            out,
            prefetch,
            [m, n],
            LaunchMode::Ordered,
            stream,
        )
    }

    /// One kernel.
    fn one(&self, fused: Option<&GemmLayerNormKernels>, name: &str, stream: &Stream) -> Result<()> {
        let fused =
            fused.context("there are no kernels that multiply, add and normalise at once")?;
        let prefetch = self.prefetch()?;
        let operands = GemmLayerNormOperands {
            a: &self.a,
            weight: &self.weight,
            bias: &self.bias,
            residual: &self.residual,
            norm: [&self.norm[0], &self.norm[1]],
            out: &self.out,
            prefetch: Some(&prefetch),
        };
        fused.enqueue(name, self.case.sizes, &operands, LaunchMode::Ordered, stream)
    }

    /// One implementation, against float64, the other implementation's results and its fused again.
    fn check(
        &self,
        bench: &Bench,
        theirs: Option<&Came>,
        enqueue: impl Fn(&Stream) -> Result<()>,
    ) -> Result<(Checked, Came)> {
        let stream = &bench.stream;
        let again = |run: u8| -> Result<()> {
            self.residual.upload(self.data.before.as_bytes(), stream)?;
            // Each run starts from another pattern, so that elements that a kernel leaves out
            // differ.
            match self.case.in_place {
                true => self.a.upload(self.data.tokens.as_bytes(), stream)?,
                false => self.out.fill(POISON.wrapping_add(run), stream)?,
            }
            enqueue(stream)
        };
        again(0)?;
        let (residual, normed) = (self.residual.download(stream)?, self.out.download(stream)?);
        let came = Came { residual, normed };
        let mut checked = self.judge(&came);
        if let (None, Some(theirs)) = (&checked.first, theirs) {
            checked.first = came.apart_from(theirs);
        }
        for run in 1..RUNS {
            again(run)?;
            let same = bench.holds(&self.residual, &came.residual)?
                && bench.holds(&self.out, &came.normed)?;
            if !same && checked.first.is_none() {
                checked.first = Some(
                    "two runs on the same inputs gave other bits, or left some out".to_owned(),
                );
            }
        }
        if checked.first.is_none() {
            checked.timing = bench.time_recorded(bench.runs, enqueue)?;
        }
        Ok((checked, came))
    }

    /// The sample of rows against float64.
    fn judge(&self, came: &Came) -> Checked {
        let (before, expected) = (&self.data.before, &self.expected);
        let added = |at: usize| f64::from(came.residual(at)) - f64::from(before[at]);
        let added = ADDED.judge(&expected.added, added);
        let normed = NORMED.judge(&expected.normed, |at| f64::from(came.normed(at)));
        let said = |what: &str, checked: &Checked| {
            checked.first.as_ref().map(|why| format!("{what}: {why}"))
        };
        Checked {
            elements: added.elements + normed.elements,
            different: added.different + normed.different,
            first: said("what was added", &added).or_else(|| said("the norm", &normed)),
            error: added.error.zip(normed.error).map(|(added, normed)| added.max(normed)),
            timing: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use half::f16;

    use super::*;

    /// The rows that are looked at, in f32 and then halves, where `variance` finds what lies about
    /// the mean.
    fn judged(variance: fn(&[f32], f32) -> f32) -> Checked {
        let n = 144;
        let data = Data::new(1, [64, n, 96]);
        let expected = data.expected();
        let mut came = BTreeMap::new();
        for row in expected.added.chunks(n) {
            let sum = |(at, added): &(usize, f64)| (f64::from(data.before[*at]) + added) as f32;
            let values: Vec<f32> = row.iter().map(sum).collect();
            let mean = values.iter().sum::<f32>() / n as f32;
            let scale = 1.0 / (variance(&values, mean) + 1e-6).sqrt();
            for ((at, _), value) in row.iter().zip(&values) {
                let [weight, bias] = [0, 1].map(|which| data.norm[which][at % n]);
                came.insert(*at, f16::from_f32((value - mean) * scale * weight + bias).to_f64());
            }
        }
        NORMED.judge(&expected.normed, |at| came[&at])
    }

    #[test]
    fn squares_less_the_means_are_beyond_the_limits_and_squares_of_differences_within() {
        let right = judged(|row, mean| {
            row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / row.len() as f32
        });
        assert_eq!(right.first, None);
        let careless = judged(|row, mean| {
            row.iter().map(|x| x * x).sum::<f32>() / row.len() as f32 - mean * mean
        });
        assert!(careless.first.is_some());
    }
}
