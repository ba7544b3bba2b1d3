/*!
The bench that cases run on: the device, the host's processors, and the report's listener.
*/

use std::cell::RefCell;

use anyhow::{Result, anyhow};
use rayon::ThreadPool;

use super::ahead::{Planned, ROOM, ahead};
use super::compare::{Checked, compare};
use super::stopwatch::TimedRuns;
use crate::Kernels;
use cuda::{Gpu, Pinned, Stream, View};
use vos::stats::Timing;

/// Fills outputs before a kernel writes them, so that elements that it leaves out are found.
pub const POISON: u8 = 0xA5;

/// Bytes of device memory that are compared at a time.
pub const STAGING: usize = 8 << 20;

/// One judged case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseRow {
    /// The kernel, or the step of several kernels.
    pub kernel: String,
    /// Sizes and kind of the input.
    pub case: String,
    /// Elements of the output.
    pub elements: usize,
    /// Elements that differ from the CPU's; none where the case did not run.
    pub different: Option<usize>,
    /// The relative error, where the kernel does not claim the CPU's bits.
    pub error: Option<f64>,
    /// The time of one launch among several in a row.
    pub timing: Option<Timing>,
    /// 10¹² multiplications and additions a second, where those take the time.
    pub tflops: Option<f64>,
    /// The library that ran it; none for kernels of this crate.
    pub library: Option<String>,
    /// Why it failed; none where it passed.
    pub reason: Option<String>,
}

/// The results of rows that are judged together: one reason why they could not is that of all.
pub fn each_of<const N: usize>(all: Result<[Checked; N]>) -> [Result<Checked>; N] {
    match all {
        Ok(all) => all.map(Ok),
        Err(error) => [(); N].map(|()| Err(anyhow!("{error:#}"))),
    }
}

/// The row of a case that ran, or of one that could not.
pub fn row(kernel: &str, case: &str, checked: Result<Checked>) -> CaseRow {
    let mut row = CaseRow {
        kernel: kernel.to_owned(),
        case: case.to_owned(),
        elements: 0,
        different: None,
        error: None,
        timing: None,
        tflops: None,
        library: None,
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
    row
}

/// Hears about cases as they are planned and judged.
pub trait Listener {
    /// So many more rows will come.
    fn planned(&mut self, rows: usize);
    /// So many rows are left out: their outputs have more elements than the limit.
    fn left_out(&mut self, rows: usize);
    /// A case is judged.
    fn judged(&mut self, row: CaseRow);
}

/// What the cases share.
pub struct Bench<'b> {
    /// The device.
    pub gpu: &'b Gpu,
    /// Where cases run.
    pub stream: Stream,
    /// Where the device copies what is compared.
    pub staging: RefCell<Pinned>,
    /// The modules that every run loads.
    pub kernels: Kernels,
    /// Threads that draw inputs and compute references.
    pub processors: ThreadPool,
    /// How often a case runs for its time.
    pub runs: TimedRuns,
    /// Of the drawn inputs.
    pub seed: u64,
    /// Cases with larger outputs are left out.
    pub max_elements: Option<usize>,
    /// Leave out what cuBLASLt computes.
    pub without_cublaslt: bool,
    /// The report.
    pub listener: &'b RefCell<dyn Listener + 'b>,
}

impl Bench<'_> {
    /// Variants that cuBLASLt computes: one or, without it, none.
    pub fn theirs(&self) -> usize {
        usize::from(!self.without_cublaslt)
    }

    /// Device memory that holds these bytes.
    ///
    /// # Errors
    /// Too little memory, or another error of the driver.
    pub fn put(&self, bytes: &[u8]) -> Result<View> {
        let view = View::new(self.gpu, bytes.len())?;
        view.upload(bytes, &self.stream)?;
        Ok(view)
    }

    /// Device memory for an output, filled with [`POISON`].
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn poisoned(&self, bytes: usize) -> Result<View> {
        let view = View::new(self.gpu, bytes)?;
        view.fill(POISON, &self.stream)?;
        Ok(view)
    }

    /// Whether a view holds these bytes. Copies a piece at a time.
    ///
    /// # Errors
    /// The driver's.
    pub fn holds(&self, view: &View, bytes: &[u8]) -> Result<bool> {
        let mut staging = self.staging.borrow_mut();
        for (piece, bytes) in bytes.chunks(STAGING).enumerate() {
            staging.download(&view.part(piece * STAGING, bytes.len())?, &self.stream)?;
            if staging.bytes()?[..bytes.len()] != *bytes {
                return Ok(false);
            }
        }
        Ok(view.len() == bytes.len())
    }

    /// Runs `enqueue` once, compares `output` with `expected` in elements of `width` bytes, then
    /// takes the time.
    ///
    /// # Errors
    /// Those of `enqueue`, or the driver's.
    pub fn check(
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

    /// Whether an output of so many elements is beyond the limit; counts its `rows` as left out or
    /// planned. To be asked before inputs and references are computed, which take longer than the
    /// kernels.
    pub fn leaves_out(&self, elements: usize, rows: usize) -> bool {
        let beyond = self.max_elements.is_some_and(|most| elements > most);
        let mut listener = self.listener.borrow_mut();
        if beyond {
            listener.left_out(rows)
        } else {
            listener.planned(rows)
        }
        beyond
    }

    /// The cases that are not left out; `size` gives the elements of a case's output and its rows.
    pub fn planned<C>(
        &self,
        cases: impl IntoIterator<Item = C>,
        size: impl Fn(&C) -> (usize, usize),
    ) -> Vec<Planned<C>> {
        let planned = cases.into_iter().filter_map(|case| {
            let (elements, rows) = size(&case);
            (!self.leaves_out(elements, rows)).then_some(Planned { case, elements })
        });
        planned.collect()
    }

    /// Judges each case in its order, with the data that `make` computed ahead.
    pub fn each<C: Sync, D: Send>(
        &self,
        cases: &[Planned<C>],
        make: impl Fn(&C) -> D + Sync,
        judge: impl FnMut(&C, D),
    ) {
        ahead(&self.processors, ROOM, cases, make, judge);
    }

    /// Reports a judged case.
    pub fn found(&self, row: CaseRow) {
        self.listener.borrow_mut().judged(row);
    }
}
