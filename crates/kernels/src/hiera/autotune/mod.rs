/*!
Autotuning: for each GEMM an algorithm of cuBLASLt or a kernel of this crate, whether one kernel
computes a whole block or its attention half, and the kinds of kernels with programmatic dependent
launch (PDL), by the time of all blocks together.

The time of a GEMM by itself does not decide: on an H200 algorithms that were up to 40 % faster one
by one made a trunk slower as a whole, in part because cuBLASLt clears a counter between kernels. So
each alternative is timed within the whole trunk, as a recorded graph, and is kept if the whole is
faster by more than the noise (`trials`).

The blocks compute on random tokens: constant ones flip few bits, so that the card draws less power
and clocks higher than in a clip.
*/

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use zerocopy::IntoBytes;

use super::executor::{TrunkExecutor, TrunkSource};
use super::gemm::GemmImpl;
use super::kernel_names::autotuned_kernels;
use crate::attention::{AttentionKernels, AttentionUse};
use cuda::cublaslt::{Choice, Choices, Matmul, PdlKernels};
use cuda::{Capturable, CapturedGraph, Event, Gpu, LaunchMode, MemoryTag, Stream, View};
use trials::{Clock, Trials, tune_algorithm, tune_fused, tune_gemm_impls, tune_pdl};
use vos::noise::Noise;

mod trials;

/// The seed of the random tokens.
const SEED: u64 = 8;

/// A trunk with memory of its own, without engines around it.
pub struct StandaloneTrunk {
    /// Its blocks.
    pub executor: TrunkExecutor,
    /// The tokens after each stage; those of the first stage are also the input.
    pub maps: Vec<View>,
}

impl StandaloneTrunk {
    /// Lays it out.
    ///
    /// # Errors
    /// As [`TrunkExecutor::new`].
    pub fn new(gpu: &Gpu, source: &TrunkSource, stream: &Stream) -> Result<Self> {
        let memory = gpu.tagged(MemoryTag::Scratch);
        let map = |end: &usize| {
            let block = source.blocks.get(*end).context("a stage ends at no block")?;
            Ok(View::new(&memory, 4 * block.tokens_out() * block.dim_out)?)
        };
        let maps: Vec<View> = source.ends.iter().map(map).collect::<Result<_>>()?;
        let scratch = View::new(&memory, TrunkExecutor::scratch_bytes(source.blocks))?;
        let attention = AttentionKernels::load_for(gpu, &[AttentionUse::Encoder])?;
        let executor = TrunkExecutor::new(gpu, source, Some(&attention), &maps, &scratch, stream)?;
        Ok(Self { executor, maps })
    }
}

/// All blocks, over and over on the same tokens.
struct Blocks<'a>(&'a TrunkExecutor);

// SAFETY: the trunk, which is borrowed for longer, keeps its memory, kernels and GEMMs: only the
// choice between them changes meanwhile. It fills its counters before its first kernel.
unsafe impl Capturable for Blocks<'_> {
    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        self.0.enqueue(stream)
    }

    fn cleared(&self) -> Option<View> {
        Some(self.0.counters().clone())
    }
}

/// Records and times all blocks.
struct BlockClock<'a> {
    executor: &'a TrunkExecutor,
    stream: &'a Stream,
    events: [Event; 2],
    tokens: &'a View,
    random: Vec<f32>,
    until: Cell<Instant>,
}

impl<'a> Clock for BlockClock<'a> {
    type Recording = CapturedGraph<Blocks<'a>>;

    fn record(&self) -> Result<Self::Recording> {
        let mut recorded = CapturedGraph::new(Blocks(self.executor), self.stream, true);
        // The second is the first replay, which is longer than others.
        recorded.run()?;
        recorded.run()?;
        self.stream.synchronize()?;
        Ok(recorded)
    }

    fn us(&self, recording: &mut Self::Recording) -> Result<f64> {
        let [start, end] = &self.events;
        start.record(self.stream)?;
        recording.run()?;
        end.record(self.stream)?;
        self.stream.synchronize()?;
        Ok(1e3 * end.ms_since(start)?)
    }

    fn refresh(&self) -> Result<()> {
        Ok(self.tokens.upload(self.random.as_bytes(), self.stream)?)
    }

    fn is_up(&self) -> bool {
        Instant::now() >= self.until.get()
    }
}

/// Tokens as a network's norms leave them: of mean 0 and deviation 1.
fn random_tokens(count: usize) -> Vec<f32> {
    Noise::new(SEED, "tokens of a trunk").normals(count)
}

