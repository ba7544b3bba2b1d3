/*!
Several runs, of several machines and of both programs, as one CSV: what the predecessor's
`merge_results.py` makes.

```text
folders → Source (table, origin) → Columns (united) → rows, one at a time → file
```

Values pass through as they are. Headers are read first, because the first line of the output needs
all of them; then rows stream, and memory does not grow with their number beyond eight bytes a row,
which find repetitions.
*/

mod columns;
mod origin;
mod repeats;
mod source;
mod write;

pub use origin::Origin;
pub use source::{Missing, Source, Table};
pub use write::{Merged, MergedSource, Ragged, check, merge};
