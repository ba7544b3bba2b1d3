/*!
Cases of the f16 GEMMs of a trunk: by cuBLASLt, then a GELU kernel for a hidden layer; and on Hopper
by each kernel that fuses both. All are compared with float64 on the host, for a sample of rows and
columns, and timed side by side.
*/

use anyhow::{Context, Result};
use half::f16;
use zerocopy::IntoBytes;

use super::super::GemmKernels;
use super::gemm_sample;
use crate::HieraKernels;
use crate::selftest::f64_reference::gelu;
use crate::selftest::{Bench, Checked, Limits, POISON, Planned, row};
use cuda::Element;
use cuda::cublaslt::{CublasLt, Matmul, MatmulShape};
use cuda::{LaunchMode, Stream, View};
use vos::noise::Noise;

/// The name of cuBLASLt's rows; a fused kernel's row has the kernel's name.
pub(super) const NAME: &str = "matmul, then gelu";
/// The same without GELU.
const PLAIN: &str = "matmul, f16";
/// Runs that must give the same bits: a race need not show in each.
const RUNS: u8 = 5;
/// Two roundings to f16 of values of several root mean squares, the polynomial's smaller error, and
/// f32 sums of tensor cores.
const LIMITS: Limits = Limits { error: 6e-4, deviation: 8e-3 };

/// Hidden layers, M, N and K: odd ones (M that fills no tile or one of a cluster's, N that does not
/// fill its tiles, K that ends in a stage of one, two, three and no instructions), then those of
/// Hiera's four stages. The third has rows in a tile's second half, which another warpgroup may
/// store.
const CASES: [(&str, [usize; 3]); 26] = [
    ("few", [33, 64, 96]),
    ("few", [1, 128, 64]),
    ("few", [101, 64, 80]),
    ("few", [33, 448, 112]),
    ("few", [300, 320, 144]),
    ("few", [33, 64, 272]),
    ("few", [101, 64, 304]),
    ("odd", [4097, 1792, 448]),
    ("odd", [4097, 576, 144]),
    ("odd", [4097, 448, 112]),
    ("odd", [4097, 384, 96]),
    ("odd", [200, 64, 4608]),
    ("odd", [129, 3584, 896]),
    ("odd", [1025, 4608, 80]),
    ("tiny", [65_536, 384, 96]),
    ("tiny", [16_384, 768, 192]),
    ("tiny", [4096, 1536, 384]),
    ("tiny", [1024, 3072, 768]),
    ("base+", [65_536, 448, 112]),
    ("base+", [16_384, 896, 224]),
    ("base+", [4096, 1792, 448]),
    ("base+", [1024, 3584, 896]),
    ("large", [65_536, 576, 144]),
    ("large", [16_384, 1152, 288]),
    ("large", [4096, 2304, 576]),
    ("large", [1024, 4608, 1152]),
];

/// Queries, keys and values: some odd ones, and the third and fourth stages; no kernel supports the
/// N of the first two.
const PLAIN_CASES: [(&str, [usize; 3]); 10] = [
    ("few", [33, 64, 96]),
    ("few", [300, 320, 144]),
    ("odd", [4097, 448, 112]),
    ("odd", [129, 3584, 896]),
    ("tiny", [4096, 1152, 384]),
    ("tiny", [1024, 2304, 768]),
    ("base+", [4096, 1344, 448]),
    ("base+", [1024, 2688, 896]),
    ("large", [4096, 1728, 576]),
    ("large", [1024, 3456, 1152]),
];

