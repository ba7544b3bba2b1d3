/*!
`segtrt experiment`: decide, measure without a profiler, then record the same passes with one, all
in one folder.
*/

mod args;
mod devices;
mod plan;
mod shard_args;
mod slurm;
mod spread;
mod sweep;
mod timed;

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::json;

use crate::commands::Outcome;
use crate::experiment::{By, Folder, STOPPED, Sharding, Step, run_step};
use crate::shard::Shard;
use crate::shard::devices::VISIBLE;
pub use args::ExperimentArgs;
use host::UsageError;
use host::ctrl_c;
use host::shell;
use report::nsys::{self, Nsys};
use spread::refuse_flags_of_slurm;
use timed::Timed;

/// The subcommand that records passes under Nsight Systems.
const PROFILE: &str = "profile";

/// Runs or continues an experiment.
pub fn run(args: ExperimentArgs) -> Result<Outcome> {
    let mut say = |line: &str| eprintln!("{line}");
    let mut folder = match &args.resume {
        Some(path) => Folder::open(path)?,
        None => {
            let spec = plan::plan(&args, &mut say)?;
            Folder::create(&plan::parent(&args), spec)?
        }
    };
    if !args.json {
        println!("{}", folder.path.display());
    }
    if args.resume.is_some() {
        say(&format!(
            "continuing the experiment of {}: {} on {}",
            folder.spec.timestamp,
            folder.spec.models.join(","),
            folder.spec.backend
        ));
    }
    if !folder.spec.sweep.is_empty() {
        return sweep::run(&mut folder, args.json, &mut say);
    }
    let sharding = folder.spec.sharding.clone();
    if !matches!(sharding, Some(Sharding { by: By::Slurm(_), .. })) {
        refuse_flags_of_slurm(&args.spread)?;
    }
    if let (Some(shard), true) = (args.spread.shard, args.resume.is_some()) {
        return one_shard(&folder, shard, args.json, &mut say);
    }
    let mut bench = folder.spec.bench.clone();
    let mut variables = Vec::new();
    if let Some(Sharding { shards, by }) = &sharding {
        bench.extend(["--merged-from".to_owned(), shards.to_string()]);
        if let By::Devices(ordinals) = by {
            bench.extend(devices::common_words(ordinals));
            let first = devices::visible(ordinals[0]);
            variables.push((VISIBLE, PathBuf::from(first)));
        }
    }
    bench.extend(["--out-dir".to_owned(), folder.outputs().display().to_string()]);
    // Of a new folder too: where there is nothing to go on with, it begins.
    bench.push("--resume".to_owned());
    let directory = Some(folder.spec.working_directory.clone());
    let timed = match sharding.map(|sharding| sharding.by) {
        Some(By::Devices(ordinals)) => devices::measure(&mut folder, &ordinals, &mut say)?,
        Some(By::Slurm(jobs)) => slurm::measure(&mut folder, jobs, &args, &mut say)?,
        None => {
            let (words, directory) = (bench.clone(), directory.clone());
            let step = Step { name: "bench", words, directory, variables: Vec::new() };
            let place = shell::path(&folder.path);
            ctrl_c::end_with(move || {
                format!(
                    "Stopped. Finished rows are kept.\nContinue: segtrt experiment --resume {place}"
                )
            });
            let ran = run_step(&step)?;
            say(&format!("timed bench: ended {} after {:.1} s", ran.ended, ran.seconds));
            let timed = Timed::of(ran.code);
            folder.note(ran)?;
            timed
        }
    };
    match timed {
        Timed::Stopped => return Ok(Outcome::Stopped),
        Timed::Later => return Ok(Outcome::Done),
        Timed::Sound | Timed::PartlyFailed => {}
    }
    let rows = folder.outputs().join(vos::files::profile_csv::FILE_NAME);
    if !rows.exists() {
        anyhow::bail!(
            "the timed bench left no rows; fix its error above, then continue with: segtrt \
             experiment --resume {}",
            shell::path(&folder.path)
        );
    }
    let profiled = match profiler(&folder) {
        Err(why) => {
            say(&format!("no profiled passes: {why}; the timed rows are complete"));
            None
        }
        Ok(nsys) => {
            let mut words = vec!["--no-timed-run".to_owned(), "--".to_owned(), "bench".to_owned()];
            words.extend(bench);
            variables.push(("NSYS_OUTPUT_DIR", folder.reports()));
            variables.push((nsys::VARIABLE, nsys));
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
    say(&format!("one page of tables and plots: segtrt report {}", shell::path(&folder.path)));
    let sound = timed == Timed::Sound && profiled.is_none_or(|code| code == Some(0));
    Ok(if sound { Outcome::Done } else { Outcome::PartlyFailed })
}

/// Measures one part of an experiment in parts, into its own folder; whoever waits for all parts
/// merges them.
fn one_shard(
    folder: &Folder,
    shard: Shard,
    json: bool,
    say: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    let Some(Sharding { shards, by }) = &folder.spec.sharding else {
        bail!(UsageError(format!(
            "{} has no shards; leave --shard out, or start a new experiment with it",
            folder.path.display()
        )));
    };
    if let By::Devices(_) = by {
        bail!(UsageError(format!(
            "the shards of {} run on the GPUs of one host at the same time; leave --shard out",
            folder.path.display()
        )));
    }
    if shard.of != *shards {
        bail!(UsageError(format!(
            "--shard {shard}: the experiment {} has {shards} shards; write I/{shards}",
            folder.path.display()
        )));
    }
    let step = Step {
        name: "bench",
        words: devices::words(folder, shard, Vec::new()),
        directory: Some(folder.spec.working_directory.clone()),
        variables: Vec::new(),
    };
    let ran = run_step(&step)?;
    say(&format!("shard {shard}: ended {} after {:.1} s", ran.ended, ran.seconds));
    let place = folder.shard(shard);
    match json {
        true => println!("{:#}", json!({"folder": folder.path, "shard": place, "run": ran})),
        false => println!("{}", place.display()),
    }
    Ok(match Timed::of(ran.code) {
        Timed::Sound | Timed::Later => Outcome::Done,
        Timed::Stopped => Outcome::Stopped,
        Timed::PartlyFailed => Outcome::PartlyFailed,
    })
}

/// The nsys that records, or why there will be no reports. What was found when the experiment began
/// is meant; one that was installed since serves a resumed one.
fn profiler(folder: &Folder) -> Result<PathBuf, String> {
    if !folder.spec.profile {
        return Err("left out by --no-profile".to_owned());
    }
    if let Some(Sharding { by: By::Slurm(_), .. }) = folder.spec.sharding {
        return Err("Slurm's nodes measured, not this machine; on a node run: segtrt profile \
             --no-timed-run -- bench …"
            .to_owned());
    }
    match &folder.spec.nsys {
        Some(path) => Ok(path.clone()),
        None => Nsys::find().map(|nsys| nsys.path).map_err(|error| error.to_string()),
    }
}
