/*!
An allocator for TensorRT's device memory that counts: the peak of a build or an engine, and a cap
on the sum.

TensorRT caps only its workspace and the memory of its tactics.
*/

use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::library::Library;
use super::sys;

/// A source of device memory, which the caller implements with the CUDA driver or runtime.
///
/// # Safety
/// `allocate` must give device memory of that size and alignment on the device that TensorRT uses,
/// not in use elsewhere until `release` gets it back. `release` must not free memory that work
/// already enqueued may still touch (`cuMemFree` waits for it). Both are called from TensorRT's
/// threads.
pub unsafe trait DeviceMemory: Send + Sync {
    /// `bytes` of memory, aligned to `alignment` bytes (0: any); none if there is not enough.
    fn allocate(&self, bytes: u64, alignment: u64) -> Option<NonNull<c_void>>;
    /// Frees memory; false for memory of another source.
    fn release(&self, memory: NonNull<c_void>) -> bool;
}

/// Device memory that an allocator gave out, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Held now.
    pub current: u64,
    /// The largest sum held at once.
    pub peak: u64,
    /// The largest request that the cap refused.
    pub refused: u64,
}

/// The shim's allocator with what it calls; must outlive every object that was made with it.
pub(super) struct Allocator {
    pointer: *mut c_void,
    library: Library,
    meter: Arc<Meter>,
}

pub(super) struct Meter {
    memory: Arc<dyn DeviceMemory>,
    cap: Option<u64>,
    state: Mutex<(MemoryUse, HashMap<usize, u64>)>,
}

impl Allocator {
    pub(super) fn new(
        library: &Library,
        memory: Arc<dyn DeviceMemory>,
        cap: Option<u64>,
    ) -> Option<Self> {
        let meter = Arc::new(Meter { memory, cap, state: Mutex::default() });
        let fns = sys::trtdl_allocator_fns {
            user: Arc::as_ptr(&meter).cast_mut().cast(),
            allocate: Some(on_allocate),
            release: Some(on_release),
        };
        // SAFETY: the callbacks take a Meter, which this value keeps alive beside the allocator
        // that calls them.
        let pointer = unsafe { sys::trtdl_allocator_new(library.api(), fns) };
        (!pointer.is_null()).then(|| Self { pointer, library: library.clone(), meter })
    }

    pub(super) fn get(&self) -> *mut c_void {
        self.pointer
    }

    pub(super) fn usage(&self) -> MemoryUse {
        self.meter.lock().0
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        // SAFETY: made by trtdl_allocator_new; its owner drops it after the objects that use it.
        unsafe { sys::trtdl_allocator_delete(self.library.api(), self.pointer) }
    }
}

impl Meter {
    fn lock(&self) -> MutexGuard<'_, (MemoryUse, HashMap<usize, u64>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allocate(&self, bytes: u64, alignment: u64) -> Option<NonNull<c_void>> {
        if bytes == 0 {
            return None;
        }
        let mut state = self.lock();
        let (usage, sizes) = &mut *state;
        let after = usage.current.saturating_add(bytes);
        if self.cap.is_some_and(|cap| after > cap) {
            usage.refused = usage.refused.max(bytes);
            return None;
        }
        let memory = self.memory.allocate(bytes, alignment)?;
        sizes.insert(memory.as_ptr() as usize, bytes);
        usage.current = after;
        usage.peak = usage.peak.max(after);
        Some(memory)
    }

    fn release(&self, memory: NonNull<c_void>) -> bool {
        let mut state = self.lock();
        let (usage, sizes) = &mut *state;
        let Some(bytes) = sizes.remove(&(memory.as_ptr() as usize)) else { return false };
        usage.current = usage.current.saturating_sub(bytes);
        self.memory.release(memory)
    }
}

unsafe extern "C" fn on_allocate(user: *mut c_void, bytes: u64, alignment: u64) -> *mut c_void {
    // SAFETY: `user` is the Meter of a living Allocator; it is Sync.
    let meter = unsafe { user.cast::<Meter>().as_ref() };
    let memory = catch_unwind(AssertUnwindSafe(|| meter?.allocate(bytes, alignment)));
    memory.ok().flatten().map_or(std::ptr::null_mut(), NonNull::as_ptr)
}

unsafe extern "C" fn on_release(user: *mut c_void, memory: *mut c_void) -> i32 {
    // TensorRT may give back the null pointer that it once got.
    let Some(memory) = NonNull::new(memory) else { return 1 };
    // SAFETY: `user` is the Meter of a living Allocator; it is Sync.
    let meter = unsafe { user.cast::<Meter>().as_ref() };
    let done = catch_unwind(AssertUnwindSafe(|| meter.is_some_and(|meter| meter.release(memory))));
    i32::from(done.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Host;

    // SAFETY: only this test uses it, as addresses that nobody reads.
    unsafe impl DeviceMemory for Host {
        fn allocate(&self, bytes: u64, _: u64) -> Option<NonNull<c_void>> {
            let block = vec![0_u8; bytes as usize].into_boxed_slice();
            NonNull::new(Box::leak(block).as_mut_ptr().cast())
        }
        fn release(&self, _: NonNull<c_void>) -> bool {
            true
        }
    }

    #[test]
    fn the_cap_refuses_and_the_peak_stays() {
        let meter = Meter { memory: Arc::new(Host), cap: Some(100), state: Mutex::default() };
        let first = meter.allocate(60, 0).unwrap();
        assert!(meter.allocate(50, 0).is_none() && meter.allocate(0, 0).is_none());
        let second = meter.allocate(40, 0).unwrap();
        assert!(meter.release(first) && !meter.release(first) && meter.release(second));
        assert_eq!(meter.lock().0, MemoryUse { current: 0, peak: 100, refused: 50 });
    }
}
