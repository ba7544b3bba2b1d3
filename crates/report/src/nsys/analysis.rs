/*!
One report from file to tables: what was asked for, what is not in it, and whether the program that
it is of came to its end.
*/

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;

use super::export::read;
use super::filter::{Filter, without_warmup};
use super::findings::{Findings, find};
use super::inputs::Input;
use super::table::Table;
use super::trace::Trace;
use super::{api_tables, counter_tables, gpu_tables, idle_tables, range_tables};

/// What can be asked of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum ReportKind {
    /// Ranges, projected onto the GPU and on the CPU.
    Nvtx,
    /// Kernels and CUDA graphs.
    Kernels,
    /// Memory operations by time and by size.
    Memory,
    /// The CUDA API, and the calls that wait.
    Api,
    /// Stretches in which a GPU did nothing.
    Gaps,
    /// Share of time in which GPUs were busy.
    Util,
    /// Readings of the GPUs' counters.
    Counters,
}

impl ReportKind {
    /// What it is made of.
    fn needs(self) -> &'static str {
        match self {
            Self::Nvtx => "NVTX ranges",
            Self::Api => "calls of the CUDA API",
            Self::Kernels | Self::Memory | Self::Gaps | Self::Util => "work of a GPU",
            Self::Counters => "readings of a GPU's counters",
        }
    }

    /// It is about the GPU's whole time, from which no part can be taken without leaving a hole.
    fn is_of_all_time(self) -> bool {
        matches!(self, Self::Gaps | Self::Util)
    }

    fn is_in(self, trace: &Trace) -> bool {
        match self {
            Self::Nvtx => !trace.ranges.is_empty(),
            Self::Api => trace.calls.is_some(),
            Self::Kernels | Self::Memory | Self::Gaps | Self::Util => trace.ops.is_some(),
            Self::Counters => trace.samples.is_some(),
        }
    }

    fn tables(self, trace: &Trace, options: &Options) -> Vec<Table> {
        match self {
            Self::Nvtx => {
                let on_gpu = trace.ops.is_some().then(|| range_tables::projected(trace));
                on_gpu.into_iter().chain([range_tables::on_cpu(trace)]).collect()
            }
            Self::Kernels => vec![gpu_tables::kernels(trace)],
            Self::Memory => vec![gpu_tables::memory_time(trace), gpu_tables::memory_size(trace)],
            Self::Api => vec![api_tables::calls(trace), api_tables::waits(trace)],
            Self::Gaps => vec![idle_tables::gaps(trace, options.least_gap)],
            Self::Util => vec![idle_tables::utilisation(trace, options.filter.window)],
            Self::Counters => vec![counter_tables::readings(trace)],
        }
    }
}

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tables that were asked for by name: one that is not in a report is a fault then. Empty:
    /// all that there are.
    pub asked: Vec<ReportKind>,
    /// The part of the report.
    pub filter: Filter,
    /// Warm-up passes are kept among ranges, kernels, memory operations and calls.
    pub with_warmup: bool,
    /// Shortest gap that is listed, ns.
    pub least_gap: i64,
}

/// What a report says.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Its name in tables.
    pub label: String,
    /// Its file.
    pub path: PathBuf,
    /// What exported it.
    pub exporter: String,
    /// The tables.
    pub tables: Vec<Table>,
    /// Sentences about it.
    pub findings: Findings,
    /// What is not in it, for those who wonder.
    pub notes: Vec<String>,
    /// Why it must not be taken for the report of a program that did its work.
    pub faults: Vec<String>,
}

