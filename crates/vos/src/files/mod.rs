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
mod journal_reader;
mod litter;
mod measured_on;
pub mod profile_csv;
pub mod python_format;
mod set_aside;
mod sidecar;
pub mod stats_json;
mod store;
pub mod summary_csv;

pub use configuration::{Configuration, OTHER_DEVICES};
pub use journal::{FILE_NAME as JOURNAL, ObjectResult, RowOrder};
pub use journal_reader::JournalReader;
pub use measured_on::{Facts, MeasuredOn, TEACHER};
pub use set_aside::{LOGITS, MASKS, PREVIOUS_NAME as PREVIOUS_JOURNAL, is_previous, set_aside};
pub use sidecar::{FILE_NAME as SIDECAR, FileHash, Sidecar, sha256_of_file, sha256_of_files};
pub use store::{OutputFiles, ResultStore};
pub use summary_csv::ColumnSet;

/// Whether a file of this name is one that a [`ResultStore`] writes.
pub fn is_own(name: &str) -> bool {
    let tables = [summary_csv::FILE_NAME, profile_csv::FILE_NAME, stats_json::FILE_NAME];
    tables.contains(&name) || [JOURNAL, SIDECAR].contains(&name) || is_previous(name)
}
