/*!
A tracked object: its memory bank, its results, and the captured graphs of its steps.

The memory encoder writes directly into the bank's slot: there is a graph for each slot, and no
copy.
*/

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::bound::{allocate, allocate_for};
use super::contexts::{Contexts, Memory, Track};
use super::features::{FeatureSet, element};
use super::prompt_input::PromptInput;
use cuda::{CapturedGraph, Element, Event, Gpu, GpuError, GraphStats, MemoryTag, Stream, View};
use execution::{DeviceTensor, Op, Program};
use kernels::{BankState, Kernels, NON_FINITE_BYTES};
use tensorrt::DataType;
use vos::bundle::Contract;
use vos::record::MaskSelection;
use vos::tracker::{BankSchedule, NetworkPrompt};

/// Tensors that TensorRT binds start at multiples of this.
const ALIGNMENT: usize = 256;
/// Offset of the candidate masks' predicted IoUs, after the two scores.
const IOUS: usize = 2 * ALIGNMENT;
/// Offset of the counter of logits that are no finite numbers, which TensorRT does not bind.
const NON_FINITE: usize = IOUS + ALIGNMENT / 2;
/// Offset of the mask's words.
const WORDS: usize = 3 * ALIGNMENT;

/// Which captured graph. `set`: index of the feature set that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A prompt of `points` points.
    Points { set: usize, points: usize },
    /// A mask as prompt.
    Mask { set: usize },
    /// `level`: the bank's fill level; of a segmented step 1 if the bank is full, else 0.
    Track { set: usize, level: usize },
    /// A memory slot.
    Memory { set: usize, slot: usize },
}

/// Sizes of an object's memory.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The largest mask, bytes.
    pub words_bytes: usize,
    /// Feature sets that its steps read.
    pub sets: usize,
    /// Its steps are captured as CUDA graphs.
    pub graphs: bool,
}

