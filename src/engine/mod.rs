/*!
Engines: TensorRT plans on disk, how they are built from a bundle, and how they are opened again.
*/

pub mod manifest;
mod settings;

pub use manifest::{BuildCost, Builder, EngineManifest, LayerRecord, PlanRecord, engine_dir};
pub use settings::{Bank, Precision, ProfileShapes, Settings};
