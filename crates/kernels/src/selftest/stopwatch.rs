/*!
How long launches take, one by one or as a recorded graph.
*/

use anyhow::Result;

use super::bench::Bench;
use super::compare::Checked;
use cuda::{Branch, Capturable, CapturedGraph, Stream};
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
    pub fn timed_in_turn<F: Fn(&Stream) -> Result<()>>(
        &self,
        both: [Checked; 2],
        [first, second]: [F; 2],
    ) -> Result<[Checked; 2]> {
        self.recorded_in_turn(both, |launches| {
            (Launches(first, launches), Launches(second, launches))
        })
    }

    /// The same of work that `make` makes of a number of launches.
    ///
    /// # Errors
    /// As [`Self::time`].
    pub fn recorded_in_turn<A: Capturable, B: Capturable>(
        &self,
        mut both: [Checked; 2],
        make: impl FnOnce(usize) -> (A, B),
    ) -> Result<[Checked; 2]> {
        let launches = LAUNCHES.min(self.runs.runs);
        let times = self.time_in_turn(make(launches), launches)?;
        for (checked, timing) in both.iter_mut().zip(times) {
            checked.timing = timing;
        }
        Ok(both)
    }

    /// The times of two kinds of work of so many launches each, as [`Self::time_recorded`] takes
    /// them, in turn: what changes the GPU's clock meanwhile changes both.
    fn time_in_turn<A: Capturable, B: Capturable>(
        &self,
        (first, second): (A, B),
        launches: usize,
    ) -> Result<[Option<Timing>; 2]> {
        let runs = self.runs;
        if runs.runs == 0 {
            return Ok([None, None]);
        }
        let mut first = CapturedGraph::new(first, &self.stream, true);
        let mut second = CapturedGraph::new(second, &self.stream, true);
        for _ in 0..=runs.warmup.min(2) {
            first.run()?;
            second.run()?;
        }
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        let mut samples = [Vec::new(), Vec::new()];
        for run in 0..2 * runs.runs {
            self.stream.synchronize()?;
            start.record(&self.stream)?;
            match run % 2 {
                0 => first.run()?,
                _ => second.run()?,
            }
            end.record(&self.stream)?;
            self.stream.synchronize()?;
            samples[run % 2].push(end.ms_since(&start)? / launches as f64);
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

/// The same of launches of which a recording has a part in a branch.
pub struct Forked<F>(pub F, pub usize);

// SAFETY: as of `Launches`.
unsafe impl<F: Fn(&Stream, Option<&Branch>) -> Result<()>> Capturable for Forked<F> {
    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        (0..self.1).try_for_each(|_| (self.0)(stream, None))
    }

    fn forks(&self) -> bool {
        true
    }

    fn enqueue_forked(&mut self, stream: &Stream, branch: &Branch) -> Result<()> {
        (0..self.1).try_for_each(|_| (self.0)(stream, Some(branch)))
    }
}
