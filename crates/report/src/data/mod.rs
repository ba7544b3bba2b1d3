/*!
The content of a report without its layout: groups of rows with their statistics, distributions,
stages, sensors, and hints. The page and `--json` show the same.
*/

mod bandwidth;
pub(crate) mod best;
mod conditions;
mod frames;
pub(crate) mod gather;
mod group;
pub(crate) mod hints;
mod memory;
pub(crate) mod notes;
pub(crate) mod platforms;
pub(crate) mod sources;
mod stages;
mod stat;

pub use bandwidth::Bandwidth;
pub use best::Best;
pub use conditions::COLUMNS as CONDITIONS;
pub use frames::{Frames, Series};
pub use group::{Counts, Group, Reason};
pub use hints::Hint;
pub use memory::DeviceMemory;
pub use platforms::{PlatformCell, PlatformLine, PlatformTable};
pub use sources::SourceInfo;
pub use stages::{StageLine, StageTable};
pub use stat::Stat;
