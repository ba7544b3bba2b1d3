/*!
Trials: the fastest of several alternatives, although other work on the machine disturbs every
replay.

Each candidate is recorded and timed briefly; one that is clearly slower is dropped. The others are
replayed alternately with the best alternative so far, so that changes of clock and temperature hit
all alike. A candidate replaces the best if the median of its differences exceeds a threshold and
the noise of that median.
*/

use anyhow::Result;

use super::super::gemm::GemmImpl;
use cuda::cublaslt::{Matmul, PdlKernels};
use vos::stats;

/// The brief timing is the shortest of so many replays.
const BRIEF_REPLAYS: usize = 2;
/// A candidate is dropped whose brief timing is longer than the shortest by this factor.
const FAR: f64 = 1.02;
/// Candidates that are replayed in rounds, at most.
const FINALISTS: usize = 4;
/// Rounds, and the rounds after which a candidate that is not faster is dropped.
const ROUNDS: usize = 25;
const FIRST_ROUNDS: usize = 5;
/// A gain counts if its median exceeds this share of the interquartile range of the rounds: three
/// standard errors of a median, each 1.253 σ / √rounds, of a range of 1.349 σ (normal noise).
const NOISE: f64 = 3.0 * 1.253 / 1.349 / 5.0;
const _: () = assert!(ROUNDS == 5 * 5, "NOISE has the root of the rounds");
/// A gain of less than this share of the best time is no reason to change.
const WORTH: f64 = 0.001;

/// Records and replays all blocks.
pub(super) trait Clock {
    /// A recorded graph of all blocks.
    type Recording;

    /// Records all blocks with the current choices, and replays them once.
    fn record(&self) -> Result<Self::Recording>;

    /// Time of a replay, µs.
    fn us(&self, recording: &mut Self::Recording) -> Result<f64>;

    /// Restores the blocks' inputs, which replays overwrite.
    fn refresh(&self) -> Result<()>;

    /// No time is left for more candidates.
    fn is_up(&self) -> bool;
}

/// The best alternative so far.
pub(super) struct Trials<'c, C: Clock> {
    clock: &'c C,
    best: C::Recording,
}

/// Results of a trial.
struct Outcome {
    /// The candidate that won; none if the best stays.
    won: Option<usize>,
    /// Brief timings of the candidates and of the best before them, µs; infinite where one failed
    /// or no time was left.
    brief: Vec<f64>,
    best: f64,
}

/// A candidate in the rounds.
struct Candidate<T> {
    at: usize,
    recording: T,
    brief: f64,
    /// The best's time minus the candidate's in each round, µs.
    gains: Vec<f64>,
}

impl<'c, C: Clock> Trials<'c, C> {
    /// With the current choices as the best.
    pub fn new(clock: &'c C) -> Result<Self> {
        Ok(Self { clock, best: clock.record()? })
    }

    /// Tries `candidates` against the best. `choose` makes a candidate the current choice; the
    /// caller restores the winner afterwards.
    fn try_all(
        &mut self,
        what: &str,
        candidates: usize,
        mut choose: impl FnMut(usize) -> Result<()>,
    ) -> Result<Outcome> {
        let (clock, mut brief) = (self.clock, vec![f64::INFINITY; candidates]);
        if candidates == 0 || clock.is_up() {
            return Ok(Outcome { won: None, brief, best: f64::INFINITY });
        }
        clock.refresh()?;
        let best = brief_us(clock, &mut self.best)?;
        let (mut least, mut near) = (best, Vec::new());
        for (at, us) in brief.iter_mut().enumerate() {
            if clock.is_up() {
                break;
            }
            let mut record = || -> Result<Candidate<C::Recording>> {
                choose(at)?;
                let mut recording = clock.record()?;
                *us = brief_us(clock, &mut recording)?;
                Ok(Candidate { at, recording, brief: *us, gains: Vec::new() })
            };
            match record() {
                Ok(candidate) => near.push(candidate),
                // Candidates may be refused at the launch.
                Err(error) => log::debug!("{what}, candidate {at}: {error:#}"),
            }
            // A recording takes memory.
            least = least.min(*us);
            near.retain(|candidate| candidate.brief <= FAR * least);
        }
        near.sort_by(|a, b| a.brief.total_cmp(&b.brief));
        near.truncate(FINALISTS);
        let won = self.rounds(what, near)?.map(|candidate| {
            self.best = candidate.recording;
            candidate.at
        });
        Ok(Outcome { won, brief, best })
    }

