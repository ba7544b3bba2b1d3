/*!
What lies between the attentions of a segmented track step (`cuda/memory_attention.cu`,
`cuda/memory_attention_tail.cu`, `cuda/memory_attention_mlp.cu`; on Hopper `cuda/mlp_hopper.cu` and
`cuda/memory_attention_project_hopper.cu`), in place of the engines of its segments.

```text
feat ─ Start ─→ x, q k v ─ (self-attention) ─ Query ─→ x, q ─ (attention to the bank) ─┐
                    ↑ next layer                                                       │
                    ├──────────────────────────── Finish ──────────────────────────────┤
          image of the mask decoder ←──────────── Last ── of the last layer ───────────┘
```

Tokens between launches are fp16, sums fp32.
*/

mod hopper;
mod launches;
pub(crate) mod selftest;
mod weights;

use anyhow::{Context, Result, bail};

use super::attention::{Attended, Attention};
use super::kernel::Chain;
use super::mlp::{Activation, HopperMlp, MlpOperands};
use super::{int, need_exactly};
use cuda::{Gpu, LaunchMode, MemoryTag, Stream, View};
use hopper::HopperProjection;
use launches::{Kernels, Source};
use vos::bundle::memory_attention::{HIDDEN, MEMORY, WIDTH};
use vos::bundle::{MemoryAttentionShape, MemoryAttentionWeights};
use weights::{Layer, Weights};

/// Bytes of an element.
const HALF: usize = 2;
/// What vector loads need.
const ALIGNMENT: usize = 16;

/// What lies in front of an attention, or behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAttentionPiece {
    /// Features to tokens; queries, keys and values of layer 0's self-attention.
    Start,
    /// The result of a layer's self-attention to the queries of its attention to the bank.
    Query(usize),
    /// The result of a layer's attention to the bank, through its MLP, to the queries, keys and
    /// values of the next layer's self-attention.
    Finish(usize),
    /// The same of the last layer, to normalised tokens.
    Last,
}

/// The kernels with their weights, and the memory that they work in: for one stream at a time.
#[derive(Debug)]
pub struct MemoryAttention {
    shape: MemoryAttentionShape,
    kernels: Kernels,
    /// Hopper's MLP.
    hopper_mlp: Option<HopperMlp>,
    /// Hopper's norm and projection.
    hopper_project: Option<HopperProjection>,
    /// An attention to the bank is whole, and ends in kernels of their own: for comparison.
    in_three: bool,
    /// Hopper's query joins the parts of its self-attention.
    joins_frame: bool,
    weights: Weights,
    /// Tokens behind an attention to the bank; their norm; the MLP's hidden columns.
    sum: View,
    normed: View,
    hidden: View,
}

impl MemoryAttention {
    /// Loads the kernels, for sm 80 and newer, and brings the weights to the device. On Hopper an
    /// MLP is one kernel, and projections have one of their own.
    ///
    /// # Errors
    /// A shape that the kernels do not take, weights of another size, a driver that refuses the
    /// PTX, or what else it says.
    pub fn new(
        gpu: &Gpu,
        shape: MemoryAttentionShape,
        weights: &MemoryAttentionWeights,
        stream: &Stream,
    ) -> Result<Self> {
        shape.check()?;
        let tokens = shape.tokens();
        int(tokens * HIDDEN, "the number of hidden elements")?;
        let memory = gpu.tagged(MemoryTag::Scratch);
        let halves = |columns: usize| View::new(&memory, HALF * tokens * columns);
        let hopper_mlp = HopperMlp::load_if_useful(gpu, tokens);
        Ok(Self {
            shape,
            kernels: Kernels::load(gpu)?,
            hopper_mlp,
            hopper_project: HopperProjection::load_if_supported(gpu),
            in_three: false,
            joins_frame: hopper::joins_frame(tokens),
            weights: Weights::load(gpu, shape, weights, stream)?,
            sum: halves(WIDTH)?,
            normed: halves(WIDTH)?,
            hidden: halves(HIDDEN)?,
        })
    }

    /// Tokens of a frame.
    pub fn tokens(&self) -> usize {
        self.shape.tokens()
    }

    /// Where a self-attention leaves its result. On Hopper the query's kernel joins parts from the
    /// 2304 tokens of 768 pixels on: then they are the attention's own, f32 `[parts, tokens, 256]`
    /// with maxima and sums f32 `[parts, tokens, 2]`. With fewer tokens, on other GPUs, or of an
    /// attention in one part it is `whole`, f16 `[tokens, 256]`. Only then `whole` is called.
    ///
    /// # Errors
    /// Those of `whole`.
    pub fn frame_result(
        &self,
        attention: &Attention,
        whole: impl FnOnce() -> Result<View>,
    ) -> Result<Attended> {
        match self.hopper_project.is_some() && self.joins_frame {
            true => attention.apart(whole),
            false => whole().map(Attended::Whole),
        }
    }

    /// Layers.
    pub fn layers(&self) -> usize {
        self.shape.layers
    }

