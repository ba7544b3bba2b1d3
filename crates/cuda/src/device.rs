/*!
One GPU: its properties and memory, and the creation of streams and events.
*/

use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice_attribute, CUevent_flags};
use cudarc::driver::{CudaContext, result};

use super::constants::Constants;
use super::driver;
use super::error::{GpuError, Result, Tried, code, means_no_device};
use super::image::Modules;
use super::pool::{MemoryTag, Pool};
use super::recording::none_records;
use super::stream::{Event, Stream};

/// Properties of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its index among the devices that the driver shows, from 0.
    pub ordinal: usize,
    /// The driver's name ("NVIDIA H200", "Orin").
    pub name: String,
    /// Compute capability, 90 for 9.0.
    pub sm: u32,
    /// Total memory, bytes; on a Jetson the board's.
    pub total_bytes: u64,
    /// It shares the host's memory.
    pub unified: bool,
    /// Newest CUDA that the driver knows ("13.0").
    pub driver_cuda: String,
}

/// A GPU with its primary context. Cheap to clone, free to share.
#[derive(Clone, Debug)]
pub struct Gpu {
    context: Arc<CudaContext>,
    facts: Arc<Facts>,
    pool: Pool,
    purpose: MemoryTag,
    modules: Modules,
    constants: Option<Constants>,
    ampere_only: bool,
}

impl Gpu {
    /// Opens a device and makes its primary context current on the calling thread.
    ///
    /// # Errors
    /// [`GpuError::NoDriver`], [`GpuError::NoDevice`], or another error of the driver; never a
    /// panic.
    pub fn open(ordinal: usize) -> Result<Self> {
        driver::require()?;
        let no_device = |code| GpuError::NoDevice { ordinal, code };
        let sorted = |error| match means_no_device(error) {
            true => no_device(code(error)),
            false => GpuError::Failed { what: format!("open GPU {ordinal}"), code: code(error) },
        };
        let count = CudaContext::device_count().map_err(sorted)?;
        if i32::try_from(ordinal).map_or(true, |ordinal| ordinal >= count) {
            return Err(no_device(format!("it shows {count}")));
        }
        let context = CudaContext::new(ordinal).map_err(sorted)?;
        let facts = Arc::new(facts(&context, ordinal)?);
        log::debug!("opened GPU {ordinal}: {facts:?}");
        let (pool, purpose, modules) = Default::default();
        let constants = None;
        Ok(Self { context, facts, pool, purpose, modules, constants, ampere_only: false })
    }

    /// How many devices the driver shows.
    ///
    /// # Errors
    /// [`GpuError::NoDriver`], [`GpuError::NoDevice`] if it shows none, or another error of the
    /// driver.
    pub fn how_many() -> Result<usize> {
        driver::require()?;
        let count = CudaContext::device_count().map_err(|error| match means_no_device(error) {
            true => GpuError::NoDevice { ordinal: 0, code: code(error) },
            false => GpuError::Failed { what: "count the GPUs".into(), code: code(error) },
        })?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// Its properties.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The count of device memory, shared by all clones.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The same GPU, whose memory counts under the tag `purpose` from here on.
    pub fn tagged(&self, purpose: MemoryTag) -> Self {
        Self { purpose, ..self.clone() }
    }

    /// The same GPU, for which only kernels are chosen that every GPU from Ampere (sm 80) on can
    /// run.
    pub fn ampere_only(&self) -> Self {
        Self { ampere_only: true, ..self.clone() }
    }

    /// The same GPU, whose clones share memory with constant contents.
    pub fn sharing_constants(&self) -> Self {
        Self { constants: Some(Constants::default()), ..self.clone() }
    }

    /// Whether kernels with Hopper's instructions (sm 90a) may run.
    pub fn runs_hopper_kernels(&self) -> bool {
        self.facts.sm == 90 && !self.ampere_only
    }

    pub(super) fn count(&self, bytes: usize) {
        self.pool.took(self.purpose, bytes);
    }

    pub(super) fn discount(&self, bytes: usize) {
        self.pool.gave_back(self.purpose, bytes);
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(super) fn constants(&self) -> Option<&Constants> {
        self.constants.as_ref()
    }

    pub(super) fn modules(&self) -> &Modules {
        &self.modules
    }

    /// Its PCI address as NVML takes it (`00000000:1b:00.0`): other tools count GPUs in another
    /// order than CUDA does.
    pub fn pci_address(&self) -> Result<String> {
        use CUdevice_attribute as Attribute;
        let part = |attribute| self.context.attribute(attribute).tried(|| "say its address".into());
        let domain = part(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
        let bus = part(Attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
        let device = part(Attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
        Ok(format!("{domain:08x}:{bus:02x}:{device:02x}.0"))
    }

    /// Memory that is free and in all, bytes; on a Jetson the host's programs count too.
    pub fn memory_info(&self) -> Result<(u64, u64)> {
        let (free, total) = self.context.mem_get_info().tried(|| "say its free memory".into())?;
        Ok((free as u64, total as u64))
    }

    /// Makes the context current on the calling thread; needed before TensorRT is called on a new
    /// thread.
    pub fn bind(&self) -> Result<()> {
        self.context.bind_to_thread().tried(|| "make its context current".into())
    }

    /// How many multiprocessors it has.
    pub fn multiprocessors(&self) -> Result<u32> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let count = self.context.attribute(attribute).tried(|| "count its processors".into())?;
        Ok(u32::try_from(count).unwrap_or_default())
    }

    /// Waits for all work on the device, of all threads; first until no thread records.
    ///
    /// # Errors
    /// What went wrong in work enqueued earlier; the context is lost then.
    pub fn synchronize(&self) -> Result<()> {
        let _none = none_records();
        self.context.synchronize().tried(|| "finish its work".into())
    }

    /// A stream that does not wait for the default stream.
    pub fn stream(&self) -> Result<Stream> {
        self.context.new_stream().map(Stream::new).tried(|| "make a stream".into())
    }

    /// An event that takes the time.
    pub fn event(&self) -> Result<Event> {
        // Without a flag cudarc creates events without time.
        let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
        self.context.new_event(flags).map(Event::new).tried(|| "make an event".into())
    }

    /// An event that only orders work: cheaper than one that takes the time.
    pub fn mark(&self) -> Result<Event> {
        let flags = Some(CUevent_flags::CU_EVENT_DISABLE_TIMING);
        self.context.new_event(flags).map(Event::new).tried(|| "make an event".into())
    }
}

fn facts(context: &CudaContext, ordinal: usize) -> Result<Facts> {
    let say = |what: &'static str| move || format!("say its {what}");
    let (major, minor) = context.compute_capability().tried(say("compute capability"))?;
    let unified = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED;
    Ok(Facts {
        ordinal,
        name: result::device::get_name(context.cu_device()).tried(say("name"))?,
        sm: u32::try_from(10 * major + minor).unwrap_or_default(),
        total_bytes: context.total_mem().tried(say("memory"))? as u64,
        unified: context.attribute(unified).tried(say("kind of memory"))? != 0,
        driver_cuda: cuda_version(driver_version()?),
    })
}

fn driver_version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: the driver writes one int to a place that lives through the call.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().tried(|| "say its version".into())?;
    Ok(version)
}

/// "12.2" for 12020.
fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_versions_read_as_people_write_them() {
        assert_eq!(cuda_version(13000), "13.0");
        assert_eq!(cuda_version(12020), "12.2");
        assert_eq!(cuda_version(11040), "11.4");
    }
}
