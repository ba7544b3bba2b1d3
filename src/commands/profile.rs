/*!
`segtrt profile`: a bench as it is, then its objects again under nsys, then the reports' names into
the rows.
*/

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::Parser;
use serde_json::{Value, json};

use super::bench::plan::{Resolved, resolve};
use super::bench::{self, BenchArgs};
use super::{Cli, Command, Outcome, accept_underscores};
use crate::bench::plan::BenchPlan;
use crate::commands::headings::{GPU, MEASURING, OUTPUT};
use crate::profile::Settings;
use crate::profile::{NoReports, Recorder, ReportName, Target, stage_times};
use host::UsageError;
use host::screen_table::screen_width;
use host::shell;
use report::nsys::Nsys;
use vos::dataset::Dataset;
use vos::files::ResultStore;
use vos::record::{ObjectKey, ProfiledStages, Recording, RunRecord, Status};

/// Flags of `segtrt profile`.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt profile -- bench --split-dir demo/split --models \
                  edgetam_mini_points --out-dir demo/out\n\nFirst the bench runs without a \
                  profiler; all rows come from this run. Then nsys records each measured object \
                  again, once per model and pass. The column nsight_report of profile_summary.csv \
                  names the reports: OUT_DIR/nsight_reports/VIDEO_objOBJECT_TAG_runN.nsys-rep. \
                  Columns such as encoder_profiled_ms and encoder_projected_ms have a recorded \
                  pass's stages by events and by GPU work. \
                  Show them with segtrt nsys. A report contains the program's environment \
                  variables: check them before you share it.")]
pub struct ProfileArgs {
    /// Record only; rows of an earlier bench with the same settings get the column nsight_report.
    #[arg(long, help_heading = MEASURING)]
    pub no_timed_run: bool,
    /// APIs to trace.
    #[arg(
        long,
        help_heading = MEASURING,
        env = "NSYS_TRACE",
        default_value = crate::profile::USUAL_TRACE,
        value_name = "LIST"
    )]
    pub trace: String,
    /// CPU sampling: none, process-tree or system-wide.
    #[arg(long, help_heading = MEASURING, env = "NSYS_SAMPLE", default_value = "none")]
    pub sample: String,
    /// Backtraces of samples: none, lbr, fp or dwarf.
    #[arg(long, help_heading = MEASURING, env = "NSYS_BACKTRACE", default_value = "none")]
    pub backtrace: String,
    /// Folder of the reports [default: OUT_DIR/nsight_reports].
    #[arg(long, help_heading = OUTPUT, env = "NSYS_OUTPUT_DIR", value_name = "DIR")]
    pub output_dir: Option<PathBuf>,
    /// Prefix of each report's name; nsys's %p, %h and %q{VARIABLE} work.
    #[arg(long, help_heading = OUTPUT, env = "NSYS_OUTPUT_NAME", value_name = "NAME")]
    pub output_name: Option<String>,
    /// Sample hardware counters of these GPUs, by nsys's numbers, or all: SM and tensor activity,
    /// memory bandwidth. The driver must permit it.
    #[arg(long, help_heading = GPU, value_name = "GPUS")]
    pub gpu_metrics: Option<String>,
    /// Also write each report's SQLite export.
    #[arg(long, help_heading = OUTPUT)]
    pub export_sqlite: bool,
    /// Print one JSON document instead of the tables; --json among the bench's flags does the same.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// The bench: `bench` and its flags.
    #[arg(last = true, required = true, value_name = "bench …")]
    pub command: Vec<OsString>,
}

impl ProfileArgs {
    /// How reports are recorded.
    pub fn settings(&self) -> Settings {
        Settings {
            trace: self.trace.clone(),
            sample: self.sample.clone(),
            backtrace: self.backtrace.clone(),
            gpu_metrics: self.gpu_metrics.clone(),
            export_sqlite: self.export_sqlite,
        }
    }
}

/// Where reports lie in a bench's folder, the predecessor's name.
const FOLDER: &str = "nsight_reports";