    /// Whether the best of `other` trials is faster; then it becomes the best here too.
    fn loses_to(&mut self, what: &str, other: Self) -> Result<bool> {
        let candidate = Candidate { at: 0, recording: other.best, brief: 0.0, gains: Vec::new() };
        let won = self.rounds(what, vec![candidate])?.map(|won| self.best = won.recording);
        Ok(won.is_some())
    }

    /// The candidate with the largest gain, if that exceeds the noise.
    fn rounds(
        &mut self,
        what: &str,
        mut candidates: Vec<Candidate<C::Recording>>,
    ) -> Result<Option<Candidate<C::Recording>>> {
        let mut times = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            if round == FIRST_ROUNDS {
                candidates.retain(|candidate| median(&candidate.gains) > 0.0);
            }
            if candidates.is_empty() || self.clock.is_up() {
                return Ok(None);
            }
            // Every second round runs in the opposite order, so that none always follows the same.
            let best_first = round % 2 == 0;
            let before = if best_first { Some(self.clock.us(&mut self.best)?) } else { None };
            let mut taken: Vec<f64> = Vec::with_capacity(candidates.len());
            for candidate in &mut candidates {
                taken.push(self.clock.us(&mut candidate.recording)?);
            }
            let best = match before {
                Some(us) => us,
                None => self.clock.us(&mut self.best)?,
            };
            times.push(best);
            candidates.iter_mut().zip(taken).for_each(|(one, us)| one.gains.push(best - us));
            candidates.reverse();
        }
        let worth = WORTH * median(&times);
        candidates.retain(|candidate| {
            let (gain, noise) = (median(&candidate.gains), NOISE * spread(&candidate.gains));
            let wins = gain > worth.max(noise);
            log::debug!(
                "{what}, candidate {}: {gain:.1} us less, noise {noise:.1}, of {:.1}: {}",
                candidate.at,
                median(&times),
                if wins { "faster" } else { "not faster" }
            );
            wins
        });
        Ok(candidates.into_iter().max_by(|a, b| median(&a.gains).total_cmp(&median(&b.gains))))
    }

    /// Times of `first`, an earlier recording, and of the best, replayed alternately, µs.
    pub fn before_and_after(&mut self, first: &mut C::Recording) -> Result<[f64; 2]> {
        self.clock.refresh()?;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            times[0].push(self.clock.us(first)?);
            times[1].push(self.clock.us(&mut self.best)?);
        }
        Ok(times.map(|times| median(&times)))
    }
}

/// Tries each algorithm of cuBLASLt for a GEMM, and chooses the best.
pub(super) fn tune_algorithm<C: Clock>(trials: &mut Trials<'_, C>, gemm: &Matmul) -> Result<()> {
    let before = gemm.chosen();
    let others: Vec<usize> = (0..gemm.candidates()).filter(|at| *at != before).collect();
    let choose = |at: usize| Ok(gemm.choose(others[at])?);
    let found = trials.try_all(&gemm.shape().to_string(), others.len(), choose)?;
    Ok(gemm.choose(found.won.map_or(before, |won| others[won]))?)
}

