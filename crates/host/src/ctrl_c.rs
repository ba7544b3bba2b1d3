/*!
Ctrl-C and SIGTERM as a flag, for commands that stop their children before they end.
*/

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Catches Ctrl-C, once in a process: the flag is set when it comes.
///
/// # Errors
/// It is caught already.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let came = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&came);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("cannot take over Ctrl-C")?;
    Ok(came)
}
