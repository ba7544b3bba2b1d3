/*!
A file that the device reads where the host maps it, without a copy in host memory.
*/

use std::path::Path;
use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
use cudarc::driver::{result, sys};
use mmap_io::MemoryMappedFile;

use super::device::Gpu;
use super::driver;
use super::error::{GpuError, Result, Tried};
use super::stream::Stream;
use super::view::View;

/// Functions that older code of this crate does not need.
const FUNCTIONS: [&str; 2] = ["cuMemHostRegister_v2", "cuMemHostUnregister"];
/// Usable from every context, and never written.
const FLAGS: u32 = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_READ_ONLY;

/// A read-only mapping that is registered with the driver. Whoever truncates the file ends the
/// process, as with any mapping.
pub struct MappedFile {
    map: MemoryMappedFile,
    gpu: Gpu,
}

impl std::fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MappedFile").field("bytes", &self.map.len()).finish_non_exhaustive()
    }
}

impl MappedFile {
    /// Maps a file and registers all of it.
    ///
    /// # Errors
    /// The file cannot be mapped, or the platform registers no read-only memory.
    pub fn register(gpu: &Gpu, path: &Path) -> Result<Arc<Self>> {
        let what = || format!("register {} for direct copies", path.display());
        let refused = |code: String| GpuError::Failed { what: what(), code };
        let attribute = CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
        let supported = gpu.context().attribute(attribute).tried(what)? != 0;
        if !supported || !driver::offers(&FUNCTIONS) {
            return Err(refused("it registers no read-only memory".to_owned()));
        }
        let map = MemoryMappedFile::open_ro(path).map_err(|error| refused(error.to_string()))?;
        gpu.bind()?;
        let bytes = all(&map).map_err(refused)?;
        let address = bytes.as_ptr().cast_mut().cast();
        // SAFETY: a context is current, and the range is a whole mapping that lives as long as
        // this value, whose drop unregisters it. The flag promises that nobody writes there.
        unsafe { sys::cuMemHostRegister_v2(address, bytes.len(), FLAGS) }.result().tried(what)?;
        Ok(Arc::new(Self { map, gpu: gpu.clone() }))
    }

    /// Copies the `bytes` bytes from `offset` on to the start of `to`, in the stream's order;
    /// returns before that is done.
    ///
    /// # Errors
    /// A range outside the file or the view.
    pub fn upload(&self, offset: usize, bytes: usize, to: &View, stream: &Stream) -> Result<()> {
        let what = || format!("copy {bytes} mapped bytes to the device");
        let outside =
            || GpuError::Failed { what: what(), code: "the range is outside the file".to_owned() };
        let target = to.part(0, bytes)?;
        let mapped = all(&self.map).map_err(|code| GpuError::Failed { what: what(), code })?;
        let end = offset.checked_add(bytes).ok_or_else(outside)?;
        let source = mapped.get(offset..end).ok_or_else(outside)?;
        self.gpu.bind()?;
        // SAFETY: the target lies inside its buffer, which the driver frees only after enqueued
        // work; the mapping is never written, and its drop waits for the device.
        unsafe {
            let raw = stream.inner().cu_stream();
            result::memcpy_htod_async(target.address() as u64, source, raw)
        }
        .tried(what)
    }
}

/// All bytes of a mapping.
fn all(map: &MemoryMappedFile) -> std::result::Result<&[u8], String> {
    map.as_slice_bytes(0, map.len()).map_err(|error| error.to_string())
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // Enqueued copies may still read it.
        if let Err(error) = self.gpu.synchronize() {
            log::debug!("{error}");
        }
        let Ok(bytes) = all(&self.map) else { return };
        // SAFETY: the range was registered by `register`, and is unregistered here only.
        let gone = unsafe { sys::cuMemHostUnregister(bytes.as_ptr().cast_mut().cast()) }.result();
        if let Err(error) = gone {
            log::debug!("{error}");
        }
    }
}
