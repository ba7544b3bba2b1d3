/*!
The time of each layer of a run, from TensorRT's profiler callback.
*/

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use super::library::Library;
use super::sys;

/// How long a layer of the engine took in one run.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerTime {
    /// The engine's layer.
    pub layer: String,
    /// Milliseconds on the GPU.
    pub milliseconds: f32,
}

type Times = Mutex<Vec<LayerTime>>;

/// The shim's profiler with what it fills; must outlive the context that it was given to.
pub(super) struct Profiler {
    pointer: *mut c_void,
    library: Library,
    times: Box<Times>,
}

impl Profiler {
    pub(super) fn new(library: &Library) -> Option<Self> {
        let times = Box::<Times>::default();
        let user = std::ptr::from_ref(&*times).cast_mut().cast();
        // SAFETY: the callback takes Times, which lives in this value beside the profiler that
        // calls it.
        let pointer = unsafe { sys::trtdl_profiler_new(library.api(), Some(on_time), user) };
        (!pointer.is_null()).then(|| Self { pointer, library: library.clone(), times })
    }

    pub(super) fn get(&self) -> *mut c_void {
        self.pointer
    }

    pub(super) fn take(&self) -> Vec<LayerTime> {
        std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        // SAFETY: made by trtdl_profiler_new; the context that knew it is gone (field order in
        // Context).
        unsafe { sys::trtdl_profiler_delete(self.library.api(), self.pointer) }
    }
}

unsafe extern "C" fn on_time(user: *mut c_void, layer: *const c_char, milliseconds: f32) {
    // A panic must not unwind into TensorRT; a time lost to one is lost.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `user` is the Times of a living Profiler; a Mutex is Sync.
        let Some(times) = (unsafe { user.cast::<Times>().as_ref() }) else { return };
        if layer.is_null() {
            return;
        }
        // SAFETY: TensorRT passes a C string that is valid during the call.
        let layer = unsafe { CStr::from_ptr(layer) }.to_string_lossy().into_owned();
        times
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(LayerTime { layer, milliseconds });
    }));
}
