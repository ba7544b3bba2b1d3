/*!
Opens NVIDIA's shared libraries at run time, wherever an installer or pip put them.

A search lists [`Candidate`]s, best first. What the user names is opened without a question. What a search
comes upon on its way up from the working directory is checked first: its code would run at once, with
all rights of the caller ([`trusted`]).
*/
// The program's messages escape control characters; the standard library's macros do not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod open;
mod places;
pub mod trusted;

pub use open::{Loaded, file_of, load, symbol};
pub use places::{Candidate, SitePackages, newest, pip_directories};