/// Runs the bench and records it.
pub fn run(args: ProfileArgs) -> Result<Outcome> {
    let parsed = parse(&args.command)?;
    // Before anything is timed: without it there would be nothing to do afterwards.
    let nsys = Nsys::find()?;
    eprintln!("nsys {} ({})", nsys.version, nsys.path.display());
    let resume = parsed.resume;
    let Resolved { plan, split, left_out } = resolve(&parsed)?;
    let json = args.json || parsed.json;
    let (timed, document) = match (args.no_timed_run, json) {
        (true, _) => (Outcome::Done, Value::Null),
        (false, true) => {
            let (document, timed) = bench::measure(&parsed)?.document()?;
            (timed, document)
        }
        (false, false) => (bench::run(parsed)?, Value::Null),
    };
    if timed == Outcome::Stopped {
        return Ok(timed);
    }
    let mut rows = rows(&plan, args.no_timed_run)?;
    let targets = match (args.no_timed_run, &rows) {
        (false, Some(rows)) => measured_objects(&plan, rows),
        _ => all_objects(&plan, split.as_ref()),
    };
    if targets.is_empty() {
        bail!("no object of this bench can be profiled; see the column reason of its rows");
    }
    let folder = args.output_dir.clone().unwrap_or_else(|| plan.out_dir.join(FOLDER));
    std::fs::create_dir_all(&folder).with_context(|| {
        format!("cannot create {}; choose another --output-dir", folder.display())
    })?;
    if plan.gpu.as_ref().is_some_and(|gpu| gpu.objects_together > 1) {
        eprintln!("objects are profiled one at a time, not together: each has a report of its own");
    }
    let recorder = Recorder::new(nsys, &args.settings(), &plan)?;
    let name = |target: &Target| {
        ReportName::new(&folder, args.output_name.as_deref(), &target.key, target.run)
    };
    let Recorded { reports, stages } = record(&recorder, &targets, &name, resume, rows.as_mut())?;
    let models = stage_times::by_model(&stages);
    let failed = reports.iter().filter(|report| report["error"].is_string()).count();
    let table = rows.map(|_| plan.out_dir.join(vos::files::profile_csv::FILE_NAME));
    if json {
        let stages: Vec<Value> = models.iter().map(|model| model.json()).collect();
        let document = json!({
            "bench": document, "folder": folder, "reports": reports, "rows": table,
            "stages": stages,
        });
        println!("{document:#}");
    } else {
        models.iter().for_each(|model| println!("{}", model.text(screen_width())));
        println!("{} of {} reports in {}", targets.len() - failed, targets.len(), folder.display());
        table.iter().for_each(|table| println!("{}", table.display()));
        if failed < targets.len() {
            println!("look at them with: segtrt nsys {}", shell::path(&folder));
        }
    }
    let sound = failed == 0 && left_out == 0 && timed == Outcome::Done;
    Ok(if sound { Outcome::Done } else { Outcome::PartlyFailed })
}

/// The result of all recordings.
#[derive(Default)]
struct Recorded {
    /// Each report, or why there is none, as `--json` has it.
    reports: Vec<Value>,
    /// Stage times that can be compared, each with its model.
    stages: Vec<(String, ProfiledStages)>,
}

/// Records a report of each target, but for those that a resumed run has already.
fn record(
    recorder: &Recorder,
    targets: &[Target],
    name: &dyn Fn(&Target) -> ReportName,
    resume: bool,
    mut rows: Option<&mut ResultStore>,
) -> Result<Recorded> {
    let Recorded { mut reports, mut stages } = Recorded::default();
    // The targets that are left alone once it is known that no report can be made.
    let mut left_alone = 0;
    let mut given_up = None;
    for (at, target) in targets.iter().enumerate() {
        let ObjectKey { video, object, tag: model } = &target.key;
        let what =
            format!("[{}/{}] {model} {video} {object} run {}", at + 1, targets.len(), target.run);
        let name = name(target);
        let row = rows.as_ref().and_then(|rows| rows.runs().find(|row| is_of(row, target)));
        let known = row.and_then(RunRecord::recording);
        let named = known.as_ref().map(|known| PathBuf::from(&known.report));
        if let Some(known) = known.filter(|_| resume && named == name.find()) {
            eprintln!("{what}: its report is there already");
            reports.push(told(target, named.as_deref(), None));
            let Some(mut times) = known.stages else { continue };
            if !times.has_projections() {
                times = stage_times::joined(times, Path::new(&known.report));
                set(rows.as_deref_mut(), target, Some(Recording { stages: Some(times), ..known }))?;
            }
            stages.push((model.clone(), times));
            continue;
        }
        if let Some(why) = &given_up {
            left_alone += 1;
            reports.push(told(target, None, Some(format!("not recorded: {why}"))));
            continue;
        }
        let report = match recorder.record(target, &name) {
            Ok(recorded) => {
                let (path, megabytes) = (recorded.path.display(), recorded.bytes as f64 / 1e6);
                eprintln!("{what}: {path} ({megabytes:.1} MB), {}", cost(&recorded.pass, row));
                reports.push(told(target, Some(&recorded.path), None));
                let times = stage_times::of_pass(&recorded.pass);
                let times = times.map(|times| stage_times::joined(times, &recorded.path));
                stages.extend(times.map(|times| (model.clone(), times)));
                Some(Recording { report: path.to_string(), stages: times })
            }
            Err(error) => {
                eprintln!("{what}: FAILED: {error:#}");
                reports.push(told(target, None, Some(format!("{error:#}"))));
                given_up = error.downcast_ref::<NoReports>().map(ToString::to_string);
                None
            }
        };
        // At once: whatever stops the next one must not lose this one's name.
        set(rows.as_deref_mut(), target, report)?;
    }
    if left_alone > 0 {
        eprintln!("{left_alone} more were not recorded: there would be no report of them either");
    }
    Ok(Recorded { reports, stages })
}

