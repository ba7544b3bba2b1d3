/*!
Installs for this user whatever the program needs and does not hold: ONNX Runtime and the demo's
network.
*/

mod demo;
mod index;
mod library;

pub use demo::{DEMO, install as install_demo};
pub use index::{INDEX, address};
pub use library::{WHEEL, Wheel, install as install_library};
