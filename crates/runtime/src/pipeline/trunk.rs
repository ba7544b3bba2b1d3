/*!
The blocks of an encoder's trunk (Hiera, Ryali et al., 2023, as SAM 2 has it), one after the other: products by cuBLASLt
(those with an activation or a norm behind them by this program's, where they are faster), everything else by this program's kernels. TensorRT has the engines around it, for the stem and the neck.

Tokens lie in the order of the image, `[side · side, columns]`, from the first block to the last: no window is ever copied
out, the attention gathers its own. What a block adds to, the residual, is f32 and stays where it is for a whole stage; so
the maps that the neck takes, one a stage, are there when the trunk has run. A norm goes with the product that last added to what it normalises:
the first of a block with the last product of the block before.

All else lies in memory that is shared with the engines, which run before and behind it on the same stream.
*/

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::trunk_added::{Added, Norm};
use super::trunk_block::{Block, How, Linear, Making, Skip};
use super::trunk_file::TrunkFile;
use super::trunk_made::Made;
use super::trunk_room::Room;
use super::trunk_way::Way;
use super::trunk_weights::{self, Loaded};
use cuda::cublaslt::{ALIGNMENT, Choices, CublasLt, Library, Matmul, PdlKernels};
use cuda::{Gpu, LaunchMode, MemoryTag, Stream, View};
use kernels::{AttentionKernels, NormedKernels, ProductKernels, TrunkKernels};
use vos::bundle::trunk::{BlockWeights, Trunk};

/// Bytes of an element of what is multiplied.
pub(super) const HALF: usize = 2;
/// Bytes of what a product's blocks count themselves with: a workspace as small as this is each product's own.
pub(super) const COUNTER: usize = ALIGNMENT;

/// What a trunk is made from.
pub struct TrunkParts<'a> {
    /// Its blocks.
    pub trunk: &'a Trunk,
    /// Of each block.
    pub weights: &'a [BlockWeights<'a>],
    /// The products' algorithms; those of another library or GPU are passed over.
    pub choices: Option<&'a Choices>,
}

/// The trunk of one encoder on its stream.
pub struct TrunkRun {
    blocks: Vec<Block>,
    kernels: TrunkKernels,
    workspace: View,
    /// Of all products.
    counters: View,
    products: Vec<Rc<Matmul>>,
    made: Vec<Rc<Made>>,
    added: Vec<Rc<Added>>,
    /// What begins early of what can do so.
    early: Cell<PdlKernels>,
    library: CublasLt,
}

impl TrunkRun {
    /// As [`Self::of`], with the weights of the file.
    ///
    /// # Errors
    /// Weights that are missing or damaged, and what [`Self::of`] says.
    pub fn new(
        gpu: &Gpu,
        file: &TrunkFile,
        attention: Option<&AttentionKernels>,
        maps: &[View],
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let weights = file.open()?;
        let blocks = (0..file.trunk.blocks.len()).map(|at| weights.block(at));
        let blocks: Vec<BlockWeights> = blocks.collect::<Result<_>>()?;
        let choices = file.manifest.products.as_ref();
        let parts = TrunkParts { trunk: &file.trunk, weights: &blocks, choices };
        Self::of(gpu, &parts, attention, maps, scratch, stream)
    }

    /// Bytes of the shared memory that a trunk works in.
    pub fn room(trunk: &Trunk) -> usize {
        Room::of(trunk).bytes()
    }

