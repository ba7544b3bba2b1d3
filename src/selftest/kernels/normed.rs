/*!
The product that is added to the residual with the norm behind it, both ways: by cuBLASLt and the norm's kernel behind it, and on Hopper by each kernel
that does both. Residual and norm are compared with float64 on the host, for a sample of rows; each kernel's also with all of the first way's.
Where there are as many terms as columns, the norm's output is also laid over the tokens, as in a trunk.
*/

mod data;

use anyhow::{Context, Result};

use super::{Bench, Checked, KernelRow, Limits, POISON, bytes_of, row};
use crate::gpu::cublaslt::{CublasLt, Product, ProductShape};
use crate::gpu::kernels::{Element, Normed, NormedKernels, TrunkKernels};
use crate::gpu::{Begin, Stream, View};
use data::{Came, Case, Data, Expected};

/// The name of the rows; a kernel's own, which has both in it, where there is one.
const NAME: &str = "product, then trunk normalize";
/// Runs that must give the same bits: what comes too early or too late need not do so each time.
const RUNS: u8 = 5;
/// Of what was added, by itself: a residual that is far off zero must not hide it. Sums are f32, and tensor cores cut digits off where they add.
const ADDED: Limits = Limits { error: 5e-5, deviation: 5e-4 };
/// Of what is normalised: a rounding to halves, of what may be several root mean squares.
const NORMED: Limits = Limits { error: 6e-4, deviation: 8e-3 };
/// Bytes that a prefetch brings.
const LINE: usize = 128;

/// A row for each case and way.
pub(super) fn rows(bench: &Bench, lt: &CublasLt) -> Vec<KernelRow> {
    let kernels = match TrunkKernels::load(bench.gpu) {
        Ok(kernels) => kernels,
        Err(error) => return vec![row(NAME, "", Err(error))],
    };
    let own = NormedKernels::where_possible(bench.gpu);
    let mut rows = Vec::new();
    for case in data::cases() {
        let Case { sizes: [height, columns, depth], .. } = case;
        let names = own.iter().flat_map(|own| own.names(columns, depth));
        let names: Vec<&str> = names.collect();
        if bench.leaves_out(height * columns, bench.theirs() + names.len()) {
            continue;
        }
        let title = case.title();
        let setting = match Setting::new(bench, lt, &case) {
            Ok(setting) => setting,
            Err(error) => {
                rows.push(row(NAME, &title, Err(error)));
                continue;
            }
        };
        let beginning = rows.len();
        let mut theirs = None;
        if !bench.without_cublaslt {
            let first = setting.check(bench, None, |stream| setting.both(&kernels, stream));
            let (first, came) = match first {
                Ok((checked, came)) => (Ok(checked), Some(came)),
                Err(error) => (Err(error), None),
            };
            theirs = came;
            let mut first = row(NAME, &title, first);
            first.library = Some(lt.to_string());
            rows.push(first);
        }
        for name in names {
            let one = |stream: &Stream| setting.one(own.as_ref(), name, stream);
            let checked = setting.check(bench, theirs.as_ref(), one);
            rows.push(row(name, &title, checked.map(|(checked, _)| checked)));
        }
        for row in &mut rows[beginning..] {
            let operations = setting.product.shape().operations();
            row.tflops = row.timing.map(|timing| operations / timing.median_ms / 1e9);
        }
    }
    rows
}

/// Operands on the device and on the host, and what must come out.
struct Setting {
    product: Product,
    case: Case,
    data: Data,
    expected: Expected,
    a: View,
    weight: View,
    bias: View,
    residual: View,
    norm: [View; 2],
    /// The tokens' own memory, in place.
    out: View,
    workspace: View,
}

impl Setting {
    fn new(bench: &Bench, lt: &CublasLt, case: &Case) -> Result<Self> {
        let [rows, columns, depth] = case.sizes;
        let shape = ProductShape { rows, columns, depth, output: Element::F32, residual: true };
        let product = Product::new(lt, shape)?;
        let data = Data::new(bench.seed, case.sizes);
        let floats = |values: &[f32]| bench.put(&bytes_of(values, |value| value.to_le_bytes()));
        let a = bench.put(&data.tokens)?;
        let out = if case.in_place { a.clone() } else { View::new(bench.gpu, 2 * rows * columns)? };
        Ok(Self {
            weight: bench.put(&bytes_of(&data.weight, |value| value.to_le_bytes()))?,
            bias: floats(&data.bias)?,
            residual: floats(&data.before)?,
            norm: [floats(&data.norm[0])?, floats(&data.norm[1])?],
            // The driver fills no empty memory.
            workspace: bench.poisoned(product.workspace_bytes().max(1))?,
            expected: data.expected(),
            case: *case,
            product,
            data,
            a,
            out,
        })
    }

