/*!
Why a file of predecoded frames is not used: each with a short code for the reason column and the
command that helps.
*/

use std::path::PathBuf;

use crate::geometry::GeometryKind;
use crate::stored_values::Values;
use host::shell;

/// Why predecoded frames cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// There is no such file.
    #[error("no predecoded frames {}: make them with: {command}", path.display())]
    Missing {
        /// What was looked for.
        path: PathBuf,
        /// What to type.
        command: String,
    },
    /// The file is not whole, or no file of this kind.
    #[error("{} is damaged: {reason}; make it again with segtrt predecode", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The file is whole, and of something else.
    #[error("{} is of other frames or settings: {what}; make it again with: {command}", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: String,
        /// What to type.
        command: String,
    },
    /// The system would not let us read it.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

impl CacheError {
    /// A stable short name for the reason column.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "predecoded_missing",
            Self::Damaged { .. } => "predecoded_damaged",
            Self::Stale { .. } => "predecoded_stale",
            Self::Unreadable { .. } => "predecoded_unreadable",
        }
    }
}

/// The command that makes such files in `dir`.
pub(super) fn command(
    dir: &std::path::Path,
    side: usize,
    geometry: GeometryKind,
    values: Values,
) -> String {
    format!(
        "segtrt predecode --split-dir SPLIT --imgsz {side} --geometry {} --values {} --out-dir {}",
        geometry.name(),
        values.name(),
        shell::path(dir)
    )
}
