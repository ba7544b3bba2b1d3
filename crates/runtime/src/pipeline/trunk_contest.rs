/*!
Which way of computing a trunk is the fastest, where every replay is disturbed by what else the machine does.

A rival is recorded and glanced at; one that is far behind is out. The others are replayed in turn with the way so far, so that clocks and heat that change on the
way are the same for all, and one takes its place only where the differences of the rounds say so: their median is worth it, and more than their spread.
*/

use anyhow::Result;

use super::trunk_way::Way;
use cuda::cublaslt::{Matmul, PdlKernels};
use vos::stats;

/// A glance is the shorter of so many replays.
const GLANCES: usize = 2;
/// Who takes this share longer at a glance is out.
const FAR: f64 = 1.02;
/// Who goes on from there, at most.
const RIVALS: usize = 4;
/// Rounds, and those after which who is not faster is out.
const ROUNDS: usize = 9;
const FIRST_ROUNDS: usize = 3;
/// What is less than this share of the time so far is worth no change.
const WORTH: f64 = 0.001;

/// Records and replays all blocks.
pub(super) trait Clock {
    /// A recording.
    type Take;

    /// All blocks as they are chosen by now, replayed once.
    fn record(&self) -> Result<Self::Take>;

    /// What a replay takes, µs.
    fn us(&self, take: &mut Self::Take) -> Result<f64>;

    /// Gives the blocks their inputs anew, which replays change.
    fn refresh(&self) -> Result<()>;

    /// There is no time for more rivals.
    fn is_up(&self) -> bool;
}

/// The way so far, which any number of rivals may challenge.
pub(super) struct Contest<'c, C: Clock> {
    clock: &'c C,
    so_far: C::Take,
}

/// What became of the rivals.
struct Outcome {
    /// The one that won, of those that were given.
    won: Option<usize>,
    /// What each took at a glance, and the way so far, µs; for ever where it failed or there was no time.
    glances: Vec<f64>,
    so_far: f64,
}

/// A rival in the rounds.
struct Rival<T> {
    at: usize,
    take: T,
    glance: f64,
    /// How much less than the way so far each round took, µs.
    less: Vec<f64>,
}

impl<'c, C: Clock> Contest<'c, C> {
    /// With the way that is chosen by now.
    pub fn new(clock: &'c C) -> Result<Self> {
        Ok(Self { clock, so_far: clock.record()? })
    }

    /// Lets each of `rivals` challenge the way so far; `choose` sees to it that what is recorded is that rival. Whoever calls sees to it that what is chosen
    /// afterwards is what won.
    fn challenge(
        &mut self,
        what: &str,
        rivals: usize,
        mut choose: impl FnMut(usize) -> Result<()>,
    ) -> Result<Outcome> {
        let (clock, mut glances) = (self.clock, vec![f64::INFINITY; rivals]);
        if rivals == 0 || clock.is_up() {
            return Ok(Outcome { won: None, glances, so_far: f64::INFINITY });
        }
        clock.refresh()?;
        let so_far = glance(clock, &mut self.so_far)?;
        let (mut least, mut near) = (so_far, Vec::new());
        for (at, us) in glances.iter_mut().enumerate() {
            if clock.is_up() {
                break;
            }
            let mut record = || -> Result<Rival<C::Take>> {
                choose(at)?;
                let mut take = clock.record()?;
                *us = glance(clock, &mut take)?;
                Ok(Rival { at, take, glance: *us, less: Vec::new() })
            };
            match record() {
                Ok(rival) => near.push(rival),
                // One that is refused after all has no time.
                Err(error) => log::debug!("{what}, rival {at}: {error:#}"),
            }
            // A recording takes memory.
            least = least.min(*us);
            near.retain(|rival| rival.glance <= FAR * least);
        }
        near.sort_by(|a, b| a.glance.total_cmp(&b.glance));
        near.truncate(RIVALS);
        let won = self.rounds(what, near)?.map(|rival| {
            self.so_far = rival.take;
            rival.at
        });
        Ok(Outcome { won, glances, so_far })
    }

    /// Whether the way so far of `other`, from another one, is faster; then it is the way so far here too.
    fn loses_to(&mut self, what: &str, other: Self) -> Result<bool> {
        let rival = Rival { at: 0, take: other.so_far, glance: 0.0, less: Vec::new() };
        let won = self.rounds(what, vec![rival])?.map(|rival| self.so_far = rival.take);
        Ok(won.is_some())
    }

