/*!
Cases of a LayerNorm between two GEMMs, the first of which adds to the f32 residual: by three
launches, by two of which the first normalises, and by two that share the norm. All are compared
with float64 of the f32 residual, and timed in turn. Kernels that give the residual as it is to the
second GEMM round it to f16 in place of the normalised tokens: rows have means of three deviations.
*/

use anyhow::{Context, Result, anyhow};
use half::f16;
use half::slice::HalfFloatSliceExt;
use zerocopy::IntoBytes;

use super::super::{
    FoldedNorm, GemmKernels, GemmLayerNormKernels, GemmLayerNormOperands, GemmMomentsKernels,
    GemmMomentsOperands,
};
use super::normed::{Folded, OFFSETS, check_halves};
use crate::HieraKernels;
use crate::selftest::f64_reference::dot;
use crate::selftest::{Bench, Checked, Limits, Planned, row};
use cuda::Element;
use cuda::cublaslt::{CublasLt, Matmul, MatmulShape};
use cuda::{LaunchMode, Stream, View};
use vos::noise::Noise;

/// How the rows' names begin; the kernels follow.
const NAME: &str = "norm between";
/// Of the first matmul by cuBLASLt, and a kernel of the norm.
const SEPARATE: &str = "matmul,layernorm";
/// Runs that must give the same bits.
const RUNS: u8 = 3;
/// Two roundings to f16, of tokens beside their mean, and one of weights.
const LIMITS: Limits = Limits { error: 8e-4, deviation: 1e-2 };

/// Columns of the first stage of tiny (and small), base+ and large.
const MODELS: [(&str, usize); 3] = [("tiny", 96), ("base+", 112), ("large", 144)];

#[derive(Clone, Debug)]
struct Case {
    name: &'static str,
    /// Rows, depth of the first GEMM, columns of the residual, columns of the second GEMM.
    sizes: [usize; 4],
    activated: bool,
}

/// A few rows of each model; then what lies in a block, and between a block and the next one.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, first) in MODELS {
        let mut add = |name, m, depth, width, columns, activated| {
            all.push(Case { name, sizes: [m, depth, width, columns], activated });
        };
        add("few", 33, first, 2 * first, 192, true);
        add("few", 33, 80, 2 * first, 64, false);
        for (factor, m) in [(2, 16_384), (4, 4096), (8, 1024)] {
            let width = factor * first;
            add(name, m, width, width, 4 * width, true);
            if GemmKernels::supports(3 * width, width) {
                add(name, m, 4 * width, width, 3 * width, false);
            }
        }
    }
    all
}

impl Case {
    fn title(&self) -> String {
        let Self { name, sizes: [m, depth, width, columns], activated } = self;
        let gelu = if *activated { ", gelu" } else { "" };
        format!("{name}: {m} x {width} x {depth}, then {columns} columns{gelu}")
    }
}

