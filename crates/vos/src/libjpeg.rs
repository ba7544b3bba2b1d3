/*!
libjpeg's error handler with warnings as errors.

libjpeg treats a truncated or damaged scan as a warning and fills the rest with grey, which a
benchmark must not measure. The crate's handler ignores warnings, so this one replaces it.
*/

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mozjpeg_sys as ffi;

/// libjpeg's level for corrupt data that it can work around; levels from 0 up are trace messages.
const WARNING: c_int = -1;

/// Bytes that `format_message` may write (JMSG_LENGTH_MAX in `jpeglib.h`).
const MESSAGE_BYTES: usize = 200;

/// `format_message` in the binding, and its real type.
type BoundFormat = unsafe extern "C-unwind" fn(&mut ffi::jpeg_common_struct, &[u8; 80]);
type Format = unsafe extern "C-unwind" fn(&mut ffi::jpeg_common_struct, *mut c_char);

/// An error handler with which every warning and error ends decoding; use it inside [`catch`].
pub fn strict_errors() -> ffi::jpeg_error_mgr {
    let mut manager = MaybeUninit::<ffi::jpeg_error_mgr>::zeroed();
    // SAFETY: jpeg_std_error fills the struct it is given; all-zero bytes are a valid value of it
    // (numbers, arrays and optional function pointers), so it may be read afterwards.
    let mut manager = unsafe {
        ffi::jpeg_std_error(&mut *manager.as_mut_ptr());
        manager.assume_init()
    };
    manager.error_exit = Some(on_error);
    manager.emit_message = Some(on_message);
    manager
}

/// Runs `decode` and returns libjpeg's message as the error.
pub fn catch<T>(decode: impl FnOnce() -> std::io::Result<T>) -> Result<T, String> {
    // Everything that the closure uses is dropped with it, so no broken state is visible
    // afterwards.
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(payload) => Err(payload
            .downcast::<String>()
            .map_or_else(|_| "libjpeg failed".to_owned(), |message| *message)),
    }
}

extern "C-unwind" fn on_error(info: &mut ffi::jpeg_common_struct) {
    let message = message_of(info);
    // Not panic!: its hook would print, but this is an ordinary error that `catch` returns.
    resume_unwind(Box::new(message))
}

extern "C-unwind" fn on_message(info: &mut ffi::jpeg_common_struct, level: c_int) {
    if level == WARNING {
        on_error(info);
    }
}

fn message_of(info: &mut ffi::jpeg_common_struct) -> String {
    // SAFETY: libjpeg calls its handlers with a struct whose `err` is the manager it was set up
    // with, which lives as long as the decoder.
    let manager = unsafe { &*info.err };
    let Some(format) = manager.format_message else {
        return format!("libjpeg error {}", manager.msg_code);
    };
    let mut text: [c_char; MESSAGE_BYTES] = [0; MESSAGE_BYTES];
    // SAFETY: the binding declares the buffer as a shared reference to 80 bytes, `jpeglib.h` as a
    // `char *` that at most JMSG_LENGTH_MAX bytes are written to, ended by a zero; the type is put
    // right, the calling convention is the same for both.
    let format = unsafe { std::mem::transmute::<BoundFormat, Format>(format) };
    // SAFETY: `info` is libjpeg's own and the buffer has JMSG_LENGTH_MAX bytes.
    unsafe { format(info, text.as_mut_ptr()) };
    // SAFETY: the buffer was zeroed, so it ends with a zero whatever was written into it.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}
