/*!
Measuring a comparison: the sides in turn, A B A B …, round after round, in separate processes.

[`run`] keeps every run folder and notes it in `measured.json` at once; finished rounds are not
measured again. segtrt's side is a fresh `segtrt bench` for each round; a PyTorch side is one
process that builds and compiles once and then waits for its turn, because compiling takes minutes.
*/

mod bench_child;
mod ending;
mod plan;
mod rounds;
mod runner;
mod start;
mod teacher;

pub use bench_child::run as bench;
pub use ending::Finished;
pub use plan::{Clips, ModelWork, Plan, ReferencePlan, SideKind, SidePlan};
pub use rounds::{bench_words, run};
pub use runner::{Runner, RunnerCommand};
