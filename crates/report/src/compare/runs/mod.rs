/*!
Measurements as they lie on disk, whoever made them: run folders, and the sides and rounds that they
belong to.
*/

mod declared;
mod folder;
mod masks;
mod measured;
mod named;
mod side;
mod sidecar;

pub use declared::Declared;
pub use folder::{Row, RunFolder};
pub use masks::{MaskFile, MaskFrame};
pub use measured::{FILE_NAME as MEASURED_FILE, Measured, MeasuredRun, Missing};
pub use named::{AskedReference, FORCED_FOLDER, NamedFolder, TEACHER_FOLDER, gather};
pub use side::{Absence, Reference, Round, Set, Side};
pub use sidecar::{Decisions, PassRecord};
