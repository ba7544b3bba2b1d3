/*!
The mask decoder of the track step, from the image tokens after the memory attention to mask logits,
IoUs, objectness and object pointer (`cuda/mask_decoder_*.cu`).

Its eight prompt tokens are constants. The image is therefore multiplied by folded queries and keys:
64 rows, one for each of eight heads and eight tokens. One kernel over tiles of the image computes
the image-to-token attention and the next token-to-image attention. Between two such passes a few
blocks compute with the tokens alone.

```text
image ─ token_to_image_attn ─→ stats ─ join_splits, token_mlp, fold_self_attn, token_self_attn
image ─ image_to_token_attn ─→ y, stats ─ join_splits, token_mlp, fold_token_to_image
    y ─ image_to_token_attn ─→ y, stats ─ join_splits, head_mlps, head_outputs ─→ all but low
    y, hr0, hr1, vector ─ upscale_masks ─→ low
```

All tensors of the image are fp16, those of tokens fp32. The outputs are fp32, the pointer fp16.
*/

mod after_image;
mod launches;
mod scratch;
pub(crate) mod selftest;
mod weights;

use std::sync::Arc;

use anyhow::{Result, bail};

use super::kernel::Chain;
use super::{Output, int, need_exactly};
use after_image::{Queries, Way};
use cuda::{Element, Gpu, LaunchMode, Stream, View};
use launches::Kernels;
use scratch::Scratch;
use vos::bundle::mask_decoder::{CHOICES, MIDDLE, NARROW, WIDTH};
use vos::bundle::{MaskDecoderShape, MaskDecoderWeights};
use weights::Weights;

/// Bytes of an element.
const HALF: usize = 2;
const FLOAT: usize = 4;
/// What vector loads need.
const ALIGNMENT: usize = 16;

/// A mask decoder with its weights, and the memory that it works in.
///
/// Work on different streams at the same time needs a value each; [`Self::sharing`] makes more with
/// the same weights.
#[derive(Debug)]
pub struct MaskDecoder {
    model: Arc<Model>,
    scratch: Scratch,
    way: Way,
}

/// Buffers of the outputs, f32; the object pointer is f16, as in the memory bank.
#[derive(Clone, Debug)]
pub struct MaskDecoderOutputs {
    /// Logits, `[4 grid, 4 grid]`.
    pub low: View,
    /// The predicted IoU of the selected mask, one number.
    pub iou: View,
    /// The predicted IoUs of masks 1 to 3, of which the first highest one is selected.
    pub ious: View,
    /// The object's pointer, f16 `[256]`.
    pub pointer: View,
    /// Objectness logit, one number: above 0 where the object is visible.
    pub score: View,
}

/// What does not change from launch to launch.
#[derive(Debug)]
struct Model {
    shape: MaskDecoderShape,
    kernels: Kernels,
    weights: Weights,
}

impl MaskDecoder {
    /// Loads the kernels, for sm 80 and newer, and brings the weights to the device.
    ///
    /// # Errors
    /// A grid that is odd or smaller than 4, weights of another size, a driver that refuses the
    /// PTX, or what else it says.
    pub fn new(
        gpu: &Gpu,
        shape: MaskDecoderShape,
        weights: &MaskDecoderWeights,
        stream: &Stream,
    ) -> Result<Self> {
        shape.check()?;
        // The largest tensor: the features of the finest map.
        int(shape.low_size() * shape.low_size() * NARROW, "the number of the features' elements")?;
        let kernels = Kernels::load(gpu)?;
        let weights = Weights::load(gpu, shape, weights, stream)?;
        let model = Arc::new(Model { shape, kernels, weights });
        Ok(Self { scratch: Scratch::new(gpu, shape)?, model, way: Way::USUAL })
    }

    /// Another one with the same weights, for another stream.
    ///
    /// # Errors
    /// Too little memory.
    pub fn sharing(&self, gpu: &Gpu) -> Result<Self> {
        let scratch = Scratch::new(gpu, self.model.shape)?;
        Ok(Self { model: Arc::clone(&self.model), scratch, way: self.way })
    }

