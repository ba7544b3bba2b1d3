/*!
Reads reports of NVIDIA Nsight Systems without its GUI: time on the CPU and, projected, on the GPU.

```text
program (finds nsys) → export (.nsys-rep → SQLite) → database (checks the file)
  → trace → filter ─┬→ tables → render (text, CSV, JSON)
                    ├→ nesting, projection → stage_projections (means for a run's rows)
                    ├→ findings (slowest stage, fastest configuration)
                    └→ compare (several reports side by side, or the difference of two)
```

The tables have the names, columns and meaning of `nsys stats`. Tables and columns of an export
differ between releases, so each is looked up before it is read.
*/

pub mod analysis;
mod api_tables;
mod compare;
mod copy_tables;
mod counter_tables;
mod database;
mod export;
mod filter;
mod findings;
mod gpu_tables;
mod idle_tables;
mod inputs;
mod kernel_tables;
mod load;
mod nesting;
mod platforms;
pub mod program;
mod projection;
mod range_boxes;
mod range_tables;
pub mod render;
mod spread;
mod stage_projections;
mod table;
mod time_map;
mod trace;

pub use analysis::{Analysis, Options, ReportKind, analyse};
pub use compare::{difference, side_by_side};
pub use counter_tables::NAME as COUNTERS_TABLE;
pub use export::read;
pub use filter::{Filter, Window};
pub use findings::{Findings, Ranking, compare};
pub use inputs::{Input, inputs};
pub use platforms::{Platform, as_reports, platforms};
pub use program::{Nsys, VARIABLE};
pub use stage_projections::stage_projections;
pub use table::{Cell, Column, Table, Unit, column};
pub use trace::{Call, GpuOp, Machine, OpKind, Range, RangeKind, Trace};
