/*!
Building engines in child processes, so that a crash, a lack of memory or a stop costs one plan.

```text
plan (what is wanted) → line (one plan after another) → kept child ⇄ worker (TensorRT) → plan file → manifest
                           └─ supervise (Ctrl-C ends the children of all lines)
```

A child builds one plan after another: loading TensorRT's kernels takes 8 s and more with 8.6,
longer than most builds. What one build leaves behind must not show in the next, so a child that may
be spoilt is ended, and no failure is told that a fresh child did not have.
*/

pub mod builder_process;
mod configure;
mod failure;
pub mod job;
mod kept_child;
mod log_progress;
pub mod plan_file;
mod rebuild;
pub mod recipe;
pub mod supervise;
pub mod worker;

pub use builder_process::{BuilderProcess, NotBuilt};
pub use job::{BuildJob, Built, Event, FailureKind};
pub use supervise::Supervisor;
