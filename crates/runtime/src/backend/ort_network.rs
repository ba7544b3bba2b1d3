/*!
The graphs in ONNX Runtime on the host: the reference that every other backend is compared with.
*/

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use half::f16;
use ort::environment::Environment;
use ort::ep;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, TensorRef};

use super::ort_bank::Bank;
use crate::backend::Provider;
use vos::bundle::{Bundle, Contract, DType, Manifest, Role};
use vos::decode::RgbImage;
use vos::geometry::{Geometry, NetworkPoints};
use vos::predecode::PreparedFrame;
use vos::preprocess::{Filter, Preprocessor};
use vos::record::MaskSelection;
use vos::tracker::{FrameOutput, Network, NetworkPrompt, Selection, Slots};

/// The names of the encoder's outputs, which all steps take.
const FEATURES: [&str; 3] = ["feat", "hr0", "hr1"];

/// One model in ONNX Runtime. Objects share the features of a frame.
pub struct OrtNetwork {
    manifest: Manifest,
    encoder: Session,
    prompt: Session,
    mask_prompt: Option<Session>,
    track: Session,
    memory: Session,
    resize: Filter,
    preprocessor: Option<Preprocessor>,
    geometry: Option<Geometry>,
    image: Vec<f32>,
    features: Vec<DynValue>,
    objects: Vec<ObjectState>,
    /// The object of the steps that follow.
    current: usize,
    /// Element types of memories and pointers.
    bank_types: [DType; 2],
}

/// What is kept of one object from frame to frame.
struct ObjectState {
    step: Option<StepOutput>,
    /// A teacher's logits for the memory of the frame at hand.
    taught: Option<Vec<f32>>,
    memories: Bank,
    pointers: Bank,
}

impl ObjectState {
    /// Empty banks with memories and pointers of these element types.
    fn new(contract: &Contract, [memory, pointer]: [DType; 2]) -> Result<Self> {
        let memory_values = contract.memory_tokens * contract.memory_channels;
        Ok(Self {
            step: None,
            taught: None,
            memories: Bank::new(contract.max_memories, memory_values, memory)?,
            pointers: Bank::new(contract.max_pointers, contract.pointer_channels, pointer)?,
        })
    }

    fn step_output(&self) -> Result<&StepOutput> {
        self.step.as_ref().context("no step has run on this frame")
    }
}

/// The outputs of the prompt or track step.
struct StepOutput {
    low: DynValue,
    pointer: DynValue,
    score: DynValue,
    iou: f32,
    selection: Option<MaskSelection>,
}

/// ONNX Runtime's errors carry what failed to build, which cannot travel between threads; their
/// text can.
pub fn plain<R>(error: ort::Error<R>) -> anyhow::Error {
    anyhow!("{error}")
}

impl OrtNetwork {
    /// Loads the bundle's graphs; `threads` is the size of ONNX Runtime's pool.
    pub fn open(
        environment: &Environment,
        bundle: &Bundle,
        provider: Provider,
        threads: usize,
        with_mask_prompt: bool,
    ) -> Result<Self> {
        let load = |role: Role| -> Result<Session> {
            let path = bundle.graph_file(role)?;
            load_session(environment, &path, provider, threads)
                .with_context(|| format!("ONNX Runtime cannot load {}", path.display()))
        };
        let contract = &bundle.manifest.contract;
        let dtype_of = |input: &str| {
            let track = bundle.manifest.graph(Role::Track);
            track.and_then(|g| g.input(input)).map(|t| t.dtype).with_context(|| {
                format!("the track graph of {} has no input {input}", bundle.dir.display())
            })
        };
        let bank_types = [dtype_of("mem")?, dtype_of("ptrs")?];
        Ok(Self {
            encoder: load(Role::Encoder)?,
            prompt: load(Role::Prompt)?,
            mask_prompt: with_mask_prompt.then(|| load(Role::MaskPrompt)).transpose()?,
            track: load(Role::Track)?,
            memory: load(Role::Memory)?,
            resize: Filter::default(),
            preprocessor: None,
            geometry: None,
            image: Vec::new(),
            features: Vec::new(),
            objects: vec![ObjectState::new(contract, bank_types)?],
            current: 0,
            bank_types,
            manifest: bundle.manifest.clone(),
        })
    }

    /// Resizes the frames of later clips by `filter` instead of Pillow's.
    pub fn set_resize(&mut self, filter: Filter) {
        self.resize = filter;
    }

    fn object(&self) -> Result<&ObjectState> {
        self.objects.get(self.current).context("no object is selected")
    }

    fn object_mut(&mut self) -> Result<&mut ObjectState> {
        self.objects.get_mut(self.current).context("no object is selected")
    }
}