/// Sets the report of the target's row, or none.
fn set(
    rows: Option<&mut ResultStore>,
    target: &Target,
    recording: Option<Recording>,
) -> Result<()> {
    let Some(rows) = rows else { return Ok(()) };
    rows.set_reports(|row| match is_of(row, target) {
        true => recording.clone(),
        false => row.recording(),
    })
}

/// A report, or why there is none, as `--json` has it.
fn told(target: &Target, path: Option<&Path>, error: Option<String>) -> Value {
    let ObjectKey { video, object, tag: model } = &target.key;
    json!({
        "video": video, "object": object, "model": model, "run": target.run, "report": path, "error": error,
    })
}

/// The row is next to the target's report.
fn is_of(row: &RunRecord, target: &Target) -> bool {
    row.key == target.key && row.run == target.run
}

/// The bench after the two hyphens.
fn parse(command: &[OsString]) -> Result<BenchArgs> {
    let line = [OsString::from("segtrt")].into_iter().chain(command.iter().cloned());
    let usage = |what: String| anyhow::Error::from(UsageError(what));
    let cli = Cli::try_parse_from(accept_underscores(line))
        .map_err(|error| usage(format!("in the command after --: {error}")))?;
    match cli.command {
        Command::Bench(args) => Ok(*args),
        _ => Err(usage(
            "only a bench can be profiled; write: segtrt profile -- bench --split-dir DIR \
             --models TAG"
                .to_owned(),
        )),
    }
}

/// How much slower the pass was under the profiler.
fn cost(profiled: &RunRecord, timed: Option<&RunRecord>) -> String {
    let fps = |row: &RunRecord| row.numbers().map(|numbers| numbers.speed.fps);
    match (fps(profiled), timed.and_then(fps)) {
        (Some(profiled), Some(timed)) => {
            format!("{profiled:.2} fps under nsys, {timed:.2} without")
        }
        (Some(profiled), None) => format!("{profiled:.2} fps under nsys"),
        (None, _) => "no numbers".to_owned(),
    }
}

/// Every object of the chosen clips. A clip that cannot be opened is reported and left out.
fn all_objects(plan: &BenchPlan, split: &dyn Dataset) -> Vec<Target> {
    let mut targets = Vec::new();
    for video in &plan.videos {
        let clip = match split.clip(video) {
            Ok(clip) => clip,
            Err(error) => {
                log::warn!("{video}: {error}");
                continue;
            }
        };
        let limit = if plan.limit_objects == 0 { usize::MAX } else { plan.limit_objects };
        for object in clip.objects.iter().take(limit) {
            for (at, model) in plan.models.iter().enumerate() {
                let key = ObjectKey {
                    video: video.clone(),
                    object: object.name.clone(),
                    tag: model.tag.text.clone(),
                };
                let runs = 0..plan.profile_runs;
                targets.extend(runs.map(|run| Target {
                    key: key.clone(),
                    others: Vec::new(),
                    model: at,
                    run,
                }));
            }
        }
    }
    targets
}

/// The passes of the bench that have numbers.
fn measured_objects(plan: &BenchPlan, rows: &ResultStore) -> Vec<Target> {
    let (ok, others): (Vec<_>, Vec<_>) = rows.runs().partition(|row| row.status == Status::Ok);
    if !others.is_empty() {
        eprintln!("not profiled: {} without numbers", host::counted(others.len(), "row"));
    }
    let target = |row: &RunRecord| {
        let model = plan.models.iter().position(|model| model.tag.text == row.key.tag)?;
        Some(Target { key: row.key.clone(), others: Vec::new(), model, run: row.run })
    };
    ok.into_iter().filter_map(target).collect()
}

/// The rows of this bench, less names of reports that are gone; none where nothing was timed now
/// and there are none of the same settings from before.
fn rows(plan: &BenchPlan, no_timed_run: bool) -> Result<Option<ResultStore>> {
    if no_timed_run && !ResultStore::is_there(&plan.out_dir) {
        return Ok(None);
    }
    let mut rows = match ResultStore::resume(&plan.out_dir, bench::configuration(plan)?) {
        Ok(rows) => rows,
        Err(error) if no_timed_run => {
            log::warn!("no column nsight_report is filled: {error:#}");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let is_there = |known: &Recording| Path::new(&known.report).is_file();
    rows.set_reports(|row| row.recording().filter(is_there))?;
    Ok(Some(rows))
}
