/*!
Compiled kernels: modules, functions and their launches.
*/

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUfunction_attribute, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue,
    CUlaunchConfig,
};
use cudarc::driver::{CudaFunction, CudaModule, DriverError, result};
use cudarc::nvrtc::Ptx;

use super::device::Gpu;
use super::driver;
use super::error::{GpuError, Result, Tried};
use super::image::Image;
use super::launches;
use super::stream::Stream;
use super::tensor_map::TensorMap;
use super::view::View;

/// A loaded module; gone with its last function.
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<CudaModule>,
    gpu: Gpu,
}

/// A kernel of a module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Function {
    inner: CudaFunction,
    name: Arc<str>,
    parameters: &'static str,
    gpu: Gpu,
    /// Shared memory of each launch beyond what the kernel declares, bytes.
    shared: u32,
    /// Waits itself for the previous kernel.
    waits: bool,
    /// Launched by programmatic dependent launch; only where `waits`.
    pdl: bool,
}

/// Blocks and threads of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y and z.
    pub grid: (u32, u32, u32),
    /// Threads of a block, along x.
    pub threads: u32,
}

/// When a kernel may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchMode {
    /// After all previous work of the stream.
    #[default]
    Ordered,
    /// Programmatic dependent launch: while the last blocks of the previous kernel still run. The
    /// kernel waits itself for the data that it needs. Like [`Self::Ordered`] if the driver cannot
    /// capture such launches: before CUDA 12.3.
    Pdl,
}

impl LaunchMode {
    /// Whether the driver captures launches of this mode.
    pub fn is_capturable(self) -> bool {
        self == Self::Ordered || driver::captures_pdl()
    }
}

/// One argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'v> {
    /// A 32-bit integer.
    I32(i32),
    /// A 32-bit float.
    F32(f32),
    /// The address of a view's first byte.
    View(&'v View),
    /// The null pointer.
    Null,
    /// A matrix in boxes, by value.
    Map(&'v TensorMap),
}

impl Arg<'_> {
    /// The letter of its kind, as [`Module::function`] has it.
    fn kind(&self) -> char {
        match self {
            Self::View(_) | Self::Null => 'p',
            Self::I32(_) => 'i',
            Self::F32(_) => 'f',
            Self::Map(_) => 'm',
        }
    }

    /// The argument as the driver reads it: its bytes lie at the start of a word, the host being
    /// little-endian. A map is no word and is read where it lies.
    fn word(self) -> u64 {
        match self {
            Self::I32(value) => u64::from(value.cast_unsigned()),
            Self::F32(value) => u64::from(value.to_bits()),
            Self::View(view) => view.address() as u64,
            Self::Null | Self::Map(_) => 0,
        }
    }
}

impl Module {
    /// Loads `image`, unless it is loaded; `name` names it in errors. Of PTX the driver is given
    /// what `edit` makes of it, the same each time on this GPU.
    ///
    /// # Errors
    /// The driver's: PTX newer than the driver, or a GPU older than the image's architecture.
    pub fn load(
        gpu: &Gpu,
        name: &str,
        image: Image,
        edit: impl FnOnce(String) -> String,
    ) -> Result<Self> {
        if let Some(inner) = gpu.modules().find(image) {
            return Ok(Self { inner, gpu: gpu.clone() });
        }
        let inner = match image {
            Image::Ptx(deflated) => {
                let text = Image::inflated(deflated).ok_or_else(|| GpuError::Failed {
                    what: format!("be given {name}"),
                    code: "this program's copy of it is damaged; install the program again".into(),
                })?;
                gpu.context().load_module(Ptx::from_src(edit(text)))
            }
            Image::Cubin(bytes) => gpu.context().load_module(Ptx::from_binary(bytes.to_vec())),
        };
        let facts = gpu.facts();
        let inner = inner.tried(|| format!("load {name} on sm {}", facts.sm))?;
        gpu.modules().add(image, &inner);
        Ok(Self { inner, gpu: gpu.clone() })
    }

    /// The kernel of that name, loaded to the device: its first launch loads nothing, as a capture
    /// needs. `parameters` has a letter for each parameter: p, a pointer; i, a 32-bit integer; f, a
    /// float; m, a tensor map. `waits`: the kernel waits itself for the previous one
    /// (`griddepcontrol.wait`), so that it may be launched in [`LaunchMode::Pdl`].
    ///
    /// # Errors
    /// The module has no such kernel, or another error of the driver.
    pub fn function(&self, name: &str, parameters: &'static str, waits: bool) -> Result<Function> {
        self.gpu.bind()?;
        let inner = self.inner.load_function(name).tried(|| format!("find the kernel {name}"))?;
        // SAFETY: the function exists: the driver gave it above, and `inner` keeps its module
        // loaded.
        let registers = unsafe {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
            result::function::get_function_attribute(inner.cu_function(), attribute)
        }
        .tried(|| format!("bring the kernel {name} to the device"))?;
        log::debug!("kernel {name}: {registers} registers");
        let (name, gpu) = (name.into(), self.gpu.clone());
        Ok(Function { inner, name, parameters, gpu, shared: 0, waits, pdl: false })
    }
}

impl Function {
    /// The same kernel with so many bytes of shared memory for each block, more than a launch may
    /// have unasked.
    ///
    /// # Errors
    /// The GPU's blocks do not have as much.
    pub fn with_shared(self, bytes: u32) -> Result<Self> {
        self.gpu.bind()?;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        let set = self.inner.set_attribute(attribute, value);
        set.tried(|| format!("give the kernel {} {bytes} bytes of shared memory", self.name))?;
        Ok(Self { shared: bytes, ..self })
    }

