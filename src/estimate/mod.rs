/*!
Estimates of what was not measured: the memory of a model, and the rate that a GPU's roofline allows.

Everything here is a bound or a sum of known parts. Whoever prints it calls it an estimate.
*/

mod memory;
mod speed;

pub use memory::{LEAST_WORKSPACE_MB, MemoryNeed, mib, workspace_that_fits};
pub use speed::FpsRange;
