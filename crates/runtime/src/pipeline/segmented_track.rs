/*!
A segmented track step: engines, and CUDA kernels for the attention between them
(`onnx/segexport/track_segments.py`).

A segment's outputs tell what follows it, never the model's name. After `q`, `k` and `v` comes the
frame's self-attention. After `q` alone comes the next attention to the memory bank, whose keys
`track_keys` or a kernel has computed, and whose values are the bank itself. A segment with neither
gives the step's output, or the tokens that the CUDA mask decoder takes. A segment's `y` is the next
one's `x`, in two buffers by turns.
*/

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};

use super::bound::{allocate_for, tensor_of};
use crate::engine::fill_levels;
use cuda::{Gpu, MemoryTag, View};
use execution::{DeviceTensor, Op, Program, SharedEngine, TensorDesc};
use kernels::{
    Attention, AttentionKernels, AttentionShape, HEAD, MaskDecoder, MaskDecoderOutputs,
    MemoryKeyProj, Values,
};
use tensorrt::DataType;
use vos::bundle::Contract;

/// Names of the keys, layer by layer; no step has more layers than [`vos::bundle::Role::SEGMENTS`]
/// has room for.
const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// The attention between two segments.
enum AttentionBetween {
    /// Self-attention of the frame's tokens.
    SelfAttention,
    /// Cross-attention to the memory bank, of this layer.
    CrossAttention(usize),
}

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
    /// Contexts of the segments in order.
    pub segments: Vec<SharedEngine>,
    /// The mask decoder after a last segment that gives tokens; none where that segment gives the
    /// output.
    pub decoder: Option<Rc<MaskDecoder>>,
}

