/*!
The report: from files that benchmarks left to one page that explains itself, and to the same as
JSON.

```text
input (folders, CSV, sidecars, comparisons, profiles) → data (groups, statistics, what follows) ─┬→ figures → chart (SVG) ─┬→ page (HTML)
                                                        ↑ targets                                └→ JSON                  └→ files (SVG, PNG)
```

Three rules hold throughout: a number that nobody measured is 'not measured' and never zero; INVALID
rows are shown and never compared; rows that were measured under different conditions are never
taken together.
*/
#![forbid(unsafe_code)]
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod chart;
pub mod compare;
pub mod data;
pub mod figures;
pub mod input;
pub mod merge;
pub mod nsys;
mod page;
mod plot_files;
pub mod regression;
pub mod targets;

pub use data::{Report, build};
pub use figures::Figures;
pub use input::read;
pub use page::render;
pub use plot_files::write as write_plots;
