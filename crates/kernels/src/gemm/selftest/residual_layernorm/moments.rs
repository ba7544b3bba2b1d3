/*!
The kernels that add to the residual and measure its rows, in the same cases: the residual against
float64, its halves against its rounding, and each row's moments against float64 of what came.
*/

use anyhow::{Context, Result};
use half::f16;

use super::super::super::{GemmMomentsKernels, GemmMomentsOperands};
use super::data::{Came, sample};
use super::{ADDED, RUNS, Setting};
use crate::selftest::{Bench, Checked, POISON};
use cuda::{LaunchMode, Stream, View};
use zerocopy::IntoBytes;

/// Limits of a part's mean, relative and absolute: sums of a hundred numbers of one sign.
const MEAN: (f64, f64) = (2e-6, 2e-5);
/// Relative limit of a part's squares, and of what the mean's error adds.
const SQUARES: f64 = 1e-4;

/// What such a kernel writes beside the residual.
pub(super) struct Measured {
    out: View,
    moments: View,
    parts: usize,
}

impl Measured {
    pub(super) fn new(bench: &Bench, name: &str, [m, n, _]: [usize; 3]) -> Result<Self> {
        let parts = GemmMomentsKernels::parts(name, n);
        Ok(Self {
            out: View::new(bench.gpu, 2 * m * n)?,
            moments: View::new(bench.gpu, GemmMomentsKernels::moments_bytes(parts, m))?,
            parts,
        })
    }
}

impl Setting {
    /// One kernel.
    fn measure(
        &self,
        kernels: Option<&GemmMomentsKernels>,
        name: &str,
        to: &Measured,
        stream: &Stream,
    ) -> Result<()> {
        let kernels = kernels.context("there are no kernels that multiply, add and measure")?;
        let prefetch = self.prefetch()?;
        let operands = GemmMomentsOperands {
            a: &self.a,
            weight: &self.weight,
            bias: &self.bias,
            residual: &self.residual,
            out: &to.out,
            moments: &to.moments,
            prefetch: Some(&prefetch),
        };
        kernels.enqueue(name, self.case.sizes, &operands, LaunchMode::Ordered, stream)
    }

    /// Against float64, the other implementation's residual and its own again.
    pub(super) fn check_moments(
        &self,
        bench: &Bench,
        kernels: Option<&GemmMomentsKernels>,
        name: &str,
        theirs: Option<&Came>,
    ) -> Result<Checked> {
        let (stream, to) = (&bench.stream, Measured::new(bench, name, self.case.sizes)?);
        // An implementation before may have written its output over the tokens.
        self.a.upload(self.data.tokens.as_bytes(), stream)?;
        let again = |run: u8| -> Result<()> {
            self.residual.upload(self.data.before.as_bytes(), stream)?;
            to.out.fill(POISON.wrapping_add(run), stream)?;
            to.moments.fill(POISON.wrapping_add(run), stream)?;
            self.measure(kernels, name, &to, stream)
        };
        again(0)?;
        let (residual, normed) = (self.residual.download(stream)?, to.out.download(stream)?);
        let (came, moments) = (Came { residual, normed }, to.moments.download(stream)?);
        let (before, expected) = (&self.data.before, &self.expected);
        let added = |at: usize| f64::from(came.residual(at)) - f64::from(before[at]);
        let mut checked = ADDED.judge(&expected.added, added);
        let [m, n, _] = self.case.sizes;
        let wrong = |what: &str, why: Option<String>| why.map(|why| format!("{what}: {why}"));
        checked.first = wrong("what was added", checked.first)
            .or_else(|| theirs.and_then(|theirs| came.residual_apart_from(theirs)))
            .or_else(|| wrong("the halves", not_rounded(&came, m * n)))
            .or_else(|| wrong("the moments", not_measured(&came, &moments, [m, n], to.parts)));
        for run in 1..RUNS {
            again(run)?;
            let same = bench.holds(&self.residual, &came.residual)?
                && bench.holds(&to.out, &came.normed)?
                && bench.holds(&to.moments, &moments)?;
            if !same {
                checked.not_repeated();
            }
        }
        if checked.first.is_none() {
            let enqueue = |stream: &Stream| self.measure(kernels, name, &to, stream);
            checked.timing = bench.time_recorded(bench.runs, enqueue)?;
        }
        Ok(checked)
    }
}

/// The first half that is not the residual's rounding.
fn not_rounded(came: &Came, elements: usize) -> Option<String> {
    let wrong = |at: &usize| came.normed(*at) != f16::from_f32(came.residual(*at)).to_f32();
    let at = (0..elements).find(wrong)?;
    Some(format!("element {at} is {}, the residual {}", came.normed(at), came.residual(at)))
}

/// The first moments, of a sample of rows, that are not those of the row's parts.
fn not_measured(came: &Came, moments: &[u8], [m, n]: [usize; 2], parts: usize) -> Option<String> {
    let float =
        |at: usize| f64::from(f32::from_le_bytes([0, 1, 2, 3].map(|byte| moments[4 * at + byte])));
    let columns = n / parts;
    sample(m).into_iter().flat_map(|row| (0..parts).map(move |part| (row, part))).find_map(
        |(row, part)| {
            let first = row * n + part * columns;
            let values: Vec<f64> =
                (first..first + columns).map(|at| f64::from(came.residual(at))).collect();
            let mean = values.iter().sum::<f64>() / columns as f64;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let at = 2 * (part * m + row);
            let (found, found_squares) = (float(at), float(at + 1));
            let most = MEAN.0 * mean.abs() + MEAN.1;
            let most_squares = SQUARES * squares + columns as f64 * most.powi(2);
            // A NaN is no small difference.
            let near =
                (found - mean).abs() <= most && (found_squares - squares).abs() <= most_squares;
            (!near).then(|| {
                format!(
                    "part {part} of row {row} has mean {found} and squares {found_squares}, {mean} \
                     and {squares} are expected"
                )
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_and_moments_that_are_wrong_anywhere_are_found() {
        let (m, n, parts) = (3, 8, 2);
        let residual: Vec<f32> = (0..m * n).map(|at| at as f32 * 1.37 - 5.0).collect();
        let halves: Vec<f16> = residual.iter().map(|value| f16::from_f32(*value)).collect();
        let came = |halves: &[f16]| Came {
            residual: residual.as_bytes().to_vec(),
            normed: halves.as_bytes().to_vec(),
        };
        assert_eq!(not_rounded(&came(&halves), m * n), None);
        let mut moments = vec![0.0_f32; 2 * parts * m];
        for (row, values) in residual.chunks(n).enumerate() {
            for (part, values) in values.chunks(n / parts).enumerate() {
                let mean = values.iter().sum::<f32>() / values.len() as f32;
                let squares = values.iter().map(|value| (value - mean).powi(2)).sum();
                moments[2 * (part * m + row)..][..2].copy_from_slice(&[mean, squares]);
            }
        }
        let judge =
            |moments: &[f32]| not_measured(&came(&halves), moments.as_bytes(), [m, n], parts);
        assert_eq!(judge(&moments), None);
        for at in [0, 3, moments.len() - 1] {
            for wrong in [f32::NAN, moments[at] * 1.01 + 0.01] {
                let mut other = moments.clone();
                other[at] = wrong;
                assert!(judge(&other).is_some(), "{at}: {wrong}");
            }
        }
        let mut other = halves;
        other[m * n - 1] = f16::NAN;
        assert!(not_rounded(&came(&other), m * n).unwrap().starts_with("element 23 is NaN"));
    }
}
