/*!
Merges runs of several machines and of both programs into one CSV, as the predecessor's
`merge_results.py` does.

```text
folders → MergeSource (table, origin) → Columns (united) → rows, one at a time → file
```

Values are copied unchanged. All headers are read first, because the output's header needs them.
Then rows stream, and memory grows by eight bytes a row for finding duplicates.
*/

mod columns;
mod origin;
mod repeats;
mod source;
mod write;

pub use origin::Origin;
pub use source::{MergeSource, Missing, Table};
pub use write::{Merged, MergedSource, Ragged, check, merge};
