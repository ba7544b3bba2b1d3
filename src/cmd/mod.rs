/*!
One file a subcommand: arguments to plan, plan to library calls, results to the screen.
*/

mod backend_choice;
pub mod baseline;
mod baseline_table;
pub mod bench;
mod bench_engines;
mod bench_gpu_only;
mod bench_kept;
mod bench_plan;
mod bench_remarks;
mod bench_shard;
mod bench_table;
pub mod build_engines;
mod build_progress;
mod build_resolve;
mod build_sweep;
mod build_table;
mod build_target;
mod build_trunk;
mod build_weights;
mod build_whole;
pub mod collect;
pub mod compare;
mod compare_baselines;
mod compare_plan;
mod compare_sweep;
pub mod completions;
pub mod doctor;
pub mod experiment;
mod experiment_devices;
mod experiment_plan;
mod experiment_slurm;
mod experiment_spread;
pub mod inspect;
pub mod jetson_benchmark;
mod jetson_inference;
mod jetson_plan;
pub mod man;
pub mod merge;
pub mod monitor;
pub mod nsys;
mod nsys_screen;
pub mod pack;
pub mod predecode;
pub mod profile;
pub mod report;
pub mod selftest;
mod selftest_progress;
mod started_bench;
pub mod suite;
pub mod synth;
pub mod test_run;

/// How a command ended that did not break off with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was asked for was done.
    Done,
    /// The command ran to its end, but part of it failed and was reported.
    PartlyFailed,
    /// The user stopped it; what was done is kept.
    Stopped,
    /// It ran another program, which ended with this code.
    Code(u8),
}
