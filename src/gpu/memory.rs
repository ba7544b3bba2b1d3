/*!
The driver's memory for TensorRT: where its own allocator would call the CUDA runtime, this calls the driver, and can
be counted and capped on the way.
*/

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use super::device::Gpu;
use crate::trt::DeviceMemory;

/// The driver aligns its blocks to this (CUDA C++ programming guide, "Device memory accesses").
const ALIGNMENT: u64 = 256;

/// Device memory from cuMemAlloc.
#[derive(Debug)]
pub struct DriverMemory {
    gpu: Gpu,
    given: Mutex<HashSet<usize>>,
}

impl DriverMemory {
    /// Memory of this GPU.
    pub fn new(gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone(), given: Mutex::default() }
    }
}

// SAFETY: blocks are cuMemAlloc's own, of at least the size asked for, aligned as checked, and free for nobody else
// until cuMemFree, which waits for work that uses them. The context is made current on whatever thread calls.
unsafe impl DeviceMemory for DriverMemory {
    fn allocate(&self, bytes: u64, alignment: u64) -> Option<NonNull<c_void>> {
        // An alignment that is no divisor of the driver's own cannot be promised.
        if alignment != 0 && !ALIGNMENT.is_multiple_of(alignment) {
            log::warn!(
                "TensorRT asked for device memory aligned to {alignment} bytes, which the driver does not give"
            );
            return None;
        }
        self.gpu.bind().ok()?;
        let bytes = usize::try_from(bytes).ok()?;
        // SAFETY: a context is current; TensorRT takes the content as unspecified.
        let address = unsafe { result::malloc_sync(bytes) };
        let address = address.inspect_err(|error| log::debug!("{bytes} bytes: {error}")).ok()?;
        let memory = NonNull::new(address as *mut c_void)?;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.insert(memory.as_ptr() as usize);
        Some(memory)
    }

    fn release(&self, memory: NonNull<c_void>) -> bool {
        let address = memory.as_ptr() as usize;
        // Forgotten before it is freed: the driver may give the same address to another thread at once.
        let ours = self.given.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
        if !ours || self.gpu.bind().is_err() {
            return false;
        }
        // SAFETY: the address came from malloc_sync above and was not freed since.
        unsafe { result::free_sync(address as sys::CUdeviceptr) }.is_ok()
    }
}
