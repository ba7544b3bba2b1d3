/*!
One object's way through the frames: its memory bank, its results, and the recorded work that connects them.

The memory engine writes straight into the bank's slot: one piece of recorded work for each slot, none of them copies.
*/

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::contexts::{Contexts, Memory, Track};
use super::features::{FeatureSet, element, memory_of, placed};
use super::prompt_input::PromptInput;
use super::steps::{Part, Steps};
use crate::{Placed, Stage};
use cuda::Element;
use cuda::{CapturedGraph, Event, Gpu, GpuError, GraphStats, MemoryTag, Stream, View};
use kernels::{BankState, Kernels, NON_FINITE_BYTES};
use tensorrt::DataType;
use vos::bundle::Contract;
use vos::tracker::{BankSchedule, NetworkPrompt};

/// Tensors that TensorRT binds start at multiples of this.
const ALIGNMENT: usize = 256;
/// Where the counter of logits that are no finite numbers lies, behind the two scores.
const NON_FINITE: usize = 2 * ALIGNMENT;
/// Where the mask's words begin.
const WORDS: usize = 3 * ALIGNMENT;

/// Which piece of work: with which features, and what else tells it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// So many points.
    Points { set: usize, points: usize },
    /// A mask as prompt.
    Mask { set: usize },
    /// A fill level; of a step that is cut at its attentions whether the bank is full.
    Track { set: usize, level: usize },
    /// A memory slot.
    Memory { set: usize, slot: usize },
}

/// What an object needs room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The largest mask, bytes.
    pub words_bytes: usize,
    /// Feature sets that its work meets.
    pub sets: usize,
    /// Its work is recorded.
    pub graphs: bool,
}

/// An object's memory on the device.
pub struct Lane {
    recorded: HashMap<Key, CapturedGraph<Steps>>,
    contexts: Rc<Contexts>,
    state: Rc<BankState>,
    /// Memories, and behind them pointers.
    bank: View,
    memories: Placed,
    slot_bytes: usize,
    pointers: Placed,
    pointer_element: Element,
    rows: Placed,
    ages: Option<Placed>,
    bias: Option<Placed>,
    answer: Vec<(&'static str, Placed)>,
    low: View,
    pointer: View,
    results: View,
    binarise: [Placed; 2],
    prompt: PromptInput,
    /// The stream of the object's work.
    pub stream: Stream,
    /// Behind the last download of the results: they may be overwritten.
    pub results_read: Event,
    /// Behind the last work with each feature set: it may be overwritten.
    pub features_read: Vec<Event>,
    graphs: bool,
}

impl Lane {
    /// Memory for one object.
    pub fn new(
        gpu: &Gpu,
        kernels: &Kernels,
        contract: &Contract,
        contexts: &Rc<Contexts>,
        stream: &Stream,
        room: Room,
    ) -> Result<Self> {
        let Room { words_bytes, sets, graphs } = room;
        let slot = contexts.memory.port()?;
        let slot_bytes = Stage::port_bytes(&slot)?;
        let result = |name: &str| memory_of(gpu, &contexts.track.answer(name)?, MemoryTag::Results);
        let pointer = result("ptr")?;
        let of_memories = slot_bytes * contract.max_memories;
        let of_pointers = pointer.view.len() * contract.max_pointers;
        let behind = of_memories.next_multiple_of(ALIGNMENT);
        let bank = View::new(&gpu.tagged(MemoryTag::Bank), behind + of_pointers)?;
        let memories = Placed { view: bank.part(0, of_memories)?, dtype: slot.dtype };
        let pointers = Placed { view: bank.part(behind, of_pointers)?, dtype: pointer.dtype };
        let low = result("low")?;
        let results = View::new(&gpu.tagged(MemoryTag::Results), WORDS + words_bytes)?;
        let score = |name: &str, at: usize| -> Result<Placed> {
            let port = contexts.track.answer(name)?;
            let floats = port.dtype == DataType::Float;
            ensure!(floats, "'{name}' of the track engine is {}, expected fp32", port.dtype);
            Ok(Placed { view: results.part(at, Stage::port_bytes(&port)?)?, dtype: port.dtype })
        };
        let (iou, objectness) = (score("iou", 0)?, score("score", ALIGNMENT)?);
        let is_float = low.dtype == DataType::Float;
        ensure!(is_float, "'low' of the track engine is {}, expected fp32", low.dtype);
        let input = |name: &str, kernels: Option<(usize, DataType)>| -> Result<Option<Placed>> {
            if let Some(reader) = contexts.track.reader() {
                let has = reader.borrow().port(name).is_some();
                return has.then(|| placed(gpu, reader, name, MemoryTag::Bank)).transpose();
            }
            let of = |(bytes, dtype)| -> Result<Placed> {
                Ok(Placed { view: View::new(&gpu.tagged(MemoryTag::Bank), bytes)?, dtype })
            };
            kernels.map(of).transpose()
        };
        let rows = input("tidx", Some((4 * contract.max_memories, DataType::Int32)))?;
        let times = contract.pointer_times;
        let times = times.then_some((4 * contract.max_pointers, DataType::Float));
        let bias = match &contexts.track {
            Track::Whole(_) => input("bias", None)?,
            Track::Segmented(fused) => {
                let one = memories.dtype == DataType::Half && pointers.dtype == DataType::Half;
                ensure!(
                    one && behind == of_memories,
                    "memories ({}, {of_memories} bytes) and pointers ({}) make no one row of fp16 values; build the \
                     engines with --track-variant padded",
                    memories.dtype,
                    pointers.dtype
                );
                let bytes = size_of::<f32>() * fused.bank_length();
                let view = View::new(&gpu.tagged(MemoryTag::Bank), bytes)?;
                Some(Placed { view, dtype: DataType::Float })
            }
        };
        let constant = |value: f32| -> Result<Placed> {
            let view = View::new(gpu, size_of::<f32>())?;
            view.upload(&value.to_le_bytes(), stream)?;
            Ok(Placed { view, dtype: DataType::Float })
        };
        Ok(Self {
            recorded: HashMap::new(),
            contexts: Rc::clone(contexts),
            state: Rc::new(BankState::new(gpu, kernels, contract, stream)?),
            slot_bytes,
            pointer_element: element("ptr", pointer.dtype)?,
            rows: rows.context("the track engine has no 'tidx'")?,
            ages: input("ptr_t", times)?,
            bias,
            bank,
            low: low.view.clone(),
            pointer: pointer.view.clone(),
            answer: vec![("low", low), ("iou", iou), ("ptr", pointer), ("score", objectness)],
            memories,
            pointers,
            results,
            binarise: [constant(0.0)?, constant(1.0)?],
            prompt: PromptInput::new(gpu, contexts)?,
            stream: stream.clone(),
            results_read: gpu.mark()?,
            features_read: (0..sets).map(|_| gpu.mark()).collect::<Result<_, GpuError>>()?,
            graphs,
        })
    }

