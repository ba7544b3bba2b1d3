/*!
Programs: the operations of a frame's work that are the same for each frame, and so can be captured
as a CUDA graph.

An operation runs an engine with its bindings, or a CUDA kernel between engines or of the memory
bank.
*/
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::rc::Rc;

use anyhow::{Context, Result, bail};

use super::bound_engine::{DeviceTensor, SharedEngine, TensorDesc};
use cuda::Element;
use cuda::{Branch, Capturable, Stream, View};
use kernels::{
    Attended, Attention, BankState, Chain, ImageEncoder, MaskDecoder, MaskDecoderOutputs,
    MemoryAttention, MemoryAttentionPiece, MemoryEncoder, MemoryKeyProj, Trunk,
};

/// One operation.
pub enum Op {
    /// A run of an engine with these tensors.
    Engine {
        /// The engine.
        engine: SharedEngine,
        /// Tensor and memory; tensors that the engine lacks are left out.
        bindings: Vec<(Cow<'static, str>, DeviceTensor)>,
    },
    /// Which rows, ages and keys the frame reads.
    BankInputs {
        /// The object's bank.
        state: Rc<BankState>,
        /// Rows of the temporal encoding.
        rows: View,
        /// Ages of the pointers, where the model takes them.
        ages: Option<View>,
        /// Bias that masks empty slots, where the bank is padded.
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
    /// Attention between two segments of a track step: softmax(q kᵀ + bias) v.
    Attention {
        /// The kernel and its sizes.
        attention: Rc<Attention>,
        /// Queries, keys, values.
        inputs: [View; 3],
        /// Bias that masks empty slots, where there are any.
        bias: Option<View>,
        /// The result.
        output: Attended,
    },
    /// What lies between two attentions of a track step, in place of a segment's engine.
    MemoryAttention {
        /// The kernels and their weights.
        kernels: Rc<MemoryAttention>,
        /// Which part of the layers.
        piece: MemoryAttentionPiece,
        /// Tokens or features, as [`MemoryAttention::enqueue`] takes them.
        x: View,
        /// The result of the attention before; none of the first.
        attended: Option<Attended>,
        /// The tokens behind it.
        y: View,
        /// Queries, keys and values of the attention that follows; none of the last.
        projected: Option<View>,
    },
    /// The mask decoder: from image tokens after the memory attention to its outputs.
    MaskDecoder {
        /// The kernels and their weights.
        decoder: Rc<MaskDecoder>,
        /// The tokens.
        image: View,
        /// The finer features, `hr0` and `hr1`.
        fine: [View; 2],
        /// Logits, predicted IoUs, pointer, score.
        outputs: MaskDecoderOutputs,
    },
    /// A frame's features and mask to its memory.
    Memory {
        /// The kernels and their weights.
        encoder: Rc<MemoryEncoder>,
        /// `feat`, `low`, `score` and whether the mask is made binary, as
        /// [`MemoryEncoder::enqueue`] takes them.
        inputs: [View; 4],
        /// The slot that is written.
        memory: View,
    },
    /// The trunk between an encoder's stem and its neck.
    Trunk(Rc<Trunk>),
    /// A whole image encoder by CUDA kernels.
    Encoder {
        /// The kernels and their weights.
        encoder: Rc<ImageEncoder>,
        /// The image, normalised and planar.
        image: View,
        /// `feat`, `hr0` and `hr1`.
        features: [View; 3],
    },
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

impl Op {
    /// Whether it has work for a branch of a recording.
    fn forks(&self) -> bool {
        matches!(self, Self::Memory { encoder, .. } if encoder.forks())
    }

    /// Enqueues it on the stream of the chain: as its next launches, or as other work. A part may
    /// go to `branch`, which has joined the stream again when this returns.
    fn enqueue(&self, stream: &Stream, chain: &Chain<'_>, branch: Option<&Branch>) -> Result<()> {
        match self {
            Self::Attention { attention, inputs: [q, k, v], bias, output } => {
                return attention.enqueue([q, k, v], bias.as_ref(), output, chain);
            }
            Self::MemoryAttention { kernels, piece, x, attended, y, projected } => {
                let (attended, projected) = (attended.as_ref(), projected.as_ref());
                return kernels.enqueue(*piece, x, attended, y, projected, chain);
            }
            Self::MaskDecoder { decoder, image, fine: [hr0, hr1], outputs } => {
                return decoder.enqueue(image, [hr0, hr1], outputs, chain);
            }
            Self::Engine { engine, bindings } => {
                let mut engine = engine.borrow_mut();
                let is_kept =
                    |desc: &TensorDesc| bindings.iter().any(|(name, _)| *name == desc.name);
                if let Some(desc) = engine.tensors().iter().find(|desc| !is_kept(desc)) {
                    bail!("a step of the pipeline gives '{}' of its engine no memory", desc.name);
                }
                for (name, tensor) in bindings {
                    if engine.tensor(name).is_some() {
                        engine.bind(name, tensor)?;
                    }
                }
                engine.enqueue(stream)?;
            }
            Self::BankInputs { state, rows, ages, bias } => {
                state.enqueue_inputs(rows, ages.as_ref(), bias.as_ref(), stream)?;
            }
            Self::Keys { keys, inputs: [memories, rows, pointers], ages, output } => {
                keys.enqueue([memories, rows, pointers], ages.as_ref(), output, stream)?;
            }
            Self::Memory { encoder, inputs, memory } => {
                encoder.enqueue(inputs.each_ref(), memory, stream, branch)?;
            }
            Self::Trunk(trunk) => trunk.enqueue(stream)?,
            Self::Encoder { encoder, image, features } => {
                encoder.enqueue(image, features.each_ref(), stream)?;
            }
            Self::Advance { state, pointer, pointers, element } => {
                state.enqueue_advance(pointer, pointers, *element, stream)?;
            }
        }
        chain.interrupt();
        Ok(())
    }
}

/// Enqueues operations in this order, behind work of any kind. Kernels of a track step that follow
/// each other are one chain: all but the first may start early. Operations use `branch` one after
/// the other.
fn enqueue_all(ops: &[Op], stream: &Stream, branch: Option<&Branch>) -> Result<()> {
    // SAFETY: an operation whose launches are not the chain's interrupts it, and nothing else is
    // enqueued on the stream meanwhile.
    let chain = unsafe { Chain::shared(stream) };
    ops.iter().try_for_each(|op| op.enqueue(stream, &chain, branch))
}

/// Operations in order.
///
/// They stay private: a captured graph uses their memory as long as the program lives.
pub struct Program {
    ops: Vec<Op>,
    /// The first so many are a branch of a recording.
    aside: usize,
    /// The first operation that follows the branch.
    joined: usize,
}

impl Program {
    /// These operations, in this order.
    pub fn new(ops: Vec<Op>) -> Self {
        Self { ops, aside: 0, joined: 0 }
    }

    /// First `aside`, then `ops`, in this order; in a captured graph `aside` is a branch, which the
    /// GPU may run beside `ops` up to the one of index `reader`. No operation before that one uses
    /// memory that `aside` writes, or writes memory that `aside` uses.
    pub fn beside(mut aside: Vec<Op>, ops: Vec<Op>, reader: usize) -> Self {
        let count = aside.len();
        aside.extend(ops);
        let joined = aside.len().min(count + reader);
        Self { ops: aside, aside: count, joined }
    }

    /// A run of an engine.
    pub fn engine<N: Into<Cow<'static, str>>>(
        engine: &SharedEngine,
        bindings: Vec<(N, DeviceTensor)>,
    ) -> Op {
        let bindings = bindings.into_iter().map(|(name, placed)| (name.into(), placed)).collect();
        Op::Engine { engine: Rc::clone(engine), bindings }
    }

    /// A frame's memory by the CUDA kernels, of tensors with the names of the engine's.
    ///
    /// # Errors
    /// One is missing.
    pub fn memory(
        encoder: &Rc<MemoryEncoder>,
        tensors: &[(&str, DeviceTensor)],
        memory: View,
    ) -> Result<Op> {
        let of = |wanted: &str| -> Result<View> {
            let found = tensors.iter().find(|(name, _)| *name == wanted);
            let (_, placed) =
                found.with_context(|| format!("the memory encoder lacks the tensor '{wanted}'"))?;
            Ok(placed.view.clone())
        };
        let inputs = [of("feat")?, of("low")?, of("score")?, of("binar")?];
        Ok(Op::Memory { encoder: Rc::clone(encoder), inputs, memory })
    }
}

// SAFETY: the program keeps the kernels, engines and views of its operations as long as it lives,
// since nothing takes operations out. An engine's memory is among these views: `enqueue` refuses
// tensors that its bindings leave out, because another program may bind the engine elsewhere. A
// trunk keeps its memory; only its choice of kernels changes while it is shared. No memory is
// pinned: views are device memory. A trunk, or an encoder with one, fills its counters before its
// first kernel, and no other operation uses them.
unsafe impl Capturable for Program {
    fn enqueue(&mut self, stream: &Stream) -> Result<()> {
        enqueue_all(&self.ops, stream, None)
    }

    fn forks(&self) -> bool {
        self.aside > 0 || self.ops.iter().any(Op::forks)
    }

    fn enqueue_forked(&mut self, stream: &Stream, branch: &Branch) -> Result<()> {
        if self.aside == 0 {
            return enqueue_all(&self.ops, stream, Some(branch));
        }
        let (before, after) = self.ops.split_at(self.joined);
        let (aside, beside) = before.split_at(self.aside);
        let side = branch.fork(stream)?;
        enqueue_all(aside, side, None)?;
        enqueue_all(beside, stream, None)?;
        branch.join(stream)?;
        // A chain of its own: its first kernel follows the branch, too.
        enqueue_all(after, stream, Some(branch))
    }

    fn cleared(&self) -> Option<View> {
        let trunk = |op: &Op| match op {
            Op::Trunk(trunk) => trunk.counters().cloned(),
            Op::Encoder { encoder, .. } => encoder.counters().cloned(),
            _ => None,
        };
        self.ops.iter().find_map(trunk)
    }
}
