/*!
The kernels of `cuda/` on the GPU at hand against the CPU code that they must equal, and how long they take.

Needs no engines. Every comparison is of bits but those of attention, of what a trunk normalises and activates, of cuBLASLt's products
and of nvJPEG: all others claim the CPU's very results, on any size. Outputs are filled with a pattern first, so that what a kernel
leaves out is found.
*/

mod attention;
mod bank;
mod compare;
mod mask;
mod nvjpeg;
mod preprocess;
mod products;
mod trunk;

pub use nvjpeg::{Picture, pictures};

use std::cell::Cell;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::engine_run::Repeats;
use super::record::Timing;
use super::verdict::Verdict;
use compare::{Limits, compare};

use crate::gpu::kernels::Kernels;
use crate::gpu::{Gpu, Recorded, Stream, View, Work};
use crate::platform::OLDEST_FUSED_SM;

/// Fills outputs before a kernel writes them.
const POISON: u8 = 0xA5;

/// Launches between two events, where so many are timed at all: a single one is as short as the events' own resolution.
const LAUNCHES: usize = 20;

/// One case of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelRow {
    /// The kernel, or the step that is made of several.
    pub kernel: String,
    /// Sizes and kind of the input.
    pub case: String,
    /// Elements of the output.
    pub elements: usize,
    /// How many of them are not the CPU's; none where the case did not run.
    pub different: Option<usize>,
    /// The relative error, where the kernel does not claim the CPU's bits.
    pub error: Option<f64>,
    /// The time of one launch among several in a row.
    pub timing: Option<Timing>,
    /// 10¹² multiplications and additions a second, where those are what takes the time.
    pub tflops: Option<f64>,
    /// The library that ran it, where that is none of our kernels.
    #[serde(default)]
    pub library: Option<String>,
    /// Passed or failed.
    pub verdict: Verdict,
    /// Why it failed.
    pub reason: Option<String>,
}

/// What all cases found, and on what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KernelReport {
    /// The GPU's name.
    pub device: String,
    /// Its compute capability, 90 for 9.0.
    pub sm: u32,
    /// Newest CUDA that the driver knows.
    pub driver_cuda: String,
    /// What the kernels were loaded from; none where they could not be.
    pub form: Option<String>,
    /// One for each case.
    pub rows: Vec<KernelRow>,
    /// The limit on a case's elements; none where every case ran.
    pub max_elements: Option<usize>,
    /// Cases beyond that limit, which did not run.
    pub left_out: usize,
    /// What was not tested, and why.
    #[serde(default)]
    pub skipped: Vec<String>,
}

/// The cases of one kind.
type Rows = fn(&Bench<'_>) -> Vec<KernelRow>;

/// What a library of the user's does, and its cases, or why there are none.
type Foreign = (&'static str, fn(&Bench<'_>) -> Result<Vec<KernelRow>, String>);

const NVJPEG: Foreign = ("nvJPEG's pixels", nvjpeg::rows);
const PRODUCTS: Foreign = ("cuBLASLt's products", products::rows);
const TRUNKS: Foreign = ("whole trunks", trunk::whole::rows);

/// Runs every case whose output has at most `max_elements` elements. A kernel that fails costs its rows (and, if it broke the
/// context, those after it).
pub fn run(gpu: &Gpu, repeats: Repeats, seed: u64, max_elements: Option<usize>) -> KernelReport {
    let kinds: [Rows; 5] = [preprocess::rows, mask::rows, bank::rows, attention::rows, trunk::rows];
    let libraries = [NVJPEG, PRODUCTS, TRUNKS];
    let sm = gpu.facts().sm;
    if sm >= OLDEST_FUSED_SM {
        return run_these(gpu, repeats, seed, max_elements, &kinds, &libraries);
    }
    let mut report = run_these(gpu, repeats, seed, max_elements, &kinds[..3], &libraries[..2]);
    report.skipped.push(format!(
        "attention: its kernels need sm {OLDEST_FUSED_SM} (Ampere) or more, this GPU is sm {sm}; only the fused bank needs them"
    ));
    report.skipped.push(format!(
        "trunk: its kernels need sm {OLDEST_FUSED_SM} or more; only an encoder whose trunk is ours needs them"
    ));
    report
}

/// Runs nvJPEG's cases alone, which take no minutes on a stand-in for a GPU.
pub fn run_nvjpeg(gpu: &Gpu, repeats: Repeats, seed: u64) -> KernelReport {
    run_these(gpu, repeats, seed, None, &[], &[NVJPEG])
}

/// Runs the products' cases alone.
pub fn run_products(
    gpu: &Gpu,
    repeats: Repeats,
    seed: u64,
    max_elements: Option<usize>,
) -> KernelReport {
    run_these(gpu, repeats, seed, max_elements, &[], &[PRODUCTS])
}

fn run_these(
    gpu: &Gpu,
    repeats: Repeats,
    seed: u64,
    max_elements: Option<usize>,
    kinds: &[Rows],
    libraries: &[Foreign],
) -> KernelReport {
    let facts = gpu.facts();
    let mut report = KernelReport {
        device: facts.name.clone(),
        sm: facts.sm,
        driver_cuda: facts.driver_cuda.clone(),
        form: None,
        rows: Vec::new(),
        max_elements,
        left_out: 0,
        skipped: Vec::new(),
    };
    let opened = Kernels::load(gpu).and_then(|kernels| {
        report.form = Some(kernels.form().to_owned());
        let left_out = Cell::new(0);
        Ok(Bench { gpu, stream: gpu.stream()?, kernels, repeats, seed, max_elements, left_out })
    });
    match opened {
        Ok(bench) => {
            report.rows.extend(kinds.iter().flat_map(|rows| rows(&bench)));
            for (what, rows) in libraries {
                match rows(&bench) {
                    Ok(rows) => report.rows.extend(rows),
                    Err(why) => report.skipped.push(format!("{what}: {why}")),
                }
            }
            report.left_out = bench.left_out.get();
        }
        Err(error) => report.rows.push(row("all", "", Err(error))),
    }
    report
}