    /// Forgets all memories; the next frame is the prompted one of a clip with this schedule.
    pub fn begin(&mut self, schedule: &BankSchedule) -> Result<()> {
        self.state.reset(schedule.greatest_age(), &self.stream)?;
        // The counter is not cleared again: a pass ends at the first frame that counts anything.
        self.non_finite()?.fill(0, &self.stream)?;
        // Empty slots are masked, but what is masked must be numbers.
        Ok(self.bank.fill(0, &self.stream)?)
    }

    /// Enqueues the prompt step on a feature set.
    pub fn prompt(
        &mut self,
        set: usize,
        features: &FeatureSet,
        prompt: &NetworkPrompt,
    ) -> Result<()> {
        let bindings = self.prompt.enqueue(prompt, &self.stream)?;
        let (key, stage) = match prompt {
            NetworkPrompt::Points { points, .. } => {
                let points = points.coords.len();
                let stage = points.checked_sub(1).and_then(|at| self.contexts.prompts.get(at));
                let refused = || format!("a prompt of {points} points; expected 1 or 2");
                (Key::Points { set, points }, stage.with_context(refused)?)
            }
            NetworkPrompt::Mask(_) => {
                let stage = self.contexts.mask_prompt.as_ref();
                (Key::Mask { set }, stage.context("the mask prompt engine is not loaded")?)
            }
        };
        let stage = Rc::clone(stage);
        self.run(key, |lane| {
            let mut all = features.bindings();
            all.extend(bindings);
            all.extend(lane.answer.iter().cloned());
            Ok(vec![Steps::engine(&stage, all)])
        })
    }

    /// Enqueues the track step of frame `t` on a feature set.
    pub fn track(&mut self, t: usize, set: usize, features: &FeatureSet) -> Result<()> {
        let contexts = Rc::clone(&self.contexts);
        match &contexts.track {
            Track::Whole(stages) => {
                let level = t.saturating_sub(1).min(stages.len().saturating_sub(1));
                let stage = stages.get(level).context("there is no track context")?;
                self.run(Key::Track { set, level }, |lane| {
                    let mut all = features.bindings();
                    all.extend(lane.bank_tensors());
                    all.extend(lane.bias.iter().map(|placed| ("bias", placed.clone())));
                    all.extend(lane.answer.iter().cloned());
                    Ok(vec![lane.bank_inputs(true), Steps::engine(stage, all)])
                })
            }
            Track::Segmented(fused) => {
                let full = fused.is_full(t);
                self.run(Key::Track { set, level: usize::from(full) }, |lane| {
                    let mut tensors = features.bindings();
                    tensors.extend(lane.answer.iter().cloned());
                    let bias = lane.bias.as_ref().filter(|_| !full).map(|placed| &placed.view);
                    let mut parts = vec![lane.bank_inputs(!full)];
                    parts.push(fused.key_part(&lane.bank_tensors())?);
                    parts.extend(fused.step_parts(&lane.bank, bias, &tensors)?);
                    Ok(parts)
                })
            }
        }
    }

