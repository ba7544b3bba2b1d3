/*!
A trunk's blocks, laid out: their memory, and products and attentions, of which those of one size are made once.
*/

use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::trunk::{COUNTER, HALF};
use super::trunk_added::{Added, Norm};
use super::trunk_made::Made;
use super::trunk_products::{BlockProducts, HIDDEN};
use super::trunk_room::Room;
use super::trunk_weights::{Loaded, LoadedBlock};
use cuda::cublaslt::{Choices, CublasLt, Matmul, MatmulShape};
use cuda::{Gpu, View};
use kernels::{
    Attention, AttentionKernels, AttentionShape, NormedKernels, ProductKernels, TrunkKernels,
    Values, WindowShape, Windows,
};
use vos::bundle::trunk::TrunkBlock;

/// One block with the memory that it works in.
pub(super) struct Block {
    /// Behind pooling.
    pub columns_out: usize,
    /// Enqueued behind what is added last to what it takes: by the block before, if there is one.
    pub norm1: Norm,
    pub skip: Option<Skip>,
    pub qkv: (Linear, Rc<Made>),
    pub attention: How,
    pub proj: (Linear, Rc<Added>),
    pub norm2: Norm,
    pub up: (Linear, Rc<Made>),
    pub down: (Linear, Rc<Added>),
    /// What it takes, and what it adds to: the same but at the beginning of a stage.
    pub x: View,
    pub residual: View,
    pub queries: View,
    pub attended: View,
    pub hidden: View,
}

/// The way around the attention where a stage begins.
pub(super) struct Skip {
    pub linear: Linear,
    pub projected: View,
    /// Side of the map behind it.
    pub side: usize,
}

/// A product with weights, and a bias for each column.
pub(super) struct Linear {
    pub weights: Loaded,
    pub product: Rc<Matmul>,
    /// Its own part of the counters.
    pub counter: View,
}

/// How a block attends.
pub(super) enum How {
    Windows(Windows),
    Whole(Rc<Attention>),
}

/// What blocks are made from; products and attentions of one size are made once.
pub(super) struct Making<'a> {
    pub gpu: &'a Gpu,
    pub kernels: TrunkKernels,
    pub library: CublasLt,
    pub attention: Option<&'a AttentionKernels>,
    pub own: Option<ProductKernels>,
    pub normed: Option<NormedKernels>,
    pub room: Room,
    pub scratch: &'a View,
    pub choices: Option<&'a Choices>,
    pub products: Vec<Rc<Matmul>>,
    pub made: Vec<Rc<Made>>,
    pub added: Vec<Rc<Added>>,
    pub whole: Vec<Rc<Attention>>,
    pub counters: View,
    /// Counters that have a product.
    pub counted: usize,
}

impl Making<'_> {
    /// One block between `x` and `residual`.
    pub fn block(
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
            columns_out,
            norm1: self.norm(norm1, [rows, columns], around_attention)?,
            skip: skip.transpose()?,
            qkv: self.made(qkv, shapes.qkv, false)?,
            attention: self.attention(block)?,
            proj: self.added(proj, shapes.proj)?,
            norm2: self.norm(norm2, [rows_out, columns_out], behind_norm)?,
            up: self.made(up, shapes.up, true)?,
            down: self.added(down, shapes.down)?,
            x: x.clone(),
            residual: residual.clone(),
            queries: self.wide(rows * 3 * columns_out)?,
            attended: self.narrow(rows_out * columns_out)?,
            hidden: self.wide(rows_out * hidden)?,
        })
    }

    fn linear(&mut self, weights: Loaded, shape: MatmulShape) -> Result<Linear> {
        let known = self.products.iter().find(|product| product.shape() == shape);
        let product = match known {
            Some(known) => Rc::clone(known),
            None => {
                let product = Matmul::new(&self.library, shape)?;
                let choice = self.choices.and_then(|choices| choices.of(shape));
                if let Some(choice) = choice.filter(|choice| choice.of == product.candidates()) {
                    product.choose(choice.algorithm)?;
                }
                let product = Rc::new(product);
                self.products.push(Rc::clone(&product));
                product
            }
        };
        let counter = self.counters.part(COUNTER * self.counted, COUNTER)?;
        self.counted += 1;
        Ok(Linear { weights, product, counter })
    }

    fn norm(&self, weights: Loaded, [rows, columns]: [usize; 2], ahead: View) -> Result<Norm> {
        Ok(Norm { weights, rows, columns, out: self.narrow(rows * columns)?, ahead })
    }

    fn made(
        &mut self,
        weights: Loaded,
        shape: MatmulShape,
        activated: bool,
    ) -> Result<(Linear, Rc<Made>)> {
        let linear = self.linear(weights, shape)?;
        if let Some(known) = self.made.iter().find(|made| made.is(shape, activated)) {
            return Ok((linear, Rc::clone(known)));
        }
        let (product, wanted) = (Rc::clone(&linear.product), self.wanted(shape));
        let made = Rc::new(Made::new(product, activated, self.own.as_ref(), wanted));
        self.made.push(Rc::clone(&made));
        Ok((linear, made))
    }

    fn added(&mut self, weights: Loaded, shape: MatmulShape) -> Result<(Linear, Rc<Added>)> {
        let linear = self.linear(weights, shape)?;
        if let Some(known) = self.added.iter().find(|added| added.way.shape() == shape) {
            return Ok((linear, Rc::clone(known)));
        }
        let (product, wanted) = (Rc::clone(&linear.product), self.wanted(shape));
        let added = Rc::new(Added::new(product, self.normed.as_ref(), wanted));
        self.added.push(Rc::clone(&added));
        Ok((linear, added))
    }

    /// The kernel that was kept for a shape and what is behind it.
    fn wanted(&self, shape: MatmulShape) -> Option<&str> {
        self.choices?.of(shape)?.kernel.as_deref()
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
