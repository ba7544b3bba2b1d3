/*!
The driver's memory for TensorRT, whose default allocator calls the CUDA runtime. The memory is
counted, and can be capped.
*/
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;

use cuda::{DriverMemory, Gpu};
use tensorrt::DeviceMemory;

/// Device memory of one GPU, as TensorRT asks for it.
#[derive(Debug)]
pub struct TensorRtMemory(DriverMemory);

impl TensorRtMemory {
    /// Memory of this GPU.
    pub fn new(gpu: &Gpu) -> Self {
        Self(DriverMemory::new(gpu))
    }
}

// SAFETY: blocks are cuMemAlloc's own, of at least the size asked for, aligned by leaving out their
// start, and free for nobody else until cuMemFree, which waits for work that uses them. The context
// is made current on whatever thread calls.
unsafe impl DeviceMemory for TensorRtMemory {
    fn allocate(&self, bytes: u64, alignment: u64) -> Option<NonNull<c_void>> {
        self.0.allocate(bytes, alignment)
    }

    fn release(&self, memory: NonNull<c_void>) -> bool {
        self.0.release(memory)
    }
}