/// Tries the kernels that fuse a GEMM and its epilogue against cuBLASLt's best algorithms: first
/// each by itself, then all together and fewer of them; the faster result stays. Two adjacent
/// kernels may gain together although neither gains alone.
pub(super) fn tune_gemm_impls<C: Clock>(
    trials: &mut Trials<'_, C>,
    gemms: &[&GemmImpl],
) -> Result<()> {
    let mut fastest = Vec::with_capacity(gemms.len());
    for gemm in gemms {
        fastest.push(tune_gemm_impl(trials, gemm)?);
    }
    let each: Vec<_> = gemms.iter().map(|gemm| gemm.kernel()).collect();
    if each == fastest || trials.clock.is_up() {
        return Ok(());
    }
    let take = |kernels: &[Option<&'static str>]| {
        gemms.iter().zip(kernels).for_each(|(gemm, kernel)| gemm.choose(*kernel));
    };
    take(&fastest);
    let what = "all kernels together";
    let mut together = || -> Result<bool> {
        let mut together = Trials::new(trials.clock)?;
        for gemm in gemms {
            tune_gemm_impl(&mut together, gemm)?;
        }
        trials.loses_to(what, together)
    };
    let faster = together().unwrap_or_else(|error| {
        log::debug!("{what}: {error:#}");
        false
    });
    if !faster {
        take(&each);
    }
    Ok(())
}

/// Tries the other implementations of a GEMM. Returns the kernel with the shortest brief timing,
/// chosen or not; none if no kernel serves the shape.
fn tune_gemm_impl<C: Clock>(
    trials: &mut Trials<'_, C>,
    gemm: &GemmImpl,
) -> Result<Option<&'static str>> {
    let before = gemm.kernel();
    let others = gemm.kernels().iter().copied().map(Some).chain([None]);
    let others: Vec<Option<&'static str>> = others.filter(|kernel| *kernel != before).collect();
    let choose = |at: usize| {
        gemm.choose(others[at]);
        Ok(())
    };
    let found = trials.try_all(&gemm.shape().to_string(), others.len(), choose)?;
    gemm.choose(found.won.map_or(before, |won| others[won]));
    let all = others.iter().zip(&found.brief).chain([(&before, &found.best)]);
    let kernels = all.filter(|(kernel, us)| kernel.is_some() && us.is_finite());
    Ok(kernels.min_by(|a, b| a.1.total_cmp(b.1)).and_then(|(kernel, _)| *kernel))
}

/// Tries each kernel of a whole block against several kernels; `fuse` says which is to be used.
/// Returns those that lost. Without time for a trial the kernel is used.
pub(super) fn tune_fused<C: Clock>(
    trials: &mut Trials<'_, C>,
    kernels: &[&'static str],
    fuse: impl Fn(&str, bool),
) -> Result<Vec<&'static str>> {
    let mut lost = Vec::new();
    for kernel in kernels {
        let tried = !trials.clock.is_up();
        let choose = |_| {
            fuse(kernel, true);
            Ok(())
        };
        let won = trials.try_all(kernel, 1, choose)?.won.is_some();
        fuse(kernel, won || !tried);
        if !won && tried {
            lost.push(*kernel);
        }
    }
    Ok(lost)
}

/// Tries each set of the kinds that `can` use PDL, and none of them, against the set that is in
/// use, `before`; `apply` sets one.
pub(super) fn tune_pdl<C: Clock>(
    trials: &mut Trials<'_, C>,
    can: PdlKernels,
    before: PdlKernels,
    apply: impl Fn(PdlKernels),
) -> Result<PdlKernels> {
    let sets = can.subsets().chain([PdlKernels::default()]);
    let sets: Vec<PdlKernels> = sets.filter(|set| *set != before).collect();
    let choose = |at: usize| {
        apply(sets[at]);
        Ok(())
    };
    let found = trials.try_all("kernels with PDL", sets.len(), choose)?;
    let best = found.won.map_or(before, |won| sets[won]);
    apply(best);
    Ok(best)
}

/// The shortest of some replays, µs.
fn brief_us<C: Clock>(clock: &C, recording: &mut C::Recording) -> Result<f64> {
    (0..BRIEF_REPLAYS).try_fold(f64::INFINITY, |least, _| Ok(least.min(clock.us(recording)?)))
}

fn median(values: &[f64]) -> f64 {
    stats::median(values).unwrap_or(0.0)
}

/// The interquartile range.
fn spread(values: &[f64]) -> f64 {
    let at = |percent| stats::percentile(values, percent).unwrap_or(0.0);
    at(75.0) - at(25.0)
}

#[cfg(test)]
mod tests;
