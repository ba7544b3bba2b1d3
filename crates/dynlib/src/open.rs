/*!
Opens a library, finds its symbols, and the file that it came from.

Nothing is ever closed: NVIDIA's libraries keep threads and registries that outlive their objects.
*/
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

pub use libloading::os::unix::Library as Loaded;
use libloading::os::unix::{RTLD_LAZY, RTLD_LOCAL};

/// Opens a library for the life of the process; the error is the loader's own sentence.
///
/// Functions are bound when they are first called: 8.x's parser names cuDNN and cuBLAS, of which it
/// calls nothing, and must open where only empty stand-ins of them exist.
pub fn load(path: &Path) -> std::result::Result<&'static Loaded, String> {
    // SAFETY: the initialisers of NVIDIA's libraries may run at any time; the user named or
    // installed this file as one.
    let loaded = unsafe { Loaded::open(Some(path), RTLD_LAZY | RTLD_LOCAL) };
    let loaded = loaded.map_err(|error| {
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    })?;
    Ok(Box::leak(Box::new(loaded)))
}

/// The address of a symbol, null where there is none.
pub fn symbol(loaded: &Loaded, name: &str) -> *mut c_void {
    // SAFETY: the address is only stored; who calls it gives it the type that TensorRT documents.
    let found = unsafe { loaded.get::<*mut c_void>(name.as_bytes()) };
    found.map_or(std::ptr::null_mut(), |symbol| symbol.as_raw_ptr())
}

/// The file that the code at an address was loaded from.
pub fn file_of(address: usize) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: Dl_info is plain pointers, for which zero is a value.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr accepts any address and fills `info` when it answers non-zero.
    if unsafe { libc::dladdr(address as *const c_void, &mut info) } == 0 || info.dli_fname.is_null()
    {
        return None;
    }
    // SAFETY: dladdr's name is a C string owned by the loader, which never unloads this file.
    let name = unsafe { std::ffi::CStr::from_ptr(info.dli_fname) };
    Some(std::ffi::OsStr::from_bytes(name.to_bytes()).into())
}
