/*!
Comparisons, reports and tables of benchmark results: from the files of benchmarks to one
self-contained page, and to JSON.

```text
input (folders, CSV, sidecars, comparisons, profiles)
  → data (groups, statistics, hints)
    → content (with targets)
      ├→ figures → chart (SVG) → page (HTML, table), plot_files (SVG, PNG, PDF)
      └→ JSON
```

`trace_events` writes traces for Perfetto, `ncu` reads the output of Nsight Compute.

Three rules hold in a report. A missing number is 'not measured' and never zero. INVALID rows are
shown and never compared. Rows with different conditions are never grouped.
*/
#![forbid(unsafe_code)]
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod chart;
pub mod compare;
mod content;
pub mod data;
pub mod figures;
pub mod input;
pub mod merge;
pub mod ncu;
pub mod nsys;
mod page;
mod pdf;
mod plot_files;
pub mod regression;
pub mod table;
pub mod targets;
mod trace_events;

pub use content::{Report, build, now};
pub use figures::Figures;
pub use input::read;
pub use page::{render, tables};
pub use plot_files::write as write_plots;
pub use table::write as write_tables;
pub use trace_events::{Event, EventTrace};
