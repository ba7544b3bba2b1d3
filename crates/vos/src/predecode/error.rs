/*!
Why predecoded frames cannot be used, each with a short code for the reason column and the command
that helps.
*/

use std::path::PathBuf;

use crate::geometry::GeometryKind;
use crate::stored_values::Values;
use host::shell;

/// Why predecoded frames cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The file does not exist.
    #[error("no predecoded frames {}; write them with: {command}", path.display())]
    Missing {
        /// The expected file.
        path: PathBuf,
        /// The command to type.
        command: String,
    },
    /// The file is incomplete or of another kind.
    #[error("{} is damaged: {reason}; write it again with segtrt predecode", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The file has other settings or sources.
    #[error("{} has other frames or settings: {what}; write it again with: \
             {command}", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
        /// The command to type.
        command: String,
    },
    /// The system cannot read it.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
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

/// The command that writes such files into `dir`.
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