    /// Brings the weights to the device. `maps`: f32 memory of each stage's tokens, the first of which holds what the stem made;
    /// `scratch`: at least [`Self::room`], which nothing else may use while the trunk runs.
    ///
    /// # Errors
    /// No cuBLASLt, memory of other sizes than the trunk's, products that cuBLASLt has no algorithm for, or what the driver says.
    pub fn of(
        gpu: &Gpu,
        parts: &TrunkParts,
        attention: Option<&AttentionKernels>,
        maps: &[View],
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let TrunkParts { trunk, weights, choices } = *parts;
        let room = Room::of(trunk);
        ensure!(
            maps.len() == trunk.ends.len() && weights.len() == trunk.blocks.len(),
            "{} maps and the weights of {} blocks for a trunk of {} stages and {} blocks",
            maps.len(),
            weights.len(),
            trunk.ends.len(),
            trunk.blocks.len()
        );
        let library = CublasLt::open(gpu)?;
        log::debug!("the trunk's products: {library}");
        let choices = choices.filter(|choices| choices.fit(&library));
        let kernels = TrunkKernels::load(gpu)?;
        let loaded = trunk_weights::load(gpu, weights, stream)?;
        let linears =
            trunk.blocks.iter().map(|block| if block.skips() { 5 } else { 4 }).sum::<usize>();
        let counters = View::new(&gpu.tagged(MemoryTag::Scratch), COUNTER * linears)?;
        // Where an engine says by which kernels its products are computed, no other is loaded.
        let wanted = |name: &str| {
            let named = |choices: &Choices| {
                choices.products.iter().any(|choice| choice.kernel.as_deref() == Some(name))
            };
            choices.is_none_or(named)
        };
        let rows = |columns| trunk.blocks.iter().any(|block| block.dim_out == columns);
        let mut making = Making {
            gpu,
            kernels,
            library,
            attention,
            own: ProductKernels::where_possible(gpu, wanted),
            normed: NormedKernels::where_possible(gpu, |name, columns| {
                wanted(name) && rows(columns)
            }),
            room,
            scratch,
            choices,
            products: Vec::new(),
            made: Vec::new(),
            added: Vec::new(),
            whole: Vec::new(),
            counters,
            counted: 0,
        };
        let mut blocks = Vec::with_capacity(trunk.blocks.len());
        let mut stage = 0;
        for (at, (block, weights)) in trunk.blocks.iter().zip(loaded).enumerate() {
            let before = stage;
            if at > 0 && trunk.ends.contains(&(at - 1)) {
                stage += 1;
            }
            let map = |stage: usize| maps.get(stage).context("more stages than maps");
            blocks.push(making.block(block, weights, map(before)?, map(stage)?)?);
        }
        let bytes = making.products.iter().map(|product| product.workspace_bytes()).max();
        let workspace = workspace(gpu, bytes)?;
        let Making { kernels, library, products, made, added, counters, .. } = making;
        let early = choices.map(|choices| choices.pdl).unwrap_or_default();
        let early = Cell::new(early);
        Ok(Self { blocks, kernels, workspace, counters, products, made, added, early, library })
    }

    /// What computes the products.
    pub fn library(&self) -> &Library {
        self.library.library()
    }

    /// What it fills with zeros before its first product.
    pub fn counters(&self) -> &View {
        &self.counters
    }

    /// Its products, each shape once.
    pub(super) fn products(&self) -> impl Iterator<Item = &Matmul> {
        self.products.iter().map(AsRef::as_ref)
    }

    /// How those are computed that have something behind them, each shape once.
    pub(super) fn ways(&self) -> impl Iterator<Item = &Way> {
        let made = self.made.iter().map(|made| &made.way);
        made.chain(self.added.iter().map(|added| &added.way))
    }

    /// Has every product computed by a kernel of this program's that can be, with what is behind it, from the next time on: of several by the
    /// first, or the last. How many shapes those are.
    pub fn take_own_kernels(&self, last: bool) -> usize {
        let choose = |way: &Way| {
            let kernels = way.kernels();
            way.choose(if last { kernels.last() } else { kernels.first() }.copied());
            way.kernel().is_some()
        };
        self.ways().filter(|way| choose(way)).count()
    }

    /// The kinds of which a kernel, as they are chosen by now, can begin early on this GPU with this driver.
    pub(super) fn can_use_pdl(&self) -> PdlKernels {
        let windows =
            |block: &Block| matches!(&block.attention, How::Windows(of) if of.is_hopper());
        let can = PdlKernels {
            products: self.ways().any(|way| way.kernel().is_some()),
            windows: self.blocks.iter().any(windows),
            norms: self.kernels.norms_begin_early(),
        };
        if LaunchMode::Pdl.is_capturable() { can } else { PdlKernels::default() }
    }

