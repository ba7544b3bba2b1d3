/*!
What a benchmark leaves on disk: two CSVs and a JSON that the Python predecessor's tools can read,
a sidecar with everything else, and the journal that makes a run crash-safe and resumable.

Each format is a pure function from records to bytes; [`ResultStore`] alone decides when they are
written, [`atomic`] alone how.
*/

pub mod atomic;
mod columns;
mod configuration;
mod journal;
pub mod profile_csv;
pub mod python_format;
mod sidecar;
pub mod stats_json;
mod store;
pub mod summary_csv;

pub use configuration::Configuration;
pub use journal::{ObjectResult, RowOrder};
pub use sidecar::{FileHash, Sidecar, sha256_of_file, sha256_of_files};
pub use store::{OutputFiles, ResultStore};
pub use summary_csv::ColumnSet;
