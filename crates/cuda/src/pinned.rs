/*!
Pinned host memory: the device copies from and to it while the host goes on.

It is cached memory, not write-combined, as masks are read from it. A GPU that shares the host's
memory reads it in place, without a copy. Its device address stays in this module: nothing else
would make the host wait for the device.
*/

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::buffer::Buffer;
use super::device::Gpu;
use super::error::{GpuError, Result, Tried};
use super::host_block::HostBlock;
use super::stream::{Event, Stream, Wait};
use super::view::View;

/// A block of pinned host memory. The host reaches its bytes only when the device is done with
/// them.
#[derive(Debug)]
pub struct Pinned {
    block: Arc<HostBlock>,
    /// After the last work that uses the block.
    done: Event,
    in_use: bool,
}

impl Pinned {
    /// `bytes` bytes of zeros.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Self> {
        let block = HostBlock::new(gpu, bytes)?;
        Ok(Self { block, done: gpu.mark()?, in_use: false })
    }

    /// Its size, bytes.
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// It holds nothing.
    pub fn is_empty(&self) -> bool {
        self.block.len() == 0
    }

    /// Its bytes, to read and write; waits for the device's work with them.
    ///
    /// # Errors
    /// What went wrong in that work.
    pub fn bytes(&mut self) -> Result<&mut [u8]> {
        self.settle()?;
        // SAFETY: `bytes` bytes that live as long as this value. The device is done with them:
        // whatever was enqueued through this value lies before `done`: the caller of `view`
        // promises to drop it and to call `used_by`, both before this value is asked for its bytes.
        Ok(unsafe {
            std::slice::from_raw_parts_mut(self.block.address().as_ptr(), self.block.len())
        })
    }

    /// Copies its first `bytes` bytes to the start of `to`, in the stream's order; returns before
    /// that is done.
    ///
    /// # Errors
    /// More bytes than either has.
    pub fn upload(&mut self, bytes: usize, to: &View, stream: &Stream) -> Result<()> {
        let target = to.part(0, bytes)?;
        let source = self.first(bytes)?;
        self.block.gpu().bind()?;
        // SAFETY: both ranges have `bytes` bytes; the host does not touch its own before `done`
        // (see `bytes`), and both live until then: the device block's cuMemFree waits, and this
        // value's drop does.
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
        self.block.gpu().bind()?;
        // SAFETY: as in `upload`, in the other direction; `&mut self` proves that the host holds
        // none of these bytes.
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
    /// Work enqueued on the view only reads it. [`Pinned::used_by`] is called after that work, and
    /// the view is dropped, before this value is asked for its bytes.
    ///
    /// Safe code cannot have it:
    /// ```compile_fail
    /// fn write(pinned: &cuda::Pinned, stream: &cuda::Stream) -> cuda::Result<()> {
    ///     pinned.view()?.fill(1, stream)
    /// }
    /// ```
    pub unsafe fn view(&self) -> Result<View> {
        let mut address = 0;
        // SAFETY: the block was allocated as mapped; the driver writes one address to a place that
        // lives.
        unsafe {
            sys::cuMemHostGetDevicePointer_v2(&mut address, self.block.address().as_ptr().cast(), 0)
        }
        .result()
        .tried(|| "map pinned host memory".into())?;
        let gpu = self.block.gpu();
        Ok(View::of_buffer(Buffer::of_host(gpu, address, Arc::clone(&self.block))))
    }

    /// The work enqueued on `stream` so far uses this memory: the host waits for it before it
    /// touches the bytes.
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
        if bytes <= self.block.len() {
            return Ok(self.block.address().as_ptr());
        }
        let what = format!("copy {bytes} bytes from or to {} of pinned memory", self.block.len());
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
