/*!
The rows as JSON, with the machine and the libraries that they were measured with.
*/

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use crate::environment;
use crate::selftest::clip::ClipRow;
use crate::selftest::{EngineRow, KernelReport, Opened, Settings};
use vos::files::atomic;

/// Version of this layout.
const FORMAT: u32 = 1;

/// Everything as one document; `kernels` is absent where they were not tested.
pub fn document(
    settings: &Settings,
    opened: Option<&Opened>,
    kernels: Option<&KernelReport>,
    rows: &[EngineRow],
    clips: &[ClipRow],
) -> Value {
    json!({
        "format": FORMAT,
        "environment": environment::facts(),
        "opened": opened,
        "kernels": kernels,
        "settings": settings,
        "rows": rows,
        "clips": clips,
    })
}

/// Writes a document to `path`, whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, document: &Value) -> Result<()> {
    atomic::write(path, |out| Ok(serde_json::to_writer_pretty(out, document)?))
}
