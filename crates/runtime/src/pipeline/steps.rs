/*!
The pieces of a frame's work that are always the same, and so can be recorded: engines with their bindings, the attention
kernels between them, and the bank's own around them.
*/

use std::borrow::Cow;
use std::rc::Rc;

use anyhow::{Context, Result, bail};

use super::contexts::Shared;
use crate::{Placed, Port};
use cuda::Element;
use cuda::{Capturable, Stream, View};
use kernels::{
    Answer, Attention, BankState, MaskDecoder, MemoryEncoder, MemoryKeyProj, TrunkExecutor,
};

/// One piece.
pub enum Part {
    /// A run of an engine with these tensors.
    Engine {
        /// Its context.
        stage: Shared,
        /// Tensor and memory; tensors that the engine lacks are left out.
        bindings: Vec<(Cow<'static, str>, Placed)>,
    },
    /// Which rows, ages and keys the frame at hand reads.
    BankInputs {
        /// The object's bank.
        state: Rc<BankState>,
        /// Rows of the temporal encoding.
        rows: View,
        /// Ages of the pointers, where the model takes them.
        ages: Option<View>,
        /// What masks empty slots, where the bank is padded.
        bias: Option<View>,
    },
    /// The bank to the keys of all layers' attention to it.
    Keys {
        /// The kernel and its weights.
        keys: Rc<MemoryKeyProj>,
        /// Memories, rows of the temporal encoding, pointers.
        inputs: [View; 3],
        /// Ages of the pointers, where the model takes them.
        ages: Option<View>,
        /// The keys, layer by layer.
        output: View,
    },
    /// What comes between two pieces of a track step or two parts of an encoder: softmax(q kᵀ + bias) v.
    Attention {
        /// The kernel and its sizes.
        attention: Rc<Attention>,
        /// Queries, keys, values.
        inputs: [View; 3],
        /// What masks empty slots, where there are any.
        bias: Option<View>,
        /// The result.
        output: View,
    },
    /// The image tokens behind the memory attention to the answer.
    Decoder {
        /// The kernels and their weights.
        decoder: Rc<MaskDecoder>,
        /// The tokens.
        image: View,
        /// The finer features, `hr0` and `hr1`.
        fine: [View; 2],
        /// Logits, predicted IoU, pointer, score.
        answer: Answer,
    },
    /// A frame's features and mask to its memory.
    Memory {
        /// The kernels and their weights.
        encoder: Rc<MemoryEncoder>,
        /// `feat`, `low`, `score` and whether the mask is made binary, as [`MemoryEncoder::enqueue`] takes them.
        inputs: [View; 4],
        /// The slot that is written.
        memory: View,
    },
    /// What comes between an encoder's stem and its neck.
    Trunk(Rc<TrunkExecutor>),
    /// The frame's pointer goes to its slot, and the next frame begins.
    Advance {
        /// The object's bank.
        state: Rc<BankState>,
        /// The pointer.
        pointer: View,
        /// All slots.
        pointers: View,
        /// Their element type.
        element: Element,
    },
}

/// Pieces in order.
pub struct Steps(pub Vec<Part>);

impl Steps {
    /// A run of an engine.
    pub fn engine<N: Into<Cow<'static, str>>>(stage: &Shared, bindings: Vec<(N, Placed)>) -> Part {
        let bindings = bindings.into_iter().map(|(name, placed)| (name.into(), placed)).collect();
        Part::Engine { stage: Rc::clone(stage), bindings }
    }

    /// A frame's memory by this program's own kernels, of tensors that are named as the engine's.
    ///
    /// # Errors
    /// One is missing.
    pub fn memory(
        encoder: &Rc<MemoryEncoder>,
        tensors: &[(&str, Placed)],
        memory: View,
    ) -> Result<Part> {
        let of = |wanted: &str| -> Result<View> {
            let found = tensors.iter().find(|(name, _)| *name == wanted);
            let (_, placed) = found
                .with_context(|| format!("a memory is made of '{wanted}', and there is none"))?;
            Ok(placed.view.clone())
        };
        let inputs = [of("feat")?, of("low")?, of("score")?, of("binar")?];
        Ok(Part::Memory { encoder: Rc::clone(encoder), inputs, memory })
    }
}

#[expect(unsafe_code, reason = "what it promises is what it keeps")]
// SAFETY: a part keeps its kernels, engines and views as long as this lives, since nothing takes parts out; memory that an
// engine is bound to is among the views (checked below, as another owner of the engine may bind it elsewhere). A trunk keeps
// what it works in: its ways to compute change, not their memory, while it is shared. None of it is pinned: host memory is
// not handed out as a view. A trunk fills its counters before its first kernel, and no other part knows them.
unsafe impl Capturable for Steps {
    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        for part in &self.0 {
            match part {
                Part::Engine { stage, bindings } => {
                    let mut stage = stage.borrow_mut();
                    let is_kept =
                        |port: &Port| bindings.iter().any(|(tensor, _)| *tensor == port.name);
                    if let Some(port) = stage.ports().iter().find(|port| !is_kept(port)) {
                        bail!(
                            "a step of the pipeline gives '{}' of its engine no memory",
                            port.name
                        );
                    }
                    for (tensor, placed) in bindings {
                        if stage.port(tensor).is_some() {
                            stage.bind(tensor, placed)?;
                        }
                    }
                    stage.enqueue(stream)?;
                }
                Part::BankInputs { state, rows, ages, bias } => {
                    state.enqueue_inputs(rows, ages.as_ref(), bias.as_ref(), stream)?;
                }
                Part::Keys { keys, inputs: [memories, rows, pointers], ages, output } => {
                    keys.enqueue([memories, rows, pointers], ages.as_ref(), output, stream)?;
                }
                Part::Attention { attention, inputs: [q, k, v], bias, output } => {
                    attention.enqueue([q, k, v], bias.as_ref(), output, stream)?;
                }
                Part::Decoder { decoder, image, fine: [hr0, hr1], answer } => {
                    decoder.enqueue(image, [hr0, hr1], answer, stream)?;
                }
                Part::Memory { encoder, inputs: [feat, low, score, binary], memory } => {
                    encoder.enqueue(feat, low, score, binary, memory, stream)?;
                }
                Part::Trunk(trunk) => trunk.enqueue(stream)?,
                Part::Advance { state, pointer, pointers, element } => {
                    state.enqueue_advance(pointer, pointers, *element, stream)?;
                }
            }
        }
        Ok(())
    }

    fn cleared(&self) -> Option<View> {
        let trunk = |part: &Part| match part {
            Part::Trunk(trunk) => Some(trunk.counters().clone()),
            _ => None,
        };
        self.0.iter().find_map(trunk)
    }
}
