/*!
Threads whose start may fail: `std::thread::spawn` panics if the system has no more.
*/

use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};

/// Starts a thread.
///
/// # Errors
/// The system has no more threads, as at the limit of a user's or a container's processes.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).with_context(|| {
        format!(
            "cannot start the thread {name:?}; raise the limit of processes (ulimit -u, or the \
             container's --pids-limit)"
        )
    })
}
