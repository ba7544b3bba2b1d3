#![doc = include_str!("../README.md")]
// A library leaves the terminal to the program.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod nvtx;
mod open;
mod opened;
mod places;
mod search;
pub mod trusted;

pub use open::{Loaded, file_of, load, symbol};
pub use opened::{Opened, Probed};
pub use places::{Candidate, SitePackages, newest, pip_directories};
pub use search::{Missed, Searched, Wanted, first, major, too_new};
