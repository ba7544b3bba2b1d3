/*!
cuBLASLt's library: the search for it, its functions, and the library on a GPU.
*/

use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;

use super::error::CublasLtError;
use super::sys::{self, Functions, SetAttribute, Status};
use crate::Gpu;
use crate::owned::Owned;
use dynlib::{Loaded, Opened, Probed, Wanted};

/// Environment variable that names the library or its folder. If it is set, nothing else is tried.
pub const VARIABLE: &str = "SEGTRT_CUBLASLT_LIB";

/// The functions that are called here have the same declarations from CUDA 11.4 to 13.4.
static WANTED: Wanted = Wanted {
    title: "cuBLASLt",
    file: "libcublasLt.so",
    variable: VARIABLE,
    loader: &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"],
    pip: &["nvidia/cu13/lib", "nvidia/cublas/lib"],
    advice: "it comes with the CUDA toolkit (apt-get install libcublas-13-0 from NVIDIA's \
             repository) and with pip install nvidia-cublas (CUDA 13) or nvidia-cublas-cu12: name \
             its folder with SEGTRT_CUBLASLT_LIB where it is not found by itself",
    without: WITHOUT,
};

/// How to do without cuBLASLt.
pub(super) const WITHOUT: &str =
    "run the encoder without its trunk: segtrt build-engines --graphs encoder";

/// An opened cuBLASLt. Cheap to clone.
pub type Library = Opened<Functions>;

/// Opens the library that `SEGTRT_CUBLASLT_LIB` names, else the first that is found. `driver_cuda`
/// is the driver's CUDA release ("13.0"), if known: a library built for a later one cannot run.
///
/// # Errors
/// [`CublasLtError::Library`] with the places, or with the reason against the named file.
pub fn open(driver_cuda: Option<&str>) -> Result<Library, CublasLtError> {
    Ok(Opened::find(&WANTED, driver_cuda, probe)?)
}

fn probe(loaded: &'static Loaded) -> Result<Probed<Functions>, String> {
    // SAFETY: only a library with all of cuBLASLt's names is taken for it.
    let functions = unsafe { Functions::of(loaded) }
        .map_err(|lacking| format!("it has no {lacking}, so it is not CUDA 11's or newer"))?;
    let number = |which| {
        let mut value = 0;
        // SAFETY: the function writes one number to a place that lives through the call.
        let status = unsafe { (functions.get_property)(which, &mut value) };
        if status == Status::SUCCESS { value } else { 0 }
    };
    let version = [sys::MAJOR_VERSION, sys::MINOR_VERSION, sys::PATCH_LEVEL].map(number);
    // SAFETY: it has no precondition.
    let cudart = unsafe { (functions.get_cudart_version)() };
    // 12040 for CUDA 12.4.
    let cuda = c_int::try_from(cudart / 1000).unwrap_or(c_int::MAX);
    Ok(Probed { functions, version, cuda, symbol: "cublasLtMatmul" })
}

/// The error of a refusal; `what` is a verb phrase.
pub(super) fn failed(library: &Library, status: Status, what: String) -> CublasLtError {
    CublasLtError::Failed { library: library.to_string(), what, status }
}

/// Turns a status into a result; `what` is a verb phrase.
pub(super) fn check(
    library: &Library,
    status: Status,
    what: impl FnOnce() -> String,
) -> Result<(), CublasLtError> {
    match status {
        Status::SUCCESS => Ok(()),
        status => Err(failed(library, status, what())),
    }
}

/// A handle, descriptor, layout or preference.
pub(super) type Object = Owned<Status>;

// SAFETY: cuBLASLt may be called from several threads with one handle (NVIDIA's guide, "Thread
// Safety"). A descriptor changes only through `set`, which takes it mutably, and is otherwise read.
unsafe impl Sync for Object {}

impl Object {
    /// Sets an attribute with `function`.
    ///
    /// # Safety
    /// `function` sets attributes of this kind of object, and `attribute` takes a `T`.
    pub(super) unsafe fn set<T: Copy>(
        &mut self,
        function: SetAttribute,
        attribute: i32,
        value: T,
    ) -> Status {
        let place = (&raw const value).cast();
        // SAFETY: the object lives, and nobody else has it meanwhile; the value is copied before
        // the call returns. The rest is the caller's promise.
        unsafe { function(self.get(), attribute, place, size_of::<T>()) }
    }
}

/// cuBLASLt on a GPU. Cheap to clone, free to share.
#[derive(Clone, Debug)]
pub struct CublasLt {
    handle: Arc<Object>,
    library: Library,
    gpu: Gpu,
}

impl CublasLt {
    /// Finds the library ([`open`]) and creates a handle on `gpu`.
    ///
    /// # Errors
    /// Those of [`open`], or cuBLASLt's refusal: no memory, or a GPU that this release does not
    /// support.
    pub fn open(gpu: &Gpu) -> Result<Self, CublasLtError> {
        Self::new(gpu, &open(Some(&gpu.facts().driver_cuda))?)
    }

    /// Creates a handle of an opened library on `gpu`.
    ///
    /// # Errors
    /// cuBLASLt's refusal.
    pub fn new(gpu: &Gpu, library: &Library) -> Result<Self, CublasLtError> {
        let call = library.functions();
        let refused = |status| failed(library, status, "create a handle on this GPU".to_owned());
        // SAFETY: the functions belong together; the handle uses no memory of the caller.
        let handle = unsafe { Owned::new(gpu, call.destroy, refused, |to| (call.create)(to)) }?;
        Ok(Self { handle: Arc::new(handle), library: library.clone(), gpu: gpu.clone() })
    }

    pub(super) fn handle(&self) -> sys::Object {
        self.handle.get()
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

/// "cuBLASLt 13.1.0 (for CUDA 13)".
impl fmt::Display for CublasLt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.library.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use dynlib::{Missed, Searched};

    #[test]
    fn a_missing_library_says_how_to_get_it_and_how_to_do_without() {
        let places = vec!["/here".into()];
        let text = Searched { wanted: &WANTED, places, named: false }.to_string();
        for word in ["/here", "nvidia-cublas-cu12", "libcublas-13-0", VARIABLE, "--graphs encoder"]
        {
            assert!(text.contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn what_is_no_library_and_what_is_another_one_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("libcublasLt.so.13");
        std::fs::write(&file, "no library").unwrap();
        let why = Opened::open("cuBLASLt", &file, None, probe).unwrap_err();
        assert!(why.contains("libcublasLt.so.13"), "{why}");
        // Every process here has libc.
        let why = Opened::open("cuBLASLt", Path::new("libc.so.6"), None, probe).unwrap_err();
        assert!(why.contains("it has no cublasLtGetProperty"), "{why}");
        let missed = Missed::Unusable { wanted: &WANTED, path: file, why };
        let text = CublasLtError::Library(missed).to_string();
        for word in ["libcublasLt.so.13", "SEGTRT_CUBLASLT_LIB", "--graphs encoder"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
}
