/*!
The worker: one engine folder in its process.

TensorRT and the driver can end a process, and a fault on the device ends its context; neither may
cost another model's rows.
*/

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::case::{Case, Meaning, cases};
use super::engine_run::{self, Output};
use super::folders::Folder;
use super::inputs::Inputs;
use super::joined::Joined;
use super::protocol::{Job, Opened, SelftestEvent, Settings};
use super::record::{Cost, EngineKey, EngineRow, PlanKey};
use super::reference::{Parts, Reference};
use super::steadiness::is_steady;
use super::tensor::Tensor;
use super::verdict::{Judged, Verdict, judge, limit};
use cuda::Gpu;
use execution::TensorRtMemory;
use host::child;
use host::processor;
use runtime::engine::{EngineManifest, open_record};
use tensorrt::{Engine, Runtime};
use vos::bundle::part_graph::are_cut_alike;
use vos::bundle::{Bundle, Role};
use vos::precision::Precision;

/// How many other inputs are tried where the reference is unsteady.
const OTHER_INPUTS: u64 = 3;

/// What is added to the reason where it is unsteady on all of them.
const UNSTEADY: &str =
    "; the reference itself jumps there when its inputs are shaken by a tenth of that";

/// Runs the job on standard input to its end; what stops it is told to the parent, which owns the
/// screen.
pub fn run() -> Result<()> {
    match run_job() {
        Ok(()) => Ok(()),
        Err(error) => child::send(&SelftestEvent::Failed { reason: format!("{error:#}") }),
    }
}

fn run_job() -> Result<()> {
    let job: Job = child::read_job()?;
    child::end_with_parent()?;
    let mut worker = Worker::open(&job)?;
    child::send(&SelftestEvent::Ready(worker.opened.clone()))?;
    for (plan, numbers) in &job.todo {
        match worker.open_plan(plan) {
            Ok((engine, cases, bytes)) => {
                for (number, case) in cases.iter().enumerate().filter(|(n, _)| numbers.contains(n))
                {
                    let rows = worker.case(plan, &engine, case, bytes);
                    child::send(&SelftestEvent::Case { plan: plan.clone(), case: number, rows })?;
                    // After a fault on the device nothing that this process says is worth anything.
                    worker.gpu.synchronize().context("the GPU's context is lost")?;
                }
            }
            Err(error) => child::send(&SelftestEvent::NoPlan {
                plan: plan.clone(),
                reason: format!("{error:#}"),
            })?,
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
        let library = runtime::tensorrt_library::open(job.settings.tensorrt_lib.as_deref())?;
        let runtime = Runtime::with_memory(&library, Arc::new(TensorRtMemory::new(&gpu)), None)?;
        let open = |dir: &PathBuf| {
            let bundle = Bundle::open(dir)?;
            // Where both are cut alike fp32 says more of an fp16 engine than the graph that it was
            // built from.
            let alike = are_cut_alike(&bundle.manifest, &folder.manifest.bundle);
            let parts = match (alike, &job.parts) {
                (true, _) => Parts::Alike,
                (false, Some(dir)) => Parts::Of(Box::new(Bundle::open(dir)?)),
                (false, None) => Parts::Unknown,
            };
            let threads = processor::processors();
            let cuts = folder.manifest.bundle.cut_graphs().iter().map(|graph| graph.role).collect();
            Reference::open(bundle, (parts, cuts), job.settings.ort_lib.as_deref(), threads)
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
    fn open_plan(&self, plan: &PlanKey) -> Result<(Engine, Vec<Case>, Option<u64>)> {
        let manifest = &self.folder.manifest;
        let held = || self.runtime.memory_use().map(|memory| memory.current);
        let before = held();
        let plan = manifest.plan(plan.role).context("the plan is gone")?;
        let engine = open_record(&self.runtime, self.opened.sm, &self.folder.dir, manifest, plan)?;
        let bytes = held().zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok((engine, cases(&manifest.bundle, plan)?, bytes))
    }

    fn case(
        &mut self,
        plan: &PlanKey,
        engine: &Engine,
        case: &Case,
        bytes: Option<u64>,
    ) -> Vec<EngineRow> {
        let of = (case.profile, case.label.as_str());
        match self.try_case(plan.role, engine, case) {
            Ok(Tried { judged, mut cost, seed }) => {
                cost.engine_bytes = bytes;
                let row = |judged| EngineRow::of(&self.key, plan, of, seed, &cost, judged);
                judged.into_iter().map(row).collect()
            }
            Err(error) => {
                vec![EngineRow::failed(&self.key, Some(plan), Some(of), &format!("{error:#}"))]
            }
        }
    }

    /// Inputs whose answer hangs on a rounding are replaced by others.
    fn try_case(&mut self, role: Role, engine: &Engine, case: &Case) -> Result<Tried> {
        let mut seed = self.settings.seed;
        loop {
            let (mut tried, steady) = self.with_seed(role, engine, case, seed)?;
            if steady {
                return Ok(tried);
            }
            if seed - self.settings.seed == OTHER_INPUTS {
                let failed = tried.judged.iter_mut().filter_map(|judged| judged.reason.as_mut());
                failed.for_each(|reason| reason.push_str(UNSTEADY));
                return Ok(tried);
            }
            seed += 1;
            log::info!(
                "{} ({}): the decoder's choice is a tie here, other inputs",
                role.name(),
                case.label
            );
        }
    }

    /// Runs the case on the inputs of one seed; false where it failed and the reference is unsteady
    /// there.
    fn with_seed(
        &mut self,
        role: Role,
        engine: &Engine,
        case: &Case,
        seed: u64,
    ) -> Result<(Tried, bool)> {
        let bundle = &self.folder.manifest.bundle;
        let (contract, imgsz) = (&bundle.contract, bundle.model.imgsz);
        let mut inputs = Inputs { contract, imgsz, seed, features: &self.features }.make(case)?;
        let repeats = self.settings.repeats;
        let (outputs, cost) = if case.meaning == Meaning::Joined {
            let Folder { dir, manifest } = &self.folder;
            let joined = Joined::open(&self.gpu, &self.runtime, dir, manifest)?;
            joined.fit(&mut inputs)?;
            joined.run(&inputs, repeats)?
        } else {
            engine_run::fit(engine, &mut inputs)?;
            engine_run::run(&self.gpu, engine, case, &inputs, repeats)?
        };
        let precision = match case.meaning {
            // Between the parts everything is computed in f16, whatever the precision of the parts.
            Meaning::Joined => Precision::Fp16,
            _ => self.key.precision,
        };
        let limit = self.settings.max_error.unwrap_or_else(|| limit(precision));
        let expected = match &mut self.reference {
            Some(reference) => Some(reference.expected(role, case, &inputs)?),
            None => None,
        };
        let judged = judge_all(&outputs, expected.as_deref(), limit)?;
        let failed = judged.iter().any(|judged| judged.verdict == Verdict::Failed);
        let steady = match (&mut self.reference, &expected) {
            (Some(reference), Some(expected)) if failed => {
                let ask = |shaken: &[Tensor]| reference.expected(role, case, shaken);
                is_steady(&inputs, expected, limit, ask)?
            }
            _ => true,
        };
        Ok((Tried { judged, cost, seed }, steady))
    }
}

/// What came of a case.
struct Tried {
    judged: Vec<Judged>,
    cost: Cost,
    seed: u64,
}

fn judge_all(outputs: &[Output], expected: Option<&[Tensor]>, limit: f64) -> Result<Vec<Judged>> {
    let judged = outputs.iter().map(|output| {
        let reference = match expected {
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
    judged.collect()
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
