/*!
What can go wrong with cuBLASLt, in sentences that say what to do.
*/

use std::path::PathBuf;

use super::find::VARIABLE;
use super::product::ProductShape;
use super::sys::Status;
use crate::GpuError;
use crate::find::Searched;

/// Why cuBLASLt did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CublasLtError {
    /// There is no library.
    #[error("{0}")]
    NotFound(Searched),
    /// The library that the user named cannot be used.
    #[error(
        "{} cannot be used as cuBLASLt: {why}; {VARIABLE} names another one, or run the encoder without its \
         trunk: segtrt build-engines --graphs encoder",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The loader's words, or what it lacks.
        why: String,
    },
    /// cuBLASLt refuses.
    #[error(
        "{library} could not {what}: {status}; {VARIABLE} names another one, or run the encoder without its \
         trunk: segtrt build-engines --graphs encoder"
    )]
    Failed {
        /// The library.
        library: String,
        /// What was tried, as a verb phrase.
        what: String,
        /// Its answer.
        status: Status,
    },
    /// No sizes that a product can have.
    #[error("a product of {shape} cannot be: each size must be from 1 to 2147483647")]
    Shape {
        /// What was asked for.
        shape: ProductShape,
    },
    /// There is no such algorithm.
    #[error(
        "candidate {wanted} of a product of {shape} was asked for, it has {candidates}, counted from 0"
    )]
    Candidate {
        /// Which was asked for.
        wanted: usize,
        /// How many there are.
        candidates: usize,
        /// The product.
        shape: ProductShape,
    },
    /// A view that cannot be an operand.
    #[error(
        "{what} of a product of {shape} is a view of {found} bytes at {address:#x}; {expected} from a multiple of {alignment} on are expected"
    )]
    Operand {
        /// Which operand.
        what: &'static str,
        /// The product.
        shape: ProductShape,
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
