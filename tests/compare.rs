//! `segtrt compare`: measuring in turn against a stand-in for the PyTorch runner, judging folders,
//! sweeps.

/// Rounds that are measured again.
#[path = "compare/again.rs"]
mod again;
/// What is left of a ratio whose passes were disturbed.
#[path = "compare/bound.rs"]
mod bound;
/// Sides whose folders contradict their claims.
#[path = "compare/claims.rs"]
mod claims;
/// A side that says nothing any more.
#[path = "compare/hang.rs"]
mod hang;
/// Folders that are there already: same work, same masks, what is withheld.
#[path = "compare/judge.rs"]
mod judge;
/// In turn, resumed, with sides that fail.
#[path = "compare/measure.rs"]
mod measure;
/// Held to the original code at a side's own precision.
#[path = "compare/original.rs"]
mod original;
/// Sides that are at their power limit all the time.
#[path = "compare/power_limit.rs"]
mod power_limit;
/// The real PyTorch runner, where PyTorch is installed.
#[path = "compare/pytorch.rs"]
mod pytorch;
/// Frames on which sides selected another candidate mask.
#[path = "compare/selection.rs"]
mod selection;
/// What the tests here share.
#[path = "compare/shared.rs"]
mod shared;
/// Sweeps on the CPU.
#[path = "compare/sweep.rs"]
mod sweep;
/// Teacher-forced runs and their curves.
#[path = "compare/teacher.rs"]
mod teacher;