    /// The bank as the engine that reads it names it.
    fn bank_tensors(&self) -> Vec<(&'static str, Placed)> {
        let mut all = vec![
            ("mem", self.memories.clone()),
            ("tidx", self.rows.clone()),
            ("ptrs", self.pointers.clone()),
        ];
        all.extend(self.ages.iter().map(|placed| ("ptr_t", placed.clone())));
        all
    }

    fn bank_inputs(&self, with_bias: bool) -> Part {
        let bias = self.bias.as_ref().filter(|_| with_bias);
        Part::BankInputs {
            state: Rc::clone(&self.state),
            rows: self.rows.view.clone(),
            ages: self.ages.as_ref().map(|placed| placed.view.clone()),
            bias: bias.map(|placed| placed.view.clone()),
        }
    }

    /// Enqueues the memory step into `slot`, and the pointer's way into its own. Slot 0 is the prompted frame's, whose
    /// mask is made binary.
    pub fn memorise(&mut self, slot: usize, set: usize, features: &FeatureSet) -> Result<()> {
        self.run(Key::Memory { set, slot }, |lane| {
            let view = lane.memories.view.part(slot * lane.slot_bytes, lane.slot_bytes)?;
            let memory = Placed { view, dtype: lane.memories.dtype };
            let mut all = features.bindings();
            all.extend(lane.answer.iter().cloned());
            all.push(("binar", lane.binarise[usize::from(slot == 0)].clone()));
            let write = match &lane.contexts.memory {
                Memory::Engine(stage) => {
                    all.push(("mem", memory));
                    Steps::engine(stage, all)
                }
                Memory::Kernels(encoder) => Steps::memory(encoder, &all, memory.view)?,
            };
            let advance = Part::Advance {
                state: Rc::clone(&lane.state),
                pointer: lane.pointer.clone(),
                pointers: lane.pointers.view.clone(),
                element: lane.pointer_element,
            };
            Ok(vec![write, advance])
        })
    }

    /// The work so far with a feature set is all of this frame's.
    pub fn read(&self, set: usize) -> Result<()> {
        Ok(self.features_read[set].record(&self.stream)?)
    }

    /// The low-resolution logits.
    pub fn low(&self) -> &View {
        &self.low
    }

    /// Where logits that are no finite numbers are counted.
    pub fn non_finite(&self) -> Result<View> {
        Ok(self.results.part(NON_FINITE, NON_FINITE_BYTES)?)
    }

    /// Scores, counter and the mask's `words_bytes` in one piece, to be downloaded at once.
    pub fn results(&self, words_bytes: usize) -> Result<View> {
        Ok(self.results.part(0, WORDS + words_bytes)?)
    }

    /// Where the mask's words go.
    pub fn words(&self, words_bytes: usize) -> Result<View> {
        Ok(self.results.part(WORDS, words_bytes)?)
    }

    /// How often its work was enqueued, recorded and replayed.
    pub fn replay(&self) -> GraphStats {
        self.recorded.values().fold(GraphStats::default(), |sum, recorded| sum + recorded.count())
    }

    fn run(&mut self, key: Key, make: impl FnOnce(&Self) -> Result<Vec<Part>>) -> Result<()> {
        if let Some(recorded) = self.recorded.get_mut(&key) {
            return recorded.run();
        }
        let work = Steps(make(self)?);
        let mut recorded = CapturedGraph::new(work, &self.stream, self.graphs);
        recorded.run()?;
        self.recorded.insert(key, recorded);
        Ok(())
    }
}

/// What one download brings.
#[derive(Clone, Debug, PartialEq)]
pub struct Results<'a> {
    /// The decoder's own estimate of its mask's IoU.
    pub predicted_iou: f32,
    /// Objectness logit.
    pub objectness: f32,
    /// Logits of the mask that are no finite numbers, since the pass began.
    pub non_finite: usize,
    /// The mask's words, little-endian.
    pub words: &'a [u8],
}

impl<'a> Results<'a> {
    /// Takes apart what [`Lane::results`] holds.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let float = |at: usize| Some(f32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (predicted_iou, objectness) = (float(0)?, float(ALIGNMENT)?);
        let non_finite = u32::from_le_bytes(*bytes.get(NON_FINITE..)?.first_chunk()?) as usize;
        Some(Self { predicted_iou, objectness, non_finite, words: bytes.get(WORDS..)? })
    }

    /// Bytes of a download with a mask of `words_bytes`.
    pub fn bytes(words_bytes: usize) -> usize {
        WORDS + words_bytes
    }
}
