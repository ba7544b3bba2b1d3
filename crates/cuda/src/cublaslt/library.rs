/*!
Opens cuBLASLt's library, and says why not; and the library on a GPU.

An opened library is never closed: the CUDA runtime inside it keeps threads and registries of its own.
*/

use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::CublasLtError;
use super::find::WANTED;
use super::owned::Owned;
use super::sys::{self, Functions, Status};
use crate::Gpu;
use crate::find::{self, Missed};
use dynlib::{file_of, load, symbol};

/// One opened cuBLASLt. Cheap to clone.
#[derive(Clone)]
pub struct Library {
    inner: Arc<Inner>,
}

struct Inner {
    functions: Functions,
    path: PathBuf,
    version: [c_int; 3],
    cuda: c_int,
}

impl Library {
    /// Opens the library that `SEGTRT_CUBLASLT_LIB` names, else the first that is found. `driver_cuda` is the driver's CUDA
    /// release ("13.0"), where it is known: a library made for a later one than that cannot run.
    ///
    /// # Errors
    /// [`CublasLtError::NotFound`] with the places, and [`CublasLtError::Open`] for a named file that is no cuBLASLt.
    pub fn open(driver_cuda: Option<&str>) -> Result<Self, CublasLtError> {
        let newest = driver_cuda.and_then(find::major);
        find::first(&WANTED, |path| Self::of(path, newest)).map_err(|missed| match missed {
            Missed::NotFound(searched) => CublasLtError::NotFound(searched),
            Missed::Unusable { path, why } => CublasLtError::Open { path, why },
        })
    }

    fn of(path: &Path, newest_cuda: Option<c_int>) -> Result<Self, String> {
        let loaded = load(path)?;
        // SAFETY: only what has all of cuBLASLt's names is taken for it, and the library is never closed.
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
        find::too_new(cuda, newest_cuda)?;
        let bare = path.components().count() == 1;
        let address = symbol(loaded, "cublasLtMatmul");
        let file = if bare { file_of(address as usize) } else { None };
        let path = file.unwrap_or_else(|| path.to_owned());
        log::debug!("opened cuBLASLt {version:?} at {}", path.display());
        Ok(Self { inner: Arc::new(Inner { functions, path, version, cuda }) })
    }

    pub(super) fn functions(&self) -> &Functions {
        &self.inner.functions
    }

    /// The opened file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    pub(super) fn failed(&self, status: Status, what: String) -> CublasLtError {
        CublasLtError::Failed { library: self.to_string(), what, status }
    }

    /// Gives cuBLASLt's answer the name of what was tried.
    pub(super) fn tried(
        &self,
        status: Status,
        what: impl FnOnce() -> String,
    ) -> Result<(), CublasLtError> {
        match status {
            Status::SUCCESS => Ok(()),
            status => Err(self.failed(status, what())),
        }
    }
}

/// "cuBLASLt 13.1.0 (for CUDA 13)".
impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.inner.version;
        write!(f, "cuBLASLt {major}.{minor}.{patch} (for CUDA {})", self.inner.cuda)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} at {}", self.inner.path.display())
    }
}

/// cuBLASLt on a GPU. Cheap to clone, free to share.
#[derive(Clone, Debug)]
pub struct CublasLt {
    handle: Arc<Owned>,
    library: Library,
    gpu: Gpu,
}

impl CublasLt {
    /// Finds the library ([`Library::open`]) and makes it ready on `gpu`.
    ///
    /// # Errors
    /// Those of [`Library::open`], or cuBLASLt's refusal: no memory, or a GPU that this release does not know.
    pub fn open(gpu: &Gpu) -> Result<Self, CublasLtError> {
        Self::new(gpu, &Library::open(Some(&gpu.facts().driver_cuda))?)
    }

    /// Makes an opened library ready on `gpu`.
    ///
    /// # Errors
    /// cuBLASLt's refusal.
    pub fn new(gpu: &Gpu, library: &Library) -> Result<Self, CublasLtError> {
        let call = library.functions();
        // SAFETY: the functions belong together; the handle uses nothing of ours.
        let handle = unsafe {
            Owned::new(gpu, library, "make ready on this GPU", call.destroy, |to| (call.create)(to))
        }?;
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
    use super::*;

    #[test]
    fn what_is_no_library_and_what_is_another_one_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("libcublasLt.so.13");
        std::fs::write(&file, "no library").unwrap();
        let why = Library::of(&file, None).unwrap_err();
        assert!(why.contains("libcublasLt.so.13"), "{why}");
        // Every process here has libc.
        let why = Library::of(Path::new("libc.so.6"), None).unwrap_err();
        assert!(why.contains("it has no cublasLtGetProperty"), "{why}");
        let text = CublasLtError::Open { path: file, why }.to_string();
        for word in ["libcublasLt.so.13", "SEGTRT_CUBLASLT_LIB", "--graphs encoder"] {
            assert!(text.contains(word), "{word} in {text}");
        }
    }
}
