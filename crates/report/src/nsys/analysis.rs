/*!
Analysis of one report: the requested tables, missing data, and signs that the program failed.
*/

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;

use super::export::read;
use super::filter::{Filter, without_warmup};
use super::findings::{Findings, find};
use super::inputs::Input;
use super::range_boxes::RangeTimes;
use super::table::Table;
use super::trace::Trace;
use super::{api_tables, copy_tables, counter_tables, gpu_tables, idle_tables, kernel_tables};
use super::{range_boxes, range_tables, time_map};

/// Parts of a report that can be requested.
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
    /// Intervals in which a GPU was idle.
    Gaps,
    /// Share of the time in which GPUs were busy.
    Util,
    /// Readings of the GPUs' counters.
    Counters,
    /// Quartiles and outliers of ranges.
    Boxes,
    /// Distribution of each kernel's durations.
    Hist,
    /// Intervals between starts of each kernel.
    Pace,
    /// Utilisation over time.
    Map,
    /// Copies and fills by kind of memory.
    Copies,
}

impl ReportKind {
    /// The recorded data that it needs.
    fn needs(self) -> &'static str {
        match self {
            Self::Nvtx | Self::Boxes => "NVTX ranges",
            Self::Api => "calls of the CUDA API",
            Self::Counters => "readings of a GPU's counters",
            _ => "work of a GPU",
        }
    }

    /// Whether it covers the GPU's whole time, so that removing a part would create a false gap.
    fn is_of_all_time(self) -> bool {
        matches!(self, Self::Gaps | Self::Util | Self::Map)
    }

    /// Whether the screen shows it without request. Files always have all tables.
    pub fn is_usual(self) -> bool {
        !matches!(self, Self::Hist | Self::Pace | Self::Map | Self::Copies)
    }

    /// The names of its tables.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Nvtx => &["nvtx_gpu_proj_sum", "nvtx_sum"],
            Self::Kernels => &["cuda_gpu_kern_sum"],
            Self::Memory => &["cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"],
            Self::Api => &["cuda_api_sum", "cuda_api_sync"],
            Self::Gaps => &["gpu_gaps"],
            Self::Util => &["gpu_time_util"],
            Self::Counters => &[counter_tables::NAME],
            Self::Boxes => &["nvtx_box", "nvtx_outliers"],
            Self::Hist => &["cuda_gpu_kern_hist"],
            Self::Pace => &["cuda_gpu_kern_pace"],
            Self::Map => &["cuda_gpu_time_util_map"],
            Self::Copies => &["cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync"],
        }
    }

    fn is_in(self, trace: &Trace) -> bool {
        match self {
            Self::Nvtx | Self::Boxes => !trace.ranges.is_empty(),
            Self::Api => trace.calls.is_some(),
            Self::Counters => trace.samples.is_some(),
            _ => trace.ops.is_some(),
        }
    }

    fn tables(
        self,
        trace: &Trace,
        options: &Options,
        (label, ranges): (&str, &[RangeTimes]),
    ) -> Vec<Table> {
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
            Self::Boxes => range_boxes::tables(&[(label, ranges)]).into(),
            Self::Hist => vec![kernel_tables::histogram(trace)],
            Self::Pace => vec![kernel_tables::pace(trace)],
            Self::Map => vec![time_map::map(trace, options.filter.window)],
            Self::Copies => vec![
                copy_tables::asynchronous(trace),
                copy_tables::synchronous(trace),
                copy_tables::fills(trace),
            ],
        }
    }
}

/// Options of the analysis.
#[derive(Clone, Debug)]
pub struct Options {
    /// The requested tables; a missing one is a fault. Empty: all available tables.
    pub asked: Vec<ReportKind>,
    /// The part of the report to use.
    pub filter: Filter,
    /// Warm-up passes stay in ranges, kernels, memory operations and calls.
    pub with_warmup: bool,
    /// Shortest listed gap, ns.
    pub least_gap: i64,
}

/// Result of the analysis.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Its name in tables.
    pub label: String,
    /// Its file.
    pub path: PathBuf,
    /// Program that exported it.
    pub exporter: String,
    /// The tables.
    pub tables: Vec<Table>,
    /// Notes.
    pub findings: Findings,
    /// Data that is missing in it, and how to record it.
    pub notes: Vec<String>,
    /// Faults of the recorded program.
    pub faults: Vec<String>,
    /// The platform that the user named, else its GPU or its processor; empty if unknown.
    pub platform: String,
    /// The machine's name in the network; empty if the user named the platform.
    pub host: String,
    /// Instances of its ranges; empty if boxes were not requested.
    pub ranges: Vec<RangeTimes>,
}

