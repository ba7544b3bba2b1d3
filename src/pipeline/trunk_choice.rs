/*!
The algorithm of each product of a trunk, or the kernel of this program's that computes it and what follows, and which kinds of kernels begin early, by the
time of all blocks together.

A product by itself does not tell: on an H200 algorithms that were up to 40 % faster one by one made a trunk slower as a whole
(docs/measurements/2026-11-tables-h200.md), in part because of what comes between kernels (docs/measurements/2026-11-vos-h200.md). So every other
algorithm takes its turn in the whole, as a recorded graph, and stays where the whole is faster.
*/

use anyhow::{Context, Result};

use super::trunk::{TrunkParts, TrunkRun};
use super::trunk_way::Way;
use crate::bundle::trunk::{BlockWeights, Trunk};
use crate::gpu::cublaslt::{Choice, Choices, Early, Product};
use crate::gpu::kernels::{AttentionKernels, kernels_of_turns};
use crate::gpu::{Gpu, Purpose, Recorded, Stream, View, Work};

/// Replays before those that count; the first records.
const WARM: usize = 2;
/// Replays of which the shortest counts, at least and at most: what disturbs one makes it longer.
const REPLAYS: [f64; 2] = [3.0, 9.0];
/// What they may take together, ms: there are hundreds of turns, and of a long trunk what disturbs it is the smaller part.
const TOGETHER: f64 = 50.0;
/// Another algorithm or kernel must take less than this share of the time so far, twice; what is less may be chance.
const WORTH: f64 = 0.999;
/// What tokens are filled with: 0.01 each.
const FILL: u8 = 0x3c;

/// A trunk with all memory that it works in.
pub struct TrunkAlone {
    /// Its blocks.
    pub run: TrunkRun,
    /// The tokens behind each stage; those of the first are also what it takes.
    pub maps: Vec<View>,
}

impl TrunkAlone {
    /// Lays it out.
    ///
    /// # Errors
    /// As [`TrunkRun::of`].
    pub fn new(gpu: &Gpu, parts: &TrunkParts, stream: &Stream) -> Result<Self> {
        let memory = gpu.towards(Purpose::Scratch);
        let map = |end: &usize| {
            let block = parts.trunk.blocks.get(*end).context("a stage ends at no block")?;
            Ok(View::new(&memory, 4 * block.tokens_out() * block.dim_out)?)
        };
        let maps: Vec<View> = parts.trunk.ends.iter().map(map).collect::<Result<_>>()?;
        let scratch = View::new(&memory, TrunkRun::room(parts.trunk))?;
        let attention = AttentionKernels::load(gpu)?;
        let run = TrunkRun::of(gpu, parts, Some(&attention), &maps, &scratch, stream)?;
        Ok(Self { run, maps })
    }
}

/// All blocks, over and over on the same tokens.
struct Blocks<'a>(&'a TrunkRun);

#[expect(unsafe_code, reason = "what it promises is what it keeps")]
// SAFETY: the trunk, which is borrowed for longer, keeps its memory, kernels and products: its ways to compute change meanwhile,
// not what they work in. It fills its counters before its first kernel.
unsafe impl Work for Blocks<'_> {
    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        self.0.enqueue(stream)
    }

    fn cleared(&self) -> Option<View> {
        Some(self.0.counters().clone())
    }
}

