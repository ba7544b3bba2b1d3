/*!
The memory of nvJPEG: device memory from the counted pool, pinned blocks on the host.
*/

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::sys::{Allocator, RawStream};
use crate::host_block::HostBlock;
use crate::{DriverMemory, Gpu};

/// Which of the allocators gives device memory.
pub(super) const DEVICE: usize = 0;
/// Which of them gives pinned host memory.
pub(super) const PINNED: usize = 1;

/// What CUDA gives back for success.
const OK: c_int = 0;
/// `cudaErrorMemoryAllocation`.
const OUT_OF_MEMORY: c_int = 2;
/// `cudaErrorInvalidValue`.
const INVALID_VALUE: c_int = 1;

/// The source of nvJPEG's memory; must outlive every object that was created with it.
#[derive(Debug)]
pub(super) struct Memory {
    device: DriverMemory,
    gpu: Gpu,
    pinned: Mutex<HashMap<usize, Arc<HostBlock>>>,
    asked: AtomicU64,
}

impl Memory {
    /// Memory of `gpu`, counted for its purpose.
    pub fn new(gpu: &Gpu) -> Self {
        let device = DriverMemory::new(gpu);
        Self { device, gpu: gpu.clone(), pinned: Mutex::default(), asked: AtomicU64::new(0) }
    }

    /// Allocations so far; a steady state adds none.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// The two allocators, [`DEVICE`] and [`PINNED`], for nvJPEG to call; valid as long as this
    /// value stays where it is.
    pub fn allocators(&self) -> [Allocator; 2] {
        let context = std::ptr::from_ref(self).cast_mut().cast::<c_void>();
        [
            Allocator { allocate: Some(give_device), release: Some(take_device), context },
            Allocator { allocate: Some(give_pinned), release: Some(take_pinned), context },
        ]
    }

    fn give(&self, pinned: bool, bytes: usize) -> Option<NonNull<c_void>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        // Neither of the driver's functions gives nothing.
        let bytes = bytes.max(1);
        if !pinned {
            return self.device.allocate(u64::try_from(bytes).ok()?, 0);
        }
        let block = HostBlock::new(&self.gpu, bytes);
        let block = block.inspect_err(|error| log::debug!("{error}")).ok()?;
        let address = block.address().cast::<c_void>();
        let mut given = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        given.insert(address.as_ptr() as usize, block);
        Some(address)
    }

    fn take(&self, pinned: bool, memory: NonNull<c_void>) -> bool {
        if !pinned {
            return self.device.release(memory);
        }
        let mut given = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        given.remove(&(memory.as_ptr() as usize)).is_some()
    }
}

/// # Safety
/// `context` is a living [`Memory`], `place` a place for an address.
unsafe fn give(context: *mut c_void, place: *mut *mut c_void, bytes: usize, pinned: bool) -> c_int {
    // SAFETY: the caller's promise; Memory is Sync.
    let memory = unsafe { context.cast::<Memory>().as_ref() };
    let given = catch_unwind(AssertUnwindSafe(|| memory?.give(pinned, bytes)));
    let (Some(given), false) = (given.ok().flatten(), place.is_null()) else {
        return OUT_OF_MEMORY;
    };
    // SAFETY: the caller's promise, and it is not null.
    unsafe { place.write(given.as_ptr()) };
    OK
}

/// # Safety
/// `context` is a living [`Memory`].
unsafe fn take(context: *mut c_void, memory: *mut c_void, pinned: bool) -> c_int {
    // CUDA takes null back too.
    let Some(block) = NonNull::new(memory) else { return OK };
    // SAFETY: the caller's promise; Memory is Sync.
    let memory = unsafe { context.cast::<Memory>().as_ref() };
    let taken =
        catch_unwind(AssertUnwindSafe(|| memory.is_some_and(|own| own.take(pinned, block))));
    if taken.unwrap_or(false) { OK } else { INVALID_VALUE }
}

unsafe extern "C" fn give_device(
    context: *mut c_void,
    place: *mut *mut c_void,
    bytes: usize,
    _: RawStream,
) -> c_int {
    // SAFETY: nvJPEG calls with the context that it got, and with a place.
    unsafe { give(context, place, bytes, false) }
}

unsafe extern "C" fn take_device(
    context: *mut c_void,
    memory: *mut c_void,
    _: usize,
    _: RawStream,
) -> c_int {
    // SAFETY: nvJPEG calls with the context that it got.
    unsafe { take(context, memory, false) }
}

unsafe extern "C" fn give_pinned(
    context: *mut c_void,
    place: *mut *mut c_void,
    bytes: usize,
    _: RawStream,
) -> c_int {
    // SAFETY: nvJPEG calls with the context that it got, and with a place.
    unsafe { give(context, place, bytes, true) }
}

unsafe extern "C" fn take_pinned(
    context: *mut c_void,
    memory: *mut c_void,
    _: usize,
    _: RawStream,
) -> c_int {
    // SAFETY: nvJPEG calls with the context that it got.
    unsafe { take(context, memory, true) }
}
