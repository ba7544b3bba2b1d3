/*!
Cases of cuBLASLt's GEMMs: its first algorithm, which a trunk runs unless autotuning chose another,
and the fastest. The accumulators are f32, rounded once: the error must be small, and each run must
give the same bits.
*/

use anyhow::Result;
use half::f16;
use half::slice::HalfFloatSliceExt;
use half::vec::HalfFloatVecExt;
use zerocopy::IntoBytes;

use super::{gemm_sample, sample};
use crate::selftest::{Bench, Checked, Limits, POISON, Planned, TimedRuns, row};
use cuda::Element;
use cuda::cublaslt::{CublasLt, Matmul, MatmulShape};
use cuda::{Stream, View};
use vos::noise::Noise;
use vos::stats::Timing;

/// The name of the rows.
pub(super) const NAME: &str = "matmul";

/// Runs that must give the same bits.
const RUNS: usize = 3;
/// The brief timing of all algorithms.
const BRIEF: TimedRuns = TimedRuns { warmup: 1, runs: 5 };

struct Case {
    name: &'static str,
    /// M, N, K.
    sizes: [usize; 3],
    output: Element,
    residual: bool,
}

/// GEMMs that add to the f32 residual.
const fn added(name: &'static str, sizes: [usize; 3]) -> Case {
    Case { name, sizes, output: Element::F32, residual: true }
}

/// GEMMs with an f16 output.
const fn plain(name: &'static str, sizes: [usize; 3]) -> Case {
    Case { name, sizes, output: Element::F16, residual: false }
}

/// Small and odd ones of all four kinds, then those of Hiera's blocks at 1024 pixels.
static CASES: [Case; 35] = [
    plain("few", [33, 288, 96]),
    added("few", [33, 96, 384]),
    Case { name: "few", sizes: [33, 72, 40], output: Element::F32, residual: false },
    Case { name: "few", sizes: [65, 96, 96], output: Element::F16, residual: true },
    plain("one row", [1, 8, 8]),
    plain("tiny", [65_536, 288, 96]),
    plain("tiny", [65_536, 384, 96]),
    added("tiny", [65_536, 96, 384]),
    plain("tiny", [16_384, 576, 192]),
    plain("tiny", [4096, 1152, 384]),
    added("tiny", [4096, 384, 384]),
    plain("tiny", [4096, 1536, 384]),
    added("tiny", [4096, 384, 1536]),
    plain("tiny", [1024, 3072, 768]),
    plain("large", [65_536, 432, 144]),
    added("large", [65_536, 144, 144]),
    plain("large", [65_536, 576, 144]),
    added("large", [65_536, 144, 576]),
    plain("large", [16_384, 864, 288]),
    added("large", [16_384, 288, 288]),
    plain("large", [16_384, 1152, 288]),
    added("large", [16_384, 288, 1152]),
    plain("large", [4096, 1728, 576]),
    added("large", [4096, 576, 576]),
    plain("large", [4096, 2304, 576]),
    added("large", [4096, 576, 2304]),
    plain("large", [1024, 4608, 1152]),
    plain("base+", [65_536, 336, 112]),
    plain("base+", [65_536, 448, 112]),
    added("base+", [65_536, 112, 448]),
    plain("base+", [16_384, 672, 224]),
    plain("base+", [4096, 1344, 448]),
    plain("base+", [4096, 1792, 448]),
    added("base+", [4096, 448, 1792]),
    plain("odd", [4097, 1344, 448]),
];