/// How the residual is added to, and normalised or measured.
#[derive(Clone, Copy)]
enum First {
    Separate,
    Fused(&'static str),
    Moments(&'static str),
}

/// The kernels of all ways.
struct Kernels {
    hiera: HieraKernels,
    gemm: Option<GemmKernels>,
    fused: Option<GemmLayerNormKernels>,
    moments: Option<GemmMomentsKernels>,
}

impl Kernels {
    /// Each way and its second kernel.
    fn ways(&self, bench: &Bench, case: &Case) -> Vec<(First, &'static str)> {
        let [_, depth, width, _] = case.sizes;
        let separate = (!bench.without_cublaslt).then_some(First::Separate).into_iter();
        let fused = self.fused.iter().flat_map(|fused| fused.names(width, depth));
        let plain: Vec<First> = separate.chain(fused.map(First::Fused)).collect();
        let moments = self.moments.iter().flat_map(|kernels| kernels.names(width, depth));
        let moments: Vec<First> = moments.map(First::Moments).collect();
        let gemm = || self.gemm.iter();
        let plain_names = gemm().flat_map(|gemm| gemm.names(case.activated));
        let normed_names = gemm().flat_map(|gemm| gemm.normed_names(case.activated));
        let plain = plain_names.flat_map(|name| plain.iter().map(move |first| (*first, name)));
        let normed = normed_names.flat_map(|name| moments.iter().map(move |first| (*first, name)));
        plain.chain(normed).collect()
    }
}

/// The cases, and their kernels.
pub(super) struct Cases {
    kernels: Kernels,
    cases: Vec<Planned<Case>>,
}

impl Cases {
    pub fn new(bench: &Bench, hiera: &HieraKernels) -> Self {
        let kernels = Kernels {
            hiera: hiera.clone(),
            gemm: GemmKernels::load_if_supported(bench.gpu, |_| true),
            fused: GemmLayerNormKernels::load_if_supported(bench.gpu, |_, _| true),
            moments: GemmMomentsKernels::load_if_supported(bench.gpu, |_, _| true),
        };
        let cases = bench.planned(cases(), |case| {
            let [m, _, width, columns] = case.sizes;
            (m * width.max(columns), kernels.ways(bench, case).len())
        });
        Self { kernels, cases }
    }

    /// A row for each case and way.
    pub fn judge(&self, bench: &Bench, lt: &CublasLt) {
        let seed = bench.seed;
        bench.each(
            &self.cases,
            |case| Data::new(seed, case),
            |case, data| {
                let setting = Setting::new(bench, lt, &self.kernels, case, data);
                for (first, second) in self.kernels.ways(bench, case) {
                    let checked = match &setting {
                        Ok(setting) => setting.check(bench, first, second),
                        Err(error) => Err(anyhow!("{error:#}")),
                    };
                    let (name, library) = match first {
                        First::Separate => (SEPARATE, Some(lt.to_string())),
                        First::Fused(name) | First::Moments(name) => (name, None),
                    };
                    let mut row = row(&format!("{NAME} ({name},{second})"), &case.title(), checked);
                    let [m, depth, width, columns] = case.sizes.map(|size| size as f64);
                    let operations = 2.0 * m * width * (depth + columns);
                    row.library = library;
                    row.tflops = row.timing.map(|timing| operations / timing.median_ms / 1e9);
                    bench.found(row);
                }
            },
        );
    }
}

/// Operands on the host, and what must come out.
struct Data {
    tokens: Vec<f16>,
    weight: Vec<f16>,
    bias: Vec<f32>,
    before: Vec<f32>,
    folded: Folded,
    expected: Vec<(usize, f64)>,
}

impl Data {
    fn new(seed: u64, case: &Case) -> Self {
        let [m, depth, width, columns] = case.sizes;
        let mut noise = Noise::new(seed, &case.title());
        let tokens = noise.halves(m * depth, 1.0);
        let weight = noise.halves(width * depth, (depth as f32).sqrt().recip());
        let bias = noise.normals(width);
        let mut before = noise.normals(m * width);
        for (at, values) in before.chunks_mut(width).enumerate() {
            let offset = OFFSETS[at % OFFSETS.len()];
            values.iter_mut().for_each(|value| *value += offset);
        }
        let folded = Folded::new(&mut noise, columns, width);
        let row = |at: usize| -> Vec<f64> {
            let tokens = tokens[at * depth..][..depth].to_f32_vec();
            let tokens: Vec<f64> = tokens.into_iter().map(f64::from).collect();
            let of_columns = weight.chunks_exact(depth).zip(&bias).zip(&before[at * width..]);
            let sum = |((weight, bias), before): ((&[f16], &f32), &f32)| {
                f64::from(*before) + f64::from(*bias) + dot(&tokens, &weight.to_f32_vec())
            };
            of_columns.map(sum).collect()
        };
        let expected = folded.expected(m, case.activated, row);
        Self { tokens, weight, bias, before, folded, expected }
    }
}

/// Operands on the device, and what must come out.
struct Setting<'k> {
    kernels: &'k Kernels,
    case: Case,
    product: Matmul,
    before: Vec<f32>,
    expected: Vec<(usize, f64)>,
    a: View,
    weight: View,
    bias: View,
    residual: View,
    norm: [View; 2],
    /// The residual as the second GEMM takes it.
    between: View,
    /// For the most parts of any kernel.
    moments: View,
    plain: [View; 2],
    folded: [View; 3],
    out: View,
    workspace: View,
}

impl<'k> Setting<'k> {
    fn new(
        bench: &Bench,
        lt: &CublasLt,
        kernels: &'k Kernels,
        case: &Case,
        data: Data,
    ) -> Result<Self> {
        let [m, k, n, columns] = case.sizes;
        let product =
            Matmul::new(lt, MatmulShape { m, n, k, output: Element::F32, residual: true })?;
        let names = kernels.moments.iter().flat_map(|kernels| kernels.names(n, k));
        let parts = names.map(|name| GemmMomentsKernels::parts(name, n)).max().unwrap_or(1);
        Ok(Self {
            kernels,
            case: case.clone(),
            a: bench.put(data.tokens.as_bytes())?,
            weight: bench.put(data.weight.as_bytes())?,
            bias: bench.put(data.bias.as_bytes())?,
            residual: bench.put(data.before.as_bytes())?,
            norm: data.folded.put_norm(bench)?,
            between: bench.poisoned(2 * m * n)?,
            moments: bench.poisoned(GemmMomentsKernels::moments_bytes(parts, m))?,
            plain: data.folded.put_plain(bench)?,
            folded: data.folded.put(bench)?,
            out: View::new(bench.gpu, 2 * m * columns)?,
            workspace: bench.poisoned(product.workspace_bytes().max(1))?,
            before: data.before,
            expected: data.expected,
            product,
        })
    }

