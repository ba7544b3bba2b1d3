/*!
Output files of a benchmark: two CSVs and a JSON that the Python predecessor's tools can read, a
sidecar with further information, and the journal for resuming a run after a crash.

Each format is a pure function from records to bytes. [`ResultStore`] decides when files are
written, [`atomic`] how.
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
pub use journal::{ObjectResult, RowOrder};
pub use journal_reader::JournalReader;
pub use measured_on::{Facts, MeasuredOn, TEACHER};
pub use set_aside::{
    LOGITS, MASKS, PREVIOUS_NAME as PREVIOUS_JOURNAL, is_previous, set_aside, set_aside_together,
};
pub use sidecar::{FILE_NAME as SIDECAR, FileHash, Sidecar, sha256_of_file, sha256_of_files};
pub use store::{OutputFiles, ResultStore};
pub use summary_csv::ColumnSet;

/// File name of the journal.
pub const JOURNAL: &str = "rows.jsonl";

/// Whether a [`ResultStore`] writes a file with this name.
pub fn is_own(name: &str) -> bool {
    let tables = [summary_csv::FILE_NAME, profile_csv::FILE_NAME, stats_json::FILE_NAME];
    tables.contains(&name) || [JOURNAL, SIDECAR].contains(&name) || is_previous(name)
}
