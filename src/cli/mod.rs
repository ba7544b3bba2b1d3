/*!
What can be typed: clap's types, no behaviour.
*/

mod baseline;
mod bench;
mod build_engines;
mod collect;
mod compare;
mod completions;
pub mod config;
mod doctor;
mod experiment;
mod inspect;
mod jetson_benchmark;
mod man;
mod merge;
mod monitor;
mod nsys;
mod pack;
mod predecode;
mod profile;
mod report;
mod selftest;
mod shards;
mod shared;
mod suite;
mod synth;
mod test_run;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use baseline::{BaselineArgs, BaselineCommand, CheckArgs, StoreArgs};
pub use bench::{BackendChoice, BenchArgs, DeadFlags, GpuArgs, Toggle, parse_precision};
pub use build_engines::BuildEnginesArgs;
pub use collect::CollectArgs;
pub use compare::{ChosenSide, CompareArgs, MeasureArgs, OwnSide};
pub use completions::CompletionsArgs;
pub use doctor::DoctorArgs;
pub use experiment::ExperimentArgs;
pub use inspect::InspectArgs;
pub use jetson_benchmark::JetsonBenchmarkArgs;
pub use man::ManArgs;
pub use merge::MergeArgs;
pub use monitor::MonitorArgs;
pub use nsys::{DiffArgs, NsysArgs, NsysCommand, ViewArgs};
pub use pack::PackArgs;
pub use predecode::PredecodeArgs;
pub use profile::ProfileArgs;
pub use report::ReportArgs;
pub use selftest::SelftestArgs;
pub use shards::ShardArgs;
pub use shared::{BackendWish, ShuffleArgs, StartedBenchArgs};
pub use suite::SuiteArgs;
pub use synth::SynthArgs;
pub use test_run::TestRunArgs;

/// Measures how fast and how well promptable video object segmentation runs on this machine.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100, args_override_self = true)]
pub struct Cli {
    /// More messages on stderr; twice for debugging.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Take flags from the tables of this TOML file, [bench] for bench; what is typed wins (docs/config.md).
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print the flags that hold, with where each is from, as such a file; do nothing else.
    #[arg(long, global = true)]
    pub print_config: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look at this machine: what a bench can run on, what is missing, what to do about it.
    Doctor(DoctorArgs),
    /// Go through every step once on a synthetic clip and a small network.
    TestRun(TestRunArgs),
    /// Run models over the clips of a split; write speed and accuracy to CSV files.
    Bench(Box<BenchArgs>),
    /// Compare with PyTorch: how many times as fast, and the proof that both computed the same masks.
    Compare(Box<CompareArgs>),
    /// A whole experiment: platform, models, timed bench, profiles, in one folder that can be resumed.
    Experiment(Box<ExperimentArgs>),
    /// The predecessor's two phases: prepare and check everything, then measure each model in a fresh process.
    #[command(visible_alias = "two-phase")]
    JetsonBenchmark(Box<JetsonBenchmarkArgs>),
    /// Decode and resize the frames of clips once, into files that bench maps.
    Predecode(PredecodeArgs),
    /// Turn exported ONNX graphs into TensorRT engines for one platform, under capped memory.
    BuildEngines(Box<BuildEnginesArgs>),
    /// Run every engine on random inputs and compare it with ONNX Runtime.
    Selftest(SelftestArgs),
    /// Tell what an ONNX file, a plan, a bundle or an engine folder is.
    Inspect(InspectArgs),
    /// Put graphs, platform table and a run script into one tar for a board that builds its own engines.
    Pack(PackArgs),
    /// Make one page out of run folders and CSV files: tables, plots, targets.
    Report(ReportArgs),
    /// Read reports of Nsight Systems: ranges on the CPU and projected onto the GPU, kernels, gaps.
    Nsys(NsysArgs),
    /// Run a bench, then its objects again under Nsight Systems: one report each, the rows untouched.
    Profile(ProfileArgs),
    /// Run several experiments over the same clips, with other sizes and strides, into one table.
    Suite(Box<SuiteArgs>),
    /// Keep a run's numbers, and tell whether a later run is slower, larger or less accurate.
    Baseline(BaselineArgs),
    /// Fetch result folders from other machines over ssh, with checksums.
    Collect(CollectArgs),
    /// Put the tables of several result folders into one CSV.
    Merge(MergeArgs),
    /// Log memory of GPU and machine while something runs.
    Monitor(MonitorArgs),
    /// Write a synthetic split: moving, deforming, occluding shapes with exact masks.
    Synth(SynthArgs),
    /// One probe of the doctor in a process of its own; `doctor` starts it.
    #[command(hide = true)]
    DoctorWorker,
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print or write the manual pages.
    Man(ManArgs),
    /// One model of a bench in a process of its own; `bench` starts it.
    #[command(hide = true)]
    BenchWorker,
    /// Plans of a build, one after another, in a process of its own; `build-engines` starts it.
    #[command(hide = true)]
    BuildWorker,
    /// One engine folder of a selftest in a process of its own; `selftest` starts it.
    #[command(hide = true)]
    SelftestWorker,
    /// Opens one plan in a process of its own; `inspect` starts it.
    #[command(hide = true)]
    InspectWorker,
}

/// Takes flags with underscores as their hyphenated forms, as the predecessor's scripts wrote them.
pub fn accept_underscores(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut literal = false;
    args.into_iter()
        .map(|arg| {
            literal |= arg == "--";
            match arg.to_str() {
                Some(text) if text.starts_with("--") && !literal => {
                    let (name, value) =
                        text.split_once('=').map_or((text, None), |(n, v)| (n, Some(v)));
                    let name = name.replace('_', "-");
                    value.map_or(name.clone(), |value| format!("{name}={value}")).into()
                }
                _ => arg,
            }
        })
        .collect()
}

/// The program's declaration without what only the program itself calls.
pub fn public() -> clap::Command {
    use clap::CommandFactory;
    let all = Cli::command();
    let shown: Vec<_> = all.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect();
    let mut public = clap::Command::new(env!("CARGO_PKG_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommand_required(true)
        .args(all.get_arguments().cloned())
        .subcommands(shown);
    if let Some(about) = all.get_about() {
        public = public.about(about.clone());
    }
    if let Some(more) = all.get_after_help() {
        public = public.after_help(more.clone());
    }
    public
}

#[cfg(test)]
mod example_tests;
#[cfg(test)]
mod rebuild_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn underscores_change_in_flag_names_only() {
        let out = accept_underscores(
            ["segtrt", "--split_dir=/a_b", "--limit_videos", "sav_val", "--", "--x_y"]
                .map(OsString::from),
        );
        assert_eq!(out, ["segtrt", "--split-dir=/a_b", "--limit-videos", "sav_val", "--", "--x_y"]);
    }
}
