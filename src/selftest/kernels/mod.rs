/*!
The kernels of `cuda/` on the GPU at hand against the CPU code that they must equal, and how long they take.

Needs no engines. Every comparison is of bits but those of attention and its keys, of the mask decoder and the memory encoder, of what a trunk normalises and activates, of cuBLASLt's products
and of nvJPEG: all others claim the CPU's very results, on any size; whole trunks are held to themselves. Outputs are filled with a pattern first, so that what a kernel
leaves out is found.
*/

mod activated;
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
mod trunk;

pub use nvjpeg::{Picture, pictures};

use std::cell::Cell;

use anyhow::Result;
use clap::ValueEnum;
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

/// Kinds of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topic {
    /// Frames to the network's input.
    Preprocess,
    /// Logits to masks, and counts against a ground truth.
    Mask,
    /// The memory bank's frame counter and what follows from it.
    Bank,
    /// Attention of the track step and of encoders.
    Attention,
    /// The memory attention's keys.
    Keys,
    /// The mask decoder of the track step.
    Decoder,
    /// The memory encoder.
    MemoryEncoder,
    /// What a trunk's blocks need besides products.
    Trunk,
    /// nvJPEG's pixels.
    Nvjpeg,
    /// cuBLASLt's products, and this program's with an activation or a norm.
    Products,
    /// All blocks of a trunk one after the other.
    WholeTrunks,
}

/// The cases of one kind; why there are none, where a library of the user's is missing.
type Rows = Result<Vec<KernelRow>, String>;

impl Topic {
    fn rows(self, bench: &Bench<'_>) -> Rows {
        match self {
            Self::Preprocess => Ok(preprocess::rows(bench)),
            Self::Mask => Ok(mask::rows(bench)),
            Self::Bank => Ok(bank::rows(bench)),
            Self::Attention => Ok(attention::rows(bench)),
            Self::Keys => Ok(keys::rows(bench)),
            Self::Decoder => Ok(decoder::rows(bench)),
            Self::MemoryEncoder => Ok(memory_encoder::rows(bench)),
            Self::Trunk => Ok(trunk::rows(bench)),
            Self::Nvjpeg => nvjpeg::rows(bench),
            Self::Products => products::rows(bench),
            Self::WholeTrunks => trunk::whole::rows(bench),
        }
    }

    /// Why this GPU has none of these kernels.
    fn too_old(self, sm: u32) -> Option<String> {
        let needed = match self {
            Self::Attention | Self::Keys => "only the fused bank needs them",
            Self::Decoder => "only a track step whose mask decoder is ours needs them",
            Self::MemoryEncoder => "only a memory encoder that is ours needs them",
            Self::Trunk | Self::WholeTrunks => "only an encoder whose trunk is ours needs them",
            _ => return None,
        };
        (sm < OLDEST_FUSED_SM).then(|| {
            format!("its kernels need sm {OLDEST_FUSED_SM} (Ampere) or more, this GPU is sm {sm}; {needed}")
        })
    }

    /// Why nothing is left of it without cuBLASLt.
    fn unwanted(self, bench: &Bench<'_>) -> Option<String> {
        let all = bench.without_cublaslt && self == Self::WholeTrunks;
        all.then(|| "cuBLASLt computes in all of them (--without-cublaslt)".to_owned())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Preprocess => "preprocessing",
            Self::Mask => "masks",
            Self::Bank => "the memory bank",
            Self::Attention => "attention",
            Self::Keys => "the memory attention's keys",
            Self::Decoder => "the mask decoder",
            Self::MemoryEncoder => "the memory encoder",
            Self::Trunk => "trunk",
            Self::Nvjpeg => "nvJPEG's pixels",
            Self::Products => "cuBLASLt's products",
            Self::WholeTrunks => "whole trunks",
        }
    }
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

/// Runs the chosen cases. A kernel that fails costs its rows (and, if it broke the context, those after it).
pub fn run(gpu: &Gpu, repeats: Repeats, seed: u64, chosen: Chosen<'_>) -> KernelReport {
    let Chosen { topics, max_elements, without_cublaslt } = chosen;
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
        let stream = gpu.stream()?;
        Ok(Bench { gpu, stream, kernels, repeats, seed, max_elements, without_cublaslt, left_out })
    });
    match opened {
        Ok(bench) => {
            for topic in topics {
                let why_not = topic.too_old(facts.sm).or_else(|| topic.unwanted(&bench));
                let rows = why_not.map_or_else(|| topic.rows(&bench), Err);
                match rows {
                    Ok(rows) => report.rows.extend(rows),
                    Err(why) => report.skipped.push(format!("{}: {why}", topic.name())),
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
    without_cublaslt: bool,
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
    /// How many of two ways are cuBLASLt's: one or, without it, none.
    fn theirs(&self) -> usize {
        usize::from(!self.without_cublaslt)
    }

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
