/*!
`segtrt baseline`: keep, check, list, show.
*/

pub(super) mod table;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;

use super::Outcome;
use crate::commands::headings::{MEASURING, OUTPUT};
use crate::commands::shared::LimitArgs;
use host::screen_table::{screen_width, wrapped};
use host::{are, counted};
use report::regression::{
    Baseline, ChangeVerdict, Check, Difference, RunSummary, Store, check, differences,
};

/// Saves and checks baselines.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  segtrt bench --split-dir demo/split --models \
                        edgetam_mini_points --profile-runs 5 --out-dir out\n  segtrt baseline \
                        save nightly --from out\n  segtrt baseline check nightly --from out_today \
                        --max-slowdown 3% --max-memory 3% --max-jf-drop 0.1\n\ncheck exits with 0 \
                        if nothing is worse. It exits with 1 if something is worse, if the runs \
                        are not comparable, or if all passes of a model are INVALID. \
                        docs/how-to/regressions.md has the rules.")]
pub struct BaselineArgs {
    /// The action.
    #[command(subcommand)]
    pub command: BaselineCommand,
    /// Folder of the baselines: small JSON files that can be committed.
    #[arg(
        long,
        help_heading = OUTPUT,
        global = true,
        value_name = "DIR",
        default_value = ".segtrt/baselines"
    )]
    pub baselines: PathBuf,
    /// Print one JSON document instead of text and tables.
    #[arg(long, help_heading = OUTPUT, global = true)]
    pub json: bool,
}

/// The actions on baselines.
#[derive(Debug, Subcommand)]
pub enum BaselineCommand {
    /// Save a run as a baseline.
    #[command(after_help = "Example: segtrt baseline save nightly --from out")]
    Save(StoreArgs),
    /// Compare a run with a baseline; exit with 1 if something is worse.
    #[command(after_help = "Example: segtrt baseline check nightly --from out --max-slowdown 5% \
                      --allow-different driver")]
    Check(CheckArgs),
    /// List the baselines.
    #[command(after_help = "Example: segtrt baseline list")]
    List,
    /// Show a baseline.
    #[command(after_help = "Example: segtrt baseline show nightly")]
    Show {
        /// Its name.
        name: String,
    },
}

/// The run to save.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Name of the baseline: letters, digits, dots, - and _, such as h200-fp16
    pub name: String,
    /// Folder of a finished run, bench's --out-dir.
    #[arg(long, value_name = "RUN_FOLDER", default_value = ".")]
    pub from: PathBuf,
    /// Replace an existing baseline of this name.
    #[arg(long, help_heading = OUTPUT)]
    pub replace: bool,
}

/// The run to check, and the limits.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Name of the baseline.
    pub name: String,
    /// Folder of a finished run, bench's --out-dir.
    #[arg(long, value_name = "RUN_FOLDER", default_value = ".")]
    pub from: PathBuf,
    /// The limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Compare despite this difference: a name from the refusal, or "machine" or "settings" for all
    /// of them.
    #[arg(long, help_heading = MEASURING, value_name = "WHAT", value_delimiter = ',')]
    pub allow_different: Vec<String>,
    /// Judge a model by its numbers even if all its passes are INVALID.
    #[arg(long, help_heading = MEASURING)]
    pub allow_invalid: bool,
    /// Also fail on a loss within the spread of the passes.
    #[arg(long, help_heading = MEASURING)]
    pub strict: bool,
}

/// Does what was asked.
pub fn run(args: BaselineArgs) -> Result<Outcome> {
    let BaselineArgs { command, baselines, json } = args;
    let store = Store::new(&baselines);
    match command {
        BaselineCommand::Save(args) => save(&store, &args, json),
        BaselineCommand::Check(args) => check_run(&store, &args, json),
        BaselineCommand::List => list(&store, json),
        BaselineCommand::Show { name } => show(&store.load(&name)?, json),
    }
}

fn save(store: &Store, args: &StoreArgs, json: bool) -> Result<Outcome> {
    // Before the run is read: that may take a while.
    store.path(&args.name)?;
    let run = RunSummary::read(&args.from)?;
    warn_of(&run, "the run");
    let (path, baseline) = store.save(&args.name, &args.from, run, args.replace)?;
    match json {
        true => print_json(&json!({"baseline": args.name, "file": path, "run": baseline.run})),
        false => {
            println!("{}", table::show(&baseline.run));
            println!("{}", path.display());
            Ok(())
        }
    }?;
    Ok(Outcome::Done)
}

