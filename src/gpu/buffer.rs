/*!
Device memory with an owner.
*/

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::device::Gpu;
use super::error::{Result, Tried};
use super::pinned::Block;
use super::stream::Stream;

/// A block of device memory; goes back to the driver when it is dropped, after the work that uses it.
#[derive(Debug)]
pub struct Buffer {
    address: sys::CUdeviceptr,
    bytes: usize,
    gpu: Gpu,
    /// The host memory that this is the device's view of; none for memory of the device's own.
    host: Option<Arc<Block>>,
}

impl Buffer {
    pub(super) fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        gpu.bind()?;
        // The driver gives no empty blocks, and engines may have empty tensors.
        // SAFETY: a context is current; nobody reads the memory before it is written through this value.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }
            .tried(|| format!("give {bytes} bytes of device memory"))?;
        gpu.count(bytes.max(1));
        Ok(Self { address, bytes, gpu: gpu.clone(), host: None })
    }

    /// Host memory under the address by which the device reaches it. It is not device memory, and not counted as such.
    pub(super) fn of_host(gpu: &Gpu, address: sys::CUdeviceptr, host: Arc<Block>) -> Self {
        Self { address, bytes: host.len(), gpu: gpu.clone(), host: Some(host) }
    }

    /// Its size, bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// It holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device address, 256-byte aligned; it lives as long as this value.
    pub fn address(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    pub(super) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Sets every byte, in the stream's order.
    pub fn fill(&mut self, byte: u8, stream: &Stream) -> Result<()> {
        self.gpu.bind()?;
        // SAFETY: the range is this buffer; the driver frees it only after work that is enqueued.
        unsafe {
            let raw = stream.inner().cu_stream();
            result::memset_d8_async(self.address, byte, self.bytes, raw)
        }
        .tried(|| format!("fill {} bytes", self.bytes))
    }

    /// Copies host bytes to its start, in the stream's order, and waits for it.
    ///
    /// # Errors
    /// More bytes than it has room for.
    pub fn upload(&mut self, bytes: &[u8], stream: &Stream) -> Result<()> {
        self.check(bytes.len())?;
        self.gpu.bind()?;
        // SAFETY: the range lies inside this buffer, and `bytes` is borrowed until the copy is done.
        unsafe { result::memcpy_htod_async(self.address, bytes, stream.inner().cu_stream()) }
            .tried(|| format!("copy {} bytes to the device", bytes.len()))?;
        stream.synchronize()
    }

    /// Copies all of it to the host, in the stream's order, and waits for it.
    pub fn download(&self, stream: &Stream) -> Result<Vec<u8>> {
        self.gpu.bind()?;
        let mut bytes = vec![0; self.bytes];
        // SAFETY: both ranges are as long as this buffer, and `bytes` outlives the copy: it is waited for below.
        let enqueued = unsafe {
            let raw = stream.inner().cu_stream();
            result::memcpy_dtoh_async(&mut bytes, self.address, raw)
        };
        stream.synchronize()?;
        enqueued.tried(|| format!("copy {} bytes from the device", self.bytes))?;
        Ok(bytes)
    }

    fn check(&self, bytes: usize) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let what = format!("copy {bytes} bytes into a buffer of {}", self.bytes);
        Err(super::GpuError::Failed { what, code: "it is too small".to_owned() })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.host.is_some() {
            return;
        }
        self.gpu.discount(self.bytes.max(1));
        let freed = self.gpu.bind().and_then(|()| {
            // SAFETY: the address came from malloc_sync and is freed here only; cuMemFree waits for work that uses it.
            unsafe { result::free_sync(self.address) }.tried(|| "take memory back".into())
        });
        // A context that was lost to an earlier fault takes nothing back; the process's end does.
        if let Err(error) = freed {
            log::debug!("{error}");
        }
    }
}
