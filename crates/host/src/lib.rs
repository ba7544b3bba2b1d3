/*!
The machine and the terminal: child processes, signals, memory, boards, messages.

Nothing here knows of segmentation or of a GPU.
*/
#![forbid(unsafe_code)]

// First, for its macros hold in all modules after it.
#[macro_use]
pub mod message;

pub mod board;
pub mod child;
pub mod colour;
mod counted;
pub mod ctrl_c;
pub mod meminfo;
pub mod on_path;
pub mod printable;
pub mod process_memory;
pub mod process_tree;
pub mod processor;
pub mod program;
pub mod screen_table;
pub mod share;
pub mod shell;
pub mod threads;
pub mod timed_command;
mod usage;

pub use counted::{are, counted};
pub use usage::UsageError;
