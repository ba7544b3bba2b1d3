/*!
How long launches take, one by one or as a recorded graph.
*/

use anyhow::Result;

use super::bench::Bench;
use super::compare::Checked;
use cuda::{Capturable, CapturedGraph, Stream};
use vos::stats::Timing;

/// Launches between two events, at most: a single one is as short as the events' own resolution.
const LAUNCHES: usize = 20;

/// Time that the samples of one row may take, seconds, and the fewest samples: a slow kernel's
/// median needs fewer of them.
const SAMPLING: (f64, usize) = (0.01, 5);

/// How often a case runs for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRuns {
    /// Runs before, not counted.
    pub warmup: usize,
    /// Runs that are timed, at most; without any a case is compared only.
    pub runs: usize,
}

/// Whether these samples of so many launches each, in ms a launch, took the time that they may.
fn enough(samples: &[f64], launches: usize) -> bool {
    let (seconds, least) = SAMPLING;
    let spent = samples.iter().sum::<f64>() * launches as f64 / 1e3;
    samples.len() >= least && spent >= seconds
}

impl Bench<'_> {
    /// Launches of a sample: fewer of a kernel that takes milliseconds, which the events resolve.
    fn launches(&self, enqueue: impl Fn(&Stream) -> Result<()>) -> Result<usize> {
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        start.record(&self.stream)?;
        enqueue(&self.stream)?;
        end.record(&self.stream)?;
        self.stream.synchronize()?;
        let slow = end.ms_since(&start)? > 1.0;
        Ok(if slow { 1 } else { LAUNCHES.min(self.runs.runs) })
    }

    /// The time of one launch among several in a row.
    ///
    /// # Errors
    /// Those of `enqueue`, or the driver's.
    pub fn time(&self, enqueue: impl Fn(&Stream) -> Result<()>) -> Result<Option<Timing>> {
        if self.runs.runs == 0 {
            return Ok(None);
        }
        let launches = self.launches(&enqueue)?;
        for _ in 0..self.runs.warmup {
            enqueue(&self.stream)?;
        }
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        let mut samples = Vec::with_capacity(self.runs.runs);
        for _ in 0..self.runs.runs {
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

    /// The time of one launch among several that were recorded as one graph, which takes the host's
    /// part out of short ones. `enqueue` owns all memory that it names, or borrows it.
    ///
    /// # Errors
    /// As [`Self::time`].
    pub fn time_recorded<R>(
        &self,
        runs: TimedRuns,
        enqueue: impl Fn(&Stream) -> Result<R>,
    ) -> Result<Option<Timing>> {
        if runs.runs == 0 {
            return Ok(None);
        }
        let launches = LAUNCHES.min(runs.runs);
        let mut recorded = CapturedGraph::new(Launches(enqueue, launches), &self.stream, true);
        // The first run records; a replay is many launches, of which two warm up as much as ten do.
        for _ in 0..=runs.warmup.min(2) {
            recorded.run()?;
        }
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        let mut samples = Vec::with_capacity(runs.runs);
        for _ in 0..runs.runs {
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

    /// The same results with the times of their launches, taken in turn.
    ///
    /// # Errors
    /// As [`Self::time`].
    pub fn timed_in_turn<F: Fn(&Stream) -> Result<()>, const N: usize>(
        &self,
        mut all: [Checked; N],
        ways: [F; N],
    ) -> Result<[Checked; N]> {
        let times = self.time_in_turn(ways)?;
        for (checked, timing) in all.iter_mut().zip(times) {
            checked.timing = timing;
        }
        Ok(all)
    }

    /// The times of several kinds of launches, each as [`Self::time_recorded`] takes it, in turn:
    /// what changes the GPU's clock meanwhile changes all.
    fn time_in_turn<F: Fn(&Stream) -> Result<()>, const N: usize>(
        &self,
        ways: [F; N],
    ) -> Result<[Option<Timing>; N]> {
        let runs = self.runs;
        if runs.runs == 0 {
            return Ok([const { None }; N]);
        }
        let launches = LAUNCHES.min(runs.runs);
        let mut graphs =
            ways.map(|way| CapturedGraph::new(Launches(way, launches), &self.stream, true));
        for _ in 0..=runs.warmup.min(2) {
            graphs.iter_mut().try_for_each(CapturedGraph::run)?;
        }
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        let mut samples = [const { Vec::new() }; N];
        for _ in 0..runs.runs {
            for (graph, samples) in graphs.iter_mut().zip(&mut samples) {
                self.stream.synchronize()?;
                start.record(&self.stream)?;
                graph.run()?;
                end.record(&self.stream)?;
                self.stream.synchronize()?;
                samples.push(end.ms_since(&start)? / launches as f64);
            }
            if samples.iter().all(|samples| enough(samples, launches)) {
                break;
            }
        }
        Ok(samples.map(|samples| Timing::of(&samples)))
    }
}

/// Several launches in a row, recorded as one graph. Only the self-test's cases construct it.
pub struct Launches<F>(pub F, pub usize);

// SAFETY: the closures of the self-test's cases enqueue kernels and fills on views, weights and
// products that they borrow: these outlive the closure, and with it this value. None allocates
// memory, and none uses pinned memory.
unsafe impl<F: Fn(&Stream) -> Result<R>, R> Capturable for Launches<F> {
    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        (0..self.1).try_for_each(|_| (self.0)(stream).map(|_| ()))
    }
}
