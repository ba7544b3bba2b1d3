/*!
The error of a command that was called wrongly.
*/

/// An error in how the command was called: exit code 2 instead of 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
