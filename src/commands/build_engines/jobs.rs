/*!
Builds the plans of a call, `--jobs` at a time, and keeps each one as soon as it is built.
*/

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};

use super::args::BuildEnginesArgs;
use super::planned::{ModelBuild, PlannedPlan, Resolved};
use super::progress::{Progress, announcement};
use super::row::{BuildRow, Status};
use super::{trunk, weights, whole};
use crate::commands::Outcome;
use crate::doctor;
use runtime::builder::{
    BuildJob, BuilderProcess, Built, FailureKind, NotBuilt, Supervisor, plan_file,
};
use runtime::engine::assess::{Verdict, assess};
use runtime::engine::{EngineManifest, PlanRecord, manifest};
use vos::bundle::{FusedPart, Role, Trunk};

/// The exit status for these rows.
pub fn outcome(rows: &[BuildRow], supervisor: &Supervisor) -> Outcome {
    match rows.iter().any(|row| row.status == Status::Failed) {
        _ if supervisor.is_stopped() => Outcome::Stopped,
        true => Outcome::PartlyFailed,
        false => Outcome::Done,
    }
}

/// Builds every plan that is not up to date; a row for each plan, failed or not.
pub fn build_all(
    resolved: &Resolved,
    args: &BuildEnginesArgs,
    supervisor: &Supervisor,
) -> Result<Vec<BuildRow>> {
    if let Some(logs) = &args.build_log {
        std::fs::create_dir_all(logs).with_context(|| {
            format!("cannot create the log folder {}; choose another --build-log", logs.display())
        })?;
    }
    let place = resolved.device.as_deref().unwrap_or("ahead of time");
    eprintln!("{} for {} ({place})", resolved.tensorrt, resolved.platform.title);
    if let Some(said) = announcement(&resolved.models) {
        eprintln!("{said}");
    }
    let mut manifests = Vec::new();
    for model in &resolved.models {
        std::fs::create_dir_all(&model.dir).with_context(|| {
            format!("cannot create the engine folder {}; choose another --out", model.dir.display())
        })?;
        for folder in model.plans.iter().filter_map(|plan| plan.job.timing_cache.as_ref()?.folder())
        {
            std::fs::create_dir_all(folder).with_context(|| {
                format!("cannot create {}; choose another --timing-cache", folder.display())
            })?;
        }
        plan_file::remove_litter(&model.dir);
        manifests.push(Mutex::new(manifest_of(model, &resolved.platform.name, args)));
    }
    let models = resolved.models.iter().zip(&manifests);
    let tasks: Vec<_> = models
        .flat_map(|(model, manifest)| model.plans.iter().map(move |plan| (model, plan, manifest)))
        .collect();
    let to_build = tasks.iter().filter(|(_, planned, _)| planned.why.is_some()).count();
    let (next, progress) = (AtomicUsize::new(0), Progress::new(to_build));
    let rows: Mutex<Vec<(usize, BuildRow)>> = Mutex::default();
    let mut first = 0;
    for (model, manifest) in resolved.models.iter().zip(&manifests) {
        for row in weights::copy(model, &lock(manifest)) {
            if row.status != Status::UpToDate {
                eprintln!("{}", row.line());
            }
            // Before the model's plans: the sort is stable.
            lock(&rows).push((first, row));
        }
        first += model.plans.len();
    }
    let work = || {
        // The thread's own builder process; it ends with the thread.
        let mut line = supervisor.line();
        while let Some((at, (model, planned, manifest))) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            tasks.get(at).map(|task| (at, task))
        } {
            let building = Building { model, planned, manifest, args, progress: &progress };
            let row = building.row(&mut line);
            if row.status != Status::UpToDate {
                progress.say(&row.line());
            }
            lock(&rows).push((at, row));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..args.jobs.min(tasks.len()) {
            scope.spawn(work);
        }
        work();
    });
    for (model, manifest) in resolved.models.iter().zip(&manifests) {
        // The rows are shown even if this fails.
        let say = |note: Result<Option<String>>| {
            if let Some(note) = note.unwrap_or_else(|error| Some(format!("{error:#}"))) {
                eprintln!("{}: {note}", model.name);
            }
        };
        say(weights::settle(&model.dir));
        if resolved.device.is_some() && !args.no_autotune {
            say(trunk::choose(&model.dir, &mut lock(manifest)));
        }
        if args.graphs.is_empty() {
            say(whole::settle(&model.dir, &mut lock(manifest)));
        }
    }
    let mut rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    // In the order of the request.
    rows.sort_by_key(|(at, _)| *at);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints notes before the build.
