/*!
`segtrt bench`: resolve, measure, write, show.
*/

mod args;
mod dead_flags;
mod encode_stage;
pub(in crate::commands) mod engines;
mod gpu_only;
mod kept;
mod lanes;
mod memory_table;
pub(in crate::commands) mod models;
pub(in crate::commands) mod plan;
mod remarks;
mod shard;
mod source_targets;
mod stereo;
pub(in crate::commands) mod table;
mod timed_region;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bench::messages::Loaded;
use crate::bench::plan::{BenchModel, BenchPlan, ShardPlan};
use crate::bench::progress::Display;
use crate::bench::supervise;
use crate::bench::teacher_check;
use crate::bench::work::Work;
use crate::commands::Outcome;
use crate::environment;
use crate::shard::Shard;
pub use args::{BackendChoice, BenchArgs, GpuArgs, Toggle, parse_precision};
use host::child;
use host::colour;
use host::ctrl_c;
use host::printable::printable;
use host::screen_table;
use host::shell;
use host::{UsageError, counted};
use plan::{Resolved, resolve};
use remarks::remarks as bench_remarks;
use runtime::backend::find_library;
use runtime::engine::{EngineManifest, PlanRecord};
use runtime::pipeline;
use table::Line;
use timed_region::timed_region;
use vos::bundle::{Bundle, FusedPart, Graph, Trunk};
use vos::files::OTHER_DEVICES;
use vos::files::{ColumnSet, Configuration, FileHash, ResultStore, Sidecar};
use vos::record::{ModelMemory, Status, SummaryRecord};

/// The result of a bench, for the screen.
pub(in crate::commands) struct Report {
    /// One line a model.
    pub models: Vec<Line>,
    /// Model tag → its memory, where something is known of it.
    pub memory: BTreeMap<String, ModelMemory>,
    /// Remarks about them.
    pub remarks: Vec<String>,
    /// Rows that failed.
    pub failed: usize,
    /// Rows that were skipped.
    pub skipped: usize,
    /// Rows with numbers, but of fewer passes than were asked for.
    pub incomplete: usize,
    /// Models that were asked for and could not run.
    pub left_out: usize,
    /// The first overlay.
    pub overlay: Option<String>,
    /// The files, or what broke off.
    pub ended: Result<Vec<PathBuf>>,
}

/// Runs the benchmark and prints its result.
pub fn run(args: BenchArgs) -> Result<Outcome> {
    let report = measure(&args)?;
    if args.json {
        let (document, outcome) = report.document()?;
        println!("{document:#}");
        return Ok(outcome);
    }
    let outcome = report.outcome();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", colour::shown(&table::render(&report.models), &std::io::stdout()))?;
    let width = screen_table::screen_width().unwrap_or(usize::MAX);
    if args.memory {
        writeln!(out, "{}", memory_table::render(&report.memory))?;
    }
    for remark in report.remarks {
        let remark = screen_table::wrapped(&remark, width);
        writeln!(out, "{}", colour::shown(&remark, &std::io::stdout()))?;
    }
    for path in report.ended? {
        writeln!(out, "{}", printable(&path.display().to_string()))?;
    }
    if let Some(overlay) = report.overlay {
        writeln!(out, "Masks to look at: {}", printable(&overlay))?;
    }
    Ok(outcome)
}

impl Report {
    /// As `--json` prints it, and how the bench ended.
    ///
    /// # Errors
    /// What broke it off.
    pub(in crate::commands) fn document(self) -> Result<(Value, Outcome)> {
        let outcome = self.outcome();
        let Self { models, memory, remarks, failed, skipped, incomplete, left_out, ended, .. } =
            self;
        let document = json!({
            "models": models, "memory": memory, "remarks": remarks, "failed": failed, "skipped": skipped,
            "incomplete": incomplete, "left_out": left_out, "files": ended?,
        });
        Ok((document, outcome))
    }

    /// Reports rows without numbers.
    fn outcome(&self) -> Outcome {
        let Self { failed, skipped, incomplete, left_out, .. } = self;
        if failed + skipped > 0 {
            let failed = counted(*failed, "row");
            eprintln!("{failed} failed, {skipped} skipped; see the column reason");
        }
        if *incomplete > 0 {
            eprintln!("{}: a pass failed; see the column reason", counted(*incomplete, "row"));
        }
        match failed + incomplete + left_out {
            0 => Outcome::Done,
            _ => Outcome::PartlyFailed,
        }
    }
}