/// With GELU or not; a name; M, N and K.
type Case = (bool, (&'static str, [usize; 3]));

/// The cases, and their kernels.
pub(super) struct Cases {
    kernels: HieraKernels,
    fused: Option<GemmKernels>,
    cases: Vec<Planned<Case>>,
}

impl Cases {
    pub fn new(bench: &Bench, kernels: &HieraKernels) -> Self {
        let fused = GemmKernels::load_if_supported(bench.gpu, |_| true);
        let all = CASES.map(|case| (true, case)).into_iter();
        let all = all.chain(PLAIN_CASES.map(|case| (false, case)));
        let cases = bench.planned(all, |(activated, (_, [m, n, k]))| {
            let names = fused.iter().flat_map(|fused| fused.names(*activated, *k)).count();
            (m * n, bench.theirs() + names)
        });
        Self { kernels: kernels.clone(), fused, cases }
    }

    /// A row for each case and implementation.
    pub fn judge(&self, bench: &Bench, lt: &CublasLt) {
        let seed = bench.seed;
        bench.each(
            &self.cases,
            |(activated, (_, sizes))| Data::new(seed, *sizes, *activated),
            |(activated, (name, [m, n, k])), data| {
                let case = format!("{name}: {m} x {n} x {k}");
                self.ways(bench, lt, *activated, &case, data);
            },
        );
    }

    fn ways(&self, bench: &Bench, lt: &CublasLt, activated: bool, case: &str, data: Data) {
        let first_name = if activated { NAME } else { PLAIN };
        let setting = match Setting::new(bench, lt, data, activated) {
            Ok(setting) => setting,
            Err(error) => return bench.found(row(first_name, case, Err(error))),
        };
        let found = |name: &str, library: Option<String>, checked: Result<Checked>| {
            let mut row = row(name, case, checked);
            let operations = setting.product.shape().operations();
            row.library = library;
            row.tflops = row.timing.map(|timing| operations / timing.median_ms / 1e9);
            bench.found(row);
        };
        if !bench.without_cublaslt {
            let first = setting.check(bench, |stream| setting.both(&self.kernels, stream));
            found(first_name, Some(lt.to_string()), first);
        }
        for name in self.fused.iter().flat_map(|fused| fused.names(activated, setting.sizes[2])) {
            let fused = self.fused.as_ref();
            found(name, None, setting.check(bench, |stream| setting.one(fused, name, stream)));
        }
    }
}

/// Operands on the host, and what must come out.
struct Data {
    sizes: [usize; 3],
    a: Vec<f16>,
    weight: Vec<f16>,
    bias: Vec<f16>,
    /// Places of the output, and what is expected there.
    expected: Vec<(usize, f64)>,
}

impl Data {
    fn new(seed: u64, sizes: [usize; 3], activated: bool) -> Self {
        let [m, n, k] = sizes;
        let mut noise = Noise::new(seed, &format!("activated {sizes:?}"));
        let a = noise.halves(m * k, 1.0);
        let weight = noise.halves(n * k, (k as f32).sqrt().recip());
        let bias = noise.halves(n, 1.0);
        let sums = gemm_sample(&a, &weight, sizes).into_iter().map(|(place, sum)| {
            let sum = sum + bias[place % n].to_f64();
            (place, if activated { gelu(sum) } else { sum })
        });
        let expected = sums.collect();
        Self { sizes, a, weight, bias, expected }
    }
}

/// Operands on the device, and what must come out.
struct Setting {
    product: Matmul,
    sizes: [usize; 3],
    activated: bool,
    a: View,
    weight: View,
    bias: View,
    out: View,
    workspace: View,
    expected: Vec<(usize, f64)>,
}

impl Setting {
    fn new(bench: &Bench, lt: &CublasLt, data: Data, activated: bool) -> Result<Self> {
        let sizes @ [m, n, k] = data.sizes;
        let output = Element::F16;
        let product = Matmul::new(lt, MatmulShape { m, n, k, output, residual: false })?;
        let workspace = product.workspace_bytes().max(1);
        Ok(Self {
            product,
            sizes,
            activated,
            a: bench.put(data.a.as_bytes())?,
            weight: bench.put(data.weight.as_bytes())?,
            bias: bench.put(data.bias.as_bytes())?,
            out: View::new(bench.gpu, 2 * m * n)?,
            workspace: bench.poisoned(workspace)?,
            expected: data.expected,
        })
    }

    /// cuBLASLt's first algorithm, and the activation where there is one.
    fn both(&self, kernels: &HieraKernels, stream: &Stream) -> Result<()> {
        let Self { product, a, weight, bias, out, workspace, sizes: [m, n, _], .. } = self;
        product.enqueue(a, weight, bias, out, workspace, stream)?;
        if self.activated { kernels.gelu(out, m * n, stream) } else { Ok(()) }
    }

    /// One kernel.
    fn one(&self, fused: Option<&GemmKernels>, name: &str, stream: &Stream) -> Result<()> {
        let fused = fused.context("there are no GEMM kernels")?;
        let operands = [&self.a, &self.weight, &self.bias, &self.out];
        fused.enqueue(name, self.sizes, operands, LaunchMode::Ordered, stream)
    }

    fn check(&self, bench: &Bench, enqueue: impl Fn(&Stream) -> Result<()>) -> Result<Checked> {
        // Each run starts from another pattern, so that elements that a kernel leaves out differ.
        let again = |run: u8| -> Result<()> {
            self.out.fill(POISON.wrapping_add(run), &bench.stream)?;
            enqueue(&bench.stream)
        };
        again(0)?;
        let found = self.out.download(&bench.stream)?;
        let mut checked = LIMITS.judge(&self.expected, |at| {
            f64::from(f16::from_le_bytes([found[2 * at], found[2 * at + 1]]).to_f32())
        });
        for run in 1..RUNS {
            again(run)?;
            if !bench.holds(&self.out, &found)? && checked.first.is_none() {
                checked.first = Some(
                    "two runs on the same inputs gave other bits, or left some out".to_owned(),
                );
            }
        }
        if checked.first.is_none() {
            checked.timing = bench.time_recorded(bench.runs, enqueue)?;
        }
        Ok(checked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_told_apart_and_served_and_some_are_small() {
        let plain = PLAIN_CASES.iter().all(|(_, [_, n, k])| GemmKernels::supports(*n, *k));
        assert!(plain);
        let mut sizes = CASES.map(|(_, sizes)| sizes);
        sizes.sort_unstable();
        assert!(sizes.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(sizes.iter().all(|[_, n, k]| GemmKernels::supports(*n, *k)));
        for rest in [0, 16, 32, 48] {
            let small = |[m, n, _]: &&[usize; 3]| m * n <= 128_000;
            assert!(sizes.iter().filter(small).any(|[_, _, k]| k % 64 == rest), "{rest}");
        }
    }
}
