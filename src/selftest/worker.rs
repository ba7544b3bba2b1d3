/*!
The worker: one engine folder in a process of its own.

TensorRT and the driver can end a process, and a fault on the device ends its context; neither may cost another model's
rows. The worker reads a [`Job`] from standard input and answers with one JSON line per [`Event`].
*/

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::case::{Case, Meaning, cases};
use super::engine_run::{self, Repeats};
use super::folders::Folder;
use super::inputs::Inputs;
use super::record::{Cost, EngineKey, Row};
use super::reference::Reference;
use super::tensor::Tensor;
use super::verdict::{judge, limit};
use crate::bundle::{Bundle, Role};
use crate::engine::{EngineManifest, open_plan};
use crate::environment;
use crate::gpu::{DriverMemory, Gpu};
use crate::trt::{Engine, Library, Runtime};

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The engine folder.
    pub dir: PathBuf,
    /// The bundle to compare with; none for no comparison.
    pub reference: Option<PathBuf>,
    /// Plans with the numbers of their cases, in order.
    pub todo: Vec<(Role, Vec<usize>)>,
    /// What all folders have in common.
    pub settings: Settings,
}

/// What all folders have in common.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Which GPU, from 0.
    pub device: usize,
    /// How often cases are run for their times.
    pub repeats: Repeats,
    /// Relative error allowed instead of the precision's own.
    pub max_error: Option<f64>,
    /// Seed of the inputs.
    pub seed: u64,
    /// TensorRT's library, where named.
    pub tensorrt_lib: Option<PathBuf>,
    /// ONNX Runtime's library, where named.
    pub ort_lib: Option<PathBuf>,
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Everything is opened.
    Ready(Opened),
    /// A plan cannot be opened: none of its cases will come.
    NoPlan {
        /// Which.
        role: Role,
        /// Why.
        reason: String,
    },
    /// A case is done, well or not.
    Case {
        /// Of which plan.
        role: Role,
        /// Its number.
        case: usize,
        /// Its rows.
        rows: Vec<Row>,
    },
    /// The worker cannot go on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What the worker runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The GPU's name.
    pub device: String,
    /// Its compute capability, 90 for 9.0.
    pub sm: u32,
    /// Newest CUDA that the driver knows.
    pub driver_cuda: String,
    /// TensorRT's release.
    pub tensorrt: String,
    /// TensorRT's library.
    pub tensorrt_library: PathBuf,
    /// ONNX Runtime's library and its build; none without a reference.
    pub onnxruntime: Option<String>,
}

/// Runs the job on standard input to its end; what stops it is told to the parent, which owns the screen.
pub fn run() -> Result<()> {
    match run_job() {
        Ok(()) => Ok(()),
        Err(error) => send(&Event::Failed { reason: format!("{error:#}") }),
    }
}

fn run_job() -> Result<()> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("no job on standard input")?;
    let job: Job = serde_json::from_str(&line).context("the job on standard input is damaged")?;
    let mut worker = Worker::open(&job)?;
    send(&Event::Ready(worker.opened.clone()))?;
    for (role, numbers) in &job.todo {
        match worker.open_plan(*role) {
            Ok((engine, cases, bytes)) => {
                for (number, case) in cases.iter().enumerate().filter(|(n, _)| numbers.contains(n))
                {
                    let rows = worker.case(*role, &engine, case, bytes);
                    send(&Event::Case { role: *role, case: number, rows })?;
                    // After a fault on the device nothing that this process says is worth anything.
                    worker.gpu.synchronize().context("the GPU's context is lost")?;
                }
            }
            Err(error) => send(&Event::NoPlan { role: *role, reason: format!("{error:#}") })?,
        }
    }
    Ok(())
}

struct Worker {
    gpu: Gpu,
    runtime: Runtime,
    reference: Option<Reference>,
    features: Vec<Tensor>,
    folder: Folder,
    key: EngineKey,
    settings: Settings,
    opened: Opened,
}

