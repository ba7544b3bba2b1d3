/*!
Device memory from the driver for libraries that take an allocator. It counts in the GPU's pool.
*/

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};

use super::device::Gpu;

/// The driver promises this alignment (CUDA C++ programming guide, "Device memory accesses");
/// TensorRT 8.6 asks for 512.
const PROMISED: u64 = 256;

/// Device memory from cuMemAlloc.
#[derive(Debug)]
pub struct DriverMemory {
    gpu: Gpu,
    /// Addresses given out, with the driver's own address of each block and its size.
    given: Mutex<HashMap<usize, (sys::CUdeviceptr, usize)>>,
}

impl DriverMemory {
    /// Memory of this GPU.
    pub fn new(gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone(), given: Mutex::default() }
    }
}

impl DriverMemory {
    /// `bytes` of memory, aligned to `alignment` (0: any); none if there is not enough. The block
    /// is of at least that size and nobody else's until it is released.
    pub fn allocate(&self, bytes: u64, alignment: u64) -> Option<NonNull<c_void>> {
        self.gpu.bind().ok()?;
        let spare = alignment.saturating_sub(PROMISED);
        let size = usize::try_from(bytes.checked_add(spare)?).ok()?;
        // SAFETY: a context is current; TensorRT takes the content as unspecified.
        let block = unsafe { result::malloc_sync(size) };
        let block = block.inspect_err(|error| log::debug!("{size} bytes: {error}")).ok()?;
        let address = block.next_multiple_of(alignment.max(1));
        let Some(memory) = NonNull::new(address as *mut c_void) else {
            // SAFETY: just allocated, given to nobody.
            let _ = unsafe { result::free_sync(block) };
            return None;
        };
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.insert(memory.as_ptr() as usize, (block, size));
        self.gpu.count(size);
        Some(memory)
    }

    /// Frees memory; false for memory of another source. Waits for work that uses it.
    pub fn release(&self, memory: NonNull<c_void>) -> bool {
        let address = memory.as_ptr() as usize;
        // Forgotten before it is freed: the driver may give the same address to another thread at
        // once.
        let block = self.given.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
        let Some((block, size)) = block.filter(|_| self.gpu.bind().is_ok()) else { return false };
        self.gpu.discount(size);
        // SAFETY: the block came from malloc_sync above and was not freed since.
        unsafe { result::free_sync(block) }.is_ok()
    }
}
