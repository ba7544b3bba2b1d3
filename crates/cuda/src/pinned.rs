/*!
Host memory that the device copies from and to by itself, while the host goes on.

It is ordinary cached memory, not write-combined: masks are read from it. On a GPU that shares the host's memory the
device reads it in place ([`Frame::Pinned`](super::kernels::Frame::Pinned)), and nothing is copied.
Its address there stays in this module, as nothing else would make the host wait for the device.
*/

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::buffer::Buffer;
use super::device::Gpu;
use super::error::{GpuError, Result, Tried};
use super::stream::{Event, Stream, Wait};
use super::view::View;

/// Usable from every context, and mapped for the device.
const FLAGS: u32 = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;

/// The memory itself; goes back with its last owner.
#[derive(Debug)]
pub(super) struct Block {
    address: NonNull<u8>,
    bytes: usize,
    gpu: Gpu,
}

// SAFETY: it is plain memory of the process; who may touch it when is decided by its owner.
unsafe impl Send for Block {}
// SAFETY: shared owners only keep it alive.
unsafe impl Sync for Block {}

impl Block {
    /// `bytes` bytes of zeros.
    pub(super) fn new(gpu: &Gpu, bytes: usize) -> Result<Arc<Self>> {
        gpu.bind()?;
        let what = || format!("give {bytes} bytes of pinned host memory");
        // SAFETY: a context is current; the memory is made zero before anybody reads it.
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

    /// Its first byte.
    pub(super) fn address(&self) -> NonNull<u8> {
        self.address
    }
}

impl Drop for Block {
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

/// A block of pinned host memory. The host reaches its bytes only when the device is done with them.
#[derive(Debug)]
pub struct Pinned {
    block: Arc<Block>,
    /// Behind the last work that uses the block.
    done: Event,
    in_use: bool,
}

impl Pinned {
    /// `bytes` bytes of zeros.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        let block = Block::new(gpu, bytes)?;
        Ok(Self { block, done: gpu.mark()?, in_use: false })
    }

    /// Its size, bytes.
    pub fn len(&self) -> usize {
        self.block.bytes
    }

    /// It holds nothing.
    pub fn is_empty(&self) -> bool {
        self.block.bytes == 0
    }

    /// Its bytes, to read and write; waits for the device's work with them.
    ///
    /// # Errors
    /// What went wrong in that work.
    pub fn bytes(&mut self) -> Result<&mut [u8]> {
        self.settle()?;
        // SAFETY: `bytes` bytes that live as long as this value. The device is done with them: whatever was enqueued
        // through this value lies before `done`: whoever takes a `view` promises to drop it and to say `used_by`, both
        // before this value is asked for its bytes.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.block.address.as_ptr(), self.block.bytes) })
    }

    /// Copies its first `bytes` bytes to the start of `to`, in the stream's order; returns before that is done.
    ///
    /// # Errors
    /// More bytes than either has.
    pub fn upload(&mut self, bytes: usize, to: &View, stream: &Stream) -> Result<()> {
        let target = to.part(0, bytes)?;
        let source = self.first(bytes)?;
        self.block.gpu.bind()?;
        // SAFETY: both ranges have `bytes` bytes; the host does not touch its own before `done` (see `bytes`), and
        // both live until then: the device block's cuMemFree waits, and this value's drop does.
        unsafe {
            let source = std::slice::from_raw_parts(source.cast_const(), bytes);
            result::memcpy_htod_async(target.address() as u64, source, stream.inner().cu_stream())
        }
        .tried(|| format!("copy {bytes} bytes to the device"))?;
        self.used_by(stream)
    }

    /// Copies all of `from` to its start, in the stream's order; returns before that is done.
    ///
    /// # Errors
    /// More bytes than it has.
    pub fn download(&mut self, from: &View, stream: &Stream) -> Result<()> {
        let (bytes, target) = (from.len(), self.first(from.len())?);
        self.block.gpu.bind()?;
        // SAFETY: as in `upload`, the other way round; `&mut self` says that the host holds none of these bytes.
        unsafe {
            let target = std::slice::from_raw_parts_mut(target, bytes);
            result::memcpy_dtoh_async(target, from.address() as u64, stream.inner().cu_stream())
        }
        .tried(|| format!("copy {bytes} bytes from the device"))?;
        self.used_by(stream)
    }

    /// The same memory as the device sees it.
    ///
    /// # Errors
    /// The driver cannot map it.
    ///
    /// # Safety
    /// Work enqueued on the view only reads it. [`Pinned::used_by`] is called behind that work, and the view is dropped,
    /// before this value is asked for its bytes.
    ///
    /// Safe code cannot have it:
    /// ```compile_fail
    /// fn write(pinned: &cuda::Pinned, stream: &cuda::Stream) -> cuda::Result<()> {
    ///     pinned.view()?.fill(1, stream)
    /// }
    /// ```
    pub unsafe fn view(&self) -> Result<View> {
        let mut address = 0;
        // SAFETY: the block was allocated as mapped; the driver writes one address to a place that lives.
        unsafe {
            sys::cuMemHostGetDevicePointer_v2(&mut address, self.block.address.as_ptr().cast(), 0)
        }
        .result()
        .tried(|| "map pinned host memory".into())?;
        let gpu = &self.block.gpu;
        Ok(View::of_buffer(Buffer::of_host(gpu, address, Arc::clone(&self.block))))
    }

    /// The work enqueued on `stream` so far uses this memory: the host waits for it before it touches the bytes.
    ///
    /// # Errors
    /// The event cannot be recorded; the stream has then been waited for.
    pub fn used_by(&mut self, stream: &Stream) -> Result<()> {
        self.in_use = true;
        // Without the event nobody could wait for that work any more.
        self.done.record(stream).inspect_err(|_| {
            if let Err(error) = stream.synchronize() {
                log::debug!("{error}");
            }
        })
    }

    fn first(&self, bytes: usize) -> Result<*mut u8> {
        if bytes <= self.block.bytes {
            return Ok(self.block.address.as_ptr());
        }
        let what = format!("copy {bytes} bytes from or to {} of pinned memory", self.block.bytes);
        Err(GpuError::Failed { what, code: "it is too small".to_owned() })
    }

    fn settle(&mut self) -> Result<()> {
        if self.in_use {
            self.done.synchronize(Wait::Block)?;
            self.in_use = false;
        }
        Ok(())
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The device may still copy; memory must not go before that.
        if let Err(error) = self.settle() {
            log::debug!("{error}");
        }
    }
}
