/*!
`segtrt baseline`: keep, check, list, show.
*/

use anyhow::{Result, bail};
use serde_json::json;

use super::{Outcome, baseline_table};
use crate::cli::{BaselineArgs, BaselineCommand, CheckArgs, StoreArgs};
use report::regression::{
    Baseline, ChangeVerdict, Check, Difference, Limits, RunSummary, Store, check, differences,
};

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
            println!("{}", baseline_table::show(&baseline.run));
            println!("{}", path.display());
            Ok(())
        }
    }?;
    Ok(Outcome::Done)
}

/// What makes a run a poor measure.
fn warn_of(run: &RunSummary, which: &str) {
    let (passes, invalid) = run.passes();
    if invalid > 0 {
        log::warn!(
            "{invalid} of {passes} passes of {which} are INVALID (verdict_reason says why): their \
             spread hides more"
        );
    }
    if run.unmeasured() > 0 {
        log::warn!("{} objects of {which} have no measured pass", run.unmeasured());
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
    let limits = Limits {
        slowdown: args.max_slowdown,
        memory: args.max_memory,
        jf_points: args.max_jf_drop,
    };
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
    warn_of(&baseline.run, "the baseline");
    warn_of(&run, "the run");
    if json {
        print_json(&document(if failed { "worse" } else { "ok" }, &checked))?;
    } else {
        print_check(&baseline, &run, &allowed, &checked);
    }
    Ok(if failed { Outcome::PartlyFailed } else { Outcome::Done })
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
    println!(
        "baseline {}: saved {} by segtrt {}; this run is by segtrt {}",
        baseline.name,
        baseline.saved,
        version(&baseline.run),
        version(run)
    );
    for found in allowed {
        println!("compared although {}", found.sentence());
    }
    if checked.comparisons.is_empty() {
        println!("no number is left to compare");
    } else {
        println!("{}", baseline_table::comparisons(&checked.comparisons));
    }
    for lost in &checked.lost {
        let reason = lost.reason.as_deref().unwrap_or("no reason is told");
        println!(
            "{}: {} was measured in the baseline and is not any more ({reason})",
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
        "{worse} worse, {missing} missing, {unclear} unclear, {} better, {} the same{untold}; {} \
         objects lost",
        count(ChangeVerdict::Better),
        count(ChangeVerdict::Same),
        checked.lost.len()
    );
    if !not_judged.is_empty() {
        println!("{}", baseline_table::too_short(&not_judged));
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
        println!("{}", baseline_table::list(&found));
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
    println!("{}", baseline_table::show(run));
    Ok(Outcome::Done)
}

fn print_json(document: &serde_json::Value) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(document)?);
    Ok(())
}
