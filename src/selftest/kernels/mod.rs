/*!
The kernels of `cuda/` on the GPU at hand against the CPU code that they must equal, and how long they take.

Needs no engines. Every comparison is of bits but those of attention and its keys, of the mask decoder and the memory encoder, of what a trunk normalises and activates, of cuBLASLt's products
and of nvJPEG: all others claim the CPU's very results, on any size; whole trunks are held to themselves. Outputs are filled with a pattern first, so that what a kernel
leaves out is found.
*/

mod activated;
mod ahead;
mod attention;
mod bank;
mod compare;
mod decoder;
mod doubles;
mod keys;
mod mask;
mod memory_encoder;
mod normed;
mod nvjpeg;
mod preprocess;
mod products;
mod topic;
mod trunk;

pub use ahead::{Hear, Step};
pub use nvjpeg::{Picture, pictures};
pub use topic::Topic;

use std::cell::{Cell, RefCell};

use anyhow::Result;
use rayon::ThreadPool;
use serde::{Deserialize, Serialize};

use super::engine_run::Repeats;
use super::record::Timing;
use super::verdict::Verdict;
use ahead::Told;
use compare::{Limits, compare};

use cuda::{Gpu, Pinned, Recorded, Stream, View, Work};
use kernels::{Kept, Kernels, Source};

/// Fills outputs before a kernel writes them.
const POISON: u8 = 0xA5;

/// Bytes of device memory that are compared at a time.
const STAGING: usize = 8 << 20;

/// Launches between two events, where so many are timed at all: a single one is as short as the events' own resolution.
const LAUNCHES: usize = 20;

/// Time that the samples of one row may take, seconds, and how many there are even so: a slow kernel's
/// median needs fewer of them.
const SAMPLING: (f64, usize) = (0.01, 5);

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

/// Which cases run.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'t> {
    /// Those of these kinds,
    pub topics: &'t [Topic],
    /// whose output has at most so many elements,
    pub max_elements: Option<usize>,
    /// and where this is set, in which cuBLASLt computes nothing.
    pub without_cublaslt: bool,
}

/// Runs the chosen cases; `hear` hears each row as soon as it is there. A kernel that fails costs its rows (and, if it broke the context,
/// those after it).
pub fn run(
    gpu: &Gpu,
    repeats: Repeats,
    seed: u64,
    chosen: Chosen<'_>,
    hear: Hear<'_>,
) -> KernelReport {
    let Chosen { topics, max_elements, without_cublaslt } = chosen;
    let facts = gpu.facts();
    let report = KernelReport {
        device: facts.name.clone(),
        sm: facts.sm,
        driver_cuda: facts.driver_cuda.clone(),
        form: None,
        rows: Vec::new(),
        max_elements,
        left_out: 0,
        skipped: Vec::new(),
    };
    let mut told = Told::new(report, hear);
    let opened = Kernels::load(gpu).and_then(|kernels| {
        told.report.form = Some(kernels.form().to_owned());
        Ok((kernels, gpu.stream()?, Pinned::new(gpu, STAGING)?, ahead::processors()?))
    });
    let (kernels, stream, staging, processors) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            told.row(row("all", "", Err(error)));
            return told.report;
        }
    };
    let sources = topics.iter().filter(|topic| topic.too_old(facts.sm).is_none());
    let sources: Vec<Source> = sources.flat_map(|topic| topic.sources()).copied().collect();
    let (told, left_out) = (RefCell::new(told), Cell::new(0));
    let bench = Bench {
        gpu,
        stream,
        staging: RefCell::new(staging),
        kernels,
        processors,
        repeats,
        seed,
        max_elements,
        without_cublaslt,
        left_out,
        told,
    };
    // The driver compiles PTX on all processors. On an H200 its other calls wait meanwhile, so the first
    // topics gain little; what is loaded is kept to the end.
    rayon::in_place_scope(|scope| {
        let mut kept = Kept::begin(scope, gpu, &sources);
        for topic in topics {
            let why_not = topic.too_old(facts.sm).or_else(|| topic.unwanted(&bench));
            if why_not.is_none() {
                kept.wait(topic.sources());
            }
            bench.told.borrow_mut().begin(topic.name());
            let judged = why_not.map_or_else(|| topic.judge(&bench), Err);
            let mut told = bench.told.borrow_mut();
            if let Err(why) = judged {
                told.report.skipped.push(format!("{}: {why}", topic.name()));
            }
            told.end();
        }
    });
    let mut report = bench.told.into_inner().report;
    report.left_out = bench.left_out.get();
    report
}