/// What makes a run a poor measure.
pub(super) fn warn_of(run: &RunSummary, which: &str) {
    let (passes, invalid) = run.passes();
    if invalid > 0 {
        log::warn!(
            "{invalid} of {} of {which} {} INVALID (reasons: column verdict_reason): a wide spread \
             hides small changes",
            counted(passes, "pass"),
            are(invalid)
        );
    }
    let at_limit = run.power_limited();
    if at_limit > 0 {
        log::warn!(
            "{at_limit} of {} of {which} {} at the GPU's power limit (power_limited): quote the \
             limit with the speed",
            counted(passes, "pass"),
            are(at_limit)
        );
    }
    if run.unmeasured() > 0 {
        log::warn!("{which}: {} without a measured pass", counted(run.unmeasured(), "object"));
    }
    let objects = run.models.iter().flat_map(|model| &model.objects);
    if objects.clone().any(|object| object.passes.len() == 1) {
        log::warn!(
            "{which} has objects with one pass: their noise is unknown; record more with bench \
             --profile-runs 3"
        );
    }
}

fn check_run(store: &Store, args: &CheckArgs, json: bool) -> Result<Outcome> {
    let baseline = store.load(&args.name)?;
    let run = RunSummary::read(&args.from)?;
    let limits = args.limits.limits();
    let found = differences(&baseline.run, &run);
    for word in &args.allow_different {
        if !found.iter().any(|difference| difference.is_meant_by(word)) {
            log::warn!("--allow-different {word}: nothing of that name differs");
        }
    }
    let is_allowed =
        |found: &Difference| args.allow_different.iter().any(|word| found.is_meant_by(word));
    let (allowed, refused): (Vec<_>, Vec<_>) = found.into_iter().partition(is_allowed);
    let document = |outcome: &str, checked: &Check| {
        json!({
            "baseline": baseline.name, "saved": baseline.saved, "outcome": outcome, "limits": limits,
            "allowed_differences": allowed, "refused_differences": refused,
            "comparisons": checked.comparisons, "lost": checked.lost,
        })
    };
    if !refused.is_empty() {
        if json {
            print_json(&document("refused", &Check::default()))?;
        }
        bail!(refusal(&baseline, &refused));
    }
    let checked = check(&baseline.run, &run, &limits);
    if checked.comparisons.is_empty() && checked.lost.is_empty() {
        bail!(
            "nothing is left to compare: the baseline {} and the run share no measured object",
            baseline.name
        );
    }
    let failed = checked.has_failed(args.strict);
    let unproven = if args.allow_invalid { Vec::new() } else { unproven(&baseline.run, &run) };
    let outcome = match (failed, unproven.is_empty()) {
        (true, _) => "worse",
        (false, false) => "invalid",
        (false, true) => "ok",
    };
    warn_of(&baseline.run, "the baseline");
    warn_of(&run, "the run");
    if json {
        print_json(&document(outcome, &checked))?;
    } else {
        print_check(&baseline, &run, &allowed, &checked);
    }
    unproven.iter().for_each(|sentence| eprintln!("{sentence}"));
    Ok(if outcome == "ok" { Outcome::Done } else { Outcome::PartlyFailed })
}

/// The models whose speed a check cannot judge, in sentences.
fn unproven(baseline: &RunSummary, run: &RunSummary) -> Vec<String> {
    let sides = [("the baseline", baseline), ("the run", run)];
    let sentence = |side: &str, model: &str| {
        format!(
            "{model}: all passes of {side} are INVALID, so its speed proves nothing; measure \
             again on a quiet machine, or judge the numbers nevertheless with --allow-invalid"
        )
    };
    let of = |(side, run): (_, &RunSummary)| {
        run.only_invalid().into_iter().map(|model| sentence(side, model)).collect::<Vec<_>>()
    };
    sides.into_iter().flat_map(of).collect()
}

