/*!
Run folders on disk, of any origin, and their sides and rounds.
*/

mod declared;
mod folder;
mod masks;
mod measured;
mod named;
mod side;
mod sidecar;

pub use declared::Declared;
pub use folder::{PyTorch, RunFolder, SummaryRow};
pub use masks::{MaskFile, MaskFrame};
pub use measured::{FILE_NAME as MEASURED_FILE, Measured, MeasuredRun, Missing};
pub use named::{NamedFolder, RequestedReference, gather};
pub use side::{Absence, FORCED_FOLDER, Reference, Round, Set, Side, TEACHER_FOLDER};
pub use sidecar::{Decisions, PassRecord};
