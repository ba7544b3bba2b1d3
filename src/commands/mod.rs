/*!
The subcommands. Each lies in a file or folder of its name, with its flags and its behaviour.

A new one is registered here: a module, a variant of [`Command`] and a line of [`Command::run`].
*/

pub mod baseline;
pub mod bench;
pub mod build_engines;
pub mod collect;
pub mod compare;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod experiment;
pub mod fetch;
mod headings;
pub mod history;
pub mod inspect;
pub mod jetson_benchmark;
pub mod man;
pub mod masks;
pub mod merge;
pub mod monitor;
pub mod ncu;
pub mod nsys;
pub mod pack;
pub mod predecode;
pub mod profile;
pub mod report;
pub mod roofline;
pub mod selftest;
pub mod setup;
pub mod shared;
pub mod started_bench;
mod started_sweep;
pub mod submit;
pub mod suite;
pub mod synth;
pub mod test_run;
pub mod trace;
pub mod track;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures speed, energy and mask quality of video object segmentation on this machine.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100, args_override_self = true)]
pub struct Cli {
    /// Print more messages on standard error; -vv prints debug messages.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = headings::GLOBAL)]
    pub verbose: u8,
    /// Read flags from this TOML file: the table [bench] holds flags of bench. The command line
    /// wins (docs/reference/config.md).
    #[arg(long, global = true, value_name = "FILE", help_heading = headings::GLOBAL)]
    pub config: Option<PathBuf>,
    /// Print all flags with value and origin as such a file, and exit.
    #[arg(long, global = true, help_heading = headings::GLOBAL)]
    pub print_config: bool,
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check this machine: what a bench can run on, what is missing, and how to install it.
    Doctor(doctor::DoctorArgs),
    /// Install ONNX Runtime and the demo's network for this user.
    Setup(setup::SetupArgs),
    /// Fetch released checkpoints by name and export them to bundles.
    Fetch(fetch::FetchArgs),
    /// Track and measure a synthetic clip, and name the file to open.
    Demo(demo::DemoArgs),
    /// Track objects through a video of yours: overlay, masks, a line for each frame.
    Track(Box<track::TrackArgs>),
    /// Run every step once on a synthetic clip with a small network.
    TestRun(test_run::TestRunArgs),
    /// Run models over the clips of a split; write speed and accuracy to CSV files.
    Bench(Box<bench::BenchArgs>),
    /// Compare with PyTorch: the speed-up, and the proof that both compute the same masks.
    Compare(Box<compare::CompareArgs>),
    /// Run a whole experiment: timed bench and profiles in one folder that can be resumed.
    Experiment(Box<experiment::ExperimentArgs>),
    /// Measure in two phases: prepare and check the models, then run each in a fresh process.
    #[command(visible_alias = "two-phase")]
    JetsonBenchmark(Box<jetson_benchmark::JetsonBenchmarkArgs>),
    /// Decode and resize the frames of clips once, into files that bench maps.
    Predecode(predecode::PredecodeArgs),
    /// Build TensorRT engines for one platform from exported ONNX graphs, with memory limits.
    BuildEngines(Box<build_engines::BuildEnginesArgs>),
    /// Test kernels and engines on this GPU against the CPU and ONNX Runtime.
    Selftest(selftest::SelftestArgs),
    /// Describe ONNX files, TensorRT plans, bundles and engine folders.
    Inspect(inspect::InspectArgs),
    /// Pack graphs, platform table and a run script into one tar for a board.
    Pack(pack::PackArgs),
    /// Write one HTML page from run folders and CSV files: tables, plots, targets.
    Report(report::ReportArgs),
    /// Show the least time of each stage at a GPU's peaks, and the share that runs reached.
    Roofline(roofline::RooflineArgs),
    /// Show Nsight Systems reports: ranges on CPU and GPU, kernels, idle gaps.
    Nsys(nsys::NsysArgs),
    /// Measure custom CUDA kernels with Nsight Compute: occupancy, tensor cores, bytes, stalls.
    Ncu(ncu::NcuArgs),
    /// Write a trace for Perfetto or Chrome from a run or a report.
    Trace(trace::TraceArgs),
    /// Run a bench, then record its objects with Nsight Systems, one report each.
    Profile(profile::ProfileArgs),
    /// Run several experiments with different sizes and strides into one table.
    #[command(mut_arg("out_dir", |arg| arg.hide(true)))]
    Suite(Box<suite::SuiteArgs>),
    /// Save a run as a baseline, or check whether a later run is worse.
    Baseline(baseline::BaselineArgs),
    /// Add runs to a history and show its changes; exit with 1 after a regression.
    History(history::HistoryArgs),
    /// Fetch result folders from other machines over ssh, with checksums.
    Collect(collect::CollectArgs),
    /// Write the masks of a run as indexed PNG files for an evaluation server.
    Masks(masks::MasksArgs),
    /// Check the results of a board and print its row for a table of boards.
    Submit(submit::SubmitArgs),
    /// Merge the tables of several result folders into one CSV file.
    Merge(merge::MergeArgs),
    /// Log memory of GPU and machine while a command runs.
    Monitor(monitor::MonitorArgs),
    /// Write a synthetic split: moving, deforming, occluding shapes with exact masks.
    Synth(synth::SynthArgs),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
    /// Print or write the manual pages.
    Man(man::ManArgs),
    /// One probe of the doctor in a process of its own; `doctor` starts it.
    #[command(hide = true)]
    DoctorWorker,
    /// One clip of `track` in a process of its own.
    #[command(hide = true)]
    TrackWorker,
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

impl Command {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// What it cannot do; a [`host::UsageError`] where the command line is at fault.
    pub fn run(self) -> Result<Outcome> {
        match self {
            Self::Doctor(args) => doctor::run(args),
            Self::Setup(args) => setup::run(args),
            Self::Fetch(args) => fetch::run(args),
            Self::Demo(args) => demo::run(args),
            Self::Track(args) => track::run(*args),
            Self::TestRun(args) => test_run::run(args),
            Self::Bench(args) => bench::run(*args),
            Self::Compare(args) => compare::run(*args),
            Self::Experiment(args) => experiment::run(*args),
            Self::JetsonBenchmark(args) => jetson_benchmark::run(*args),
            Self::Predecode(args) => predecode::run(args),
            Self::BuildEngines(args) => build_engines::run(*args),
            Self::Selftest(args) => selftest::run(args),
            Self::Inspect(args) => inspect::run(args),
            Self::Pack(args) => pack::run(args),
            Self::Report(args) => report::run(args),
            Self::Roofline(args) => roofline::run(args),
            Self::Nsys(args) => nsys::run(args),
            Self::Ncu(args) => ncu::run(args),
            Self::Trace(args) => trace::run(args),
            Self::Profile(args) => profile::run(args),
            Self::Suite(args) => suite::run(*args),
            Self::Baseline(args) => baseline::run(args),
            Self::History(args) => history::run(args),
            Self::Collect(args) => collect::run(args),
            Self::Masks(args) => masks::run(args),
            Self::Submit(args) => submit::run(args),
            Self::Merge(args) => merge::run(args),
            Self::Monitor(args) => monitor::run(args),
            Self::Synth(args) => synth::run(args),
            Self::Completions(args) => completions::run(args),
            Self::Man(args) => man::run(args),
            Self::DoctorWorker => crate::doctor::worker::run().map(|()| Outcome::Done),
            Self::TrackWorker => crate::track::worker::run().map(|()| Outcome::Done),
            Self::BenchWorker => crate::bench::worker::run().map(|()| Outcome::Done),
            Self::BuildWorker => runtime::builder::worker::run().map(|()| Outcome::Done),
            Self::SelftestWorker => crate::selftest::worker::run().map(|()| Outcome::Done),
            Self::InspectWorker => crate::inspect::worker::run().map(|()| Outcome::Done),
        }
    }
}

/// How a command ended that returned no error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was asked for was done.
    Done,
    /// The command ran to its end, but part of it failed and was reported.
    PartlyFailed,
    /// The user stopped it; finished work is kept.
    Stopped,
    /// It ran another program, which ended with this code.
    Code(u8),
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

/// The command line, with the sections of its help in order.
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    headings::in_order(Cli::command().mut_subcommands(|sub| sub.mut_args(without_empty_variable)))
}

/// An environment variable without a value counts as unset, as shells' users expect; clap would
/// ask for the value of a flag that nobody typed.
fn without_empty_variable(arg: clap::Arg) -> clap::Arg {
    let empty = |name| std::env::var_os(name).is_some_and(|value| value.is_empty());
    if arg.get_env().is_some_and(empty) { arg.env(clap::builder::Resettable::Reset) } else { arg }
}

/// The command line without the hidden subcommands, which only the program itself starts.
pub fn public() -> clap::Command {
    let all = command();
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

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn sections_have_one_order_in_every_help() {
        let known = headings::ORDER;
        let mut all = command();
        all.build();
        let mut open: Vec<&clap::Command> = all.get_subcommands().collect();
        while let Some(command) = open.pop() {
            open.extend(command.get_subcommands());
            let headings = command.get_arguments().filter_map(|arg| arg.get_help_heading());
            let places: Vec<usize> = headings
                .map(|name| known.iter().position(|known| *known == name).expect(name))
                .collect();
            assert!(places.is_sorted(), "{}: {places:?}", command.get_name());
        }
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
