/*!
Engines: TensorRT plans on disk, how they are built from a bundle, and how they are opened again.
*/

pub mod assess;
pub mod fp32_pins;
pub mod freshness;
pub mod layers;
pub mod manifest;
mod open;
mod profiles;
mod settings;
pub mod timing_cache;
pub mod timing_files;

pub use manifest::{BuildCost, Builder, EngineManifest, LayerRecord, PlanRecord, engine_dir};
pub use open::{open_part, open_plan, open_record};
pub use profiles::{MOST_POINTS, USUAL_POINTS, fill_levels, has_fill_levels, profiles};
pub use settings::{ProfileShapes, Settings};
