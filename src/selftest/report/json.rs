/*!
The rows as JSON, with the machine and the libraries that they were measured with.
*/

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use crate::environment;
use crate::files::atomic;
use crate::selftest::{KernelReport, Opened, Row, Settings};

/// Version of this layout.
const FORMAT: u32 = 1;

/// Writes everything to `path`, whole or not at all; `kernels` is absent where they were not tested.
pub fn write(
    path: &Path,
    settings: &Settings,
    opened: Option<&Opened>,
    kernels: Option<&KernelReport>,
    rows: &[Row],
) -> Result<()> {
    let report = json!({
        "format": FORMAT,
        "environment": environment::facts(),
        "opened": opened,
        "kernels": kernels,
        "settings": settings,
        "rows": rows,
    });
    atomic::write(path, |out| Ok(serde_json::to_writer_pretty(out, &report)?))
}
