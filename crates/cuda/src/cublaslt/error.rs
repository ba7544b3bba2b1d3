/*!
What can go wrong with cuBLASLt, in sentences that say what to do.
*/

use super::library::{VARIABLE, WITHOUT};
use super::shape::MatmulShape;
use super::sys::Status;
use crate::GpuError;
use dynlib::Missed;

/// Why cuBLASLt did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CublasLtError {
    /// No library was opened.
    #[error(transparent)]
    Library(#[from] Missed),
    /// cuBLASLt refuses.
    #[error("{library} could not {what}: {status}; {VARIABLE} names another one, or {WITHOUT}")]
    Failed {
        /// The library.
        library: String,
        /// What was tried, as a verb phrase.
        what: String,
        /// Its answer.
        status: Status,
    },
    /// Sizes out of range.
    #[error("no matmul of {shape} is possible: each size must be from 1 to 2147483647")]
    Shape {
        /// What was asked for.
        shape: MatmulShape,
    },
    /// There is no such algorithm.
    #[error(
        "candidate {wanted} of a matmul of {shape} was asked for, it has {candidates}, counted from 0"
    )]
    Candidate {
        /// Which was asked for.
        wanted: usize,
        /// How many there are.
        candidates: usize,
        /// The matmul.
        shape: MatmulShape,
    },
    /// A view that cannot be an operand.
    #[error(
        "{what} of a matmul of {shape} is a view of {found} bytes at {address:#x}; {expected} \
         from a multiple of {alignment} on are expected"
    )]
    Operand {
        /// Which operand.
        what: &'static str,
        /// The matmul.
        shape: MatmulShape,
        /// The view's bytes.
        found: usize,
        /// Its device address.
        address: usize,
        /// "1024 bytes", or "at least 1024 bytes".
        expected: String,
        /// What the address must be a multiple of.
        alignment: usize,
    },
    /// The driver refuses.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}
