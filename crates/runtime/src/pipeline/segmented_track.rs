/*!
A track step that is cut at its attentions (`onnx/segexport/track_segments.py`): engines, and this program's own kernels
between them.

What comes behind a segment is told by its outputs, never by the model's name: with `q`, `k` and `v` it is the frame's
attention to itself; with `q` alone the next attention to the bank, whose keys `track_keys`, or a kernel in its place,
made ahead and whose values are the bank itself; with none the answer, or, where this program's own mask decoder stands behind the last one, the
tokens that it takes. A segment's `y` is the next one's `x`: two buffers in turn.
*/

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};

use super::contexts::{Shared, port};
use super::features::placed;
use super::steps::{Part, Steps};
use crate::engine::fill_levels;
use crate::{Placed, Port};
use cuda::{Gpu, MemoryTag, View};
use kernels::{
    Answer, Attention, AttentionKernels, AttentionShape, HEAD, MaskDecoder, MemoryKeyProj, Values,
};
use tensorrt::DataType;
use vos::bundle::Contract;

/// Names of the keys, layer by layer; no step has more layers than [`vos::bundle::Role::SEGMENTS`] has room for.
const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];

/// What comes behind a segment.
enum Gap {
    /// The frame's attention to itself.
    Frame,
    /// The attention to the bank, of this layer.
    Bank(usize),
}

/// What makes the bank's keys.
pub enum KeyMaker {
    /// A context of `track_keys`.
    Engine(Shared),
    /// The kernel.
    Kernel(Rc<MemoryKeyProj>),
}

/// What a track step that is cut at its attentions runs.
pub struct Pieces {
    /// What makes the keys.
    pub keys: KeyMaker,
    /// Contexts of the segments in order.
    pub segments: Vec<Shared>,
    /// What stands behind a last segment that gives tokens; none where it gives the answer.
    pub decoder: Option<Rc<MaskDecoder>>,
}