    /// The pieces in order; an attention follows each but the last.
    pub fn pieces(&self) -> Vec<MemoryAttentionPiece> {
        let of_layer = |layer: usize| {
            let finish = match layer + 1 == self.shape.layers {
                true => MemoryAttentionPiece::Last,
                false => MemoryAttentionPiece::Finish(layer),
            };
            [MemoryAttentionPiece::Query(layer), finish]
        };
        let rest = (0..self.shape.layers).flat_map(of_layer);
        std::iter::once(MemoryAttentionPiece::Start).chain(rest).collect()
    }

    /// Enqueues a piece, of `x` f16 `[tokens, 256]`, or of the features f16 `[256, tokens]`, and
    /// what was `attended` to. Self-attention gives f16 `[tokens, 256]`, or the parts of
    /// [`Self::frame_result`]. The attention to the bank gives f16 `[tokens, 64]`, or parts: f32
    /// `[parts, tokens, 64]` with maxima and sums f32 `[parts, tokens, 2]`.
    /// `y` f16 `[tokens, 256]` are the next piece's x, which must not be this one's. `projected` f16
    /// `[3, tokens, 256]` are queries, keys and values; of [`MemoryAttentionPiece::Query`] queries
    /// alone. 1 launch; with an MLP 4, or 3 where Hopper's MLP serves. May be recorded. Early
    /// launches where Hopper's MLP serves.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, a layer that there is not, or what the driver
    /// says.
    pub fn enqueue(
        &self,
        piece: MemoryAttentionPiece,
        x: &View,
        attended: Option<&Attended>,
        y: &View,
        projected: Option<&View>,
        chain: &Chain<'_>,
    ) -> Result<()> {
        self.enqueue_in(piece, [x, y], (attended, projected), &chain.in_mode(self.mode()))
    }

    /// When its kernels start, unless the caller says. On an H200 early launches are faster with
    /// Hopper's MLP, and were slower without it (docs/results/kernels.md); why is not known.
    fn mode(&self) -> LaunchMode {
        if self.hopper_mlp.is_some() { LaunchMode::Pdl } else { LaunchMode::Ordered }
    }

    /// The same in the chain's mode.
    fn enqueue_in(
        &self,
        piece: MemoryAttentionPiece,
        [x, y]: [&View; 2],
        (attended, projected): (Option<&Attended>, Option<&View>),
        chain: &Chain<'_>,
    ) -> Result<()> {
        let row = HALF * self.tokens();
        need_exactly(x, row * WIDTH, ALIGNMENT, "the tokens")?;
        need_exactly(y, row * WIDTH, ALIGNMENT, "the next tokens")?;
        let attended = || attended.context("nothing was attended to");
        let projected = |sections: usize| -> Result<&View> {
            let view = projected.context("there is no place for queries")?;
            need_exactly(view, row * sections * WIDTH, ALIGNMENT, "the queries")?;
            Ok(view)
        };
        match piece {
            MemoryAttentionPiece::Start => {
                let Layer { norm1, qkv, .. } = self.layer(0)?;
                let added = [x, &self.weights.positions, y];
                self.project(Source::Features(added), (norm1, qkv, 3), projected(3)?, chain)
            }
            MemoryAttentionPiece::Query(at) => {
                let Layer { norm2, query, .. } = self.layer(at)?;
                let attended = attended()?;
                attended.check(self.tokens(), WIDTH)?;
                let source = match attended {
                    Attended::Whole(whole) => Source::Sums([x, whole, y]),
                    Attended::Parts(parts) => Source::Joined([x, y], parts),
                };
                self.project(source, (norm2, query, 1), projected(1)?, chain)
            }
            MemoryAttentionPiece::Finish(at) => {
                let Layer { norm1, qkv, .. } = self.layer(at + 1)?;
                let projected = projected(3)?;
                self.mlp(self.layer(at)?, x, attended()?, y, chain)?;
                self.project(Source::Tokens(y), (norm1, qkv, 3), projected, chain)
            }
            MemoryAttentionPiece::Last => {
                let layer = self.layer(self.shape.layers - 1)?;
                self.mlp(layer, x, attended()?, &self.sum, chain)?;
                self.normalize(&self.sum, &self.weights.norm, y, chain)
            }
        }
    }

    fn layer(&self, at: usize) -> Result<&Layer> {
        match self.weights.layers.get(at) {
            Some(layer) => Ok(layer),
            None => bail!("the memory attention has {} layers, no layer {at}", self.shape.layers),
        }
    }

    /// Adds a memory's values and the MLP of a layer to `x`. `y` may be `self.sum`: each element is
    /// read by the thread that writes it, before.
    fn mlp(
        &self,
        layer: &Layer,
        x: &View,
        memory: &Attended,
        y: &View,
        chain: &Chain<'_>,
    ) -> Result<()> {
        self.end_attention(layer, x, memory, chain)?;
        if let Some(mlp) = &self.hopper_mlp {
            let operands = MlpOperands {
                tokens: self.tokens(),
                hidden: HIDDEN,
                activation: Activation::Relu,
                x: &self.normed,
                up: &layer.up,
                down: &layer.down,
                residual: &self.sum,
                out: y,
                memory: None,
            };
            return mlp.enqueue(&operands, chain);
        }
        self.mlp_up(&self.normed, &layer.up, chain)?;
        self.add_product(&self.hidden, (&layer.down, HIDDEN), &self.sum, y, chain)
    }
}
