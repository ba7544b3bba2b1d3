/*!
Lines on standard error that must not end what they tell of: `eprintln!` panics where they cannot be written.
*/

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Exit code of a program whose reader went away, as a shell tells of SIGPIPE.
pub const NOBODY_READS: i32 = 141;

/// As `eprintln!`, for commands that work on for long.
macro_rules! tell {
    ($($words:tt)*) => { $crate::message::line(format_args!($($words)*)) };
}

/// Writes a line to standard error. Where its reader is gone this process ends as others do; a full disk costs the line alone.
pub fn line(words: Arguments<'_>) {
    // In one piece: lines of several processes come to one terminal.
    let line = format!("{words}\n");
    let written = std::io::stderr().lock().write_all(line.as_bytes());
    if written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        std::process::exit(NOBODY_READS);
    }
}
