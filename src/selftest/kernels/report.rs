/*!
The report of the kernels' cases, as it grows and as it is written.
*/

use serde::{Deserialize, Serialize};

use crate::selftest::record::Timing;
use crate::selftest::verdict::Verdict;
use kernels::selftest::{CaseRow, Listener};

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

impl From<CaseRow> for KernelRow {
    fn from(row: CaseRow) -> Self {
        let CaseRow { kernel, case, elements, different, error, timing, tflops, library, reason } =
            row;
        let verdict = if reason.is_none() { Verdict::Passed } else { Verdict::Failed };
        Self { kernel, case, elements, different, error, timing, tflops, library, verdict, reason }
    }
}

/// How far a topic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The topic's name.
    pub topic: &'static str,
    /// Cases that are judged.
    pub done: usize,
    /// Cases in all.
    pub cases: usize,
    /// No more of them come, though there may be fewer than were planned: what fails early fails
    /// once.
    pub ended: bool,
}

/// Hears the report as it grows: its last row is the newest. With it, how far the topic is.
pub type Hear<'h> = &'h mut dyn FnMut(&KernelReport, Step);

/// The report, and who hears it grow.
pub(super) struct Told<'h> {
    pub report: KernelReport,
    hear: Hear<'h>,
    step: Step,
}

impl<'h> Told<'h> {
    pub fn new(report: KernelReport, hear: Hear<'h>) -> Self {
        Self { report, hear, step: Step { topic: "", done: 0, cases: 0, ended: true } }
    }

    /// Cases of this topic come next.
    pub fn begin(&mut self, topic: &'static str) {
        self.step = Step { topic, done: 0, cases: 0, ended: false };
        (self.hear)(&self.report, self.step);
    }

    /// No more of them come.
    pub fn end(&mut self) {
        self.step.ended = true;
        (self.hear)(&self.report, self.step);
    }
}

impl Listener for Told<'_> {
    fn planned(&mut self, rows: usize) {
        self.step.cases += rows;
    }

    fn left_out(&mut self, rows: usize) {
        self.report.left_out += rows;
    }

    fn judged(&mut self, row: CaseRow) {
        self.report.rows.push(row.into());
        self.step.done += 1;
        (self.hear)(&self.report, self.step);
    }
}
