/*!
Building engines: one child process a plan, so that a crash, a lack of memory or a stop costs one plan.

```text
plan (what is wanted) → supervise (one child each) ⇄ worker (TensorRT) → plan file → manifest
```
*/

mod configure;
mod failure;
pub mod job;
mod log_progress;
pub mod plan_file;
pub mod recipe;
pub mod supervise;
pub mod worker;

pub use job::{BuildJob, Built, Event, FailureKind};
pub use supervise::{NotBuilt, Supervisor};
