/*!
The content of a report without its layout: groups of rows with their statistics, distributions,
stages, sensors, and hints. The page and `--json` show the same.
*/

mod bandwidth;
pub(crate) mod best;
mod clip_sizes;
pub(crate) mod compared;
mod conditions;
mod frames;
pub(crate) mod gather;
mod group;
pub(crate) mod hints;
pub(crate) mod history;
mod memory;
pub(crate) mod notes;
pub(crate) mod pictures;
pub(crate) mod platforms;
mod reasons;
pub(crate) mod sources;
mod stages;
mod stat;

pub use bandwidth::Bandwidth;
pub use best::Best;
pub use clip_sizes::{OfSize, Size};
pub use compared::{ComparedModel, ComparedSide};
pub use conditions::{COLUMNS as CONDITIONS, STEREO};
pub use frames::{Frames, Series};
pub use group::{Counts, Group, Reason, ReasonCode};
pub use hints::Hint;
pub use history::{RunOverTime, RunsOverTime};
pub use memory::DeviceMemory;
pub use pictures::{Gallery, Picture, Strip};
pub use platforms::{PlaceKind, PlatformCell, PlatformLine, PlatformTable};
pub use sources::SourceInfo;
pub use stages::{ProfiledLine, StageLine, StageTable};
pub use stat::Stat;