/// The engines of one stream with the tensors between them.
pub struct SegmentedTrack {
    keys: KeyMaker,
    segments: Vec<Shared>,
    decoder: Option<Rc<MaskDecoder>>,
    /// One behind each segment but the last.
    gaps: Vec<Gap>,
    /// Keys of all layers' attention to the bank, and of each.
    all_keys: View,
    bank_keys: Vec<Placed>,
    /// Tokens on their way through the layers, in turn.
    tokens: [Placed; 2],
    query: Placed,
    key: Placed,
    value: Placed,
    /// Results of both attentions: never needed at the same time.
    frame_result: Placed,
    bank_result: Placed,
    to_frame: Rc<Attention>,
    to_bank: Rc<Attention>,
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
        let has = |stage: &Shared, name: &str| stage.borrow().port(name).is_some();
        let (mut gaps, mut layers) = (Vec::new(), 0);
        for (at, segment) in segments.iter().enumerate() {
            let last = at + 1 == segments.len();
            gaps.push(match (has(segment, "q"), has(segment, "k"), has(segment, "low")) {
                (true, true, false) if !last => Gap::Frame,
                (true, false, false) if !last => {
                    layers += 1;
                    Gap::Bank(layers - 1)
                }
                (false, false, answers) if last && answers != decoded => break,
                _ => bail!(
                    "the outputs of the track_seg{at} engine do not say what comes next: expected q, k and v or q alone, \
                     and {} of the last one; export the model again with --segments and build its engines",
                    if decoded { "y alone" } else { "low" }
                ),
            });
        }
        let made = match &keys {
            KeyMaker::Engine(keys) => KEYS.iter().filter(|k| has(keys, k)).count(),
            KeyMaker::Kernel(keys) => keys.layers(),
        };
        ensure!(
            layers > 0 && layers <= KEYS.len() && made == layers,
            "the segments attend to the bank {layers} times, but the track_keys engine has other keys; export the model \
             again with --segments and build its engines"
        );
        // The first two gaps tell how all others look.
        let [first, second, third, ..] = segments.as_slice() else {
            bail!("there are {} segments of the track step, three are the fewest", segments.len());
        };
        ensure!(
            matches!(gaps.as_slice(), [Gap::Frame, Gap::Bank(0), ..]),
            "the track step attends to the bank before it attends to the frame; export the model again with --segments and \
             build its engines"
        );
        let new = |stage: &Shared, name: &str| placed(gpu, stage, name, MemoryTag::Scratch);
        let query = half(&port(first, "q")?, [None, Some(HEAD)])?;
        let own =
            AttentionShape { objects: 1, queries: query[0], keys: query[0], values: Values::Frame };
        for name in ["k", "v"] {
            half(&port(first, name)?, [Some(own.keys), Some(HEAD)])?;
        }
        let width = Values::Memory.columns();
        ensure!(
            contract.memory_channels == width,
            "memories are {} wide, the attention kernels take {width}; build the engines with --track-variant padded",
            contract.memory_channels
        );
        let split = contract.pointer_channels / width;
        let all = contract.max_memories * contract.memory_tokens + contract.max_pointers * split;
        let bank = AttentionShape { keys: all, values: Values::Memory, ..own };
        match &keys {
            KeyMaker::Engine(keys) => KEYS[..layers].iter().try_for_each(|name| {
                half(&port(keys, name)?, [Some(all), Some(HEAD)]).map(|_| ())
            })?,
            KeyMaker::Kernel(keys) => ensure!(
                keys.keys() == all,
                "the keys' kernel makes {} keys, the bank has {all}; export the model again with --segments and build \
                 its engines",
                keys.keys()
            ),
        }
        let of_layer = size_of::<u16>() * all * HEAD;
        let all_keys = View::new(&gpu.tagged(MemoryTag::Scratch), layers * of_layer)?;
        let bank_keys = (0..layers).map(|layer| {
            let view = all_keys.part(layer * of_layer, of_layer)?;
            Ok(Placed { view, dtype: DataType::Half })
        });
        let bank_keys = bank_keys.collect::<Result<_>>()?;
        if let (Some(decoder), Some(last)) = (&decoder, segments.last()) {
            half(&port(last, "y")?, [Some(decoder.tokens()), Some(HEAD)])?;
        }
        // Segments 1 and 2 take what the two attentions give; the others take the same.
        half(&port(second, "o")?, [Some(own.queries), Some(HEAD)])?;
        half(&port(third, "o")?, [Some(own.queries), Some(width)])?;
        let make = |shape| Ok::<_, anyhow::Error>(Rc::new(Attention::new(gpu, kernels, shape)?));
        let (to_frame, to_bank) = (make(own)?, make(bank)?);
        log::debug!(
            "attention: {} in {} parts, {} in {} parts",
            to_frame.kernel(),
            to_frame.splits(),
            to_bank.kernel(),
            to_bank.splits()
        );
        Ok(Self {
            all_keys,
            bank_keys,
            tokens: [new(first, "y")?, new(first, "y")?],
            query: new(first, "q")?,
            key: new(first, "k")?,
            value: new(first, "v")?,
            frame_result: new(second, "o")?,
            bank_result: new(third, "o")?,
            to_frame,
            to_bank,
            // Frame 0 reads nothing, frame 1 the first level.
            full_from: fill_levels(contract).len(),
            gaps,
            keys,
            segments,
            decoder,
        })
    }

    /// The engine that reads the bank; none where a kernel does.
    pub fn reader(&self) -> Option<&Shared> {
        match &self.keys {
            KeyMaker::Engine(keys) => Some(keys),
            KeyMaker::Kernel(_) => None,
        }
    }

    /// A tensor of the answer, as the last engine or the decoder gives it.
    pub fn answer(&self, name: &str) -> Result<Port> {
        match &self.decoder {
            Some(decoder) => decoder.output(name).map(Port::from),
            None => port(self.segments.last().context("there are no segments")?, name),
        }
    }

    /// Keys of a full bank.
    pub fn bank_length(&self) -> usize {
        self.to_bank.shape().keys
    }

    /// Whether every slot of the bank is filled when frame `t` reads it.
    pub fn is_full(&self, t: usize) -> bool {
        t >= self.full_from
    }

    /// The bank to keys; `bank`: the tensors of the bank.
    pub fn key_part(&self, bank: &[(&'static str, Placed)]) -> Result<Part> {
        Ok(match &self.keys {
            KeyMaker::Engine(keys) => {
                let mut all = bank.to_vec();
                all.extend(KEYS.into_iter().zip(self.bank_keys.iter().cloned()));
                Steps::engine(keys, all)
            }
            KeyMaker::Kernel(keys) => {
                let find = |name: &str| {
                    let found = bank.iter().find(|(tensor, _)| *tensor == name);
                    found.map(|(_, placed)| placed.view.clone())
                };
                let need = |name: &str| find(name).with_context(|| format!("no bank's '{name}'"));
                Part::Keys {
                    keys: Rc::clone(keys),
                    inputs: [need("mem")?, need("tidx")?, need("ptrs")?],
                    ages: find("ptr_t"),
                    output: self.all_keys.clone(),
                }
            }
        })
    }

    /// Everything behind the keys. `values`: the whole bank, memories and behind them pointers; `bias`: what masks empty
    /// slots, none where there are none; `tensors`: features and answer.
    pub fn step_parts(
        &self,
        values: &View,
        bias: Option<&View>,
        tensors: &[(&'static str, Placed)],
    ) -> Result<Vec<Part>> {
        let (mut parts, mut attended) = (Vec::new(), None::<Placed>);
        for (at, segment) in self.segments.iter().enumerate() {
            let mut all = tensors.to_vec();
            all.push(("x", self.tokens[(at + 1) % 2].clone()));
            all.push(("y", self.tokens[at % 2].clone()));
            all.extend(attended.take().map(|placed| ("o", placed)));
            for (name, placed) in [("q", &self.query), ("k", &self.key), ("v", &self.value)] {
                all.push((name, placed.clone()));
            }
            parts.push(Steps::engine(segment, all));
            let Some(gap) = self.gaps.get(at) else { continue };
            let (attention, k, v, bias, output) = match gap {
                Gap::Frame => {
                    (&self.to_frame, &self.key.view, &self.value.view, None, &self.frame_result)
                }
                Gap::Bank(layer) => {
                    (&self.to_bank, &self.bank_keys[*layer].view, values, bias, &self.bank_result)
                }
            };
            parts.push(Part::Attention {
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
            parts.push(Part::Decoder {
                decoder: Rc::clone(decoder),
                // What the last segment gave.
                image: self.tokens[(self.segments.len() + 1) % 2].view.clone(),
                fine: [of("hr0")?, of("hr1")?],
                answer: Answer {
                    low: of("low")?,
                    iou: of("iou")?,
                    pointer: of("ptr")?,
                    score: of("score")?,
                },
            });
        }
        Ok(parts)
    }
}

/// The rows and columns of one object's tensor, which must be fp16 and as large as `expected` says where it does.
fn half(port: &Port, expected: [Option<usize>; 2]) -> Result<[usize; 2]> {
    let Port { name, dtype, shape, .. } = port;
    ensure!(
        *dtype == DataType::Half,
        "'{name}' of the cut track step is {dtype}, the attention kernels take fp16; build the engines with --precision \
         fp16, or with --track-variant padded"
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
        "'{name}' of the cut track step is {shape:?}, the attention kernels take [1, {}, {}]; build the engines with --track-variant \
         padded",
        word(expected[0]),
        word(expected[1])
    );
    Ok(found)
}
