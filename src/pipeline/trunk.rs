/*!
The blocks of an encoder's trunk (Hiera, Ryali et al., 2023, as SAM 2 has it), one after the other: products by cuBLASLt
(those with an activation behind them by this program's, where they are faster), everything else by this program's kernels. TensorRT has the engines around it, for the stem and the neck.

Tokens lie in the order of the image, `[side · side, columns]`, from the first block to the last: no window is ever copied
out, the attention gathers its own. What a block adds to, the residual, is f32 and stays where it is for a whole stage; so
the maps that the neck takes, one a stage, are there when the trunk has run.

All else lies in memory that is shared with the engines, which run before and behind it on the same stream.
*/

use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::trunk_file::TrunkFile;
use super::trunk_products::{BlockProducts, HIDDEN};
use super::trunk_room::Room;
use super::trunk_up::Up;
use super::trunk_weights::{self, Loaded, LoadedBlock};
use crate::bundle::trunk::{BlockWeights, Trunk, TrunkBlock};
use crate::engine::open_trunk;
use crate::gpu::cublaslt::{ALIGNMENT, Choices, CublasLt, Library, Product, ProductShape};
use crate::gpu::kernels::{
    ActivatedKernels, Attention, AttentionKernels, AttentionShape, TrunkKernels, Values,
    WindowShape, Windows,
};
use crate::gpu::{Gpu, Purpose, Stream, View};

/// Bytes of an element of what is multiplied.
pub(super) const HALF: usize = 2;

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
    products: Vec<Rc<Product>>,
    ups: Vec<Rc<Up>>,
    library: CublasLt,
}

/// One block with the memory that it works in.
struct Block {
    rows: usize,
    columns: usize,
    /// Behind pooling.
    rows_out: usize,
    columns_out: usize,
    norm1: Loaded,
    skip: Option<Skip>,
    qkv: Linear,
    attention: How,
    proj: Linear,
    norm2: Loaded,
    up: (Loaded, Rc<Up>),
    down: Linear,
    /// Weights that the norms bring into the L2 cache for the products behind them.
    ahead: [View; 2],
    /// What it takes, and what it adds to: the same but at the beginning of a stage.
    x: View,
    residual: View,
    /// Normalised tokens.
    normed: View,
    queries: View,
    attended: View,
    normed_again: View,
    hidden: View,
}

/// The way around the attention where a stage begins.
struct Skip {
    linear: Linear,
    projected: View,
    /// Side of the map behind it.
    side: usize,
}

/// A product with weights, and a bias for each column.
struct Linear {
    weights: Loaded,
    product: Rc<Product>,
}

/// How a block attends.
enum How {
    Windows(Windows),
    Whole(Rc<Attention>),
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
        let weights = open_trunk(&file.dir, &file.manifest)?;
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
        let activated = ActivatedKernels::where_possible(gpu);
        let mut making = Making {
            gpu,
            kernels,
            library,
            attention,
            activated,
            room,
            scratch,
            choices,
            products: Vec::new(),
            ups: Vec::new(),
            whole: Vec::new(),
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
        let Making { kernels, library, products, ups, .. } = making;
        Ok(Self { blocks, kernels, workspace, products, ups, library })
    }

    /// What computes the products.
    pub fn library(&self) -> &Library {
        self.library.library()
    }

    /// Its products, each shape once.
    pub(super) fn products(&self) -> impl Iterator<Item = &Product> {
        self.products.iter().map(AsRef::as_ref)
    }

    /// Those with an activation behind them, each shape once.
    pub(super) fn ups(&self) -> impl Iterator<Item = &Up> {
        self.ups.iter().map(AsRef::as_ref)
    }

    /// Gives its products a workspace that any of their algorithms can do with.
    pub(super) fn make_room_for_all(&mut self, gpu: &Gpu) -> Result<()> {
        self.workspace = workspace(gpu, self.products().map(Product::most_workspace_bytes).max())?;
        Ok(())
    }

    /// Enqueues all blocks. No allocation; may be recorded.
    ///
    /// # Errors
    /// What the driver or cuBLASLt says.
    pub fn enqueue(&self, stream: &Stream) -> Result<()> {
        self.blocks.iter().try_for_each(|block| self.enqueue_block(block, stream))
    }

    fn enqueue_block(&self, block: &Block, stream: &Stream) -> Result<()> {
        let kernels = &self.kernels;
        let multiply = |linear: &Linear, product: &View, out: &View| {
            let Loaded { weight, bias } = &linear.weights;
            linear.product.enqueue(product, weight, bias, out, &self.workspace, stream)
        };
        let Block { rows, columns, rows_out, columns_out, x, residual, .. } = block;
        let Loaded { weight, bias } = &block.norm1;
        let (normed, [ahead, ahead_again]) = (&block.normed, &block.ahead);
        kernels.normalize(x, weight, bias, normed, Some(ahead), *rows, *columns, stream)?;
        if let Some(Skip { linear, projected, side }) = &block.skip {
            multiply(linear, &block.normed, projected)?;
            kernels.pool(projected, residual, *side, *columns_out, stream)?;
        }
        multiply(&block.qkv, &block.normed, &block.queries)?;
        match &block.attention {
            How::Windows(windows) => {
                let Loaded { bias, .. } = &block.qkv.weights;
                windows.enqueue([&block.queries, bias, &block.attended], stream)?;
            }
            How::Whole(attention) => {
                attention.enqueue_tokens(&block.queries, &block.attended, stream)?;
            }
        }
        multiply(&block.proj, &block.attended, residual)?;
        let Loaded { weight, bias } = &block.norm2;
        kernels.normalize(
            residual,
            weight,
            bias,
            &block.normed_again,
            Some(ahead_again),
            *rows_out,
            *columns_out,
            stream,
        )?;
        let (weights, up) = &block.up;
        up.enqueue(
            weights,
            [&block.normed_again, &block.hidden, &self.workspace],
            kernels,
            stream,
        )?;
        Ok(multiply(&block.down, &block.hidden, residual)?)
    }
}