/// What the cases share.
struct Bench<'g> {
    gpu: &'g Gpu,
    stream: Stream,
    kernels: Kernels,
    repeats: Repeats,
    seed: u64,
    max_elements: Option<usize>,
    left_out: Cell<usize>,
}

/// What a case found.
struct Checked {
    elements: usize,
    different: usize,
    error: Option<f64>,
    first: Option<String>,
    timing: Option<Timing>,
}

fn row(kernel: &str, case: &str, checked: Result<Checked>) -> KernelRow {
    let (kernel, case) = (kernel.to_owned(), case.to_owned());
    let mut row = KernelRow {
        kernel,
        case,
        elements: 0,
        different: None,
        error: None,
        timing: None,
        tflops: None,
        library: None,
        verdict: Verdict::Failed,
        reason: None,
    };
    match checked {
        Ok(found) => {
            row.elements = found.elements;
            row.different = Some(found.different);
            row.error = found.error;
            row.timing = found.timing;
            row.reason = found.first;
        }
        Err(error) => row.reason = Some(format!("{error:#}")),
    }
    if row.reason.is_none() {
        row.verdict = Verdict::Passed;
    }
    row
}

impl Bench<'_> {
    /// Whether this many elements are too many; counts the `cases` that are then left out. To be asked before inputs and
    /// references are made, which take longer than the kernels.
    fn leaves_out(&self, elements: usize, cases: usize) -> bool {
        let beyond = self.max_elements.is_some_and(|most| elements > most);
        if beyond {
            self.left_out.set(self.left_out.get() + cases);
        }
        beyond
    }

    /// Device memory that holds these bytes.
    fn put(&self, bytes: &[u8]) -> Result<View> {
        let view = View::new(self.gpu, bytes.len())?;
        view.upload(bytes, &self.stream)?;
        Ok(view)
    }

    /// Device memory for an output, filled with the pattern.
    fn poisoned(&self, bytes: usize) -> Result<View> {
        let view = View::new(self.gpu, bytes)?;
        view.fill(POISON, &self.stream)?;
        Ok(view)
    }

    /// Runs `enqueue` once, compares `output` with `expected` in elements of `width` bytes, then takes the time.
    fn check(
        &self,
        output: &View,
        expected: &[u8],
        width: usize,
        enqueue: impl Fn(&Stream) -> Result<()>,
    ) -> Result<Checked> {
        enqueue(&self.stream)?;
        let mut checked = compare(&output.download(&self.stream)?, expected, width)?;
        checked.timing = self.time(enqueue)?;
        Ok(checked)
    }

    fn time(&self, enqueue: impl Fn(&Stream) -> Result<()>) -> Result<Option<Timing>> {
        let launches = LAUNCHES.min(self.repeats.runs.max(1));
        for _ in 0..self.repeats.warmup {
            enqueue(&self.stream)?;
        }
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        let mut samples = Vec::with_capacity(self.repeats.runs);
        for _ in 0..self.repeats.runs {
            self.stream.synchronize()?;
            start.record(&self.stream)?;
            for _ in 0..launches {
                enqueue(&self.stream)?;
            }
            end.record(&self.stream)?;
            samples.push(end.ms_since(&start)? / launches as f64);
        }
        Ok(Timing::of(&samples))
    }
}

impl Bench<'_> {
    /// The time of one launch among several that were recorded as one graph, which takes the host's part out of short ones. `enqueue`
    /// owns all memory that it names, or borrows it.
    fn time_recorded<R>(
        &self,
        repeats: Repeats,
        enqueue: impl Fn(&Stream) -> Result<R>,
    ) -> Result<Option<Timing>> {
        let launches = LAUNCHES.min(repeats.runs.max(1));
        let mut recorded = Recorded::new(Launches(enqueue, launches), &self.stream, true);
        for _ in 0..=repeats.warmup {
            recorded.run()?;
        }
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        let mut samples = Vec::with_capacity(repeats.runs);
        for _ in 0..repeats.runs {
            self.stream.synchronize()?;
            start.record(&self.stream)?;
            recorded.run()?;
            end.record(&self.stream)?;
            self.stream.synchronize()?;
            samples.push(end.ms_since(&start)? / launches as f64);
        }
        Ok(Timing::of(&samples))
    }
}

/// Several launches in a row, recorded as one graph.
struct Launches<F>(F, usize);

impl<F: Fn(&Stream) -> Result<R>, R> Work for Launches<F> {
    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        (0..self.1).try_for_each(|_| (self.0)(stream).map(|_| ()))
    }
}

/// Elements as the device has them, without an iterator over bytes, which a build without optimisation takes long for.
fn bytes_of<T, const N: usize>(elements: &[T], to_bytes: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(N * elements.len());
    elements.iter().for_each(|element| bytes.extend_from_slice(&to_bytes(element)));
    bytes
}
