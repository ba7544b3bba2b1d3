/*!
One file a subcommand: arguments to plan, plan to library calls, results to the screen.
*/

pub mod bench;
mod bench_engines;
mod bench_plan;
mod bench_remarks;
mod bench_table;
pub mod build_engines;
mod build_resolve;
mod build_sweep;
mod build_table;
pub mod compare;
mod compare_plan;
mod compare_sweep;
pub mod completions;
pub mod inspect;
pub mod man;
pub mod pack;
pub mod selftest;
pub mod suite;
pub mod synth;

/// How a command ended that did not break off with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was asked for was done.
    Done,
    /// The command ran to its end, but part of it failed and was reported.
    PartlyFailed,
    /// The user stopped it; what was done is kept.
    Stopped,
}

/// An error in how the command was called: exit code 2 instead of 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