/// Runs the benchmark.
///
/// # Errors
/// It could not begin; what goes wrong later is in the report, with the rows that there are.
pub(in crate::commands) fn measure(args: &BenchArgs) -> Result<Report> {
    let Resolved { plan, split, left_out } = resolve(args)?;
    if let Some(shard) = &plan.shard {
        eprintln!("{}", shard::told(shard, plan.videos.len()));
    }
    // Before any file is written: the plan must fit into a message to the workers.
    child::check(&plan).map_err(|error| UsageError(format!("{error:#}")))?;
    let mut configuration = configuration(&plan)?;
    let earlier = args.resume.then(|| ResultStore::configuration_of(&plan.out_dir)).flatten();
    let resumed = earlier.map(|earlier| configuration.clone().beside(&earlier));
    let mut work = Work::list(&plan, resumed.as_ref(), split.as_ref())?;
    if let Some(dir) = &plan.teacher {
        let teaching = teacher_check::check(&plan, dir, &configuration, split.as_ref(), &work)?;
        configuration = configuration.with("teacher", teaching.teacher);
        work.hashes.extend(teaching.inputs);
    }
    if plan.gpu.is_none() && !args.resume {
        // Each row would fail for this reason. A resumed run may need no library.
        find_library(plan.ort_lib.as_deref())?;
    }
    let columns = args.columns.unwrap_or(ColumnSet::telling(plan.strides));
    let mut store = match args.resume {
        true => ResultStore::resume(&plan.out_dir, configuration)?,
        false => ResultStore::create(&plan.out_dir, configuration)?,
    }
    .with_columns(columns)?;
    store.check_measured_on(|key| work.measured_on(key))?;
    let (rows, keys) = (work.rows() * plan.models.len(), work.keys());
    let done = store.done_of(|key| keys.contains(&(key.video.as_str(), key.object.as_str())));
    let mut display = Display::new(rows, done);
    tell_on_ctrl_c(&plan, rows, &display);
    if done > 0 {
        display.line(&format!("{done} of {rows} rows exist already"));
    }
    kept::warn_of_missing_files(&plan, &store, &display);
    let mut sidecar = Sidecar {
        environment: environment::facts(),
        timed_region: timed_region(&plan),
        inputs: work.hashes.clone(),
        graphs: graphs(&plan)?,
        memory: BTreeMap::new(),
    };
    let library = if plan.gpu.is_some() { "tensorrt" } else { "onnxruntime" };
    if store.done_before() > 0 {
        // New workers use the same library; a run without remaining rows starts none.
        sidecar.keep_environment(&plan.out_dir, &[library, "gpu", "sm"]);
    }
    if let Some(decoder) = &work.decoder {
        sidecar.environment.insert("video_decoder".to_owned(), decoder.as_str().into());
    }
    // Also written before the first row, so that a crash leaves no rows without their machine.
    store.write_sidecar(&sidecar)?;
    let loaded = supervise::run(&plan, &work, &mut store, &mut display);
    display.finish();
    if let Ok(loaded) = &loaded
        && !loaded.is_empty()
    {
        sidecar.environment.insert(library.to_owned(), libraries(loaded));
        if let Some(sm) = loaded.iter().find_map(|loaded| loaded.sm) {
            sidecar.environment.insert("sm".to_owned(), sm.into());
        }
        if let Some(gpu) = loaded.iter().find_map(|loaded| loaded.gpu.clone()) {
            sidecar.environment.insert("gpu".to_owned(), gpu.into());
        }
        for loaded in loaded.iter().filter(|loaded| loaded.memory != ModelMemory::default()) {
            let memory = sidecar.memory.entry(loaded.model.clone()).or_default();
            memory.of_another_worker(loaded.memory.clone());
        }
    }
    let count = |status| store.summaries().filter(|row| row.pooled.status == status).count();
    let (failed, skipped) = (count(Status::Failed), count(Status::Skipped));
    let lacks = |row: &&SummaryRecord| row.runs > 0 && row.runs < plan.profile_runs;
    let incomplete = store.summaries().filter(lacks).count();
    let models = table::lines(store.summaries());
    let mut remarks = bench_remarks(store.summaries());
    for (model, memory) in &sidecar.memory {
        remarks.extend(memory.leaks().into_iter().map(|said| format!("{model}: {said}")));
    }
    let memory = sidecar.memory.clone();
    let overlay = store.summaries().find_map(|row| row.pooled.overlay.as_ref());
    let overlay = overlay.map(|overlay| plan.out_dir.join(overlay).display().to_string());
    let files = store.finish(&sidecar);
    let ended = files.and_then(|files| {
        loaded?;
        let all = [files.summary, files.profile, files.stats, files.sidecar];
        Ok(all.into_iter().filter(|path| path.exists()).collect())
    });
    Ok(Report { models, memory, remarks, failed, skipped, incomplete, left_out, overlay, ended })
}

/// Ctrl-C names the rows that are kept and the command that continues.
fn tell_on_ctrl_c(plan: &BenchPlan, rows: usize, display: &Display) {
    let (done, folder) = (display.rows_done(), plan.out_dir.display().to_string());
    let command = shell::this_command(&["--resume"]);
    ctrl_c::end_with(move || {
        let done = done.load(Ordering::Relaxed);
        format!(
            "Stopped. {done} of {} kept in {folder}.\nContinue: {command}",
            counted(rows, "row")
        )
    });
}