    /// Has kernels of these kinds begin early where they can, and no others, from the next time on.
    pub fn use_pdl(&self, kinds: PdlKernels) {
        self.early.set(kinds);
    }

    /// Gives its products a workspace that any of their algorithms can do with.
    pub(super) fn make_room_for_all(&mut self, gpu: &Gpu) -> Result<()> {
        self.workspace = workspace(gpu, self.products().map(Matmul::most_workspace_bytes).max())?;
        Ok(())
    }

    /// Enqueues all blocks. No allocation; may be recorded.
    ///
    /// # Errors
    /// What the driver or cuBLASLt says.
    pub fn enqueue(&self, stream: &Stream) -> Result<()> {
        // All at once: cuBLASLt clears each before its product, which a recording then leaves out.
        self.counters.fill(0, stream)?;
        if let Some(first) = self.blocks.first() {
            // What is in front of it is a fill.
            first.norm1.enqueue(&first.x, LaunchMode::Ordered, &self.kernels, stream)?;
        }
        for (at, block) in self.blocks.iter().enumerate() {
            let next = self.blocks.get(at + 1).map(|next| &next.norm1);
            self.enqueue_block(block, next, stream)?;
        }
        Ok(())
    }

    /// A block behind its first norm, and `next`, that of the block behind it.
    fn enqueue_block(&self, block: &Block, next: Option<&Norm>, stream: &Stream) -> Result<()> {
        let (kernels, early) = (&self.kernels, self.early.get());
        let [products, windows, norms] = [early.products, early.windows, early.norms]
            .map(|early| if early { LaunchMode::Pdl } else { LaunchMode::Ordered });
        let multiply = |linear: &Linear, tokens: &View, out: &View| {
            let Loaded { weight, bias } = &linear.weights;
            let workspace = self.workspace_of(linear);
            linear.product.enqueue(tokens, weight, bias, out, workspace, stream)
        };
        let add = |(linear, added): &(Linear, Rc<Added>), tokens: &View, norm: Option<&Norm>| {
            let views = [tokens, &block.residual, self.workspace_of(linear)];
            added.enqueue(&linear.weights, views, norm, [products, norms], kernels, stream)
        };
        let normed = &block.norm1.out;
        if let Some(Skip { linear, projected, side }) = &block.skip {
            multiply(linear, normed, projected)?;
            kernels.pool(projected, &block.residual, *side, block.columns_out, stream)?;
        }
        let make = |(linear, made): &(Linear, Rc<Made>), tokens: &View, out: &View| {
            let views = [tokens, out, self.workspace_of(linear)];
            made.enqueue(&linear.weights, views, products, kernels, stream)
        };
        make(&block.qkv, normed, &block.queries)?;
        match &block.attention {
            How::Windows(attention) => {
                let Loaded { bias, .. } = &block.qkv.0.weights;
                attention.enqueue([&block.queries, bias, &block.attended], windows, stream)?;
            }
            How::Whole(attention) => {
                attention.enqueue_tokens(&block.queries, &block.attended, stream)?;
            }
        }
        add(&block.proj, &block.attended, Some(&block.norm2))?;
        make(&block.up, &block.norm2.out, &block.hidden)?;
        add(&block.down, &block.hidden, next)
    }

    /// A small one is the product's own, so that all of them can be cleared at once.
    fn workspace_of<'a>(&'a self, linear: &'a Linear) -> &'a View {
        let small = linear.product.workspace_bytes() <= COUNTER;
        if small { &linear.counter } else { &self.workspace }
    }
}

fn workspace(gpu: &Gpu, bytes: Option<usize>) -> Result<View> {
    let bytes = bytes.unwrap_or(0).max(ALIGNMENT);
    Ok(View::new(&gpu.tagged(MemoryTag::Scratch), bytes)?)
}
