/*!
`segtrt experiment`: decide, measure without a profiler, then record the same passes with one, all in one folder.
*/

use anyhow::Result;
use clap::CommandFactory;

use super::{Outcome, experiment_plan};
use crate::cli::{Cli, ExperimentArgs};
use crate::experiment::{Folder, Step, run_step};

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
    println!("{}", folder.path.display());
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
    let profiled = match why_not_profiled(&folder) {
        Some(why) => {
            say(&format!("no profiled passes: {why}"));
            None
        }
        None => {
            let mut words = vec!["--no-timed-run".to_owned(), "--".to_owned(), "bench".to_owned()];
            words.extend(bench);
            let mut variables = vec![("NSYS_OUTPUT_DIR", folder.reports())];
            variables.extend(folder.spec.nsys.clone().map(|nsys| ("NSYS_CMD", nsys)));
            let ran = run_step(&Step { name: PROFILE, words, directory, variables })?;
            say(&format!("profiled passes: ended {} after {:.1} s", ran.ended, ran.seconds));
            let code = ran.code;
            folder.note(ran)?;
            Some(code)
        }
    };
    println!("{}", rows.display());
    if profiled == Some(Some(STOPPED)) {
        return Ok(Outcome::Stopped);
    }
    let sound = timed == Some(0) && profiled.is_none_or(|code| code == Some(0));
    Ok(if sound { Outcome::Done } else { Outcome::PartlyFailed })
}

/// Why there will be no reports; none where there will.
fn why_not_profiled(folder: &Folder) -> Option<String> {
    if !folder.spec.profile {
        return Some("left out by --no-profile".to_owned());
    }
    if Cli::command().find_subcommand(PROFILE).is_none() {
        return Some(format!(
            "this segtrt has no subcommand {PROFILE}; the timed rows are complete without"
        ));
    }
    if folder.spec.nsys.is_none() {
        return Some(
            "Nsight Systems is not installed (nsys is neither on PATH, nor in /opt/nvidia/nsight-systems/bin, nor named by \
             NSYS_CMD); the timed rows are complete without"
                .to_owned(),
        );
    }
    None
}