/// The engines of one stream with the tensors between them.
pub struct SegmentedTrack {
    keys: KeySource,
    segments: Vec<SharedEngine>,
    decoder: Option<Rc<MaskDecoder>>,
    /// One after each segment but the last.
    attentions: Vec<AttentionBetween>,
    /// Keys of all layers' cross-attention, and of each.
    all_keys: View,
    bank_keys: Vec<DeviceTensor>,
    /// Tokens on their way through the layers, in turn.
    tokens: [DeviceTensor; 2],
    query: DeviceTensor,
    key: DeviceTensor,
    value: DeviceTensor,
    /// Results of both attentions: never needed at the same time.
    self_output: DeviceTensor,
    cross_output: DeviceTensor,
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
        Pieces { keys, segments, decoder }: Pieces,
    ) -> Result<Self> {
        let decoded = decoder.is_some();
        let has = |engine: &SharedEngine, name: &str| engine.borrow().tensor(name).is_some();
        let (mut attentions, mut layers) = (Vec::new(), 0);
        for (at, segment) in segments.iter().enumerate() {
            let last = at + 1 == segments.len();
            attentions.push(match (has(segment, "q"), has(segment, "k"), has(segment, "low")) {
                (true, true, false) if !last => AttentionBetween::SelfAttention,
                (true, false, false) if !last => {
                    layers += 1;
                    AttentionBetween::CrossAttention(layers - 1)
                }
                (false, false, answers) if last && answers != decoded => break,
                _ => bail!(
                    "the outputs of the track_seg{at} engine do not say what comes next: expected \
                     q, k and v or q alone, and {} of the last one; export the model again with \
                     --segments and build its engines",
                    if decoded { "y alone" } else { "low" }
                ),
            });
        }
        let key_layers = match &keys {
            KeySource::Engine(keys) => KEYS.iter().filter(|k| has(keys, k)).count(),
            KeySource::Kernel(keys) => keys.layers(),
        };
        ensure!(
            layers > 0 && layers <= KEYS.len() && key_layers == layers,
            "the segments have {layers} attentions to the memory bank, but keys are computed for \
             {key_layers} layers; export the model again with --segments and build its engines"
        );
        // Every layer has the attentions of the first two.
        let [first, second, third, ..] = segments.as_slice() else {
            bail!("there are {} segments of the track step, three are the fewest", segments.len());
        };
        ensure!(
            matches!(
                attentions.as_slice(),
                [AttentionBetween::SelfAttention, AttentionBetween::CrossAttention(0), ..]
            ),
            "the track step has no self-attention before its cross-attention to the bank; export \
             the model again with --segments and build its engines"
        );
        let new =
            |engine: &SharedEngine, name: &str| allocate_for(gpu, engine, name, MemoryTag::Scratch);
        let query = half(&tensor_of(first, "q")?, [None, Some(HEAD)])?;
        let own =
            AttentionShape { objects: 1, queries: query[0], keys: query[0], values: Values::Frame };
        for name in ["k", "v"] {
            half(&tensor_of(first, name)?, [Some(own.keys), Some(HEAD)])?;
        }
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
        if let (Some(decoder), Some(last)) = (&decoder, segments.last()) {
            half(&tensor_of(last, "y")?, [Some(decoder.tokens()), Some(HEAD)])?;
        }
        // Segments 1 and 2 take what the two attentions give; the others take the same.
        half(&tensor_of(second, "o")?, [Some(own.queries), Some(HEAD)])?;
        half(&tensor_of(third, "o")?, [Some(own.queries), Some(width)])?;
        let make = |shape| Ok::<_, anyhow::Error>(Rc::new(Attention::new(gpu, kernels, shape)?));
        let (self_attention, cross_attention) = (make(own)?, make(bank)?);
        log::debug!(
            "attention: {} in {} parts, {} in {} parts",
            self_attention.kernel(),
            self_attention.splits(),
            cross_attention.kernel(),
            cross_attention.splits()
        );
        Ok(Self {
            all_keys,
            bank_keys,
            tokens: [new(first, "y")?, new(first, "y")?],
            query: new(first, "q")?,
            key: new(first, "k")?,
            value: new(first, "v")?,
            self_output: new(second, "o")?,
            cross_output: new(third, "o")?,
            self_attention,
            cross_attention,
            // Frame 0 reads nothing, frame 1 the first level.
            full_from: fill_levels(contract).len(),
            attentions,
            keys,
            segments,
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
            None => tensor_of(self.segments.last().context("there are no segments")?, name),
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
    pub fn key_op(&self, bank: &[(&'static str, DeviceTensor)]) -> Result<Op> {
        Ok(match &self.keys {
            KeySource::Engine(keys) => {
                let mut all = bank.to_vec();
                all.extend(KEYS.into_iter().zip(self.bank_keys.iter().cloned()));
                Program::engine(keys, all)
            }
            KeySource::Kernel(keys) => {
                let find = |name: &str| {
                    let found = bank.iter().find(|(tensor, _)| *tensor == name);
                    found.map(|(_, placed)| placed.view.clone())
                };
                let need = |name: &str| find(name).with_context(|| format!("no bank's '{name}'"));
                Op::Keys {
                    keys: Rc::clone(keys),
                    inputs: [need("mem")?, need("tidx")?, need("ptrs")?],
                    ages: find("ptr_t"),
                    output: self.all_keys.clone(),
                }
            }
        })
    }

    /// The operations after the keys. `values`: the whole bank, memories then pointers. `bias`
    /// masks empty slots; none where there are none. `tensors`: features and outputs.
    pub fn step_ops(
        &self,
        values: &View,
        bias: Option<&View>,
        tensors: &[(&'static str, DeviceTensor)],
    ) -> Result<Vec<Op>> {
        let (mut ops, mut attended) = (Vec::new(), None::<DeviceTensor>);
        for (at, segment) in self.segments.iter().enumerate() {
            let mut all = tensors.to_vec();
            all.push(("x", self.tokens[(at + 1) % 2].clone()));
            all.push(("y", self.tokens[at % 2].clone()));
            all.extend(attended.take().map(|placed| ("o", placed)));
            for (name, placed) in [("q", &self.query), ("k", &self.key), ("v", &self.value)] {
                all.push((name, placed.clone()));
            }
            ops.push(Program::engine(segment, all));
            let Some(gap) = self.attentions.get(at) else { continue };
            let (attention, k, v, bias, output) = match gap {
                AttentionBetween::SelfAttention => (
                    &self.self_attention,
                    &self.key.view,
                    &self.value.view,
                    None,
                    &self.self_output,
                ),
                AttentionBetween::CrossAttention(layer) => (
                    &self.cross_attention,
                    &self.bank_keys[*layer].view,
                    values,
                    bias,
                    &self.cross_output,
                ),
            };
            ops.push(Op::Attention {
                attention: Rc::clone(attention),
                inputs: [&self.query.view, k, v].map(View::clone),
                bias: bias.cloned(),
                output: output.view.clone(),
            });
            attended = Some(output.clone());
        }
        if let Some(decoder) = &self.decoder {
            let of = |name: &str| {
                let found = tensors.iter().find(|(tensor, _)| *tensor == name);
                let missing = || format!("the mask decoder lacks the tensor '{name}'");
                found.map(|(_, placed)| placed.view.clone()).with_context(missing)
            };
            ops.push(Op::MaskDecoder {
                decoder: Rc::clone(decoder),
                // The last segment's output.
                image: self.tokens[(self.segments.len() + 1) % 2].view.clone(),
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

/// The rows and columns of one object's tensor, which must be fp16 and as large as `expected` says
/// where it does.
fn half(desc: &TensorDesc, expected: [Option<usize>; 2]) -> Result<[usize; 2]> {
    let TensorDesc { name, dtype, shape, .. } = desc;
    ensure!(
        *dtype == DataType::Half,
        "'{name}' of the segmented track step is {dtype}, the attention kernels take fp16; build \
         the engines with --precision fp16, or with --track-variant padded"
    );
    let found = match shape.as_slice() {
        [1, rows, columns] => [rows, columns].map(|extent| usize::try_from(*extent).unwrap_or(0)),
        _ => [0, 0],
    };
    let fits = found
        .iter()
        .zip(expected)
        .all(|(found, wanted)| *found > 0 && wanted.is_none_or(|w| w == *found));
    let word =
        |wanted: Option<usize>| wanted.map_or_else(|| "any".to_owned(), |size| size.to_string());
    ensure!(
        fits,
        "'{name}' of the segmented track step is {shape:?}, the attention kernels take [1, {}, \
         {}]; build the engines with --track-variant padded",
        word(expected[0]),
        word(expected[1])
    );
    Ok(found)
}
