/*!
Sentences about files that are not what they should be; one place, so that they all name the file, what was found, what
was expected and what to do.
*/

use std::path::Path;

use anyhow::{Error, anyhow};

/// A plan whose bytes are not those that were built.
pub fn damaged_plan(path: &Path, found: &str, expected: &str, again: &str) -> Error {
    anyhow!(
        "{} is damaged: found {found}, expected {expected}; build it again with: {again}",
        path.display()
    )
}