/// Loads a graph to run on `provider`.
pub fn load_session(
    environment: &Environment,
    path: &Path,
    provider: Provider,
    threads: usize,
) -> Result<Session> {
    // Without error_on_failure ONNX Runtime would run on the processor and call it a GPU.
    let providers = match provider {
        Provider::Cpu => vec![],
        // Its matmuls use TF32 by default, and fp32 means fp32 here: with TF32, EdgeTAM's masks on
        // an H200 equalled those of PyTorch in TF32 and missed the limits of fp32.
        Provider::Cuda => vec![ep::CUDA::default().with_tf32(false).build().error_on_failure()],
        Provider::Tensorrt => vec![ep::TensorRT::default().build().error_on_failure()],
    };
    Session::builder(environment)
        .map_err(plain)?
        .with_execution_providers(providers)
        .map_err(plain)?
        .with_optimization_level(GraphOptimizationLevel::All)
        .map_err(plain)?
        .with_intra_threads(threads)
        .map_err(plain)?
        .commit_from_file(path)
        .map_err(plain)
}

/// Runs a prompt or track graph and keeps what later steps need. `selects`: the step selects among
/// the candidate masks.
fn run_step(
    session: &mut Session,
    inputs: Vec<(&'static str, SessionInputValue<'_>)>,
    selects: bool,
) -> Result<StepOutput> {
    let mut outputs = session.run(inputs).map_err(plain)?;
    let mut take = |name: &str| {
        outputs.remove(name).with_context(|| format!("the graph gave no output {name}"))
    };
    let iou = first(&take("iou")?)?;
    let (low, pointer, score) = (take("low")?, take("ptr")?, take("score")?);
    // Graphs of older exports lack them.
    let ious = outputs.remove("ious").filter(|_| selects);
    let selection = ious.map(|ious| candidates(&ious)).transpose()?.and_then(MaskSelection::new);
    Ok(StepOutput { low, pointer, score, iou, selection })
}

fn candidates(value: &DynValue) -> Result<[f32; MaskSelection::CANDIDATES]> {
    let (_, values) = value.try_extract_tensor::<f32>().map_err(plain)?;
    let expected = || format!("'ious' has {} values, expected 3", values.len());
    <[f32; MaskSelection::CANDIDATES]>::try_from(values).ok().with_context(expected)
}

fn first(value: &DynValue) -> Result<f32> {
    let (_, values) = value.try_extract_tensor::<f32>().map_err(plain)?;
    values.first().copied().context("an output is empty")
}

fn feature_inputs(features: &[DynValue]) -> Vec<(&'static str, SessionInputValue<'_>)> {
    FEATURES.iter().zip(features).map(|(name, value)| (*name, value.into())).collect()
}

impl Network for OrtNetwork {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn begin_clip(&mut self, geometry: &Geometry) -> Result<()> {
        let contract = &self.manifest.contract;
        let (mean, std) = (contract.mean, contract.std);
        self.preprocessor = Some(Preprocessor::with_filter(geometry, self.resize, mean, std));
        self.geometry = Some(geometry.clone());
        self.features.clear();
        // The bank of a further object is allocated when it is selected.
        self.objects.truncate(1);
        self.current = 0;
        let first = self.object_mut()?;
        first.step = None;
        first.taught = None;
        Ok(())
    }

    fn select_object(&mut self, object: usize) -> Result<()> {
        while self.objects.len() <= object {
            let state = ObjectState::new(&self.manifest.contract, self.bank_types)?;
            self.objects.push(state);
        }
        self.current = object;
        Ok(())
    }

    fn load(&mut self, frame: &RgbImage) -> Result<()> {
        let preprocessor = self.preprocessor.as_mut().context("no clip has begun")?;
        Ok(preprocessor.run(frame, &mut self.image)?)
    }

    fn load_prepared(&mut self, frame: &PreparedFrame<'_>) -> Result<()> {
        let preprocessor = self.preprocessor.as_ref().context("no clip has begun")?;
        frame.widen(preprocessor.geometry().side(), preprocessor.tables(), &mut self.image)
    }

