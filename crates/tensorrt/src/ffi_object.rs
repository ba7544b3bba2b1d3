/*!
The boundary between the C shim and the safe layer: objects that are deleted with their owner,
statuses and null pointers as errors that carry TensorRT's log.
*/

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::NonNull;

use super::error::{Cause, Error, Result};
use super::library::Library;
use super::sys;

/// An object of TensorRT that is deleted with its owner. A `&Object` proves that its pointer is
/// valid and that its library is open; the owner keeps alive the objects that this one needs
/// (`owners.rs`).
pub(super) struct Object {
    pointer: NonNull<c_void>,
    library: Library,
}

impl Object {
    pub(super) fn get(&self) -> *mut c_void {
        self.pointer.as_ptr()
    }

    pub(super) fn library(&self) -> &Library {
        &self.library
    }

    pub(super) fn api(&self) -> *const sys::trtdl_api {
        self.library.api()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: `pointer` came from TensorRT as an object that its caller deletes, and is deleted
        // here only.
        unsafe { sys::trtdl_object_delete(self.api(), self.get()) }
    }
}

impl Library {
    pub(super) fn api(&self) -> *const sys::trtdl_api {
        self.inner.api.as_ptr()
    }

    /// Creates an object; NULL is an error with TensorRT's log of that call.
    pub(super) fn make(
        &self,
        what: impl Into<String>,
        make: impl FnOnce(*const sys::trtdl_api) -> *mut c_void,
    ) -> Result<Object> {
        let mark = self.inner.log.mark();
        let pointer = NonNull::new(make(self.api()));
        let pointer = pointer.ok_or_else(|| self.failed(what, mark))?;
        Ok(Object { pointer, library: self.clone() })
    }

    /// Calls a function that returns a status. `what` is a verb phrase: "set the input shape of
    /// 'x'".
    pub(super) fn ask(
        &self,
        what: impl Into<String>,
        act: impl FnOnce(*const sys::trtdl_api) -> sys::trtdl_status,
    ) -> Result<()> {
        let mark = self.inner.log.mark();
        match act(self.api()) {
            sys::TRTDL_OK => Ok(()),
            sys::TRTDL_UNSUPPORTED => {
                let what = format!("way to {}", what.into());
                Err(Error::Unsupported { what, version: self.version() })
            }
            _ => Err(self.failed(what, mark)),
        }
    }

    pub(super) fn failed(&self, what: impl Into<String>, mark: u64) -> Error {
        Error::Failed {
            what: what.into(),
            version: self.version(),
            cause: Cause(self.inner.log.since(mark)),
        }
    }

    pub(super) fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::Unsupported { what: what.into(), version: self.version() }
    }
}

/// A name as TensorRT takes it.
pub(super) fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Error::Nul(name.to_owned()))
}

/// A copy of a string that TensorRT owns; none for NULL.
///
/// # Safety
/// `text` is NULL or a C string that lives until this returns: what the shim passes on does, while
/// the object that was asked lives.
pub(super) unsafe fn copied(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
