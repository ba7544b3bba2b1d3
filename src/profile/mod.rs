/*!
Profiled passes: one report of Nsight Systems for each video, object, model and run, beside numbers that no profiler touched.

```text
bench (not profiled) ─→ rows ─┐
                              ├→ for each row that is ok: nsys profile … bench-worker ─→ report ─→ its name in the row
plan ─────────────────────────┘                               └→ its own numbers are shown and dropped
```

Under a profiler every launch takes longer, so nothing that is measured there gets into a file. What is recorded is the worker
alone: one model, one object, the warm-up passes and one pass.
*/

mod name;
mod recorder;
mod said;
mod settings;

pub use name::ReportName;
pub use recorder::{Recorded, Recorder, Target};
pub use said::NoReports;
pub use settings::{Settings, USUAL_TRACE};
