/*!
A segmented track step: engines or CUDA kernels, and CUDA kernels for the attention between them
(`onnx/segexport/track_segments.py`).

A segment's outputs tell what follows it, never the model's name. After `q`, `k` and `v` comes the
frame's self-attention. After `q` alone comes the next attention to the memory bank, whose keys
`track_keys` or a kernel has computed, and whose values are the bank itself. A segment with neither
gives the step's output, or the tokens that the CUDA mask decoder takes. A segment's `y` is the next
one's `x`, in two buffers by turns.
*/

use std::rc::Rc;

use anyhow::{Result, ensure};

use super::bound::tensor_of;
pub use super::segmented_layers::Layers;
use super::segmented_layers::{AttentionBetween, LayerTensors, find, half};
use crate::engine::fill_levels;
use cuda::{Gpu, MemoryTag, View};
use execution::{DeviceTensor, Op, Program, SharedEngine, TensorDesc};
use kernels::{
    Attended, Attention, AttentionKernels, AttentionShape, HEAD, MaskDecoder, MaskDecoderOutputs,
    MemoryKeyProj, Values,
};
use tensorrt::DataType;
use vos::bundle::Contract;

/// Names of the keys, layer by layer; no step has more layers than [`vos::bundle::Role::SEGMENTS`]
/// has room for.
const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// What computes the bank's keys.
pub enum KeySource {
    /// A context of `track_keys`.
    Engine(SharedEngine),
    /// The kernel.
    Kernel(Rc<MemoryKeyProj>),
}

/// The pieces of a segmented track step.
pub struct Pieces {
    /// What computes the keys.
    pub keys: KeySource,
    /// What lies between the attentions.
    pub layers: Layers,
    /// The mask decoder after a last segment that gives tokens; none where that segment gives the
    /// output.
    pub decoder: Option<Rc<MaskDecoder>>,
}

/// The engines and kernels of one stream with the tensors between them.
pub struct SegmentedTrack {
    keys: KeySource,
    layers: Layers,
    decoder: Option<Rc<MaskDecoder>>,
    /// One after each segment but the last.
    attentions: Vec<AttentionBetween>,
    /// Keys of all layers' cross-attention, and of each.
    all_keys: View,
    bank_keys: Vec<DeviceTensor>,
    tensors: LayerTensors,
    self_attention: Rc<Attention>,
    cross_attention: Rc<Attention>,
    /// From this number of frames on the bank is full.
    full_from: usize,
}

impl SegmentedTrack {
    /// Puts the pieces in a row.
    ///
    /// # Errors
    /// Engines that do not fit together, or heads that there is no kernel for.
    pub fn new(
        gpu: &Gpu,
        kernels: &AttentionKernels,
        contract: &Contract,
        Pieces { keys, layers: own_layers, decoder }: Pieces,
    ) -> Result<Self> {
        let has = |engine: &SharedEngine, name: &str| engine.borrow().tensor(name).is_some();
        let attentions = own_layers.attentions(decoder.is_some())?;
        let is_cross = |it: &&AttentionBetween| matches!(it, AttentionBetween::CrossAttention(_));
        let layers = attentions.iter().filter(is_cross).count();
        let key_layers = match &keys {
            KeySource::Engine(keys) => KEYS.iter().filter(|k| has(keys, k)).count(),
            KeySource::Kernel(keys) => keys.layers(),
        };
        ensure!(
            layers > 0 && layers <= KEYS.len() && key_layers == layers,
            "the segments have {layers} attentions to the memory bank, but keys are computed for \
             {key_layers} layers; export the model again with --segments and build its engines"
        );
        let queries = own_layers.queries()?;
        let own = AttentionShape { objects: 1, queries, keys: queries, values: Values::Frame };
        let width = Values::Memory.columns();
        ensure!(
            contract.memory_channels == width,
            "memories are {} wide, the attention kernels take {width}; build the engines with \
             --track-variant padded",
            contract.memory_channels
        );
        let split = contract.pointer_channels / width;
        let all = contract.max_memories * contract.memory_tokens + contract.max_pointers * split;
        let bank = AttentionShape { keys: all, values: Values::Memory, ..own };
        match &keys {
            KeySource::Engine(keys) => KEYS[..layers].iter().try_for_each(|name| {
                half(&tensor_of(keys, name)?, [Some(all), Some(HEAD)]).map(|_| ())
            })?,
            KeySource::Kernel(keys) => ensure!(
                keys.keys() == all,
                "the keys' kernel computes {} keys, the bank has {all}; export the model again \
                 with --segments and build its engines",
                keys.keys()
            ),
        }
        let of_layer = size_of::<u16>() * all * HEAD;
        let all_keys = View::new(&gpu.tagged(MemoryTag::Scratch), layers * of_layer)?;
        let bank_keys = (0..layers).map(|layer| {
            let view = all_keys.part(layer * of_layer, of_layer)?;
            Ok(DeviceTensor { view, dtype: DataType::Half })
        });
        let bank_keys = bank_keys.collect::<Result<_>>()?;
        let make = |shape| Ok::<_, anyhow::Error>(Rc::new(Attention::new(gpu, kernels, shape)?));
        let (self_attention, cross_attention) = (make(own)?, make(bank)?);
        let decoded = decoder.as_ref().map(|decoder| decoder.tokens());
        let tensors = own_layers.tensors(gpu, [&self_attention, &cross_attention], decoded)?;
        log::debug!(
            "attention: {} in {} parts, {} in {} parts",
            self_attention.kernel(false),
            self_attention.splits(),
            cross_attention.kernel(false),
            cross_attention.splits()
        );
        Ok(Self {
            all_keys,
            bank_keys,
            tensors,
            self_attention,
            cross_attention,
            // Frame 0 reads nothing, frame 1 the first level.
            full_from: fill_levels(contract).len(),
            attentions,
            keys,
            layers: own_layers,
            decoder,
        })
    }

