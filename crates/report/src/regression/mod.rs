/*!
Whether a later run is slower, larger or less accurate than one that was kept.

```text
run folder → Run ─ save → baseline file
                └─ check: differences (refused unless allowed) → comparisons → verdict
```

Only like is compared with like: hardware, precision, prompts, metrics, clips and all that decides
what a number means must agree, or the user must say that a difference is meant. What counts as
slower is written at [`judge`].
*/

mod differ;
mod judge;
mod metric;
mod read;
mod run;
mod sidecar;
mod store;

pub use differ::{Difference, differences};
pub use judge::{Check, Comparison, Judgement, Limits, check};
pub use metric::{Metric, Range};
pub use run::{ModelRun, ObjectRun, Pass, Run};
pub use store::{Baseline, Store};
