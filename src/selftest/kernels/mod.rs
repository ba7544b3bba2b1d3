/*!
The kernels of `cuda/` on the GPU at hand against the CPU code that they must equal, with their
times.

Needs no engines. The cases are in the crate `kernels`, next to the launches that they test. This
module has the loop over them, the report and the command-line names. Most kernels must equal the
CPU bit by bit; the others are compared with float64 within limits, and whole trunks with
themselves.
*/

mod report;
mod topic;

pub use kernels::selftest::nvjpeg::{Picture, pictures};
pub use report::{Hear, KernelReport, KernelRow, Step};
pub use topic::Topic;

use std::cell::RefCell;

use super::engine_run::Repeats;
use cuda::{Gpu, Pinned};
use kernels::selftest::{Bench, Listener, STAGING, TimedRuns, processors, row};
use kernels::{Kept, Kernels, Source};
use report::Told;

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

/// Runs the chosen cases; `hear` hears each row as soon as it is there. A kernel that fails costs
/// its rows (and, if it broke the context, those after it).
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
        Ok((kernels, gpu.stream()?, Pinned::new(gpu, STAGING)?, processors()?))
    });
    let (kernels, stream, staging, processors) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            told.judged(row("all", "", Err(error)));
            return told.report;
        }
    };
    let topics = || topics.iter().map(|topic| topic.of());
    let usable = topics().filter(|topic| topic.too_old(facts.sm).is_none());
    let sources: Vec<Source> = usable.flat_map(|topic| topic.sources).copied().collect();
    let told = RefCell::new(told);
    let bench = Bench {
        gpu,
        stream,
        staging: RefCell::new(staging),
        kernels,
        processors,
        runs: TimedRuns { warmup: repeats.warmup, runs: repeats.runs },
        seed,
        max_elements,
        without_cublaslt,
        listener: &told,
    };
    // The driver compiles PTX on all processors. On an H200 its other calls wait meanwhile, so the
    // first topics gain little; modules stay loaded to the end.
    rayon::in_place_scope(|scope| {
        let mut kept = Kept::begin(scope, gpu, &sources);
        for topic in topics() {
            let why_not = topic.too_old(facts.sm).or_else(|| topic.unwanted(&bench));
            if why_not.is_none() {
                kept.wait(topic.sources);
            }
            told.borrow_mut().begin(topic.name);
            let judged = why_not.map_or_else(|| (topic.judge)(&bench), Err);
            let mut told = told.borrow_mut();
            if let Err(why) = judged {
                told.report.skipped.push(format!("{}: {why}", topic.name));
            }
            told.end();
        }
    });
    drop(bench);
    told.into_inner().report
}
