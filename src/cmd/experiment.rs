/*!
`segtrt experiment`: decide, measure without a profiler, then record the same passes with one, all in one folder.
*/

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::{Outcome, experiment_plan};
use crate::cli::ExperimentArgs;
use crate::experiment::{Folder, Step, run_step};
use crate::nsys::{self, Nsys};

/// The subcommand that records passes under Nsight Systems.
const PROFILE: &str = "profile";

/// Exit code of a child that the user stopped.
const STOPPED: i32 = 130;

/// Runs or continues an experiment.
pub fn run(args: ExperimentArgs) -> Result<Outcome> {
    let mut say = |line: &str| eprintln!("{line}");
    let mut folder = match &args.resume {
        Some(path) => Folder::open(path)?,
        None => {
            let spec = experiment_plan::plan(&args, &mut say)?;
            Folder::create(&experiment_plan::parent(&args, &spec), spec)?
        }
    };
    if !args.json {
        println!("{}", folder.path.display());
    }
    if args.resume.is_some() {
        say(&format!(
            "going on with the experiment of {}: {} on {}",
            folder.spec.timestamp,
            folder.spec.models.join(","),
            folder.spec.backend
        ));
    }
    let mut bench = folder.spec.bench.clone();
    bench.extend(["--out-dir".to_owned(), folder.outputs().display().to_string()]);
    // Of a new folder too: where there is nothing to go on with, it begins.
    bench.push("--resume".to_owned());
    let directory = Some(folder.spec.working_directory.clone());
    let timed = Step {
        name: "bench",
        words: bench.clone(),
        directory: directory.clone(),
        variables: Vec::new(),
    };
    let ran = run_step(&timed)?;
    let timed = ran.code;
    say(&format!("timed bench: ended {} after {:.1} s", ran.ended, ran.seconds));
    folder.note(ran)?;
    if timed == Some(STOPPED) {
        return Ok(Outcome::Stopped);
    }
    let rows = folder.outputs().join(crate::files::profile_csv::FILE_NAME);
    if !rows.exists() {
        anyhow::bail!(
            "the timed bench left no rows (its error is above); when that is mended, go on with: segtrt experiment --resume {}",
            folder.path.display()
        );
    }
    let profiled = match profiler(&folder) {
        Err(why) => {
            say(&format!("no profiled passes: {why}; the timed rows are complete without"));
            None
        }
        Ok(nsys) => {
            let mut words = vec!["--no-timed-run".to_owned(), "--".to_owned(), "bench".to_owned()];
            words.extend(bench);
            let variables = vec![("NSYS_OUTPUT_DIR", folder.reports()), (nsys::VARIABLE, nsys)];
            let ran = run_step(&Step { name: PROFILE, words, directory, variables })?;
            say(&format!("profiled passes: ended {} after {:.1} s", ran.ended, ran.seconds));
            let code = ran.code;
            folder.note(ran)?;
            Some(code)
        }
    };
    if args.json {
        let reports = profiled.map(|_| folder.reports());
        let document = json!({"folder": folder.path, "rows": rows, "nsight_reports": reports, "experiment": folder.spec});
        println!("{document:#}");
    } else {
        println!("{}", rows.display());
    }
    if profiled == Some(Some(STOPPED)) {
        return Ok(Outcome::Stopped);
    }
    say(&format!("one page of tables and plots: segtrt report {}", quoted(&folder.path)));
    let sound = timed == Some(0) && profiled.is_none_or(|code| code == Some(0));
    Ok(if sound { Outcome::Done } else { Outcome::PartlyFailed })
}

/// The nsys that records, or why there will be no reports. What was found when the experiment began is meant; one that was
/// installed since serves a resumed one.
fn profiler(folder: &Folder) -> Result<PathBuf, String> {
    if !folder.spec.profile {
        return Err("left out by --no-profile".to_owned());
    }
    match &folder.spec.nsys {
        Some(path) => Ok(path.clone()),
        None => Nsys::find().map(|nsys| nsys.path).map_err(|error| error.to_string()),
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    shlex::try_quote(&text).map_or_else(|_| text.clone(), |quoted| quoted.into_owned())
}