    /// The same kernel with fewer bytes for each block than [`Self::with_shared`] allowed: that is
    /// the kernel's own, and the last call holds for all launches.
    pub fn taking(&self, bytes: u32) -> Self {
        Self { shared: bytes, ..self.clone() }
    }

    /// The same kernel in another launch mode; a kernel that does not wait itself stays
    /// [`LaunchMode::Ordered`].
    ///
    /// # Safety
    /// For [`LaunchMode::Pdl`], the kernel waits (`dependent_wait` or `pdl_wait` in its source)
    /// before it touches anything that previous work reads or writes, and the previous work of the
    /// stream is a kernel, no copy or fill.
    pub unsafe fn with_mode(&self, mode: LaunchMode) -> Self {
        let pdl = mode == LaunchMode::Pdl && self.waits && mode.is_capturable();
        Self { pdl, ..self.clone() }
    }

    /// Blocks of so many threads that a multiprocessor holds at once.
    pub fn resident_blocks(&self, threads: u32) -> Result<u32> {
        self.gpu.bind()?;
        let shared = self.shared as usize;
        let found =
            self.inner.occupancy_max_active_blocks_per_multiprocessor(threads, shared, None);
        found.tried(|| format!("say how many blocks of the kernel {} it holds", self.name))
    }

    /// Clusters of `blocks` blocks, which the kernel was compiled for, that the GPU holds at once.
    ///
    /// # Errors
    /// A driver before CUDA 12.0, or its refusal.
    pub fn resident_clusters(&self, threads: u32, blocks: u32) -> Result<u32> {
        driver::require_hoppers()?;
        self.gpu.bind()?;
        let mut value = CUlaunchAttributeValue { pad: [0; 64] };
        value.clusterDim.x = blocks;
        value.clusterDim.y = 1;
        value.clusterDim.z = 1;
        let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        let mut attribute = CUlaunchAttribute { id, pad: [0; 4], value };
        let config = CUlaunchConfig {
            gridDimX: blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.shared,
            hStream: std::ptr::null_mut(),
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        let (mut count, function) = (0, self.inner.cu_function());
        // SAFETY: the function is there (`require_hoppers`), and the kernel is loaded as long as
        // `self.inner` lives; the configuration and its one attribute outlive the call, which keeps
        // neither.
        unsafe { sys::cuOccupancyMaxActiveClusters(&raw mut count, function, &raw const config) }
            .result()
            .tried(|| format!("say how many clusters of the kernel {} it holds", self.name))?;
        Ok(u32::try_from(count).unwrap_or_default())
    }

    /// Its name in the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Enqueues the kernel on `stream`. May be captured.
    ///
    /// # Errors
    /// Arguments of another number or kind than the kernel's parameters, or an error of the driver.
    ///
    /// # Safety
    /// The `parameters` of [`Module::function`] were the kernel's, and what the kernel reads and
    /// writes with this launch lies inside the views among `args`. (A view that is dropped later is
    /// no danger: its memory is given back only after work that is enqueued.)
    pub unsafe fn launch(&self, launch: Launch, args: &[Arg], stream: &Stream) -> Result<()> {
        let found = args.iter().map(Arg::kind);
        if !found.clone().eq(self.parameters.chars()) {
            let (kernel, expected) = (self.name.to_string(), self.parameters);
            return Err(GpuError::Arguments { kernel, expected, found: found.collect() });
        }
        self.gpu.bind()?;
        let mut words: Vec<u64> = args.iter().map(|arg| arg.word()).collect();
        // The driver only reads them.
        let place = |(word, arg): (&mut u64, &Arg)| match arg {
            Arg::Map(map) => map.place().cast_mut(),
            _ => std::ptr::from_mut(word).cast(),
        };
        let mut pointers: Vec<*mut c_void> = words.iter_mut().zip(args).map(place).collect();
        let (raw, function) = (stream.inner().cu_stream(), self.inner.cu_function());
        let Launch { grid, threads } = launch;
        // SAFETY: the function is loaded as long as `self.inner` lives; the driver copies the
        // arguments, which have the kernel's number and kinds, before it returns. The caller of
        // `with_mode` promised that it waits.
        let launched = unsafe {
            if self.pdl {
                launch_pdl(function, launch, self.shared, raw, &mut pointers)
            } else {
                result::launch_kernel(
                    function,
                    grid,
                    (threads, 1, 1),
                    self.shared,
                    raw,
                    &mut pointers,
                )
            }
        };
        launched.tried(|| format!("launch the kernel {} as {launch:?}", self.name))?;
        launches::kernel();
        Ok(())
    }
}

/// As [`result::launch_kernel`], by programmatic dependent launch.
///
/// # Safety
/// As there; the driver has the function, and the kernel waits itself.
unsafe fn launch_pdl(
    function: sys::CUfunction,
    Launch { grid, threads }: Launch,
    shared: u32,
    stream: sys::CUstream,
    args: &mut [*mut c_void],
) -> std::result::Result<(), DriverError> {
    let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    let mut value = CUlaunchAttributeValue { pad: [0; 64] };
    value.programmaticStreamSerializationAllowed = 1;
    let mut attribute = CUlaunchAttribute { id, pad: [0; 4], value };
    let config = CUlaunchConfig {
        gridDimX: grid.0,
        gridDimY: grid.1,
        gridDimZ: grid.2,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared,
        hStream: stream,
        attrs: &raw mut attribute,
        numAttrs: 1,
    };
    let (config, none) = (&raw const config, std::ptr::null_mut());
    // SAFETY: the caller's; the configuration and its one attribute outlive the call, which keeps
    // neither.
    unsafe { sys::cuLaunchKernelEx(config, function, args.as_mut_ptr(), none) }.result()
}
