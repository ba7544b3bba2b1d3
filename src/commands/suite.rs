/*!
`segtrt suite`: one bench after another, one table of them all.
*/

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use super::Outcome;
use super::bench::table::{Line, percent, quality_heading};
use super::bench::{self, BenchArgs, Report};
use crate::commands::headings::OUTPUT;
use crate::suite::{Experiment, ExperimentTable, Suite, combine};
use host::UsageError;
use host::colour;
use host::printable::printable;
use host::screen_table::{self, number};
use vos::files::{ColumnSet, summary_csv};
use vos::strides::Strides;

/// Flags of `segtrt suite`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  segtrt suite stride_sweep --split-dir /data/sav_val --models \
                        edgetam_points --limit-videos 10\n  segtrt suite mine.toml --split-dir \
                        demo/split --models edgetam_mini_points --out-root demo/suite\n\nEach \
                        experiment is a bench into OUT_ROOT/EXPERIMENT; OUT_ROOT gets a table of \
                        all rows. A failed experiment does not stop the others; --resume runs the \
                        missing ones. docs/reference/suites.md explains the suites."
)]
pub struct SuiteArgs {
    /// additional, lowfps, stride_sweep, or a TOML file with [[experiment]] tables.
    pub suite: String,
    /// Folder for the experiments' folders and their common table.
    #[arg(long, help_heading = OUTPUT, default_value = "extended_experiments")]
    pub out_root: PathBuf,
    /// Flags of all experiments.
    #[command(flatten)]
    pub bench: BenchArgs,
}

/// The result of an experiment.
#[derive(Serialize)]
struct Done<'a> {
    experiment: &'a str,
    description: &'a str,
    imgsz: Option<usize>,
    strides: Strides,
    folder: PathBuf,
    status: Status,
    /// Why it has no rows, or not all.
    error: Option<String>,
    models: Vec<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Done,
    PartlyFailed,
    Failed,
}

/// Runs the experiments.
pub fn run(args: SuiteArgs) -> Result<Outcome> {
    let suite = Suite::find(&args.suite).map_err(|error| UsageError(format!("{error:#}")))?;
    refuse_what_the_suite_sets(&args.bench)?;
    let root = &args.out_root;
    std::fs::create_dir_all(root).with_context(|| {
        format!("cannot create {}; choose a writable --out-root", root.display())
    })?;
    let summary = root.join(&suite.summary);
    let mut done: Vec<Done<'_>> = Vec::new();
    let mut parts: Vec<ExperimentTable<'_>> = Vec::new();
    let mut rows = 0;
    for (number, experiment) in suite.experiments.iter().enumerate() {
        let folder = suite.folder(root, experiment);
        let (at, all) = (number + 1, suite.experiments.len());
        eprintln!("[{at}/{all}] {} -> {}", experiment.name, folder.display());
        let one = one(experiment, folder.clone(), &args.bench);
        // What failed before it began has at most the table of an earlier run, which would pass for
        // this one's.
        if one.status != Status::Failed {
            parts.push(ExperimentTable { experiment, table: folder.join(summary_csv::FILE_NAME) });
            // After each: what is done outlives whatever happens to the next.
            rows = combine(&summary, &parts)?;
        } else if let Some(error) = &one.error {
            // A reason that all experiments share is printed once.
            let first = done.iter().find(|earlier| earlier.error.as_ref() == Some(error));
            match first {
                Some(first) => eprintln!("{}: failed as {} did", experiment.name, first.experiment),
                None => eprintln!("{}: {error}", experiment.name),
            }
        }
        done.push(one);
    }
    if parts.is_empty() && summary.exists() {
        std::fs::remove_file(&summary)
            .with_context(|| format!("cannot remove the outdated {}", summary.display()))?;
    }
    let written = (!parts.is_empty()).then_some(&summary);
    let mut out = std::io::stdout().lock();
    if args.bench.json {
        let document = serde_json::json!({
            "suite": suite.name, "summary": written, "rows": rows, "experiments": done,
        });
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", colour::shown(&table(&done), &std::io::stdout()))?;
        for (error, experiments) in errors(&done) {
            writeln!(out, "{}: {}", experiments.join(", "), printable(error))?;
        }
        if let Some(path) = written {
            writeln!(out, "{}", printable(&path.display().to_string()))?;
        }
    }
    let all_done = done.iter().all(|one| one.status == Status::Done);
    Ok(if all_done { Outcome::Done } else { Outcome::PartlyFailed })
}

/// Each error once, with the experiments that it ended.
fn errors<'d>(done: &'d [Done<'_>]) -> Vec<(&'d str, Vec<&'d str>)> {
    let mut errors: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in done {
        let Some(error) = one.error.as_deref() else { continue };
        match errors.iter_mut().find(|(known, _)| *known == error) {
            Some((_, experiments)) => experiments.push(one.experiment),
            None => errors.push((error, vec![one.experiment])),
        }
    }
    errors
}