impl Worker {
    fn open(job: &Job) -> Result<Self> {
        let missing = || format!("the engine folder {} is gone", job.dir.display());
        let manifest = EngineManifest::read(&job.dir)?.with_context(missing)?;
        let folder = Folder { dir: job.dir.clone(), manifest };
        let gpu = Gpu::open(job.settings.device)?;
        let library = Library::open(job.settings.tensorrt_lib.as_deref())?;
        let runtime = Runtime::with_memory(&library, Arc::new(DriverMemory::new(&gpu)), None)?;
        let open = |dir: &PathBuf| {
            let bundle = Bundle::open(dir)?;
            Reference::open(bundle, job.settings.ort_lib.as_deref(), environment::processors())
        };
        let mut reference = job.reference.as_ref().map(open).transpose()?;
        let features = match &mut reference {
            Some(reference) => features(reference, &folder, job.settings.seed)?,
            None => Vec::new(),
        };
        let facts = gpu.facts();
        let opened = Opened {
            device: facts.name.clone(),
            sm: facts.sm,
            driver_cuda: facts.driver_cuda.clone(),
            tensorrt: library.version().to_string(),
            tensorrt_library: library.path().to_owned(),
            onnxruntime: reference.as_ref().map(Reference::library),
        };
        let (key, settings) = (folder.key(), job.settings.clone());
        Ok(Self { gpu, runtime, reference, features, folder, key, settings, opened })
    }

    /// The engine, its cases, and what it took from the allocator.
    fn open_plan(&self, role: Role) -> Result<(Engine, Vec<Case>, Option<u64>)> {
        let manifest = &self.folder.manifest;
        let held = || self.runtime.memory_use().map(|memory| memory.current);
        let before = held();
        let engine = open_plan(&self.runtime, self.opened.sm, &self.folder.dir, manifest, role)?;
        let plan = manifest.plan(role).context("the plan is gone")?;
        let bytes = held().zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok((engine, cases(&manifest.bundle, plan)?, bytes))
    }

    fn case(&mut self, role: Role, engine: &Engine, case: &Case, bytes: Option<u64>) -> Vec<Row> {
        let of = (case.profile, case.label.as_str());
        match self.try_case(role, engine, case) {
            Ok((judged, mut cost)) => {
                cost.engine_bytes = bytes;
                let row = |judged| Row::of(&self.key, role, of, &cost, judged);
                judged.into_iter().map(row).collect()
            }
            Err(error) => {
                vec![Row::failed(&self.key, Some(role), Some(of), &format!("{error:#}"))]
            }
        }
    }

    fn try_case(
        &mut self,
        role: Role,
        engine: &Engine,
        case: &Case,
    ) -> Result<(Vec<super::verdict::Judged>, Cost)> {
        let bundle = &self.folder.manifest.bundle;
        let maker = Inputs {
            contract: &bundle.contract,
            imgsz: bundle.model.imgsz,
            seed: self.settings.seed,
            features: &self.features,
        };
        let mut inputs = maker.make(case)?;
        engine_run::fit(engine, &mut inputs)?;
        let (outputs, cost) =
            engine_run::run(&self.gpu, engine, case, &inputs, self.settings.repeats)?;
        let expected = match &mut self.reference {
            Some(reference) => Some(reference.expected(role, case, &inputs)?),
            None => None,
        };
        let limit = self.settings.max_error.unwrap_or_else(|| limit(self.key.precision));
        let judged = outputs.iter().map(|output| {
            let reference = match &expected {
                Some(expected) => {
                    let found = expected.iter().find(|tensor| tensor.name == output.name);
                    let missing = || format!("the reference has no output '{}'", output.name);
                    Some(found.with_context(missing)?.reals()?)
                }
                None => None,
            };
            let replayed = output.replayed.as_ref();
            Ok(judge(&output.name, &output.enqueued, replayed, reference, limit))
        });
        Ok((judged.collect::<Result<_>>()?, cost))
    }
}

/// The reference encoder's outputs on a random image.
fn features(reference: &mut Reference, folder: &Folder, seed: u64) -> Result<Vec<Tensor>> {
    let bundle = &folder.manifest.bundle;
    let (contract, imgsz) = (&bundle.contract, bundle.model.imgsz);
    let side = imgsz as i64;
    let case = Case {
        profile: 0,
        label: String::new(),
        shapes: vec![("image".to_owned(), vec![1, 3, side, side])],
        meaning: Meaning::Plain,
    };
    let mut image = Inputs { contract, imgsz, seed, features: &[] }.make(&case)?;
    let image = image.pop().context("no image was made")?;
    reference.features(image).context("the reference's encoder does not run")
}

fn send(event: &Event) -> Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).context("the parent process is gone")
}