/// Finds the algorithms, for which nothing else should run on the GPU; takes some seconds.
///
/// # Errors
/// As [`TrunkRun::of`], or what the driver says.
pub fn choose_products(gpu: &Gpu, trunk: &Trunk, weights: &[BlockWeights]) -> Result<Choices> {
    let stream = gpu.stream()?;
    let parts = TrunkParts { trunk, weights, choices: None };
    let mut alone = TrunkAlone::new(gpu, &parts, &stream)?;
    alone.run.make_room_for_all(gpu)?;
    let tokens = alone.maps.first().context("a trunk without stages")?;
    let (run, events) = (&alone.run, [gpu.event()?, gpu.event()?]);
    let time = || -> Result<f64> {
        tokens.fill(FILL, &stream)?;
        let mut recorded = Recorded::new(Blocks(run), &stream, true);
        let (mut shortest, mut replay, mut replays) = (f64::INFINITY, 0, WARM);
        while replay < replays {
            let [start, end] = &events;
            start.record(&stream)?;
            recorded.run()?;
            end.record(&stream)?;
            stream.synchronize()?;
            let ms = end.ms_since(start)?;
            replay += 1;
            if replay > WARM {
                shortest = shortest.min(ms * 1e3);
            } else if replay == WARM {
                replays += (TOGETHER / ms).clamp(REPLAYS[0], REPLAYS[1]) as usize;
            }
        }
        Ok(shortest)
    };
    let first = time()?;
    let mut so_far = first;
    for product in run.products() {
        so_far = turns(product, so_far, time)?;
    }
    let ways: Vec<&Way> = run.ways().collect();
    so_far = ways_by_time(&ways, so_far, time);
    let begin_early = early_turns(run, &mut so_far, time);
    let kernel_of = |shape| run.ways().find(|way| way.shape() == shape).and_then(Way::kernel);
    let choice = |product: &Product| Choice {
        shape: product.shape(),
        algorithm: product.chosen(),
        of: product.candidates(),
        kernel: kernel_of(product.shape()).map(str::to_owned),
    };
    let products = run.products().map(choice).collect();
    let library = run.library().to_string();
    let kernels = kernels_of_turns(gpu).into_iter().map(str::to_owned).collect();
    let device = gpu.facts().name.clone();
    Ok(Choices { library, device, us: [first, so_far], products, begin_early, kernels })
}

/// Which kinds of kernels should begin early; asked last, as it depends on which of this program's kernels were chosen.
fn early_turns(run: &TrunkRun, so_far: &mut f64, time: impl Fn() -> Result<f64>) -> Early {
    let mut best = Early::default();
    for early in run.can_begin_early().ways() {
        run.begin_early(early);
        let found = time_of(&format!("{early} that begin early"), *so_far, &time);
        if found < WORTH * *so_far {
            (best, *so_far) = (early, found);
        }
    }
    run.begin_early(best);
    best
}

/// What the whole takes with `what`. What looks faster than `so_far` must be so again, and the longer time counts; what fails takes for ever.
fn time_of(what: &str, so_far: f64, time: &impl Fn() -> Result<f64>) -> f64 {
    let once = || {
        time().unwrap_or_else(|error| {
            log::debug!("{what}: {error:#}");
            f64::INFINITY
        })
    };
    let first = once();
    let found = if first < WORTH * so_far { first.max(once()) } else { first };
    log::debug!("{what}: {found:.1} us of all blocks");
    found
}

/// The kernels that multiply and do what is behind the product at once, against the products as they are by now: where each by itself makes the whole
/// faster, or all together and then fewer of them, whichever takes less. Two that follow each other may gain what neither does alone.
fn ways_by_time(ways: &[&Way], so_far: f64, time: impl Fn() -> Result<f64>) -> f64 {
    let mut best = so_far;
    let mut fastest = Vec::with_capacity(ways.len());
    for way in ways {
        let turn = turns_of_kernels(way, best, &time);
        best = turn.us;
        fastest.push(turn.fastest);
    }
    let each: Vec<_> = ways.iter().map(|way| way.kernel()).collect();
    if each == fastest {
        return best;
    }
    let take = |kernels: &[Option<&'static str>]| {
        ways.iter().zip(kernels).for_each(|(way, kernel)| way.choose(*kernel));
    };
    take(&fastest);
    let mut together = time_of("all kernels together", f64::INFINITY, &time);
    for way in ways {
        together = turns_of_kernels(way, together, &time).us;
    }
    if together < WORTH * best {
        return together;
    }
    take(&each);
    best
}

/// What came of a product's turns.
struct Turn {
    /// Of all blocks, with what stayed.
    us: f64,
    /// The kernel of this program's with which the whole was fastest, whether it stayed or not; none where none serves the shape.
    fastest: Option<&'static str>,
}

