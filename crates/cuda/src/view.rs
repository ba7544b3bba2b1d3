/*!
Shared parts of device memory: the arguments of kernels, engines and copies.
*/

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::result;

use super::buffer::Buffer;
use super::constants::ContentHash;
use super::device::Gpu;
use super::error::{GpuError, Result, Tried};
use super::stream::Stream;

/// A range of a block of device memory, which lives as long as its last view.
///
/// Views of one buffer may overlap. What work on different streams reads and writes in them is
/// ordered by events, as on the device itself; a missing order gives wrong numbers, never memory
/// that is gone.
#[derive(Clone, Debug)]
pub struct View {
    buffer: Arc<Buffer>,
    offset: usize,
    bytes: usize,
}

impl View {
    /// A new block of device memory, 256-byte aligned, seen whole; its content is unspecified.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        Ok(Self::of_buffer(Buffer::new(gpu, bytes)?))
    }

    pub(super) fn of_buffer(buffer: Buffer) -> Self {
        Self::of_shared(Arc::new(buffer))
    }

    /// All of a block.
    fn of_shared(buffer: Arc<Buffer>) -> Self {
        let bytes = buffer.len();
        Self { buffer, offset: 0, bytes }
    }

    /// Memory whose contents never change: where clones of the GPU share such memory, what has the
    /// same `contents` already; else the new block that `make` fills on `stream`.
    ///
    /// # Errors
    /// Those of `make`, or of its work on the stream.
    pub fn constant(
        gpu: &Gpu,
        stream: &Stream,
        contents: impl FnOnce() -> ContentHash,
        make: impl FnOnce() -> Result<Self>,
    ) -> Result<Self> {
        let Some(constants) = gpu.constants() else { return make() };
        let made = constants.get(contents(), || {
            let made = make()?;
            // Another owner reads it on another stream.
            stream.synchronize()?;
            Ok::<_, GpuError>(made.buffer)
        });
        Ok(Self::of_shared(made?))
    }

    /// The `bytes` bytes from `offset` on.
    ///
    /// # Errors
    /// A range that reaches beyond this view.
    pub fn part(&self, offset: usize, bytes: usize) -> Result<Self> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let what =
                format!("take bytes {offset}..{} of {}", offset.saturating_add(bytes), self.bytes);
            return Err(GpuError::Failed { what, code: "the range is outside".to_owned() });
        }
        Ok(Self { buffer: Arc::clone(&self.buffer), offset: self.offset + offset, bytes })
    }

    /// Its size, bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The device address of its first byte; it lives as long as any view of the buffer.
    pub fn address(&self) -> *mut c_void {
        self.buffer.address().wrapping_byte_add(self.offset)
    }

    /// Sets every byte, in the stream's order.
    pub fn fill(&self, byte: u8, stream: &Stream) -> Result<()> {
        self.buffer.gpu().bind()?;
        // SAFETY: the range lies inside the buffer, which the driver frees only after work that is
        // enqueued.
        unsafe {
            let raw = stream.inner().cu_stream();
            result::memset_d8_async(self.address() as u64, byte, self.bytes, raw)
        }
        .tried(|| format!("fill {} bytes", self.bytes))
    }

    /// Copies host bytes to its start, in the stream's order, and waits for it.
    ///
    /// # Errors
    /// More bytes than it has room for.
    pub fn upload(&self, bytes: &[u8], stream: &Stream) -> Result<()> {
        let target = self.part(0, bytes.len())?;
        self.buffer.gpu().bind()?;
        // SAFETY: the range lies inside the buffer, and `bytes` is borrowed until the copy is done.
        unsafe {
            let raw = stream.inner().cu_stream();
            result::memcpy_htod_async(target.address() as u64, bytes, raw)
        }
        .tried(|| format!("copy {} bytes to the device", bytes.len()))?;
        stream.synchronize()
    }

    /// Copies another view of the same size to this one on the device, in the stream's order.
    ///
    /// # Errors
    /// Views of different sizes or GPUs.
    pub fn copy_from(&self, from: &Self, stream: &Stream) -> Result<()> {
        if from.bytes != self.bytes {
            let what = format!("copy {} bytes to {}", from.bytes, self.bytes);
            return Err(GpuError::Failed { what, code: "the sizes differ".to_owned() });
        }
        self.buffer.gpu().bind()?;
        // SAFETY: both ranges are as long as this view, inside buffers that the driver frees only
        // after work that is enqueued.
        unsafe {
            let raw = stream.inner().cu_stream();
            result::memcpy_dtod_async(self.address() as u64, from.address() as u64, self.bytes, raw)
        }
        .tried(|| format!("copy {} bytes on the device", self.bytes))
    }

    /// Copies all of it to the host, in the stream's order, and waits for it.
    pub fn download(&self, stream: &Stream) -> Result<Vec<u8>> {
        self.buffer.gpu().bind()?;
        let mut bytes = vec![0; self.bytes];
        // SAFETY: both ranges are as long as this view, and `bytes` outlives the copy: it is waited
        // for below.
        let enqueued = unsafe {
            let raw = stream.inner().cu_stream();
            result::memcpy_dtoh_async(&mut bytes, self.address() as u64, raw)
        };
        stream.synchronize()?;
        enqueued.tried(|| format!("copy {} bytes from the device", self.bytes))?;
        Ok(bytes)
    }
}
