/*!
The progress of a build, and its early end: TensorRT's progress monitor (10 and later).

8.x has none. A caller can follow its log ([`Library::on_log`](super::Library::on_log)) and end the
process that builds.
*/

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::library::Library;
use super::sys;

/// Receives the progress of a build, from TensorRT's threads. Phases nest: each but the outermost
/// names its parent.
pub trait BuildProgress: Send + Sync {
    /// A phase of `steps` steps begins.
    fn start(&self, phase: &str, parent: Option<&str>, steps: i32);
    /// Step number `step` of a phase is done.
    fn step(&self, phase: &str, step: i32);
    /// A phase ends, perhaps before its last step.
    fn finish(&self, phase: &str);
}

/// A switch that stops a build at its next step. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Stops the build, once and for all.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was switched.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The shim's monitor with what it calls; must outlive the configuration that it was given to.
pub(super) struct Monitor {
    pointer: *mut c_void,
    library: Library,
    state: Box<State>,
}

struct State {
    progress: Arc<dyn BuildProgress>,
    stop: Stop,
}

impl Monitor {
    /// None where the release has no progress monitor.
    pub(super) fn new(
        library: &Library,
        progress: Arc<dyn BuildProgress>,
        stop: Stop,
    ) -> Option<Self> {
        let state = Box::new(State { progress, stop });
        let fns = sys::trtdl_monitor_fns {
            user: std::ptr::from_ref(&*state).cast_mut().cast(),
            start: Some(on_start),
            step: Some(on_step),
            finish: Some(on_finish),
        };
        // SAFETY: the callbacks take a State, and `state` lives in this value, beside the monitor
        // that calls them.
        let pointer = unsafe { sys::trtdl_monitor_new(library.api(), fns) };
        (!pointer.is_null()).then(|| Self { pointer, library: library.clone(), state })
    }

    pub(super) fn get(&self) -> *mut c_void {
        self.pointer
    }

    pub(super) fn was_stopped(&self) -> bool {
        self.state.stop.is_set()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // SAFETY: made by trtdl_monitor_new; the configuration that knew it is gone (field order in
        // Config).
        unsafe { sys::trtdl_monitor_delete(self.library.api(), self.pointer) }
    }
}

unsafe extern "C" fn on_start(
    user: *mut c_void,
    phase: *const c_char,
    parent: *const c_char,
    steps: i32,
) {
    with(user, phase, |state, phase| state.progress.start(phase, text(parent).as_deref(), steps));
}

unsafe extern "C" fn on_step(user: *mut c_void, phase: *const c_char, step: i32) -> i32 {
    let heard = with(user, phase, |state, phase| {
        state.progress.step(phase, step);
        !state.stop.is_set()
    });
    i32::from(heard.unwrap_or(false))
}

unsafe extern "C" fn on_finish(user: *mut c_void, phase: *const c_char) {
    with(user, phase, |state, phase| state.progress.finish(phase));
}

/// Runs `act` with the state that `user` points to; none if it panicked, for a panic must not
/// unwind into TensorRT.
fn with<T>(
    user: *mut c_void,
    phase: *const c_char,
    act: impl FnOnce(&State, &str) -> T,
) -> Option<T> {
    // SAFETY: `user` is the State of a living Monitor; it is Sync, and nobody writes to it.
    let state = unsafe { user.cast::<State>().as_ref() }?;
    catch_unwind(AssertUnwindSafe(|| act(state, &text(phase).unwrap_or_default()))).ok()
}

fn text(words: *const c_char) -> Option<String> {
    // SAFETY: TensorRT passes NULL or a C string that is valid during the call.
    (!words.is_null()).then(|| unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned())
}