    /// What is brought into the L2 cache on the way may be anything: here the weights.
    fn ahead(&self) -> Result<View> {
        Ok(self.weight.part(0, self.weight.len() / LINE * LINE)?)
    }

    /// cuBLASLt's first algorithm and the norm.
    fn both(&self, kernels: &TrunkKernels, stream: &Stream) -> Result<()> {
        let Self { product, a, weight, bias, residual, norm: [norm_weight, norm_bias], .. } = self;
        let ([rows, columns, _], out, ahead) = (self.case.sizes, &self.out, self.ahead()?);
        product.enqueue(a, weight, bias, residual, &self.workspace, stream)?;
        let ahead = Some(&ahead);
        kernels.normalize(
            residual,
            norm_weight,
            norm_bias,
            out,
            ahead,
            [rows, columns],
            Begin::Behind,
            stream,
        )
    }

    /// One kernel.
    fn one(&self, own: Option<&NormedKernels>, name: &str, stream: &Stream) -> Result<()> {
        let own = own.context("there are no kernels that multiply, add and normalise at once")?;
        let ahead = self.ahead()?;
        let operands = Normed {
            a: &self.a,
            weight: &self.weight,
            bias: &self.bias,
            residual: &self.residual,
            norm: [&self.norm[0], &self.norm[1]],
            out: &self.out,
            ahead: Some(&ahead),
        };
        own.enqueue(name, self.case.sizes, &operands, Begin::Behind, stream)
    }

    /// One way, against float64 and what the other way gave, and what it gave itself.
    fn check(
        &self,
        bench: &Bench,
        theirs: Option<&Came>,
        enqueue: impl Fn(&Stream) -> Result<()>,
    ) -> Result<(Checked, Came)> {
        let before = bytes_of(&self.data.before, |value| value.to_le_bytes());
        let again = |run: u8| -> Result<Came> {
            let stream = &bench.stream;
            self.residual.upload(&before, stream)?;
            // What is left out shows as other bits: no pattern is no result, so that another one is there each time.
            match self.case.in_place {
                true => self.a.upload(&self.data.tokens, stream)?,
                false => self.out.fill(POISON.wrapping_add(run), stream)?,
            }
            enqueue(stream)?;
            let (residual, normed) = (self.residual.download(stream)?, self.out.download(stream)?);
            Ok(Came { residual, normed })
        };
        let came = again(0)?;
        let mut checked = self.judge(&came);
        if let (None, Some(theirs)) = (&checked.first, theirs) {
            checked.first = came.apart_from(theirs);
        }
        for run in 1..RUNS {
            if again(run)? != came && checked.first.is_none() {
                checked.first = Some(
                    "two runs on the same inputs gave other bits, or left some out".to_owned(),
                );
            }
        }
        if checked.first.is_none() {
            checked.timing = bench.time_recorded(bench.repeats, enqueue)?;
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

    /// The rows that are looked at, in f32 and then halves, where `variance` finds what lies about the mean.
    fn judged(variance: fn(&[f32], f32) -> f32) -> Checked {
        let columns = 144;
        let data = Data::new(1, [64, columns, 96]);
        let expected = data.expected();
        let mut came = BTreeMap::new();
        for row in expected.added.chunks(columns) {
            let sum = |(at, added): &(usize, f64)| (f64::from(data.before[*at]) + added) as f32;
            let values: Vec<f32> = row.iter().map(sum).collect();
            let mean = values.iter().sum::<f32>() / columns as f32;
            let scale = 1.0 / (variance(&values, mean) + 1e-6).sqrt();
            for ((at, _), value) in row.iter().zip(&values) {
                let [weight, bias] = [0, 1].map(|which| data.norm[which][at % columns]);
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