/// What the cases share.
struct Bench<'g, 'h> {
    gpu: &'g Gpu,
    stream: Stream,
    /// Where the device copies what is compared.
    staging: RefCell<Pinned>,
    kernels: Kernels,
    /// What makes inputs and references.
    processors: ThreadPool,
    repeats: Repeats,
    seed: u64,
    max_elements: Option<usize>,
    without_cublaslt: bool,
    left_out: Cell<usize>,
    told: RefCell<Told<'h>>,
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

impl Bench<'_, '_> {
    /// How many of two ways are cuBLASLt's: one or, without it, none.
    fn theirs(&self) -> usize {
        usize::from(!self.without_cublaslt)
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

    /// Whether these bytes are there, of which no copy is made.
    fn holds(&self, view: &View, bytes: &[u8]) -> Result<bool> {
        let mut staging = self.staging.borrow_mut();
        for (piece, bytes) in bytes.chunks(STAGING).enumerate() {
            staging.download(&view.part(piece * STAGING, bytes.len())?, &self.stream)?;
            if staging.bytes()?[..bytes.len()] != *bytes {
                return Ok(false);
            }
        }
        Ok(view.len() == bytes.len())
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

    /// Launches of a sample: fewer of a kernel that takes milliseconds, which the events resolve.
    fn launches(&self, enqueue: impl Fn(&Stream) -> Result<()>) -> Result<usize> {
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        start.record(&self.stream)?;
        enqueue(&self.stream)?;
        end.record(&self.stream)?;
        self.stream.synchronize()?;
        let slow = end.ms_since(&start)? > 1.0;
        Ok(if slow { 1 } else { LAUNCHES.min(self.repeats.runs.max(1)) })
    }

    fn time(&self, enqueue: impl Fn(&Stream) -> Result<()>) -> Result<Option<Timing>> {
        let launches = self.launches(&enqueue)?;
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
            if enough(&samples, launches) {
                break;
            }
        }
        Ok(Timing::of(&samples))
    }
}

/// Whether these samples of so many launches each, in ms a launch, took the time that they may.
fn enough(samples: &[f64], launches: usize) -> bool {
    let (seconds, least) = SAMPLING;
    let spent = samples.iter().sum::<f64>() * launches as f64 / 1e3;
    samples.len() >= least && spent >= seconds
}

impl Bench<'_, '_> {
    /// The time of one launch among several that were recorded as one graph, which takes the host's part out of short ones. `enqueue`
    /// owns all memory that it names, or borrows it.
    fn time_recorded<R>(
        &self,
        repeats: Repeats,
        enqueue: impl Fn(&Stream) -> Result<R>,
    ) -> Result<Option<Timing>> {
        let launches = LAUNCHES.min(repeats.runs.max(1));
        let mut recorded = Recorded::new(Launches(enqueue, launches), &self.stream, true);
        // The first run records; a replay is many launches, of which two warm up as much as ten do.
        for _ in 0..=repeats.warmup.min(2) {
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
            if enough(&samples, launches) {
                break;
            }
        }
        Ok(Timing::of(&samples))
    }
}

/// Several launches in a row, recorded as one graph. Only made by [`Bench::time_recorded`].
struct Launches<F>(F, usize);

#[expect(unsafe_code, reason = "what it promises is what the closures of this folder keep")]
// SAFETY: the closures of this folder's cases enqueue kernels and fills on views, weights and products that they borrow: these
// outlive the closure, and with it this value. None makes memory of its own, and none uses pinned memory.
unsafe impl<F: Fn(&Stream) -> Result<R>, R> Work for Launches<F> {
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
