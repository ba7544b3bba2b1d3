/*!
How a child process ended, in words.
*/

use std::process::ExitStatus;

/// A sentence part for a process that ended without saying why.
pub fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let hint = if signal == 9 { "; 9 usually means that memory ran out" } else { "" };
        return format!("the worker process was killed by signal {signal}{hint}");
    }
    format!("the worker process ended with {status}")
}
