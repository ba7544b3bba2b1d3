/*!
Released checkpoints by name, and their export to bundles.
*/

mod environment;
mod export;
mod models;

pub use environment::{Environment, prepare};
pub use export::{Export, is_there, run};
pub use models::{MODELS, Released, by_name};
