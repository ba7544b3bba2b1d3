/*!
Ctrl-C and SIGTERM: as a flag, for commands that stop their children before they end, or as an end
with last words, for commands whose files are complete at any moment.
*/

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{child, shell};

/// Exit code of a program that SIGINT ended, as shells report it.
pub const STOPPED: i32 = 130;

type Words = Box<dyn Fn() -> String + Send>;

static LAST_WORDS: Mutex<Option<Words>> = Mutex::new(None);

/// Ends the process on Ctrl-C with [`STOPPED`], after these words on standard error. Later words
/// replace earlier ones. Does nothing where [`flag`] has Ctrl-C already.
pub fn end_with(words: impl Fn() -> String + Send + 'static) {
    let earlier =
        LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner).replace(Box::new(words));
    if earlier.is_some() {
        return;
    }
    let _ = ctrlc::set_handler(|| {
        let words = LAST_WORDS.lock().unwrap_or_else(PoisonError::into_inner);
        // The caller of a step has words of its own.
        if let Some(words) = words.as_ref().filter(|_| !child::is_step()) {
            // The terminal has just shown ^C, or a bar.
            crate::message::line(format_args!("\n{}", words()));
        }
        std::process::exit(STOPPED);
    });
}

/// Ends the process on Ctrl-C with what is kept, and with this command, which continues where it is
/// repeated with the words of `more`.
pub fn end_with_repeat(kept: &str, more: &[&str]) {
    let words = format!("Stopped. {kept}\nContinue: {}", shell::this_command(more));
    end_with(move || words.clone());
}

/// Gives a Ctrl-C that has just ended a child the time to end this process, too.
pub fn settle() {
    std::thread::sleep(Duration::from_millis(100));
}

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
