/*!
Profiled passes: an Nsight Systems report for each video, object, model and run, next to the numbers
of unprofiled passes.

```text
bench (not profiled) ─→ rows ─┐   for each row that is ok:
plan ─────────────────────────┴─→ nsys profile … bench-worker ─→ report ─→ its name in the row
                                    │         └→ stage projections ─┐
                                    └→ the pass's stage times ──────┴→ stages of the row
```

A profiler slows down every launch, so the profiled pass's speed is shown and dropped. Its stage
times are kept in columns of their own, beside their projections from the report. Only the worker is
recorded: one model, one object, the warm-up passes and one pass.
*/

mod name;
mod nsys_messages;
mod recorder;
mod settings;
pub mod stage_times;

pub use name::ReportName;
pub use nsys_messages::NoReports;
pub use recorder::{Recorded, Recorder, Target};
pub use settings::{Settings, USUAL_TRACE};
