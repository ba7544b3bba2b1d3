/*!
This library's `println!` and `eprintln!`, in place of the standard library's. Both show control
characters instead of sending them to a terminal ([`crate::printable`]). A message that cannot be
written to standard error is lost, and nothing else: the standard library's would end a campaign.
*/

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

use crate::colour;

/// Exit code of a program whose reader went away, as a shell reports SIGPIPE.
pub const NOBODY_READS: i32 = 141;

/// The standard library's macro, through [`colour::shown`].
#[macro_export]
macro_rules! println {
    () => { std::println!() };
    ($($argument:tt)*) => {
        std::println!("{}", $crate::colour::shown(&format!($($argument)*), &std::io::stdout()))
    };
}

/// The standard library's macro, through [`line`].
#[macro_export]
macro_rules! eprintln {
    () => { $crate::message::line(format_args!("")) };
    ($($argument:tt)*) => { $crate::message::line(format_args!($($argument)*)) };
}

/// Writes a printable line to standard error. A reader that went away ends this process, as it does
/// other programs; a full disk loses this line only.
pub fn line(words: Arguments<'_>) {
    // In one piece: lines of several processes come to one terminal.
    let line = format!("{words}\n");
    let stream = std::io::stderr();
    let written = stream.lock().write_all(colour::shown(&line, &stream).as_bytes());
    if written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        std::process::exit(NOBODY_READS);
    }
}
