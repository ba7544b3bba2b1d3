/*!
The algorithm of each product of a trunk, or the kernel of this program's that computes it and what follows, and whether kernels begin early, by the
time of all blocks together.

A product by itself does not tell: on an H200 algorithms that were up to 40 % faster one by one made a trunk slower as a whole
(docs/measurements/2026-11-tables-h200.md), in part because of what comes between kernels (docs/measurements/2026-11-vos-h200.md). So every other
algorithm takes its turn in the whole, as a recorded graph, and stays where the whole is faster.
*/

use anyhow::{Context, Result};

use super::trunk::{TrunkParts, TrunkRun};
use super::trunk_way::Way;
use crate::bundle::trunk::{BlockWeights, Trunk};
use crate::gpu::cublaslt::{Choice, Choices, Product};
use crate::gpu::kernels::{AttentionKernels, product_kernels};
use crate::gpu::{Begin, Gpu, Purpose, Recorded, Stream, View, Work};

/// Replays of which the shortest counts: what disturbs one makes it longer.
const REPLAYS: usize = 9;
/// Replays before them, the first of which records.
const WARM: usize = 3;
/// Another algorithm must take less than this share of the time so far; what is less may be chance.
const WORTH: f64 = 0.997;
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

impl Work for Blocks<'_> {
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
        let mut shortest = f64::INFINITY;
        for replay in 0..WARM + REPLAYS {
            let [start, end] = &events;
            start.record(&stream)?;
            recorded.run()?;
            end.record(&stream)?;
            stream.synchronize()?;
            if replay >= WARM {
                shortest = shortest.min(end.ms_since(start)? * 1e3);
            }
        }
        Ok(shortest)
    };
    let first = time()?;
    let mut so_far = first;
    for product in run.products() {
        so_far = turns(product, so_far, time)?;
    }
    for way in run.ways() {
        so_far = turns_of_kernels(way, so_far, time);
    }
    let early = early_turn(run, &mut so_far, time);
    let kernel_of = |shape| run.ways().find(|way| way.shape() == shape).and_then(Way::kernel);
    let choice = |product: &Product| Choice {
        shape: product.shape(),
        algorithm: product.chosen(),
        of: product.candidates(),
        kernel: kernel_of(product.shape()).map(str::to_owned),
    };
    let products = run.products().map(choice).collect();
    let library = run.library().to_string();
    let kernels = product_kernels(gpu).into_iter().map(str::to_owned).collect();
    let device = gpu.facts().name.clone();
    Ok(Choices { library, device, us: [first, so_far], products, early, kernels })
}

/// Whether kernels that can do so should begin early; asked last, as it depends on which of this program's kernels were chosen.
fn early_turn(run: &TrunkRun, so_far: &mut f64, time: impl Fn() -> Result<f64>) -> bool {
    run.begin(Begin::Early);
    let found = time().unwrap_or_else(|error| {
        log::debug!("kernels that begin early: {error:#}");
        f64::INFINITY
    });
    log::debug!("with kernels that begin early: {found:.1} us of all blocks");
    let early = found < WORTH * *so_far;
    if early {
        *so_far = found;
    } else {
        run.begin(Begin::Behind);
    }
    early
}

/// As [`turns`], of the kernels that multiply and do what is behind the product at once, against the product as it is by now.
fn turns_of_kernels(way: &Way, so_far: f64, time: impl Fn() -> Result<f64>) -> f64 {
    let (mut best, shape) = ((way.kernel(), so_far), way.shape());
    for name in way.kernels() {
        way.choose(Some(name));
        let found = time().unwrap_or_else(|error| {
            log::debug!("{shape} by {name}: {error:#}");
            f64::INFINITY
        });
        log::debug!("{shape} by {name}: {found:.1} us of all blocks");
        if found < WORTH * best.1 {
            best = (Some(name), found);
        }
    }
    way.choose(best.0);
    best.1
}

/// Each algorithm of a product has its turn; the one that stays is the fastest, and so is the answer, the time with it.
fn turns(product: &Product, so_far: f64, time: impl Fn() -> Result<f64>) -> Result<f64> {
    let (mut best, before) = ((product.chosen(), so_far), product.chosen());
    let (shape, workspace) = (product.shape(), product.workspace_bytes());
    log::debug!(
        "{shape} by algorithm {before}, workspace {workspace}: {so_far:.1} us of all blocks"
    );
    for at in (0..product.candidates()).filter(|at| *at != before) {
        product.choose(at)?;
        // One that is refused after all has no time.
        let found = time().unwrap_or_else(|error| {
            log::debug!("{} by algorithm {at}: {error:#}", product.shape());
            f64::INFINITY
        });
        let (shape, workspace) = (product.shape(), product.workspace_bytes());
        log::debug!(
            "{shape} by algorithm {at}, workspace {workspace}: {found:.1} us of all blocks"
        );
        if found < WORTH * best.1 {
            best = (at, found);
        }
    }
    product.choose(best.0)?;
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::cublaslt::ProductShape;
    use crate::gpu::kernels::Element;

    /// What the whole takes by each kernel, or that it fails; cuBLASLt takes 100.
    fn turns_with(times: impl Fn(Option<&str>) -> Result<f64>) -> (Option<&'static str>, f64) {
        let (rows, columns, depth, output) = (4096, 576, 2304, Element::F32);
        let shape = ProductShape { rows, columns, depth, output, residual: true };
        let way = Way::new(shape, ["one", "another", "broken"].into_iter(), None);
        let took = turns_of_kernels(&way, 100.0, || times(way.kernel()));
        (way.kernel(), took)
    }

    #[test]
    fn a_kernel_stays_where_the_whole_is_faster_with_it_by_more_than_chance() {
        let broken = || anyhow::bail!("refused");
        let kept = |one, another| {
            turns_with(move |kernel| match kernel {
                Some("one") => Ok(one),
                Some("another") => Ok(another),
                _ => broken(),
            })
        };
        assert_eq!(kept(95.0, 90.0), (Some("another"), 90.0));
        assert_eq!(kept(90.0, 95.0), (Some("one"), 90.0));
        assert_eq!(kept(99.9, 101.0), (None, 100.0));
        // Hardly faster than one that has just been taken.
        assert_eq!(kept(90.0, 89.9), (Some("one"), 90.0));
    }
}
