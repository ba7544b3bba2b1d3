/*!
`segtrt build-engines`: resolve, build one plan after another, keep what was built, show what it took.
*/

use std::io::IsTerminal;
use std::path::Path;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use super::build_resolve::{ModelBuild, Planned, Resolved, resolve};
use super::build_table::{Row, Status, dry_run_json, dry_run_table, json, table};
use super::{Outcome, build_sweep};
use crate::build::{BuildJob, Built, FailureKind, NotBuilt, Supervisor, plan_file};
use crate::bundle::Role;
use crate::cli::BuildEnginesArgs;
use crate::engine::assess::{Verdict, assess};
use crate::engine::{EngineManifest, PlanRecord, manifest};

/// Builds engines.
pub fn run(args: BuildEnginesArgs) -> Result<Outcome> {
    if !args.sweep_workspace.is_empty() {
        return build_sweep::run(&args);
    }
    let resolved = resolve(&args, None)?;
    if args.dry_run {
        say_left_out(&resolved);
        match args.json {
            true => println!("{}", serde_json::to_string_pretty(&dry_run_json(&resolved))?),
            false => println!("{}", dry_run_table(&resolved)),
        }
        return Ok(Outcome::Done);
    }
    let supervisor = Supervisor::new()?;
    let rows = build_all(&resolved, &args, &supervisor)?;
    match args.json {
        true => println!("{}", json(&rows)?),
        false => println!("{}", table(&rows)),
    }
    Ok(outcome(&rows, &supervisor))
}

/// What the command's exit code says about these rows.
pub fn outcome(rows: &[Row], supervisor: &Supervisor) -> Outcome {
    match rows.iter().any(|row| row.status == Status::Failed) {
        _ if supervisor.is_stopped() => Outcome::Stopped,
        true => Outcome::PartlyFailed,
        false => Outcome::Done,
    }
}

/// Builds everything that is not up to date; a row for each plan, whatever became of it.
pub fn build_all(
    resolved: &Resolved,
    args: &BuildEnginesArgs,
    supervisor: &Supervisor,
) -> Result<Vec<Row>> {
    say_left_out(resolved);
    if let Some(logs) = &args.build_log {
        std::fs::create_dir_all(logs)
            .with_context(|| format!("cannot make the log folder {}", logs.display()))?;
    }
    let place = resolved.device.as_deref().unwrap_or("ahead of time");
    eprintln!("{} for {} ({place})", resolved.tensorrt, resolved.platform.title);
    let mut rows = Vec::new();
    for model in &resolved.models {
        std::fs::create_dir_all(&model.dir)
            .with_context(|| format!("cannot make the engine folder {}", model.dir.display()))?;
        plan_file::remove_litter(&model.dir);
        let mut manifest = manifest_of(model, &resolved.platform.name);
        for planned in &model.plans {
            let row = one_plan(model, planned, &mut manifest, args, supervisor);
            if row.status != Status::UpToDate {
                eprintln!("{}", row.line());
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

fn say_left_out(resolved: &Resolved) {
    for sentence in &resolved.left_out {
        eprintln!("left out: {sentence}");
    }
}

/// The folder's manifest, less what belongs to other graphs than those at hand.
fn manifest_of(model: &ModelBuild, platform: &str) -> EngineManifest {
    let there = EngineManifest::read(&model.dir).unwrap_or_else(|error| {
        log::warn!("{error:#}");
        None
    });
    let bundle = model.bundle.manifest.clone();
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
    }
}

fn one_plan(
    model: &ModelBuild,
    planned: &Planned,
    manifest: &mut EngineManifest,
    args: &BuildEnginesArgs,
    supervisor: &Supervisor,
) -> Row {
    let job = &planned.job;
    if let (None, Some(record)) = (&planned.why, manifest.plan(job.role)) {
        return Row::of(&model.name, record, Status::UpToDate, &manifest.bundle);
    }
    let built = match model.bundle.verify(&[job.role]) {
        Ok(()) => with_bar(job, supervisor),
        Err(error) => Err(NotBuilt { kind: FailureKind::Graph, reason: format!("{error:#}") }),
    };
    let workspace_mib = job.settings.workspace_bytes >> 20;
    let built = match built {
        Ok(built) => built,
        Err(not) => return Row::failed(&model.name, job.role, &not, workspace_mib),
    };
    for note in &built.notes {
        eprintln!("{}: {note}", job.what);
    }
    let record = record(job, &planned.file, built);
    let report = assess(&record, &manifest.bundle);
    if args.require_fused_attention
        && judged(job.role)
        && report.attention.verdict != Verdict::Fused
    {
        let _ = std::fs::remove_file(&job.partial);
        let reason = format!("its attention is not seen to be fused: {report}");
        let not = NotBuilt { kind: FailureKind::Other, reason };
        return Row::failed(&model.name, job.role, &not, workspace_mib);
    }
    if let Err(error) = install(&model.dir, &record, job, manifest) {
        let _ = std::fs::remove_file(&job.partial);
        let not = NotBuilt { kind: FailureKind::Disk, reason: format!("{error:#}") };
        return Row::failed(&model.name, job.role, &not, workspace_mib);
    }
    Row::of(&model.name, &record, Status::Built, &manifest.bundle)
}

/// The plan first, then the manifest that vouches for it: in between, the old record's hash refuses the new plan.
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

/// Only these graphs are dominated by attention.
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

fn with_bar(job: &BuildJob, supervisor: &Supervisor) -> Result<Built, NotBuilt> {
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(0),
        false => ProgressBar::hidden(),
    };
    let style = "{prefix} {bar:30.cyan/blue} {pos}/{len} {elapsed} {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.set_prefix(job.what.clone());
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    let built = supervisor.build(job, |done, total, doing| {
        bar.set_length(total.max(done));
        bar.set_position(done);
        bar.set_message(doing.to_owned());
    });
    bar.finish_and_clear();
    built
}