fn workspace(gpu: &Gpu, bytes: Option<usize>) -> Result<View> {
    let bytes = bytes.unwrap_or(0).max(ALIGNMENT);
    Ok(View::new(&gpu.towards(Purpose::Scratch), bytes)?)
}

/// What blocks are made from; products and attentions of one size are made once.
struct Making<'a> {
    gpu: &'a Gpu,
    kernels: TrunkKernels,
    library: CublasLt,
    attention: Option<&'a AttentionKernels>,
    activated: Option<ActivatedKernels>,
    room: Room,
    scratch: &'a View,
    choices: Option<&'a Choices>,
    products: Vec<Rc<Product>>,
    ups: Vec<Rc<Up>>,
    whole: Vec<Rc<Attention>>,
}

impl Making<'_> {
    fn block(
        &mut self,
        block: &TrunkBlock,
        weights: LoadedBlock,
        x: &View,
        residual: &View,
    ) -> Result<Block> {
        let (rows, rows_out) = (block.tokens(), block.tokens_out());
        let (columns, columns_out) = (block.dim, block.dim_out);
        ensure!(
            x.len() == 4 * rows * columns && residual.len() == 4 * rows_out * columns_out,
            "a block of {rows} tokens of {columns} columns has memory of {} and {} bytes",
            x.len(),
            residual.len()
        );
        let shapes = BlockProducts::of(block);
        let LoadedBlock { norm1, skip, qkv, proj, norm2, up, down, around_attention, behind_norm } =
            weights;
        let skip = skip.zip(shapes.skip).map(|(weights, shape)| {
            let linear = self.linear(weights, shape)?;
            let projected = self.wide(rows * columns_out)?;
            Ok::<_, anyhow::Error>(Skip { linear, projected, side: block.grid_out() })
        });
        let hidden = HIDDEN * columns_out;
        Ok(Block {
            rows,
            columns,
            rows_out,
            columns_out,
            norm1,
            skip: skip.transpose()?,
            qkv: self.linear(qkv, shapes.qkv)?,
            attention: self.attention(block)?,
            proj: self.linear(proj, shapes.proj)?,
            norm2,
            up: self.up(up, shapes.up)?,
            down: self.linear(down, shapes.down)?,
            ahead: [around_attention, behind_norm],
            x: x.clone(),
            residual: residual.clone(),
            normed: self.narrow(rows * columns)?,
            queries: self.wide(rows * 3 * columns_out)?,
            attended: self.narrow(rows_out * columns_out)?,
            normed_again: self.narrow(rows_out * columns_out)?,
            hidden: self.wide(rows_out * hidden)?,
        })
    }

    fn linear(&mut self, weights: Loaded, shape: ProductShape) -> Result<Linear> {
        let known = self.products.iter().find(|product| product.shape() == shape);
        let product = match known {
            Some(known) => Rc::clone(known),
            None => {
                let product = Product::new(&self.library, shape)?;
                let choice = self.choices.and_then(|choices| choices.of(shape));
                if let Some(choice) = choice.filter(|choice| choice.of == product.candidates()) {
                    product.choose(choice.algorithm)?;
                }
                let product = Rc::new(product);
                self.products.push(Rc::clone(&product));
                product
            }
        };
        Ok(Linear { weights, product })
    }

    fn up(&mut self, weights: Loaded, shape: ProductShape) -> Result<(Loaded, Rc<Up>)> {
        if let Some(known) = self.ups.iter().find(|up| up.shape() == shape) {
            return Ok((weights, Rc::clone(known)));
        }
        let Linear { weights, product } = self.linear(weights, shape)?;
        let wanted = self.choices.and_then(|choices| choices.of(shape)?.kernel.as_deref());
        let up = Rc::new(Up::new(product, self.activated.as_ref(), wanted));
        self.ups.push(Rc::clone(&up));
        Ok((weights, up))
    }

    fn attention(&mut self, block: &TrunkBlock) -> Result<How> {
        let (heads, depth) = (block.heads, block.depth());
        if block.window > 0 {
            let TrunkBlock { grid, window, pooled, .. } = *block;
            let shape = WindowShape { grid, window, heads, depth, pooled };
            return Ok(How::Windows(self.kernels.windows(shape)?));
        }
        let (tokens, values) = (block.tokens(), Values::Heads(depth));
        let shape = AttentionShape { objects: heads, queries: tokens, keys: tokens, values };
        let known = self.whole.iter().find(|attention| attention.shape() == shape);
        let attention = match known {
            Some(known) => Rc::clone(known),
            None => {
                let kernels = self.attention.context("the attention kernels are not loaded")?;
                let attention = Rc::new(Attention::new(self.gpu, kernels, shape)?);
                self.whole.push(Rc::clone(&attention));
                attention
            }
        };
        Ok(How::Whole(attention))
    }

    fn narrow(&self, elements: usize) -> Result<View> {
        Ok(self.scratch.part(0, HALF * elements)?)
    }

    fn wide(&self, elements: usize) -> Result<View> {
        Ok(self.scratch.part(self.room.narrow, HALF * elements)?)
    }
}