/// Autotunes a trunk, whatever was chosen before. Nothing else should run on the GPU. Takes some
/// seconds, and not much longer than `within`: a GEMM without a trial by then keeps cuBLASLt's
/// heuristic. Half of this time is left to this crate's kernels: a slow GPU could need all of it
/// for cuBLASLt's algorithms.
///
/// # Errors
/// As [`TrunkExecutor::new`], or another error of the driver.
pub fn autotune(gpu: &Gpu, source: &TrunkSource, within: Duration) -> Result<Choices> {
    let stream = gpu.stream()?;
    let source = TrunkSource { choices: None, ..*source };
    let mut alone = StandaloneTrunk::new(gpu, &source, &stream)?;
    alone.executor.grow_workspace(gpu)?;
    let tokens = alone.maps.first().context("a trunk without stages")?;
    let executor = &alone.executor;
    let kernel_of =
        |shape| executor.gemm_impls().find(|gemm| gemm.shape() == shape).and_then(GemmImpl::kernel);
    let begun = Instant::now();
    let has_kernels = !executor.fused().names().is_empty()
        || executor.gemm_impls().any(|gemm| !gemm.kernels().is_empty());
    let first_part = if has_kernels { within / 2 } else { within };
    let clock = BlockClock {
        executor,
        stream: &stream,
        events: [gpu.event()?, gpu.event()?],
        tokens,
        random: random_tokens(tokens.len() / size_of::<f32>()),
        until: Cell::new(begun + first_part),
    };
    // First the kernels of a block one by one, which are what a fused one is compared with.
    executor.use_fused_blocks(false);
    clock.refresh()?;
    let mut first = clock.record()?;
    let mut trials = Trials::new(&clock)?;
    for gemm in executor.cublaslt() {
        tune_algorithm(&mut trials, gemm)?;
    }
    let all_tried = !clock.is_up();
    clock.until.set(begun + within);
    let use_pdl = |kinds| {
        executor.use_pdl(kinds);
    };
    let pdl = tune_pdl(&mut trials, executor.can_use_pdl(), PdlKernels::default(), use_pdl)?;
    // A matmul kernel that starts early saves the gap in front of it, so it is tried like that. As
    // long as none is chosen, the launches are those of the best so far.
    let pdl = PdlKernels { products: LaunchMode::Pdl.is_capturable(), ..pdl };
    use_pdl(pdl);
    tune_gemm_impls(&mut trials, &executor.gemm_impls().collect::<Vec<&GemmImpl>>())?;
    let fuse = |kernel: &str, fused| executor.fused().fuse(kernel, fused);
    let separate = tune_fused(&mut trials, &executor.fused().names(), fuse)?;
    // Once more, with the chosen kernels.
    let can = executor.can_use_pdl();
    let pdl = tune_pdl(&mut trials, can, pdl.intersection(can), use_pdl)?;
    let all_tried = all_tried && !clock.is_up();
    // What was tried first had other neighbours, so matmuls are tried a second time, but for those
    // that a fused kernel computes now: all their candidates would be the same graph.
    let chosen = executor.gemm_impls().any(|gemm| gemm.kernel().is_some());
    let products = if chosen { pdl.products } else { LaunchMode::Pdl.is_capturable() };
    let pdl = PdlKernels { products, ..pdl };
    use_pdl(pdl);
    let by_cublaslt =
        |gemm: &&Matmul| executor.runs(gemm.shape()) && kernel_of(gemm.shape()).is_none();
    for gemm in executor.cublaslt().filter(by_cublaslt) {
        tune_algorithm(&mut trials, gemm)?;
    }
    let gemms = executor.gemm_impls().filter(|gemm| executor.runs(gemm.shape()));
    tune_gemm_impls(&mut trials, &gemms.collect::<Vec<&GemmImpl>>())?;
    let can = executor.can_use_pdl();
    let pdl = tune_pdl(&mut trials, can, pdl.intersection(can), use_pdl)?;
    // The second time was also for those that had no time before.
    let all_tried = all_tried || !clock.is_up();
    let us = trials.before_and_after(&mut first)?;
    if !all_tried {
        log::warn!(
            "autotuning the trunk had no time for all trials within {} s; GEMMs without one keep \
             cuBLASLt's heuristic",
            within.as_secs()
        );
    }
    let choice = |gemm: &Matmul| Choice {
        shape: gemm.shape(),
        algorithm: gemm.chosen(),
        of: gemm.candidates(),
        kernel: kernel_of(gemm.shape()).map(str::to_owned),
    };
    let products = executor.cublaslt().map(choice).collect();
    let library = executor.library().to_string();
    let kernels = autotuned_kernels(gpu).into_iter().map(str::to_owned).collect();
    let device = gpu.facts().name.clone();
    let separate = separate.into_iter().map(str::to_owned).collect();
    Ok(Choices { library, device, us, products, pdl, kernels, separate })
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
