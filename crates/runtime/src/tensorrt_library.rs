/*!
TensorRT's library under this program's flag and variable.
*/

use std::path::Path;

use tensorrt::{Candidate, Library, Naming, Result, Searched};

/// How the user names TensorRT.
const NAMING: Naming = Naming { variable: "SEGTRT_TENSORRT_LIB", flag: Some("--tensorrt-lib") };

/// Opens the library that the flag or the variable names, else the first that is found.
///
/// # Errors
/// Those of [`Library::open`].
pub fn open(explicit: Option<&Path>) -> Result<Library> {
    Library::open_as(NAMING, explicit)
}

/// Libraries to try, best first, and the places that were searched.
pub fn search(explicit: Option<&Path>) -> (Vec<Candidate>, Searched) {
    tensorrt::search(NAMING, explicit)
}