/// As [`turns`], of the kernels and of cuBLASLt, of which one computes the product as it is.
fn turns_of_kernels(way: &Way, so_far: f64, time: &impl Fn() -> Result<f64>) -> Turn {
    let (before, shape) = (way.kernel(), way.shape());
    let mut best = (before, so_far);
    let mut fastest = (before, if before.is_some() { so_far } else { f64::INFINITY });
    let others = way.kernels().iter().copied().map(Some).chain([None]);
    for kernel in others.filter(|kernel| *kernel != before) {
        way.choose(kernel);
        let what = format!("{shape} by {}", kernel.unwrap_or("cuBLASLt"));
        let found = time_of(&what, best.1, time);
        if found < WORTH * best.1 {
            best = (kernel, found);
        }
        if kernel.is_some() && found < fastest.1 {
            fastest = (kernel, found);
        }
    }
    way.choose(best.0);
    Turn { us: best.1, fastest: fastest.0 }
}

/// Each algorithm of a product has its turn; the one that stays is the fastest, and so is the answer, the time with it.
fn turns(product: &Product, so_far: f64, time: impl Fn() -> Result<f64>) -> Result<f64> {
    let (mut best, before) = ((product.chosen(), so_far), product.chosen());
    let shape = product.shape();
    log::debug!("{shape} by algorithm {before}: {so_far:.1} us of all blocks");
    for at in (0..product.candidates()).filter(|at| *at != before) {
        product.choose(at)?;
        let workspace = product.workspace_bytes();
        // One that is refused after all has no time.
        let found =
            time_of(&format!("{shape} by algorithm {at}, workspace {workspace}"), best.1, &time);
        if found < WORTH * best.1 {
            best = (at, found);
        }
    }
    product.choose(best.0)?;
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::gpu::cublaslt::ProductShape;
    use crate::gpu::kernels::Element;

    fn way(columns: usize, kernels: &[&'static str]) -> Way {
        let (rows, depth, output) = (4096, 2304, Element::F32);
        let shape = ProductShape { rows, columns, depth, output, residual: true };
        Way::new(shape, kernels.iter().copied(), None)
    }

    /// What stays of two kernels with which the whole takes so long, and what it takes then; cuBLASLt takes 100, and a third kernel fails.
    fn kept(one: f64, another: f64) -> (Option<&'static str>, f64) {
        let way = way(576, &["one", "another", "broken"]);
        let took = turns_of_kernels(&way, 100.0, &|| match way.kernel() {
            Some("one") => Ok(one),
            Some("another") => Ok(another),
            Some(_) => anyhow::bail!("refused"),
            None => Ok(100.0),
        });
        (way.kernel(), took.us)
    }

    #[test]
    fn a_kernel_stays_where_the_whole_is_faster_with_it_by_more_than_chance() {
        assert_eq!(kept(95.0, 90.0), (Some("another"), 90.0));
        assert_eq!(kept(90.0, 95.0), (Some("one"), 90.0));
        assert_eq!(kept(99.95, 101.0), (None, 100.0));
        // Hardly faster than one that has just been taken.
        assert_eq!(kept(90.0, 89.95), (Some("one"), 90.0));
    }

    #[test]
    fn a_kernel_that_is_faster_only_once_does_not_stay() {
        let (way, times) = (way(576, &["one"]), Cell::new(0));
        let took = turns_of_kernels(&way, 100.0, &|| {
            times.set(times.get() + 1);
            Ok(if times.get() == 1 { 90.0 } else { 100.0 })
        });
        assert_eq!((way.kernel(), took.us, took.fastest), (None, 100.0, Some("one")));
        assert_eq!(times.get(), 2);
    }

    #[test]
    fn kernels_that_are_faster_only_together_are_found() {
        let ways = [way(192, &["a"]), way(384, &["b"]), way(576, &["c"])];
        let ways: Vec<&Way> = ways.iter().collect();
        let took = |together: f64| {
            ways_by_time(&ways, 100.0, || {
                Ok(match [0, 1, 2].map(|at: usize| ways[at].kernel().is_some()) {
                    [false, false, false] => 100.0,
                    [true, true, false] => together,
                    // The third makes everything slower.
                    [true, true, true] => together + 5.0,
                    _ => 101.0,
                })
            })
        };
        assert_eq!(took(90.0), 90.0);
        assert_eq!([0, 1, 2].map(|at: usize| ways[at].kernel()), [Some("a"), Some("b"), None]);
        ways.iter().for_each(|way| way.choose(None));
        assert_eq!(took(100.0), 100.0);
        assert_eq!([0, 1, 2].map(|at: usize| ways[at].kernel()), [None; 3]);
    }
}
