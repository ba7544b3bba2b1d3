//! `--save-logits` and `--teacher`: memories from another run's logits, on the CPU; what is refused.

/// What a wrong frame does to later ones, with a teacher and without.
#[path = "teacher/effect.rs"]
mod effect;
/// Folders that cannot teach.
#[path = "teacher/refused.rs"]
mod refused;
/// What the tests here share.
#[path = "teacher/shared.rs"]
pub(crate) mod shared;