/// An object's memory on the device.
pub struct TrackedObject {
    captured: HashMap<Key, CapturedGraph<Program>>,
    contexts: Rc<Contexts>,
    state: Rc<BankState>,
    /// Memories, then pointers.
    bank: View,
    memories: DeviceTensor,
    slot_bytes: usize,
    pointers: DeviceTensor,
    pointer_element: Element,
    rows: DeviceTensor,
    ages: Option<DeviceTensor>,
    bias: Option<DeviceTensor>,
    outputs: Vec<(&'static str, DeviceTensor)>,
    low: View,
    pointer: View,
    results: View,
    binarise: [DeviceTensor; 2],
    prompt: PromptInput,
    /// The stream of the object's work.
    pub stream: Stream,
    /// The mask was made and downloaded with the results: these and the logits may be overwritten.
    pub results_read: Event,
    /// Each feature set was read and may be overwritten.
    pub features_read: Vec<Event>,
    graphs: bool,
}

impl TrackedObject {
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
        let slot = contexts.memory.output()?;
        let slot_bytes = slot.bytes()?;
        let result = |name: &str| allocate(gpu, &contexts.track.output(name)?, MemoryTag::Results);
        let pointer = result("ptr")?;
        let of_memories = slot_bytes * contract.max_memories;
        let of_pointers = pointer.view.len() * contract.max_pointers;
        let behind = of_memories.next_multiple_of(ALIGNMENT);
        let bank = View::new(&gpu.tagged(MemoryTag::Bank), behind + of_pointers)?;
        let memories = DeviceTensor { view: bank.part(0, of_memories)?, dtype: slot.dtype };
        let pointers = DeviceTensor { view: bank.part(behind, of_pointers)?, dtype: pointer.dtype };
        let low = result("low")?;
        let results = View::new(&gpu.tagged(MemoryTag::Results), WORDS + words_bytes)?;
        let score = |name: &str, at: usize| -> Result<DeviceTensor> {
            let desc = contexts.track.output(name)?;
            let floats = desc.dtype == DataType::Float;
            ensure!(floats, "'{name}' of the track engine is {}, expected fp32", desc.dtype);
            Ok(DeviceTensor { view: results.part(at, desc.bytes()?)?, dtype: desc.dtype })
        };
        let (iou, objectness) = (score("iou", 0)?, score("score", ALIGNMENT)?);
        let bytes = size_of::<f32>() * MaskSelection::CANDIDATES;
        // Steps of older exports lack this output.
        let ious = DeviceTensor { view: results.part(IOUS, bytes)?, dtype: DataType::Float };
        let is_float = low.dtype == DataType::Float;
        ensure!(is_float, "'low' of the track engine is {}, expected fp32", low.dtype);
        let input = |name: &str,
                     kernels: Option<(usize, DataType)>|
         -> Result<Option<DeviceTensor>> {
            if let Some(reader) = contexts.track.reader() {
                let has = reader.borrow().tensor(name).is_some();
                return has.then(|| allocate_for(gpu, reader, name, MemoryTag::Bank)).transpose();
            }
            let of = |(bytes, dtype)| -> Result<DeviceTensor> {
                Ok(DeviceTensor { view: View::new(&gpu.tagged(MemoryTag::Bank), bytes)?, dtype })
            };
            kernels.map(of).transpose()
        };
        let rows = input("tidx", Some((4 * contract.max_memories, DataType::Int32)))?;
        let times = contract.pointer_times;
        let times = times.then_some((4 * contract.max_pointers, DataType::Float));
        let bias = match &contexts.track {
            Track::Whole(_) => input("bias", None)?,
            Track::Segmented(segmented) => {
                let one = memories.dtype == DataType::Half && pointers.dtype == DataType::Half;
                ensure!(
                    one && behind == of_memories,
                    "memories ({}, {of_memories} bytes) and pointers ({}) are not contiguous fp16 \
                     values; build the engines with --track-variant padded",
                    memories.dtype,
                    pointers.dtype
                );
                let bytes = size_of::<f32>() * segmented.bank_length();
                let view = View::new(&gpu.tagged(MemoryTag::Bank), bytes)?;
                Some(DeviceTensor { view, dtype: DataType::Float })
            }
        };
        let constant = |value: f32| -> Result<DeviceTensor> {
            let view = View::new(gpu, size_of::<f32>())?;
            view.upload(&value.to_le_bytes(), stream)?;
            Ok(DeviceTensor { view, dtype: DataType::Float })
        };
        Ok(Self {
            captured: HashMap::new(),
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
            outputs: vec![
                ("low", low),
                ("iou", iou),
                ("ptr", pointer),
                ("score", objectness),
                ("ious", ious),
            ],
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
        // Empty slots are masked, but must hold finite numbers.
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
        let (key, engine) = match prompt {
            NetworkPrompt::Points { points, .. } => {
                let points = points.coords.len();
                let engine = points.checked_sub(1).and_then(|at| self.contexts.prompts.get(at));
                let most = self.contexts.prompts.len();
                let refused = || {
                    format!(
                        "a prompt of {points} points; the prompt engine takes 1 to {most}. Build \
                         the engines again with: segtrt build-engines --prompt-points {points}"
                    )
                };
                (Key::Points { set, points }, engine.with_context(refused)?)
            }
            NetworkPrompt::Mask(_) => {
                let engine = self.contexts.mask_prompt.as_ref();
                (Key::Mask { set }, engine.context("the mask prompt engine is not loaded")?)
            }
        };
        let engine = Rc::clone(engine);
        self.run(key, |tracked| {
            let mut all = features.bindings();
            all.extend(bindings);
            all.extend(tracked.outputs.iter().cloned());
            Ok(Program::new(vec![Program::engine(&engine, all)]))
        })
    }

    /// Enqueues the track step of frame `t` on a feature set.
    pub fn track(&mut self, t: usize, set: usize, features: &FeatureSet) -> Result<()> {
        let contexts = Rc::clone(&self.contexts);
        match &contexts.track {
            Track::Whole(engines) => {
                let level = t.saturating_sub(1).min(engines.len().saturating_sub(1));
                let engine = engines.get(level).context("there is no track context")?;
                self.run(Key::Track { set, level }, |tracked| {
                    let mut all = features.bindings();
                    all.extend(tracked.bank_tensors());
                    all.extend(tracked.bias.iter().map(|placed| ("bias", placed.clone())));
                    all.extend(tracked.outputs.iter().cloned());
                    let step = Program::engine(engine, all);
                    Ok(Program::new(vec![tracked.bank_inputs(true), step]))
                })
            }
            Track::Segmented(segmented) => {
                let full = segmented.is_full(t);
                self.run(Key::Track { set, level: usize::from(full) }, |tracked| {
                    let mut tensors = features.bindings();
                    tensors.extend(tracked.outputs.iter().cloned());
                    let bias = tracked.bias.as_ref().filter(|_| !full).map(|placed| &placed.view);
                    let (inputs, bank) = (tracked.bank_inputs(!full), tracked.bank_tensors());
                    segmented.program(inputs, &bank, &tracked.bank, bias, &tensors)
                })
            }
        }
    }

    /// The bank's tensors by the names of the engine that reads it.
    fn bank_tensors(&self) -> Vec<(&'static str, DeviceTensor)> {
        let mut all = vec![
            ("mem", self.memories.clone()),
            ("tidx", self.rows.clone()),
            ("ptrs", self.pointers.clone()),
        ];
        all.extend(self.ages.iter().map(|placed| ("ptr_t", placed.clone())));
        all
    }

    fn bank_inputs(&self, with_bias: bool) -> Op {
        let bias = self.bias.as_ref().filter(|_| with_bias);
        Op::BankInputs {
            state: Rc::clone(&self.state),
            rows: self.rows.view.clone(),
            ages: self.ages.as_ref().map(|placed| placed.view.clone()),
            bias: bias.map(|placed| placed.view.clone()),
        }
    }

    /// Enqueues the memory encoder, which writes into memory slot `slot`, and copies the object
    /// pointer into its slot of the bank. Slot 0 belongs to the prompted frame, whose mask logits
    /// are binarised.
    pub fn memorise(&mut self, slot: usize, set: usize, features: &FeatureSet) -> Result<()> {
        self.run(Key::Memory { set, slot }, |tracked| {
            let view = tracked.memories.view.part(slot * tracked.slot_bytes, tracked.slot_bytes)?;
            let memory = DeviceTensor { view, dtype: tracked.memories.dtype };
            let mut all = features.bindings();
            all.extend(tracked.outputs.iter().cloned());
            all.push(("binar", tracked.binarise[usize::from(slot == 0)].clone()));
            let write = match &tracked.contexts.memory {
                Memory::Engine(engine) => {
                    all.push(("mem", memory));
                    Program::engine(engine, all)
                }
                Memory::Kernels(encoder) => Program::memory(encoder, &all, memory.view)?,
            };
            let advance = Op::Advance {
                state: Rc::clone(&tracked.state),
                pointer: tracked.pointer.clone(),
                pointers: tracked.pointers.view.clone(),
                element: tracked.pointer_element,
            };
            Ok(Program::new(vec![write, advance]))
        })
    }

    /// Whether the step of frame `t` outputs the predicted IoUs of the masks that it selects from.
    pub fn selects(&self, t: usize, prompt: &NetworkPrompt) -> bool {
        match (t, prompt) {
            (0, NetworkPrompt::Points { points, multimask: true }) => {
                let engine = points.coords.len().checked_sub(1);
                let engine = engine.and_then(|at| self.contexts.prompts.get(at));
                engine.is_some_and(|engine| engine.borrow().tensor("ious").is_some())
            }
            (0, _) => false,
            _ => self.contexts.track.output("ious").is_ok(),
        }
    }

    /// Marks a feature set as read by this frame.
    pub fn read(&self, set: usize) -> Result<()> {
        Ok(self.features_read[set].record(&self.stream)?)
    }

    /// The low-resolution logits.
    pub fn low(&self) -> &View {
        &self.low
    }

    /// The counter of logits that are no finite numbers.
    pub fn non_finite(&self) -> Result<View> {
        Ok(self.results.part(NON_FINITE, NON_FINITE_BYTES)?)
    }

    /// Scores, candidates' IoUs, counter and the mask's `words_bytes` in one piece, to be
    /// downloaded at once.
    pub fn results(&self, words_bytes: usize) -> Result<View> {
        Ok(self.results.part(0, WORDS + words_bytes)?)
    }

    /// Memory of the mask's words.
    pub fn words(&self, words_bytes: usize) -> Result<View> {
        Ok(self.results.part(WORDS, words_bytes)?)
    }

    /// How often its steps were enqueued, captured and replayed.
    pub fn replay(&self) -> GraphStats {
        self.captured.values().fold(GraphStats::default(), |sum, captured| sum + captured.count())
    }

    fn run(&mut self, key: Key, make: impl FnOnce(&Self) -> Result<Program>) -> Result<()> {
        if let Some(captured) = self.captured.get_mut(&key) {
            return captured.run();
        }
        let mut captured = CapturedGraph::new(make(self)?, &self.stream, self.graphs);
        captured.run()?;
        self.captured.insert(key, captured);
        Ok(())
    }
}

/// Results of one download.
#[derive(Clone, Debug, PartialEq)]
pub struct Results<'a> {
    /// The IoU that the mask decoder predicts for its mask.
    pub predicted_iou: f32,
    /// Objectness logit.
    pub objectness: f32,
    /// The mask decoder's selection among its candidate masks; none where it is unknown.
    pub selection: Option<MaskSelection>,
    /// Logits of the mask that are no finite numbers, since the pass began.
    pub non_finite: usize,
    /// The mask's words, little-endian.
    pub words: &'a [u8],
}

impl<'a> Results<'a> {
    /// Reads the bytes of [`TrackedObject::results`]; `selects` as [`TrackedObject::selects`] has
    /// it.
    pub fn of(bytes: &'a [u8], selects: bool) -> Option<Self> {
        let float = |at: usize| Some(f32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let (predicted_iou, objectness) = (float(0)?, float(ALIGNMENT)?);
        let non_finite = u32::from_le_bytes(*bytes.get(NON_FINITE..)?.first_chunk()?) as usize;
        let at = |candidate: usize| float(IOUS + size_of::<f32>() * candidate);
        let ious = [at(0)?, at(1)?, at(2)?];
        let selection = selects.then_some(ious).and_then(MaskSelection::new);
        let words = bytes.get(WORDS..)?;
        Some(Self { predicted_iou, objectness, selection, non_finite, words })
    }

    /// Bytes of a download with a mask of `words_bytes`.
    pub fn bytes(words_bytes: usize) -> usize {
        WORDS + words_bytes
    }
}
