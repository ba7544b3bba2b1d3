/*!
A self-test's rows on the screen and in files.
*/

mod csv;
mod json;
mod kernels;
mod layers;
mod table;

pub use csv::write as write_csv;
pub use json::{document, write as write_json};
pub use kernels::{KernelsCsv, render as render_kernels};
pub use layers::write as write_layers;
pub use table::render;

/// Bytes as MiB, which is what boards' memories are counted in.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