    /// Image tokens.
    pub fn tokens(&self) -> usize {
        self.model.shape.tokens()
    }

    /// An output tensor, by the name that an engine has for it: `low`, `iou`, `ptr`, `score`
    /// or `ious`.
    ///
    /// # Errors
    /// Another name.
    pub fn output(&self, name: &str) -> Result<Output> {
        let side = self.model.shape.low_size();
        let (shape, element) = match name {
            "low" => (vec![1, 1, side, side], Element::F32),
            "iou" | "score" => (vec![1, 1], Element::F32),
            "ious" => (vec![1, CHOICES], Element::F32),
            "ptr" => (vec![1, WIDTH], Element::F16),
            _ => bail!("the mask decoder gives low, iou, ptr, score and ious, no '{name}'"),
        };
        let shape = shape.into_iter().map(|extent| extent as i64).collect();
        Ok(Output { name: name.to_owned(), element, shape })
    }

    /// Enqueues a frame of one object: `outputs` of `image` f16 `[tokens, 256]`, the tokens after
    /// the memory attention, and the finer features `hr0` f16 `[32, 4 grid, 4 grid]` and `hr1` f16
    /// `[64, 2 grid, 2 grid]`. 17 early launches without allocation; may be recorded.
    ///
    /// # Errors
    /// Views of another size or at odd addresses, or what the driver says.
    pub fn enqueue(
        &self,
        image: &View,
        [hr0, hr1]: [&View; 2],
        outputs: &MaskDecoderOutputs,
        chain: &Chain<'_>,
    ) -> Result<()> {
        self.enqueue_in(image, [hr0, hr1], outputs, &chain.in_mode(LaunchMode::Pdl))
    }

    /// The same in the chain's mode.
    fn enqueue_in(
        &self,
        image: &View,
        [hr0, hr1]: [&View; 2],
        outputs: &MaskDecoderOutputs,
        chain: &Chain<'_>,
    ) -> Result<()> {
        let MaskDecoderShape { grid, .. } = self.model.shape;
        let tokens = self.tokens();
        need_exactly(image, HALF * tokens * WIDTH, ALIGNMENT, "the decoder's image")?;
        need_exactly(hr0, HALF * 16 * tokens * NARROW, ALIGNMENT, "'hr0'")?;
        need_exactly(hr1, HALF * 4 * tokens * MIDDLE, ALIGNMENT, "'hr1'")?;
        need_exactly(&outputs.low, FLOAT * 16 * grid * grid, ALIGNMENT, "'low'")?;
        need_exactly(&outputs.iou, FLOAT, FLOAT, "'iou'")?;
        need_exactly(&outputs.ious, FLOAT * CHOICES, FLOAT, "'ious'")?;
        need_exactly(&outputs.pointer, HALF * WIDTH, ALIGNMENT, "'ptr'")?;
        need_exactly(&outputs.score, FLOAT, FLOAT, "'score'")?;

        let Model { weights, .. } = &*self.model;
        let Weights { started, layers: [first, second], last, .. } = weights;
        let [a, b] = &self.scratch.queries;
        self.token_to_image_attn(image, &first.token_to_image, chain)?;
        let queries = Queries { attn: &first.token_to_image, from: started, to: a };
        self.token_mlp(queries, first, chain)?;
        self.fold_self_attn(b, chain)?;
        self.token_self_attn(b, a, chain)?;
        self.image_to_token_attn(image, first, &second.token_to_image, chain)?;
        let queries = Queries { attn: &second.token_to_image, from: a, to: b };
        self.token_mlp(queries, second, chain)?;
        self.fold_token_to_image(a, chain)?;
        // In place: a block reads its tile before it writes it.
        self.image_to_token_attn(&self.scratch.image, second, last, chain)?;
        self.head_mlps(Queries { attn: last, from: a, to: b }, chain)?;
        self.head_outputs(&self.scratch.rows[1], outputs, chain)?;
        self.upscale_masks([hr0, hr1], outputs, chain)
    }
}