/// The settings that a resumed run must share.
pub(in crate::commands) fn configuration(plan: &BenchPlan) -> Result<Configuration> {
    let models: Vec<Value> = plan
        .models
        .iter()
        .map(|model| {
            let files = ModelFiles::of(plan, model)?;
            let hashes: Vec<&str> =
                files.files.iter().map(|(_, hash)| hash.sha256.as_str()).collect();
            Ok(json!({
                "tag": model.tag.text, "imgsz": model.imgsz, "precision": model.precision,
                "weights": files.weights, "graphs": hashes,
            }))
        })
        .collect::<Result<_>>()?;
    let configuration = Configuration::default()
        .with("models", models)
        .with("split", plan.split_name.as_str())
        .with("videos", plan.videos.clone())
        .with("limit_objects", plan.limit_objects)
        .with("max_clip_frames", plan.max_clip_frames)
        .with("strides", serde_json::to_value(plan.strides)?)
        .with("prompt_policy", plan.prompt_policy.name())
        .with("geometry", plan.geometry.name())
        .with("metrics", plan.metrics.as_str())
        .with("warmup_runs", plan.warmup_runs)
        .with("profile_runs", plan.profile_runs)
        .with("threads", plan.threads)
        .with("provider", serde_json::to_value(plan.provider)?)
        .with("gpu", serde_json::to_value(&plan.gpu)?);
    // Absent by default, so that runs of older versions can be resumed.
    let mut more = Configuration::default();
    if let Some(predecoded) = &plan.predecoded {
        more = more.with("predecoded", predecoded.values.name());
    }
    if !plan.resize.is_pillow() {
        more = more.with("resize", plan.resize.fidelity());
    }
    if plan.save_logits {
        more = more.with("save_logits", true);
    }
    if let Some(stage) = plan.encode {
        more = more.with("encode", stage.to_string());
    }
    if plan.stereo {
        more = more.with("stereo", true);
    }
    if let Some(ShardPlan { shard, selection, .. }) = &plan.shard {
        let Shard { part, of } = shard;
        more = more.with("shard", json!({"part": part, "of": of, "selection": selection}));
    }
    if let Some(shards) = plan.shards {
        more = more.with("shards", shards);
    }
    if plan.other_devices > 0 {
        more = more.with(OTHER_DEVICES, plan.other_devices);
    }
    Ok(configuration.and(more))
}

/// The graphs or engines of all models with the hashes that the workers compare them with.
fn graphs(plan: &BenchPlan) -> Result<BTreeMap<String, FileHash>> {
    let mut graphs = BTreeMap::new();
    for model in &plan.models {
        graphs.extend(ModelFiles::of(plan, model)?.files);
    }
    Ok(graphs)
}

/// The files of a model.
struct ModelFiles {
    weights: String,
    /// Name and hash of each file.
    files: Vec<(String, FileHash)>,
}

impl ModelFiles {
    fn of(plan: &BenchPlan, model: &BenchModel) -> Result<Self> {
        let dir = &model.dir;
        if let Some(gpu) = &plan.gpu {
            let gone = || format!("{} has no engine.json; build the engines again", dir.display());
            let engines = EngineManifest::read(dir)?.with_context(gone)?;
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            let hash = |plan: &PlanRecord| {
                let hash = FileHash { sha256: plan.sha256.clone(), bytes: plan.bytes };
                (format!("{}/{name}/{}", engines.platform, plan.file), hash)
            };
            // Only the encoder that runs; if none does, each object's row has the reason.
            let encoders = pipeline::encoder_roles(&engines, &gpu.options).ok();
            let runs = |plan: &&PlanRecord| {
                !plan.role.is_encoder()
                    || encoders.as_ref().is_none_or(|roles| roles.contains(&plan.role))
            };
            let mut files: Vec<_> = engines.plans.iter().filter(runs).map(hash).collect();
            let by_kernels = encoders.as_ref().is_some_and(|roles| {
                roles.is_empty() || roles.iter().any(|role| role.is_encoder_part())
            });
            let trunk_runs = by_kernels || engines.keys().is_some();
            let weights = engines.weights_files();
            let weights = weights.filter(|file| file.graph != Trunk::GRAPH || trunk_runs);
            files.extend(weights.map(|weights| {
                // Whose file is gone fails when it is opened.
                let bytes = std::fs::metadata(dir.join(weights.file)).map_or(0, |meta| meta.len());
                let hash = FileHash { sha256: weights.sha256.to_owned(), bytes };
                (format!("{}/{name}/{}", engines.platform, weights.file), hash)
            }));
            return Ok(Self { weights: engines.bundle.weights_phrase(), files });
        }
        let bundle = Bundle::open(dir)?;
        let hash = |graph: &Graph| {
            let bytes = std::fs::metadata(dir.join(&graph.file)).map_or(0, |meta| meta.len());
            let hash = FileHash { sha256: graph.sha256.clone(), bytes };
            (format!("{}/{}", bundle.name(), graph.file), hash)
        };
        let files = bundle.manifest.graphs.iter().map(hash).collect();
        Ok(Self { weights: bundle.manifest.weights_phrase(), files })
    }
}

fn libraries(loaded: &[Loaded]) -> Value {
    let mut names: Vec<&str> = loaded.iter().map(|loaded| loaded.library.as_str()).collect();
    names.dedup();
    json!(names)
}