fn refusal(baseline: &Baseline, refused: &[Difference]) -> String {
    let sentences: Vec<_> = refused.iter().map(|found| format!("  {}", found.sentence())).collect();
    let mut names: Vec<&str> = refused.iter().map(|found| found.what.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    format!(
        "the run must not be compared with the baseline {}:\n{}\nmeasure again under its \
         conditions, or, if the difference is meant, add --allow-different {}",
        baseline.name,
        sentences.join("\n"),
        names.join(",")
    )
}

fn print_check(baseline: &Baseline, run: &RunSummary, allowed: &[Difference], checked: &Check) {
    let width = screen_width().unwrap_or(usize::MAX);
    let versions = format!(
        "baseline {}: saved {} by segtrt {}; this run is by segtrt {}",
        baseline.name,
        baseline.saved,
        version(&baseline.run),
        version(run)
    );
    println!("{}", wrapped(&versions, width));
    for found in allowed {
        let sentence = format!("compared in spite of a difference: {}", found.sentence());
        println!("{}", wrapped(&sentence, width));
    }
    if checked.comparisons.is_empty() {
        println!("no number is left to compare");
    } else {
        println!("{}", table::comparisons(&checked.comparisons));
    }
    for lost in &checked.lost {
        let reason = lost.reason.as_deref().unwrap_or("no reason given");
        println!(
            "{}: {} was measured in the baseline and not in this run ({reason})",
            lost.model, lost.object
        );
    }
    let count = |judgement| checked.count(judgement);
    let (worse, missing, unclear) =
        (count(ChangeVerdict::Worse), count(ChangeVerdict::Missing), count(ChangeVerdict::Unclear));
    let not_judged = checked.not_judged();
    let untold = match not_judged.as_slice() {
        [] => String::new(),
        _ => format!(", {} too short to judge", count(ChangeVerdict::NotJudged)),
    };
    println!(
        "{worse} worse, {missing} missing, {unclear} unclear, {} better, {} the same{untold}; \
         objects lost: {}",
        count(ChangeVerdict::Better),
        count(ChangeVerdict::Same),
        checked.lost.len()
    );
    if !not_judged.is_empty() {
        println!("{}", table::too_short(&not_judged));
    }
    if unclear > 0 {
        println!(
            "unclear: worse than allowed, but within the spread of the passes; record more passes \
             (bench --profile-runs), lock the clocks, stop other programs"
        );
    }
}

fn version(run: &RunSummary) -> String {
    match &run.commit {
        Some(commit) => format!("{} ({commit})", run.segtrt),
        None => run.segtrt.clone(),
    }
}

fn list(store: &Store, json: bool) -> Result<Outcome> {
    let mut failed = false;
    let mut found = Vec::new();
    for name in store.names()? {
        match store.load(&name) {
            Ok(baseline) => found.push(baseline),
            Err(error) => {
                failed = true;
                eprintln!("Error: {error:#}");
            }
        }
    }
    if json {
        let line = |b: &Baseline| {
            let models: Vec<&str> = b.run.models.iter().map(|model| model.model.as_str()).collect();
            json!({"name": b.name, "saved": b.saved, "from": b.from, "machine": b.run.machine, "models": models})
        };
        print_json(&json!(found.iter().map(line).collect::<Vec<_>>()))?;
    } else if found.is_empty() {
        println!("no baselines; make one with: segtrt baseline save NAME --from RUN_FOLDER");
    } else {
        println!("{}", table::list(&found));
    }
    Ok(if failed { Outcome::PartlyFailed } else { Outcome::Done })
}

fn show(baseline: &Baseline, json: bool) -> Result<Outcome> {
    if json {
        print_json(&serde_json::to_value(baseline)?)?;
        return Ok(Outcome::Done);
    }
    let run = &baseline.run;
    println!(
        "{}: saved {} from {} by segtrt {}",
        baseline.name,
        baseline.saved,
        baseline.from,
        version(run)
    );
    for (title, facts) in [("machine", &run.machine), ("settings", &run.settings)] {
        let facts: Vec<_> = facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        println!("{title}: {}", facts.join(", "));
    }
    println!("{}", table::show(run));
    Ok(Outcome::Done)
}

fn print_json(document: &serde_json::Value) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(document)?);
    Ok(())
}