/// Reads one report.
///
/// # Errors
/// The file is not a report, is damaged, contains no data, or the filter leaves nothing.
pub fn analyse(input: &Input, options: &Options) -> Result<Analysis> {
    let mut trace = read(&input.path)?;
    let path = input.path.display();
    if trace.ranges.is_empty() && trace.ops().is_empty() && trace.calls().is_empty() {
        let last_words = last_words(&trace.stderr);
        bail!(
            "{path} has no NVTX range, no CUDA call and no GPU work; the program used none or \
             failed before{}; run it without nsys first",
            last_words.map_or_else(String::new, |words| format!(" (it wrote: {words})"))
        );
    }
    let faults = faults(&trace);
    options.filter.apply(&mut trace).map_err(|error| error.context(format!("in {path}")))?;
    if trace.ranges.is_empty() && trace.ops().is_empty() && trace.calls().is_empty() {
        bail!("{path} has no data in the requested time");
    }
    let mut recorded = trace.clone();
    let mut notes = Vec::new();
    if !options.with_warmup && !options.filter.wants_warmup() {
        let passes = without_warmup(&mut recorded);
        if recorded.ranges.is_empty() && recorded.ops().is_empty() && passes > 0 {
            bail!("{path} has only warm-up passes; add --with-warmup to show them");
        }
        if passes > 0 {
            notes.push(format!(
                "{passes} warm-up passes are omitted (--with-warmup keeps them); gaps and \
                 utilisation include them"
            ));
        }
    }
    let findings = find(&recorded);
    notes.extend(copy_tables::pageable(&recorded));
    let all = options.asked.is_empty();
    let outer = findings.cpu.as_ref().and_then(|side| side.outer.as_ref());
    let ranges = match all || options.asked.contains(&ReportKind::Boxes) {
        true => range_boxes::range_times(&recorded, outer.map(|outer| outer.name.as_str())),
        false => Vec::new(),
    };
    let mut analysis = Analysis {
        platform: input.platform.clone().unwrap_or_else(|| platform(&trace)),
        host: match input.platform {
            Some(_) => String::new(),
            None => trace.machine.host.clone(),
        },
        ranges,
        label: input.label.clone(),
        path: input.path.clone(),
        exporter: trace.exporter.clone(),
        tables: Vec::new(),
        findings,
        notes,
        faults,
    };
    let kinds = if all { ReportKind::value_variants() } else { &options.asked };
    let mut missing: Vec<&str> = Vec::new();
    for kind in kinds {
        let of = if kind.is_of_all_time() { &trace } else { &recorded };
        if kind.is_in(of) {
            let tables = kind.tables(of, options, (&analysis.label, &analysis.ranges));
            analysis.tables.extend(tables);
        } else if *kind == ReportKind::Counters {
            // Counters are seldom sampled, so their absence is noted only if they were requested.
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

/// The GPU with the most work, else the first one, else the processor.
fn platform(trace: &Trace) -> String {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    for op in trace.ops() {
        *counts.entry(op.device).or_default() += 1;
    }
    let busiest = counts.into_iter().max_by_key(|(_, count)| *count).map(|(device, _)| device);
    let named = busiest.and_then(|device| trace.gpus.get(&device));
    named.or(trace.gpus.values().next()).unwrap_or(&trace.machine.processor).clone()
}

/// Note for requested counters that were not sampled.
const NO_COUNTERS: &str = "it has no readings of a GPU's counters; record them with segtrt profile \
                           --gpu-metrics all, on a machine whose driver lets this user read them";

/// The missing data, and how to record it.
fn lacks(trace: &Trace, missing: &[&str]) -> String {
    let why = match trace.cuda_was_traced {
        Some(false) => ": CUDA was not traced",
        Some(true) if trace.ops.is_none() => ": CUDA was traced, but nothing ran on a GPU",
        _ => "",
    };
    format!(
        "it has no {}{why}; record both with nsys profile --trace cuda,nvtx, on a machine with a \
         GPU",
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
            "{} ranges never ended ({}): the program or the recording was stopped inside them; the \
             numbers cover what came before",
            trace.unended.len(),
            names.join(", ")
        ));
    }
    if let Some(line) = trace.stderr.lines().find(|line| is_failure(line)) {
        faults.push(format!(
            "the recorded program failed; it wrote: {}; the numbers cover its work before",
            line.trim()
        ));
    }
    faults
}

/// Lines with which programs report a failure: segtrt and others in Rust, Python, C++ and shells.
fn is_failure(line: &str) -> bool {
    let line = line.trim();
    // "0 rows failed" is not a failure.
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