    fn check(&self, bench: &Bench, first: First, second: &str) -> Result<Checked> {
        let begin = || Ok(self.residual.upload(self.before.as_bytes(), &bench.stream)?);
        let enqueue = |stream: &Stream| self.enqueue(first, second, stream);
        check_halves(bench, &self.out, &self.expected, (LIMITS, RUNS), begin, enqueue)
    }

    fn enqueue(&self, first: First, second: &str, stream: &Stream) -> Result<()> {
        let Self { kernels, a, weight, bias, residual, between: out, norm, .. } = self;
        let ([m, k, n, columns], mode) = (self.case.sizes, LaunchMode::Ordered);
        let gemm = kernels.gemm.as_ref().context("there are no GEMM kernels")?;
        let (sizes, second_sizes) = ([m, n, k], [m, columns, n]);
        match first {
            First::Moments(name) => {
                let parts = GemmMomentsKernels::parts(name, n);
                let bytes = GemmMomentsKernels::moments_bytes(parts, m);
                let (moments, prefetch) = (&self.moments.part(0, bytes)?, None);
                let operands =
                    GemmMomentsOperands { a, weight, bias, residual, out, moments, prefetch };
                let first = kernels.moments.as_ref().context("there are no such kernels")?;
                first.enqueue(name, sizes, &operands, mode, stream)?;
                let [weight, column_sums, bias] = &self.folded;
                let norm = FoldedNorm { moments, parts, column_sums, bias };
                let operands = [out, weight, &self.out];
                return gemm.enqueue_normed(second, second_sizes, operands, &norm, mode, stream);
            }
            First::Fused(name) => {
                let (norm, prefetch) = ([&norm[0], &norm[1]], None);
                let operands =
                    GemmLayerNormOperands { a, weight, bias, residual, norm, out, prefetch };
                let first = kernels.fused.as_ref().context("there are no such kernels")?;
                first.enqueue(name, sizes, &operands, mode, stream)?;
            }
            First::Separate => {
                self.product.enqueue(a, weight, bias, residual, &self.workspace, stream)?;
                let [scale, shift] = norm;
                let hiera = &kernels.hiera;
                hiera.layernorm(residual, scale, shift, out, None, [m, n], mode, stream)?;
            }
        }
        let [weight, bias] = &self.plain;
        gemm.enqueue(second, second_sizes, [out, weight, bias, &self.out], mode, stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_told_apart_and_served_and_each_kernel_has_a_small_one() {
        let all = cases();
        let mut titles: Vec<String> = all.iter().map(Case::title).collect();
        titles.sort();
        titles.dedup();
        assert_eq!(titles.len(), all.len());
        for Case { sizes: [_, depth, width, columns], .. } in &all {
            assert!(GemmMomentsKernels::supports(*width, *depth), "{width} x {depth}");
            assert!(GemmKernels::supports(*columns, *width), "{columns} x {width}");
        }
        for (_, first) in MODELS {
            let small = |case: &&Case| case.sizes[0] * case.sizes[2] <= 128_000;
            assert!(all.iter().filter(small).any(|case| case.sizes[2] == 2 * first), "{first}");
        }
    }
}