    fn encode(&mut self) -> Result<()> {
        let side = self.manifest.model.imgsz as i64;
        let shape = [1, 3, side, side];
        let half: Vec<f16>;
        let image: SessionInputValue<'_> = match self.manifest.model.precision.as_str() {
            "fp16" => {
                half = self.image.iter().map(|&v| f16::from_f32(v)).collect();
                TensorRef::from_array_view((shape, half.as_slice())).map_err(plain)?.into()
            }
            _ => TensorRef::from_array_view((shape, self.image.as_slice())).map_err(plain)?.into(),
        };
        let mut outputs = self.encoder.run(vec![("image", image)]).map_err(plain)?;
        self.features = FEATURES
            .iter()
            .map(|name| outputs.remove(*name).with_context(|| format!("encoder gave no {name}")))
            .collect::<Result<_>>()?;
        Ok(())
    }

    fn prompt(&mut self, prompt: &NetworkPrompt) -> Result<()> {
        let mut inputs = feature_inputs(&self.features);
        match prompt {
            NetworkPrompt::Points { points: NetworkPoints { coords, labels }, multimask } => {
                let points = coords.len() as i64;
                let multi = [f32::from(u8::from(*multimask))];
                let coords = TensorRef::from_array_view(([1, points, 2], coords.as_flattened()))
                    .map_err(plain)?;
                let labels =
                    TensorRef::from_array_view(([1, points], labels.as_slice())).map_err(plain)?;
                let multi = TensorRef::from_array_view(([1_i64], &multi[..])).map_err(plain)?;
                inputs.push(("coords", coords.into()));
                inputs.push(("labels", labels.into()));
                inputs.push(("multi", multi.into()));
                let step = run_step(&mut self.prompt, inputs, prompt.selects())?;
                self.object_mut()?.step = Some(step);
            }
            NetworkPrompt::Mask(mask) => {
                let side = self.manifest.model.imgsz;
                let session =
                    self.mask_prompt.as_mut().context("the mask prompt graph is not loaded")?;
                let shape = [1, 1, side as i64, side as i64];
                let pixels = TensorRef::from_array_view((shape, mask.as_slice())).map_err(plain)?;
                inputs.push(("mask", pixels.into()));
                let step = run_step(session, inputs, false)?;
                self.object_mut()?.step = Some(step);
            }
        }
        Ok(())
    }

    fn track(&mut self, selection: &Selection) -> Result<()> {
        let contract = &self.manifest.contract;
        let (f, n) = (selection.memories(), selection.pointers());
        let mem_shape =
            [1, f as i64, contract.memory_tokens as i64, contract.memory_channels as i64];
        let ptr_shape = [1, n as i64, contract.pointer_channels as i64];
        let rows = TensorRef::from_array_view(([f as i64], selection.temporal_rows.as_slice()))
            .map_err(plain)?;
        let times = TensorRef::from_array_view(([n as i64], selection.pointer_times.as_slice()))
            .map_err(plain)?;
        let mut inputs = feature_inputs(&self.features);
        let object = self.objects.get_mut(self.current).context("no object is selected")?;
        inputs.push(("mem", object.memories.filled(f, &mem_shape)?));
        inputs.push(("tidx", rows.into()));
        inputs.push(("ptrs", object.pointers.filled(n, &ptr_shape)?));
        if contract.pointer_times {
            inputs.push(("ptr_t", times.into()));
        }
        let step = run_step(&mut self.track, inputs, true)?;
        object.step = Some(step);
        Ok(())
    }

    fn output(&mut self) -> Result<FrameOutput> {
        let geometry = self.geometry.as_ref().context("no clip has begun")?;
        let step = self.object()?.step_output()?;
        let logits = self.logits()?;
        Ok(FrameOutput {
            mask: geometry.upsample(logits, self.manifest.contract.low_size),
            objectness: first(&step.score)?,
            predicted_iou: step.iou,
            selection: step.selection,
            non_finite_logits: logits.iter().filter(|logit| !logit.is_finite()).count(),
        })
    }

    fn logits(&self) -> Result<&[f32]> {
        let (_, logits) =
            self.object()?.step_output()?.low.try_extract_tensor::<f32>().map_err(plain)?;
        Ok(logits)
    }

    fn teach(&mut self, logits: &[f16]) -> Result<()> {
        let expected = self.logits()?.len();
        if logits.len() != expected {
            bail!("a teacher's {} logits came, the memory graph takes {expected}", logits.len());
        }
        self.object_mut()?.taught = Some(logits.iter().map(|value| value.to_f32()).collect());
        Ok(())
    }

    fn memorise(&mut self, slots: Slots, binarise: bool) -> Result<()> {
        let object = self.objects.get_mut(self.current).context("no object is selected")?;
        // For this frame alone: the next one is taught anew, or not at all.
        let taught = object.taught.take();
        let step = object.step.as_ref().context("no step has run on this frame")?;
        let binar = [f32::from(u8::from(binarise))];
        let binar = TensorRef::from_array_view(([1_i64], &binar[..])).map_err(plain)?;
        let side = self.manifest.contract.low_size as i64;
        let low: SessionInputValue<'_> = match &taught {
            Some(logits) => TensorRef::from_array_view(([1, 1, side, side], logits.as_slice()))
                .map_err(plain)?
                .into(),
            None => (&step.low).into(),
        };
        let inputs: Vec<(&str, SessionInputValue<'_>)> = vec![
            ("feat", (&self.features[0]).into()),
            ("low", low),
            ("score", (&step.score).into()),
            ("binar", binar.into()),
        ];
        let outputs = self.memory.run(inputs).map_err(plain)?;
        let memory = outputs.get("mem").context("the memory graph gave no output mem")?;
        object.memories.write(slots.memory, memory)?;
        object.pointers.write(slots.pointer, &step.pointer)
    }
}
