/*!
The algorithm of each product of a trunk, or the kernel of this program's that computes it and what follows, and which kinds of kernels begin early, by the
time of all blocks together.

A product by itself does not tell: on an H200 algorithms that were up to 40 % faster one by one made
a trunk slower as a whole, in part because cuBLASLt clears a counter between kernels. So every other
algorithm takes its turn in the whole, as a recorded graph, and stays where the whole is faster by
more than the noise (`trunk_contest.rs`).

The blocks compute on random tokens: on constant ones few bits change from product to product, so that the card draws less power and clocks higher than in a
clip.
*/

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use zerocopy::IntoBytes;

use super::trunk::{TrunkParts, TrunkRun};
use super::trunk_contest::{Clock, Contest, choose_early, choose_product, choose_ways};
use super::trunk_way::Way;
use cuda::cublaslt::{Choice, Choices, Matmul};
use cuda::{Capturable, CapturedGraph, Event, Gpu, MemoryTag, Stream, View};
use kernels::{AttentionKernels, kernels_of_turns};
use vos::bundle::trunk::{BlockWeights, Trunk};
use vos::noise::Noise;

/// The stream of random tokens.
const SEED: u64 = 8;

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
        let memory = gpu.tagged(MemoryTag::Scratch);
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
unsafe impl Capturable for Blocks<'_> {
    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        self.0.enqueue(stream)
    }

    fn cleared(&self) -> Option<View> {
        Some(self.0.counters().clone())
    }
}

/// Recordings of all blocks, and what their replays take.
struct Blockwise<'a> {
    run: &'a TrunkRun,
    stream: &'a Stream,
    events: [Event; 2],
    tokens: &'a View,
    random: Vec<f32>,
    until: Instant,
}

impl<'a> Clock for Blockwise<'a> {
    type Take = CapturedGraph<Blocks<'a>>;

    fn record(&self) -> Result<Self::Take> {
        let mut recorded = CapturedGraph::new(Blocks(self.run), self.stream, true);
        // The second is the first replay, which is longer than others.
        recorded.run()?;
        recorded.run()?;
        self.stream.synchronize()?;
        Ok(recorded)
    }

    fn us(&self, take: &mut Self::Take) -> Result<f64> {
        let [start, end] = &self.events;
        start.record(self.stream)?;
        take.run()?;
        end.record(self.stream)?;
        self.stream.synchronize()?;
        Ok(1e3 * end.ms_since(start)?)
    }

    fn refresh(&self) -> Result<()> {
        Ok(self.tokens.upload(self.random.as_bytes(), self.stream)?)
    }

    fn is_up(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// Tokens as a network's norms leave them: of mean 0 and deviation 1.
fn random_tokens(count: usize) -> Vec<f32> {
    Noise::new(SEED, "tokens of a trunk").normals(count)
}

/// Finds the algorithms, for which nothing else should run on the GPU; takes some seconds, and not much longer than `within`: what has had no turn by then stays
/// as cuBLASLt proposes it.
///
/// # Errors
/// As [`TrunkRun::of`], or what the driver says.
pub fn choose_products(
    gpu: &Gpu,
    trunk: &Trunk,
    weights: &[BlockWeights],
    within: Duration,
) -> Result<Choices> {
    let stream = gpu.stream()?;
    let parts = TrunkParts { trunk, weights, choices: None };
    let mut alone = TrunkAlone::new(gpu, &parts, &stream)?;
    alone.run.make_room_for_all(gpu)?;
    let tokens = alone.maps.first().context("a trunk without stages")?;
    let run = &alone.run;
    let clock = Blockwise {
        run,
        stream: &stream,
        events: [gpu.event()?, gpu.event()?],
        tokens,
        random: random_tokens(tokens.len() / size_of::<f32>()),
        until: Instant::now() + within,
    };
    clock.refresh()?;
    let mut first = clock.record()?;
    let mut contest = Contest::new(&clock)?;
    for product in run.products() {
        choose_product(&mut contest, product)?;
    }
    choose_ways(&mut contest, &run.ways().collect::<Vec<&Way>>())?;
    // Last, as it depends on which of this program's kernels were chosen.
    let pdl = choose_early(&mut contest, run.can_use_pdl(), |early| run.use_pdl(early))?;
    let us = contest.before_and_after(&mut first)?;
    if clock.is_up() {
        log::warn!(
            "the trunk's products have had turns for {} s, and not all of them had one; those keep what cuBLASLt proposes",
            within.as_secs()
        );
    }
    let kernel_of = |shape| run.ways().find(|way| way.shape() == shape).and_then(Way::kernel);
    let choice = |product: &Matmul| Choice {
        shape: product.shape(),
        algorithm: product.chosen(),
        of: product.candidates(),
        kernel: kernel_of(product.shape()).map(str::to_owned),
    };
    let products = run.products().map(choice).collect();
    let library = run.library().to_string();
    let kernels = kernels_of_turns(gpu).into_iter().map(str::to_owned).collect();
    let device = gpu.facts().name.clone();
    Ok(Choices { library, device, us, products, pdl, kernels })
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use vos::stats;

    #[test]
    fn tokens_are_random_and_sensible_as_halves() {
        let tokens = random_tokens(100_000);
        let halves: Vec<f16> = tokens.iter().map(|token| f16::from_f32(*token)).collect();
        assert!(halves.iter().all(|token| token.is_finite()));
        let values: Vec<f64> = tokens.iter().map(|token| f64::from(*token)).collect();
        let (mean, deviation) =
            (stats::mean(&values).unwrap(), stats::population_std(&values).unwrap());
        assert!(mean.abs() < 0.02 && (deviation - 1.0).abs() < 0.02, "{mean} {deviation}");
        let same = halves.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(same < 1000, "{same} of 100000 neighbours are the same");
    }
}
