/*!
A block of pinned host memory, shared by its owner and by device views of it.
*/

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::device::Gpu;
use super::error::{GpuError, Result, Tried};

/// Usable from every context, and mapped for the device.
const FLAGS: u32 = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;

/// A block of pinned host memory; freed with its last owner.
#[derive(Debug)]
pub(super) struct HostBlock {
    address: NonNull<u8>,
    bytes: usize,
    gpu: Gpu,
}

// SAFETY: it is plain memory of the process; its owner decides who may touch it when.
unsafe impl Send for HostBlock {}
// SAFETY: shared owners only keep it alive.
unsafe impl Sync for HostBlock {}

impl HostBlock {
    /// `bytes` bytes of zeros.
    pub(super) fn new(gpu: &Gpu, bytes: usize) -> Result<Arc<Self>> {
        gpu.bind()?;
        let what = || format!("give {bytes} bytes of pinned host memory");
        // SAFETY: a context is current; the memory is zeroed before anybody reads it.
        let address = unsafe { result::malloc_host(bytes.max(1), FLAGS) }.tried(what)?;
        let refused = || GpuError::Failed { what: what(), code: "it gave a null pointer".into() };
        let address = NonNull::new(address.cast::<u8>()).ok_or_else(refused)?;
        // SAFETY: as many bytes were just given, and nobody else knows them.
        unsafe { address.as_ptr().write_bytes(0, bytes) };
        Ok(Arc::new(Self { address, bytes, gpu: gpu.clone() }))
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Its first byte.
    pub(super) fn address(&self) -> NonNull<u8> {
        self.address
    }
}

impl Drop for HostBlock {
    fn drop(&mut self) {
        let freed = self.gpu.bind().and_then(|()| {
            // SAFETY: the address came from malloc_host and is freed here only.
            unsafe { result::free_host(self.address.as_ptr().cast()) }
                .tried(|| "take host memory back".into())
        });
        if let Err(error) = freed {
            log::debug!("{error}");
        }
    }
}
