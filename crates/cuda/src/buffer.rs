/*!
Device memory with an owner; all access goes through its views.
*/

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::device::Gpu;
use super::error::{Result, Tried};
use super::host_block::HostBlock;

/// A block of device memory; freed when it is dropped, after the work that uses it.
#[derive(Debug)]
pub(super) struct Buffer {
    address: sys::CUdeviceptr,
    bytes: usize,
    gpu: Gpu,
    /// The host memory that this is a device view of; none for device memory.
    host: Option<Arc<HostBlock>>,
}

impl Buffer {
    pub(super) fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        gpu.bind()?;
        // The driver gives no empty blocks, and engines may have empty tensors. SAFETY: a context
        // is current; the host never reads the block but through copies that the driver orders.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }
            .tried(|| format!("give {bytes} bytes of device memory"))?;
        gpu.count(bytes.max(1));
        Ok(Self { address, bytes, gpu: gpu.clone(), host: None })
    }

    /// Host memory under the address by which the device reaches it. It is not device memory, and
    /// not counted as such.
    pub(super) fn of_host(gpu: &Gpu, address: sys::CUdeviceptr, host: Arc<HostBlock>) -> Self {
        Self { address, bytes: host.len(), gpu: gpu.clone(), host: Some(host) }
    }

    /// Its size, bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// The device address, 256-byte aligned; it lives as long as this value.
    pub(super) fn address(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.host.is_some() {
            return;
        }
        self.gpu.discount(self.bytes.max(1));
        let freed = self.gpu.bind().and_then(|()| {
            // SAFETY: the address came from malloc_sync and is freed here only; cuMemFree waits for
            // work that uses it.
            unsafe { result::free_sync(self.address) }.tried(|| "take memory back".into())
        });
        // A context that was lost to an earlier fault takes nothing back; the process's end does.
        if let Err(error) = freed {
            log::debug!("{error}");
        }
    }
}