/// The cases that are not left out.
pub(super) struct Cases(Vec<Planned<&'static Case>>);

impl Cases {
    pub fn new(bench: &Bench) -> Self {
        let wanted = CASES.iter().filter(|_| !bench.without_cublaslt);
        Self(bench.planned(wanted, |case| (case.sizes[0] * case.sizes[1], 2)))
    }

    /// Two rows for each case.
    pub fn judge(&self, bench: &Bench, lt: &CublasLt) {
        let seed = bench.seed;
        bench.each(&self.0, |case| Data::new(seed, case), |case, data| case.rows(bench, lt, data));
    }
}

impl Case {
    fn shape(&self) -> MatmulShape {
        let ([m, n, k], output, residual) = (self.sizes, self.output, self.residual);
        MatmulShape { m, n, k, output, residual }
    }

    fn title(&self) -> String {
        let (name, [m, n, k]) = (self.name, self.sizes);
        let output = if self.output == Element::F32 { "f32" } else { "f16" };
        let added = if self.residual { ", added to" } else { "" };
        format!("{name}: {m} x {n} x {k}, {output}{added}")
    }

    /// The first algorithm, and the best.
    fn rows(&self, bench: &Bench, lt: &CublasLt, data: Data) {
        let shape = self.shape();
        let case = self.title();
        let made = Matmul::new(lt, shape).map_err(anyhow::Error::from);
        let made = made.and_then(|product| Setting::new(bench, product, data));
        let setting = match made {
            Ok(setting) => setting,
            Err(error) => return bench.found(row(NAME, &case, Err(error))),
        };
        let found = |name: &str, checked: Result<Checked>| {
            let mut row = row(name, &case, checked);
            row.library = Some(lt.to_string());
            row.tflops = row.timing.map(|timing| shape.operations() / timing.median_ms / 1e9);
            bench.found(row);
        };
        let all = setting.product.candidates();
        let first = setting.check(bench, 0, RUNS).and_then(|checked| {
            let timing = setting.time(bench, 0, bench.runs)?;
            Ok(Checked { timing, ..checked })
        });
        found(&format!("{NAME}, first of {all}"), first);
        let best = setting.best(bench);
        let name = match &best {
            Ok((best, checked)) if checked.first.is_none() => {
                format!("{NAME}, best is {best} of {all}")
            }
            _ => format!("{NAME}, all {all}"),
        };
        found(&name, best.map(|(_, checked)| checked));
    }
}

/// Operands on the host, and what must come out.
struct Data {
    a: Vec<f16>,
    weight: Vec<f16>,
    bias: Vec<u8>,
    out_bytes: usize,
    before: Option<Vec<u8>>,
    expected: Vec<(usize, f64)>,
}

impl Data {
    fn new(seed: u64, case: &Case) -> Self {
        let [m, n, k] = case.sizes;
        let mut noise = Noise::new(seed, &format!("{} {:?}", case.name, case.sizes));
        // Sums of products are as large as what is added to them.
        let a = noise.halves(m * k, 1.0);
        let weight = noise.halves(n * k, (k as f32).sqrt().recip());
        let (bias, bias_bytes) = case.output_of(noise.normals(n));
        let (before, before_bytes): (Option<Vec<f32>>, _) =
            case.residual.then(|| case.output_of(noise.normals(m * n))).unzip();
        let added = |place: usize| before.as_ref().map_or(0.0, |before| f64::from(before[place]));
        let sums = gemm_sample(&a, &weight, case.sizes)
            .into_iter()
            .map(|(place, sum)| (place, added(place) + f64::from(bias[place % n]) + sum));
        let out_bytes = case.output.bytes() * m * n;
        let expected = sums.collect();
        Self { a, weight, bias: bias_bytes, out_bytes, before: before_bytes, expected }
    }
}

/// A product with operands on the device, and what must come out.
struct Setting {
    product: Matmul,
    a: View,
    weight: View,
    bias: View,
    out: View,
    workspace: View,
    /// What the output holds before, where that matters; a pattern otherwise.
    before: Option<Vec<u8>>,
    /// Places of the output, and what is expected there.
    expected: Vec<(usize, f64)>,
}

impl Setting {
    fn new(bench: &Bench, product: Matmul, data: Data) -> Result<Self> {
        let workspace = product.most_workspace_bytes();
        Ok(Self {
            product,
            a: bench.put(data.a.as_bytes())?,
            weight: bench.put(data.weight.as_bytes())?,
            bias: bench.put(&data.bias)?,
            out: View::new(bench.gpu, data.out_bytes)?,
            // The driver fills no empty memory.
            workspace: bench.poisoned(workspace.max(1))?,
            before: data.before,
            expected: data.expected,
        })
    }

    fn enqueue(&self, stream: &Stream) -> Result<()> {
        let Self { product, a, weight, bias, out, workspace, .. } = self;
        Ok(product.enqueue(a, weight, bias, out, workspace, stream)?)
    }

    fn run(&self, bench: &Bench) -> Result<()> {
        match &self.before {
            Some(before) => self.out.upload(before, &bench.stream)?,
            None => self.out.fill(POISON, &bench.stream)?,
        }
        self.enqueue(&bench.stream)
    }

    /// What an algorithm computes in the sampled rows. All rows of all algorithms would be
    /// gigabytes from the device.
    fn check_sample(&self, bench: &Bench, candidate: usize) -> Result<Checked> {
        self.product.choose(candidate)?;
        self.run(bench)?;
        let MatmulShape { m, n, output, .. } = self.product.shape();
        let row_bytes = n * output.bytes();
        let mut found = vec![0; m * row_bytes];
        for row in sample(m) {
            let bytes = self.out.part(row * row_bytes, row_bytes)?.download(&bench.stream)?;
            found[row * row_bytes..][..row_bytes].copy_from_slice(&bytes);
        }
        Ok(self.compare(&found))
    }

    /// What an algorithm computes, and whether it does so again.
    fn check(&self, bench: &Bench, candidate: usize, runs: usize) -> Result<Checked> {
        self.product.choose(candidate)?;
        self.run(bench)?;
        let found = self.out.download(&bench.stream)?;
        let mut checked = self.compare(&found);
        for _ in 1..runs {
            self.run(bench)?;
            if !bench.holds(&self.out, &found)? && checked.first.is_none() {
                checked.first = Some("two runs on the same inputs gave other bits".to_owned());
            }
        }
        Ok(checked)
    }

    fn compare(&self, found: &[u8]) -> Checked {
        let output = self.product.shape().output;
        limits(output).judge(&self.expected, |at| match output {
            Element::F16 => {
                f64::from(f16::from_le_bytes([found[2 * at], found[2 * at + 1]]).to_f32())
            }
            Element::F32 => {
                let bytes = [0, 1, 2, 3].map(|byte| found[4 * at + byte]);
                f64::from(f32::from_le_bytes(bytes))
            }
        })
    }

    fn time(&self, bench: &Bench, candidate: usize, runs: TimedRuns) -> Result<Option<Timing>> {
        self.product.choose(candidate)?;
        bench.time_recorded(runs, |stream| self.enqueue(stream))
    }

    /// The fastest of all algorithms, which must all be right.
    fn best(&self, bench: &Bench) -> Result<(usize, Checked)> {
        let mut best: Option<(usize, f64, Checked)> = None;
        for at in 0..self.product.candidates() {
            let mut checked = self.check_sample(bench, at)?;
            if let Some(why) = checked.first.take() {
                checked.first = Some(format!("candidate {at}: {why}"));
                return Ok((at, checked));
            }
            let brief = TimedRuns { runs: BRIEF.runs.min(bench.runs.runs), ..BRIEF };
            let ms = self.time(bench, at, brief)?.map_or(f64::INFINITY, |timing| timing.median_ms);
            if best.as_ref().is_none_or(|(_, least, _)| ms < *least) {
                best = Some((at, ms, checked));
            }
        }
        let (at, _, checked) = best.ok_or_else(|| anyhow::anyhow!("no candidate was timed"))?;
        let timing = self.time(bench, at, bench.runs)?;
        Ok((at, Checked { timing, ..checked }))
    }
}

impl Case {
    /// Numbers as the output's type has them, and their bytes.
    fn output_of(&self, values: Vec<f32>) -> (Vec<f32>, Vec<u8>) {
        match self.output {
            Element::F32 => {
                let bytes = values.as_bytes().to_vec();
                (values, bytes)
            }
            Element::F16 => {
                let halves: Vec<f16> = Vec::from_f32_slice(&values);
                (halves.to_f32_vec(), halves.as_bytes().to_vec())
            }
        }
    }
}

/// Rounding to fp16 is off by 3e-4 of the norm and by 2⁻¹¹ of an element, which may be several root
/// mean squares; sums of f32 by much less, but tensor cores cut digits off where they add.
fn limits(output: Element) -> Limits {
    match output {
        Element::F16 => Limits { error: 6e-4, deviation: 5e-3 },
        Element::F32 => Limits { error: 5e-5, deviation: 5e-4 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_in_halves_are_beyond_the_limits_of_f32_and_outputs_in_halves_within_their_own() {
        let wanted: Vec<(usize, f64)> =
            Noise::new(1, "x").normals(4096).into_iter().map(f64::from).enumerate().collect();
        let rounded = |at: usize| f16::from_f64(wanted[at].1).to_f64();
        assert_eq!(limits(Element::F16).judge(&wanted, rounded).first, None);
        assert!(limits(Element::F32).judge(&wanted, rounded).first.is_some());
        let exact = |at: usize| f64::from(wanted[at].1 as f32);
        assert_eq!(limits(Element::F32).judge(&wanted, exact).first, None);
    }

    #[test]
    fn kinds_of_products_are_all_there_and_names_are_told_apart() {
        let mut cases: Vec<String> = CASES.iter().map(Case::title).collect();
        cases.sort();
        cases.dedup();
        assert_eq!(cases.len(), CASES.len());
        for output in [Element::F32, Element::F16] {
            for residual in [false, true] {
                let small = |case: &&Case| case.sizes[0] * case.sizes[1] <= 128_000;
                let kind = |case: &Case| (case.output, case.residual) == (output, residual);
                assert!(CASES.iter().filter(small).any(kind), "{output:?}, {residual}");
            }
        }
    }
}