    /// The rival that is faster by more than the noise, by the most.
    fn rounds(
        &mut self,
        what: &str,
        mut rivals: Vec<Rival<C::Take>>,
    ) -> Result<Option<Rival<C::Take>>> {
        let mut times = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            if round == FIRST_ROUNDS {
                rivals.retain(|rival| median(&rival.less) > 0.0);
            }
            if rivals.is_empty() {
                return Ok(None);
            }
            // In each second round the other way round, so that none is always behind the same.
            let so_far_first = round % 2 == 0;
            let before = if so_far_first { Some(self.clock.us(&mut self.so_far)?) } else { None };
            let mut taken: Vec<f64> = Vec::with_capacity(rivals.len());
            for rival in &mut rivals {
                taken.push(self.clock.us(&mut rival.take)?);
            }
            let so_far = match before {
                Some(us) => us,
                None => self.clock.us(&mut self.so_far)?,
            };
            times.push(so_far);
            rivals.iter_mut().zip(taken).for_each(|(rival, us)| rival.less.push(so_far - us));
            rivals.reverse();
        }
        let worth = WORTH * median(&times);
        rivals.retain(|rival| {
            let (less, spread) = (median(&rival.less), spread(&rival.less));
            let wins = less > worth.max(spread);
            log::debug!(
                "{what}, rival {}: {less:.1} us less, spread {spread:.1}, of {:.1}: {}",
                rival.at,
                median(&times),
                if wins { "faster" } else { "not faster" }
            );
            wins
        });
        Ok(rivals.into_iter().max_by(|a, b| median(&a.less).total_cmp(&median(&b.less))))
    }

    /// What `first`, a recording from before, and the way so far take, in turn, µs.
    pub fn before_and_after(&mut self, first: &mut C::Take) -> Result<[f64; 2]> {
        self.clock.refresh()?;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            times[0].push(self.clock.us(first)?);
            times[1].push(self.clock.us(&mut self.so_far)?);
        }
        Ok(times.map(|times| median(&times)))
    }
}

/// Each algorithm of a product has its turn; the one that stays is chosen.
pub(super) fn choose_product<C: Clock>(
    contest: &mut Contest<'_, C>,
    product: &Matmul,
) -> Result<()> {
    let before = product.chosen();
    let rivals: Vec<usize> = (0..product.candidates()).filter(|at| *at != before).collect();
    let choose = |rival: usize| Ok(product.choose(rivals[rival])?);
    let found = contest.challenge(&product.shape().to_string(), rivals.len(), choose)?;
    Ok(product.choose(found.won.map_or(before, |won| rivals[won]))?)
}

/// The kernels that multiply and do what is behind the product at once, against the products as they are by now: where each by itself makes the whole
/// faster, or all together and then fewer of them, whichever takes less. Two that follow each other may gain what neither does alone.
pub(super) fn choose_ways<C: Clock>(contest: &mut Contest<'_, C>, ways: &[&Way]) -> Result<()> {
    let mut fastest = Vec::with_capacity(ways.len());
    for way in ways {
        fastest.push(choose_way(contest, way)?);
    }
    let each: Vec<_> = ways.iter().map(|way| way.kernel()).collect();
    if each == fastest || contest.clock.is_up() {
        return Ok(());
    }
    let take = |kernels: &[Option<&'static str>]| {
        ways.iter().zip(kernels).for_each(|(way, kernel)| way.choose(*kernel));
    };
    take(&fastest);
    let what = "all kernels together";
    let mut together = || -> Result<bool> {
        let mut together = Contest::new(contest.clock)?;
        for way in ways {
            choose_way(&mut together, way)?;
        }
        contest.loses_to(what, together)
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

/// The kernels of a product and cuBLASLt, of which one computes it as it is; the answer is the kernel with which the whole was the fastest at a glance, whether
/// it stayed or not; none where none serves the shape.
fn choose_way<C: Clock>(contest: &mut Contest<'_, C>, way: &Way) -> Result<Option<&'static str>> {
    let before = way.kernel();
    let others = way.kernels().iter().copied().map(Some).chain([None]);
    let rivals: Vec<Option<&'static str>> = others.filter(|kernel| *kernel != before).collect();
    let choose = |rival: usize| {
        way.choose(rivals[rival]);
        Ok(())
    };
    let found = contest.challenge(&way.shape().to_string(), rivals.len(), choose)?;
    way.choose(found.won.map_or(before, |won| rivals[won]));
    let all = rivals.iter().zip(&found.glances).chain([(&before, &found.so_far)]);
    let kernels = all.filter(|(kernel, us)| kernel.is_some() && us.is_finite());
    Ok(kernels.min_by(|a, b| a.1.total_cmp(b.1)).and_then(|(kernel, _)| *kernel))
}

/// Which of the kinds of kernels that `can` begin early do so, by `begin`.
pub(super) fn choose_early<C: Clock>(
    contest: &mut Contest<'_, C>,
    can: PdlKernels,
    begin: impl Fn(PdlKernels),
) -> Result<PdlKernels> {
    let rivals: Vec<PdlKernels> = can.subsets().collect();
    let choose = |rival: usize| {
        begin(rivals[rival]);
        Ok(())
    };
    let found = contest.challenge("kernels that begin early", rivals.len(), choose)?;
    let best = found.won.map_or_else(PdlKernels::default, |won| rivals[won]);
    begin(best);
    Ok(best)
}

/// The shorter of some replays, µs.
fn glance<C: Clock>(clock: &C, take: &mut C::Take) -> Result<f64> {
    (0..GLANCES).try_fold(f64::INFINITY, |least, _| Ok(least.min(clock.us(take)?)))
}

fn median(values: &[f64]) -> f64 {
    stats::median(values).unwrap_or(0.0)
}

/// Between the quartiles: of nine rounds about three standard errors of their median.
fn spread(values: &[f64]) -> f64 {
    let at = |percent| stats::percentile(values, percent).unwrap_or(0.0);
    at(75.0) - at(25.0)
}

#[cfg(test)]
mod tests;