    /// The engine that reads the bank; none where only kernels do.
    pub fn reader(&self) -> Option<&SharedEngine> {
        match &self.keys {
            KeySource::Engine(keys) => Some(keys),
            KeySource::Kernel(_) => None,
        }
    }

    /// A tensor of the step's output, from the last engine or the mask decoder.
    pub fn output(&self, name: &str) -> Result<TensorDesc> {
        match &self.decoder {
            Some(decoder) => decoder.output(name).map(TensorDesc::from),
            None => self.layers.output(name),
        }
    }

    /// Keys of a full bank.
    pub fn bank_length(&self) -> usize {
        self.cross_attention.shape().keys
    }

    /// Whether every slot of the bank is filled when frame `t` reads it.
    pub fn is_full(&self, t: usize) -> bool {
        t >= self.full_from
    }

    /// The bank to keys. `bank`: the tensors of the bank.
    fn key_op(&self, bank: &[(&'static str, DeviceTensor)]) -> Result<Op> {
        Ok(match &self.keys {
            KeySource::Engine(keys) => {
                let mut all = bank.to_vec();
                all.extend(KEYS.into_iter().zip(self.bank_keys.iter().cloned()));
                Program::engine(keys, all)
            }
            KeySource::Kernel(keys) => Op::Keys {
                keys: Rc::clone(keys),
                inputs: [find(bank, "mem")?, find(bank, "tidx")?, find(bank, "ptrs")?],
                ages: find(bank, "ptr_t").ok(),
                output: self.all_keys.clone(),
            },
        })
    }

    /// The step's program. `inputs`: which rows, ages and keys it reads. `bank`: the tensors of the
    /// bank. The rest as [`Self::step_ops`] takes it.
    ///
    /// A captured graph computes `inputs` and the kernel's keys in a branch beside the frame's own
    /// work, up to the first attention to the bank: they read only the bank, which changes in other
    /// graphs of the same stream. Before that attention nothing reads what the branch writes (rows,
    /// ages, bias, keys), and the branch uses no memory of the frame's work: neither kernel has
    /// scratch memory, and the one that engines share is not theirs. `all_keys` is shared by all
    /// objects of the stream; the branch joins within each object's graph, and the stream runs one
    /// graph after the other, so no object's keys are overwritten while another reads its own.
    pub fn program(
        &self,
        inputs: Op,
        bank: &[(&'static str, DeviceTensor)],
        values: &View,
        bias: Option<&View>,
        tensors: &[(&'static str, DeviceTensor)],
    ) -> Result<Program> {
        let aside = vec![inputs, self.key_op(bank)?];
        let ops = self.step_ops(values, bias, tensors)?;
        let is_cross = |it: &AttentionBetween| matches!(it, AttentionBetween::CrossAttention(_));
        Ok(match (&self.keys, self.attentions.iter().position(is_cross)) {
            // In front of each attention is one operation.
            (KeySource::Kernel(_), Some(at)) => Program::beside(aside, ops, 2 * at + 1),
            // An engine of keys shares its scratch memory with the segments' engines.
            _ => Program::new(aside.into_iter().chain(ops).collect()),
        })
    }

    /// The operations after the keys. `values`: the whole bank, memories then pointers. `bias`
    /// masks empty slots; none where there are none. `tensors`: features and outputs.
    fn step_ops(
        &self,
        values: &View,
        bias: Option<&View>,
        tensors: &[(&'static str, DeviceTensor)],
    ) -> Result<Vec<Op>> {
        let (mut ops, mut attended) = (Vec::new(), None::<Attended>);
        let own = &self.tensors;
        for at in 0..self.layers.len() {
            let follows = self.attentions.get(at);
            ops.push(self.layers.op(at, own, attended.take(), follows, tensors)?);
            let Some(gap) = follows else { continue };
            let (attention, k, v, bias, output) = match gap {
                AttentionBetween::SelfAttention => {
                    let (k, v) = (&own.key.view, &own.value.view);
                    (&self.self_attention, k, v, None, &own.frame_result)
                }
                AttentionBetween::CrossAttention(layer) => {
                    let keys = &self.bank_keys[*layer].view;
                    (&self.cross_attention, keys, values, bias, &own.bank_result)
                }
            };
            ops.push(Op::Attention {
                attention: Rc::clone(attention),
                inputs: [&own.query.view, k, v].map(View::clone),
                bias: bias.cloned(),
                output: output.clone(),
            });
            attended = Some(output.clone());
        }
        if let Some(decoder) = &self.decoder {
            let of = |name: &str| find(tensors, name);
            ops.push(Op::MaskDecoder {
                decoder: Rc::clone(decoder),
                // The last output.
                image: own.behind(self.layers.len() + 1).clone(),
                fine: [of("hr0")?, of("hr1")?],
                outputs: MaskDecoderOutputs {
                    low: of("low")?,
                    iou: of("iou")?,
                    ious: of("ious")?,
                    pointer: of("ptr")?,
                    score: of("score")?,
                },
            });
        }
        Ok(ops)
    }
}
