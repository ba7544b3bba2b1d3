/*!
Backends: where the graphs run.
*/

mod ort_library;
mod ort_network;

pub use ort_library::{build_info, find_library, open};
pub use ort_network::OrtNetwork;
