/*!
Reports of NVIDIA Nsight Systems, read without its GUI: where the time goes on the CPU and,
projected, on the GPU.

```text
program: the nsys that is here ─→ export: .nsys-rep → SQLite
                                                       │
             database (is it one, is it whole) ─→ trace ─→ filter ─→ tables ─→ render: text, CSV, JSON
                                                            ├→ nesting, projection
                                                            ├→ findings: slowest stage, fastest configuration
                                                            └→ compare: several reports side by side, or two as a difference
```

The tables have the names, columns and meaning of `nsys stats`, so that what knows one knows the
other. Tables and columns of an export differ from release to release: every one is looked for
before it is read.
*/

pub mod analysis;
mod api_tables;
mod compare;
mod counter_tables;
mod database;
mod export;
mod filter;
mod findings;
mod gpu_tables;
mod idle_tables;
mod inputs;
mod load;
mod nesting;
pub mod program;
mod projection;
mod range_tables;
pub mod render;
mod spread;
mod table;
mod trace;

pub use analysis::{Analysis, Options, ReportKind, analyse};
pub use compare::{difference, side_by_side};
pub use counter_tables::NAME as COUNTERS_TABLE;
pub use export::read;
pub use filter::{Filter, Window};
pub use findings::{Comparison, Findings, compare};
pub use inputs::{Input, inputs};
pub use program::{Nsys, VARIABLE};
pub use table::{Cell, Column, Table, Unit};
pub use trace::{Range, Style, Trace};
