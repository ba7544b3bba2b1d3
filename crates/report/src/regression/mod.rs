/*!
Checks whether a run is slower, larger or less accurate than a stored baseline.

```text
run folder → RunSummary ─┬→ save: baseline file
                         └→ check: differences (refused unless allowed) → changes → verdict
```

Runs must have the same hardware, precision, prompts, metrics and clips, and everything else that
the numbers depend on, unless the user allows a difference. [`judge`] defines a slowdown. A
[`History`] is a file of many runs with the same rules.
*/

mod differ;
mod history;
mod judge;
mod metric;
mod read;
mod run;
mod sidecar;
mod store;

pub use differ::{Difference, differences};
pub use history::{Entry, History, LevelChange, Point, Series, series};
pub use judge::{ChangeVerdict, Check, Limits, MetricChange, check};
pub use metric::{Metric, Range};
pub use run::{ModelRun, ObjectRun, PassSummary, RunSummary};
pub use store::{Baseline, Store};
