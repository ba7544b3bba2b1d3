/*!
Opens nvJPEG's library, and says why not.

An opened library is never closed: the CUDA runtime inside it keeps threads and registries of its own.
*/

use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::NvJpegError;
use super::find::WANTED;
use super::sys::{self, Functions, Status};
use crate::find::{self, Missed};
use dynlib::{file_of, load, symbol};

/// One opened nvJPEG. Cheap to clone.
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
    /// Opens the library that `SEGTRT_NVJPEG_LIB` names, else the first that is found. `driver_cuda` is the driver's CUDA
    /// release ("13.0"), where it is known: a library made for a later one than that cannot run.
    ///
    /// # Errors
    /// [`NvJpegError::NotFound`] with the places, and [`NvJpegError::Open`] for a named file that is no nvJPEG.
    pub fn open(driver_cuda: Option<&str>) -> Result<Self, NvJpegError> {
        let newest = driver_cuda.and_then(find::major);
        find::first(&WANTED, |path| Self::of(path, newest)).map_err(|missed| match missed {
            Missed::NotFound(searched) => NvJpegError::NotFound(searched),
            Missed::Unusable { path, why } => NvJpegError::Open { path, why },
        })
    }

    fn of(path: &Path, newest_cuda: Option<c_int>) -> Result<Self, String> {
        let loaded = load(path)?;
        // SAFETY: only what has all of nvJPEG's names is taken for it, and the library is never closed.
        let functions = unsafe { Functions::of(loaded) }.map_err(|lacking| {
            format!(
                "it has no {lacking}: it is older than CUDA 12's, or another library of that name, such as JetPack's for video"
            )
        })?;
        let number = |get: unsafe extern "C" fn(c_int, *mut c_int) -> Status, which| {
            let mut value = 0;
            // SAFETY: the function writes one number to a place that lives through the call.
            let status = unsafe { get(which, &mut value) };
            (status == Status::SUCCESS).then_some(value)
        };
        let of_library = |which| number(functions.get_property, which);
        let which = [sys::MAJOR_VERSION, sys::MINOR_VERSION, sys::PATCH_LEVEL];
        let version = which.map(|which| of_library(which).unwrap_or_default());
        let cuda = number(functions.get_cudart_property, sys::MAJOR_VERSION);
        let cuda = cuda.unwrap_or(version[0]);
        find::too_new(cuda, newest_cuda)?;
        let bare = path.components().count() == 1;
        let address = symbol(loaded, "nvjpegGetProperty");
        let file = if bare { file_of(address as usize) } else { None };
        let path = file.unwrap_or_else(|| path.to_owned());
        log::debug!("opened nvJPEG {version:?} at {}", path.display());
        Ok(Self { inner: Arc::new(Inner { functions, path, version, cuda }) })
    }

    pub(super) fn functions(&self) -> &Functions {
        &self.inner.functions
    }

    /// The opened file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

/// "nvJPEG 12.4.0 (for CUDA 12)".
impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.inner.version;
        write!(f, "nvJPEG {major}.{minor}.{patch} (for CUDA {})", self.inner.cuda)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} at {}", self.inner.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_and_what_is_another_one_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("libnvjpeg.so.12");
        std::fs::write(&file, "no library").unwrap();
        let why = Library::of(&file, None).unwrap_err();
        assert!(why.contains("libnvjpeg.so.12"), "{why}");
        // Every process here has libc.
        let why = Library::of(Path::new("libc.so.6"), None).unwrap_err();
        assert!(why.contains("nvjpegGetProperty") && why.contains("JetPack"), "{why}");
        let path = file.clone();
        let text = NvJpegError::Open { path, why }.to_string();
        assert!(text.contains("SEGTRT_NVJPEG_LIB") && text.contains("--decoder turbo"), "{text}");
    }
}