/// Reads one report.
///
/// # Errors
/// A file that is no report or is damaged, one in which nothing was recorded, or a filter that
/// leaves nothing.
pub fn analyse(input: &Input, options: &Options) -> Result<Analysis> {
    let mut trace = read(&input.path)?;
    let path = input.path.display();
    if trace.ranges.is_empty() && trace.ops().is_empty() && trace.calls().is_empty() {
        let last_words = last_words(&trace.stderr);
        bail!(
            "{path} holds no NVTX range, no CUDA call and no GPU work: the program did none, or failed before it did \
             any{}; run it without nsys first",
            last_words.map_or_else(String::new, |words| format!(" (it wrote: {words})"))
        );
    }
    let faults = faults(&trace);
    options.filter.apply(&mut trace).map_err(|error| error.context(format!("in {path}")))?;
    if trace.ranges.is_empty() && trace.ops().is_empty() && trace.calls().is_empty() {
        bail!("nothing of {path} lies in the time that was asked for");
    }
    let mut recorded = trace.clone();
    let mut notes = Vec::new();
    if !options.with_warmup && !options.filter.wants_warmup() {
        let passes = without_warmup(&mut recorded);
        if recorded.ranges.is_empty() && recorded.ops().is_empty() && passes > 0 {
            bail!("{path} holds nothing but warm-up passes; --with-warmup shows them");
        }
        if passes > 0 {
            notes.push(format!(
                "{passes} warm-up passes are left out (--with-warmup keeps them); gaps and utilisation are of everything"
            ));
        }
    }
    let mut analysis = Analysis {
        label: input.label.clone(),
        path: input.path.clone(),
        exporter: trace.exporter.clone(),
        tables: Vec::new(),
        findings: find(&recorded),
        notes,
        faults,
    };
    let all = options.asked.is_empty();
    let kinds = if all { ReportKind::value_variants() } else { &options.asked };
    let mut missing: Vec<&str> = Vec::new();
    for kind in kinds {
        let of = if kind.is_of_all_time() { &trace } else { &recorded };
        if kind.is_in(of) {
            analysis.tables.extend(kind.tables(of, options));
        } else if *kind == ReportKind::Counters {
            // They are seldom sampled: only who asks for them wants to know.
            if !all {
                analysis.faults.push(NO_COUNTERS.to_owned());
            }
        } else if !missing.contains(&kind.needs()) {
            missing.push(kind.needs());
        }
    }
    if !missing.is_empty() {
        let sentence = lacks(&trace, &missing);
        if all { analysis.notes.push(sentence) } else { analysis.faults.push(sentence) }
    }
    Ok(analysis)
}

/// Where counters were asked for and not sampled.
const NO_COUNTERS: &str = "it holds no readings of a GPU's counters; segtrt profile --gpu-metrics all records them, on a machine \
    whose driver lets this user read them";

/// What is not in a report, and how to get it in.
fn lacks(trace: &Trace, missing: &[&str]) -> String {
    let why = match trace.cuda_was_traced {
        Some(false) => ": CUDA was not traced",
        Some(true) if trace.ops.is_none() => ": CUDA was traced, and nothing ran on a GPU",
        _ => "",
    };
    format!(
        "it holds no {}{why}; nsys profile --trace cuda,nvtx records both, on a machine with a GPU",
        missing.join(" and no ")
    )
}

/// Signs that the program failed.
fn faults(trace: &Trace) -> Vec<String> {
    let mut faults = Vec::new();
    if !trace.unended.is_empty() {
        let mut names: Vec<&str> = trace.unended.iter().map(|name| trace.text(*name)).collect();
        names.sort_unstable();
        names.dedup();
        faults.push(format!(
            "{} ranges never ended ({}): the program, or the recording, was stopped inside them; the numbers are of what \
             came before",
            trace.unended.len(),
            names.join(", ")
        ));
    }
    if let Some(line) = trace.stderr.lines().find(|line| is_failure(line)) {
        faults.push(format!(
            "the program that was recorded failed; it wrote: {}; the numbers are of what it did before",
            line.trim()
        ));
    }
    faults
}

/// Lines with which programs say that they failed: this one and others in Rust, Python, C++ and
/// shells.
fn is_failure(line: &str) -> bool {
    let line = line.trim();
    // "0 rows failed" is no failure.
    let rows = line.split_once(" rows failed and ").is_some_and(|(count, _)| count != "0");
    rows || line.starts_with("Error: ")
        || line.starts_with("Traceback (most recent call last)")
        || line.starts_with("terminate called ")
        || line.starts_with("Segmentation fault")
        || (line.starts_with("thread '") && line.contains(" panicked at "))
}

fn last_words(stderr: &str) -> Option<&str> {
    stderr.lines().map(str::trim).rfind(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_from_talk() {
        for line in [
            "Error: no GPU can be used",
            "Traceback (most recent call last):",
            "thread 'main' panicked at src/main.rs:3:5:",
            "2 rows failed and 0 were skipped; the reason column says why",
        ] {
            assert!(is_failure(line), "{line}");
        }
        for line in
            ["0 rows failed and 1 were skipped", "[WARN] Error: rate 0.1", "[1/4] x: 39.55 fps", ""]
        {
            assert!(!is_failure(line), "{line}");
        }
    }
}