pub fn say_before(resolved: &Resolved) {
    for sentence in &resolved.left_out {
        eprintln!("left out: {sentence}");
    }
    // Engines for another machine need no cuBLASLt here.
    let has_trunk = |model: &ModelBuild| {
        model.weights.iter().any(|it| it.graph == Trunk::GRAPH)
            && model.bundle.manifest.trunk.as_ref().is_some_and(Trunk::is_hiera)
    };
    let trunk = resolved.models.iter().any(has_trunk);
    if trunk
        && resolved.device.is_some()
        && let Err(why) = doctor::has_cublaslt()
    {
        eprintln!("note: the encoder's trunk cannot run here yet: {why}");
    }
    for sentence in &resolved.notes {
        eprintln!("note: {sentence}");
    }
}

/// The folder's manifest, without plans of other graphs than the bundle's.
fn manifest_of(model: &ModelBuild, platform: &str, args: &BuildEnginesArgs) -> EngineManifest {
    let there = EngineManifest::read(&model.dir).unwrap_or_else(|error| {
        log::warn!("{error:#}");
        None
    });
    let bundle = model.bundle.manifest.clone();
    let products = there.as_ref().and_then(|manifest| manifest.products.clone());
    let products =
        products.filter(|_| bundle.trunk.as_ref().is_some_and(Trunk::is_hiera) && !args.force);
    let mut plans = there.map(|manifest| manifest.plans).unwrap_or_default();
    plans.retain(|plan| {
        bundle.graph(plan.role).is_some_and(|graph| graph.sha256 == plan.onnx_sha256)
    });
    EngineManifest {
        format: manifest::FORMAT,
        platform: platform.to_owned(),
        precision: model.precision,
        bundle,
        plans,
        products,
        attention_kernels: model.attention_kernels,
        sources: manifest::Sources::of(&model.bundle.dir, args.platforms.as_deref()),
        dir: Some(model.dir.clone()),
    }
}

/// One plan on its way.
struct Building<'a> {
    model: &'a ModelBuild,
    planned: &'a PlannedPlan,
    manifest: &'a Mutex<EngineManifest>,
    args: &'a BuildEnginesArgs,
    progress: &'a Progress,
}

impl Building<'_> {
    fn row(&self, line: &mut BuilderProcess<'_>) -> BuildRow {
        let (model, job) = (self.model, &self.planned.job);
        let bundle = &model.bundle.manifest;
        let of = |record: &PlanRecord, status| BuildRow::of(&model.name, record, status, bundle);
        let there = self.planned.why.is_none();
        if let Some(record) = lock(self.manifest).plan(job.role)
            && there
        {
            return of(record, Status::UpToDate);
        }
        let failed = |not: &NotBuilt| BuildRow::failed(&model.name, self.planned, not);
        let built = match model.bundle.verify(&[job.role]) {
            Ok(()) => self.progress.build(job, line),
            Err(error) => Err(NotBuilt { kind: FailureKind::Graph, reason: format!("{error:#}") }),
        };
        let built = match built {
            Ok(built) => built,
            Err(not) => return failed(&not),
        };
        for note in &built.notes {
            self.progress.say(&format!("{}: {note}", job.what));
        }
        let record = record(job, &self.planned.file, built);
        let report = assess(&record, bundle);
        if self.args.require_fused_attention
            && judged(job.role)
            // A convolutional encoder has no attention.
            && !matches!(report.attention.verdict, Verdict::Fused | Verdict::NotJudged)
        {
            let _ = std::fs::remove_file(&job.partial);
            let reason = format!(
                "its attention is not seen to be fused: {report}; build without \
                 --require-fused-attention, or with --track-variant segmented, which has CUDA \
                 kernels for it"
            );
            return failed(&NotBuilt { kind: FailureKind::Other, reason });
        }
        if let Err(error) = install(&model.dir, &record, job, &mut lock(self.manifest)) {
            let _ = std::fs::remove_file(&job.partial);
            return failed(&NotBuilt { kind: FailureKind::Disk, reason: format!("{error:#}") });
        }
        of(&record, Status::Built)
    }
}

/// The plan first, then the manifest: in between, the old record's hash refuses the new plan.
fn install(
    dir: &Path,
    record: &PlanRecord,
    job: &BuildJob,
    manifest: &mut EngineManifest,
) -> Result<()> {
    plan_file::install(&job.partial, &dir.join(&record.file))?;
    manifest.set(record.clone());
    manifest.write(dir)
}

/// Attention dominates only these graphs.
fn judged(role: Role) -> bool {
    role.is_encoder() || matches!(role, Role::Track | Role::TrackPadded)
}

fn record(job: &BuildJob, file: &str, built: Built) -> PlanRecord {
    PlanRecord {
        role: job.role,
        file: file.to_owned(),
        sha256: built.sha256,
        bytes: built.bytes,
        onnx_sha256: job.onnx_sha256.clone(),
        made_by: built.made_by,
        settings: job.settings.clone(),
        build: built.cost,
        layers: built.layers,
    }
}
