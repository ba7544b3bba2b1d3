/*!
Errors of a configuration file.
*/

use std::path::PathBuf;

/// Why the file's arguments cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: std::io::Error,
    },
    /// It is no TOML.
    #[error("{} is no TOML: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line and column, and what was expected there.
        source: Box<toml::de::Error>,
    },
    /// A name that means nothing.
    #[error("{}: {place} has no {what} {name:?}{}", path.display(), suggestion(nearest))]
    Unknown {
        /// The file.
        path: PathBuf,
        /// `segtrt bench`.
        place: String,
        /// `flag` or `subcommand`.
        what: &'static str,
        /// As it is written.
        name: String,
        /// A name that is much like it.
        nearest: Option<String>,
    },
    /// A value of a kind that the flag does not take.
    #[error("{}: {place} {key}: expected {expected}, found {found}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// `segtrt bench`.
        place: String,
        /// The key.
        key: String,
        /// What it takes.
        expected: &'static str,
        /// What is there.
        found: String,
    },
}

fn suggestion(nearest: &Option<String>) -> String {
    match nearest {
        Some(name) => format!("; did you mean {name:?}?"),
        None => "; segtrt --help and segtrt SUBCOMMAND --help list what there is".to_owned(),
    }
}