/// Flags of a bench that differ between the experiments, or that name one folder for all of them.
fn refuse_what_the_suite_sets(bench: &BenchArgs) -> Result<()> {
    let given = [
        (
            bench.out_dir.is_some(),
            "--out-dir",
            "name the folder of all experiments with --out-root",
        ),
        (bench.imgsz.is_some(), "--imgsz", "write a suite of your own for other sizes"),
        (bench.input_frame_stride != 1, "--input-frame-stride", "write a suite of your own"),
        (
            bench.annotation_stride_frames != 0,
            "--annotation-stride-frames",
            "write a suite of your own",
        ),
        (
            bench.columns == Some(ColumnSet::Standard),
            "--columns",
            "only the extended ones tell experiments apart",
        ),
    ];
    if let Some((_, flag, instead)) = given.iter().find(|(given, ..)| *given) {
        bail!(UsageError(format!(
            "{flag} is set by each experiment of a suite; {instead} (docs/reference/suites.md)"
        )));
    }
    if bench.memory {
        bail!(UsageError(
            "--memory prints below the table of one bench; the sidecar of each experiment has it, \
             so leave it out"
                .to_owned()
        ));
    }
    if bench.split_dir.is_none() && !bench.test_mode {
        bail!(UsageError(
            "--split-dir is missing; name a folder with JPEGImages_24fps, or make one: segtrt \
             synth --out demo/split"
                .to_owned()
        ));
    }
    Ok(())
}

fn one<'a>(experiment: &'a Experiment, folder: PathBuf, common: &BenchArgs) -> Done<'a> {
    let Experiment { name, description, imgsz, strides } = experiment;
    let args = BenchArgs {
        imgsz: *imgsz,
        input_frame_stride: strides.input.try_into().unwrap_or(u32::MAX),
        annotation_stride_frames: strides.annotation.try_into().unwrap_or(u32::MAX),
        columns: Some(ColumnSet::Extended),
        out_dir: Some(folder.clone()),
        ..common.clone()
    };
    let (status, error, models) = match bench::measure(&args) {
        Ok(report) => told(report),
        Err(error) => (Status::Failed, Some(format!("{error:#}")), Vec::new()),
    };
    Done {
        experiment: name,
        description,
        imgsz: *imgsz,
        strides: *strides,
        folder,
        status,
        error,
        models,
    }
}

/// A bench that began, however it ended.
fn told(report: Report) -> (Status, Option<String>, Vec<Line>) {
    let Report { models, failed, incomplete, left_out, ended, .. } = report;
    match ended {
        Err(error) => (Status::PartlyFailed, Some(format!("{error:#}")), models),
        Ok(_) if failed + incomplete + left_out > 0 => {
            let why = format!(
                "{failed} rows failed, {incomplete} lack a pass that failed, {left_out} models \
                 were left out; its table and the lines above say why"
            );
            (Status::PartlyFailed, Some(why), models)
        }
        Ok(_) => (Status::Done, None, models),
    }
}

/// One line for each experiment and model.
fn table(done: &[Done<'_>]) -> String {
    let mut table = screen_table::table(
        [
            "experiment",
            "model",
            "imgsz",
            "input fps",
            "scored every",
            "objects",
            "fps",
            "p50 ms",
            &quality_heading(done.iter().flat_map(|one| &one.models)),
            "status",
        ],
        2..9,
    )
    .optional([4, 7, 2]);
    for one in done {
        let rate = format!("{:.1}", one.strides.input_fps());
        let scored = match one.strides.annotation {
            0 | 1 => "-".to_owned(),
            stride => stride.to_string(),
        };
        let status = match one.status {
            Status::Done => "done",
            Status::PartlyFailed => "partly FAILED",
            Status::Failed => "FAILED",
        };
        let size = one.imgsz.map_or_else(|| "-".to_owned(), |size| size.to_string());
        if one.models.is_empty() {
            let dashes = ["-"; 4].map(str::to_owned);
            let head = [one.experiment.to_owned(), "-".to_owned(), size, rate, scored];
            table.add_row(head.into_iter().chain(dashes).chain([status.to_owned()]));
            continue;
        }
        for line in &one.models {
            table.add_row([
                one.experiment.to_owned(),
                line.model.clone(),
                line.imgsz.to_string(),
                rate.clone(),
                scored.clone(),
                format!("{}/{}", line.measured, line.objects),
                number(line.fps, 2),
                number(line.p50_ms, 1),
                percent(line.jf),
                status.to_owned(),
            ]);
        }
    }
    table.to_string()
}
