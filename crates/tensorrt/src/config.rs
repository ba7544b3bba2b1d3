/*!
The configuration of a build: precision, memory caps, optimization profiles, tactics, timing cache,
target GPUs, progress.
*/

use std::rc::Rc;
use std::sync::Arc;

use super::error::Result;
use super::ffi_object::{Object, c_name};
use super::library::Library;
use super::owners::BuilderObject;
use super::progress::{BuildProgress, Monitor, Stop};
use super::sys;
use super::types::{Profile, to_dims};

/// Builder flags; which exist depends on the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Flag {
    /// Allow half precision (weakly typed networks).
    Fp16 = sys::TRTDL_FLAG_FP16,
    /// Allow bfloat16 (weakly typed networks, 10 on).
    Bf16 = sys::TRTDL_FLAG_BF16,
    /// Allow TF32 for fp32; on by default.
    Tf32 = sys::TRTDL_FLAG_TF32,
    /// Pinned precisions must be kept, or the build fails.
    ObeyPrecision = sys::TRTDL_FLAG_OBEY_PRECISION,
    /// Pinned precisions are kept where an implementation exists.
    PreferPrecision = sys::TRTDL_FLAG_PREFER_PRECISION,
    /// Time every tactic anew.
    DisableTimingCache = sys::TRTDL_FLAG_DISABLE_TIMING_CACHE,
    /// Fail where the timing cache lacks an entry (10 on).
    ErrorOnTimingCacheMiss = sys::TRTDL_FLAG_ERROR_ON_TIMING_CACHE_MISS,
    /// Engines that later releases of the same major can run (8.6 on).
    VersionCompatible = sys::TRTDL_FLAG_VERSION_COMPATIBLE,
    /// Version-compatible without the runtime inside (8.6 on).
    ExcludeLeanRuntime = sys::TRTDL_FLAG_EXCLUDE_LEAN_RUNTIME,
    /// Log memory while building (10.7 on).
    MonitorMemory = sys::TRTDL_FLAG_MONITOR_MEMORY,
}

/// Memory pools that TensorRT caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Pool {
    /// Scratch memory of any layer.
    Workspace = sys::TRTDL_POOL_WORKSPACE,
    /// Device memory for timing tactics (8.6 on).
    TacticDram = sys::TRTDL_POOL_TACTIC_DRAM,
    /// Shared memory of a tactic's kernels (10 on).
    TacticSharedMemory = sys::TRTDL_POOL_TACTIC_SHARED_MEMORY,
}

/// Libraries that tactics may come from; those that a release does not have are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tactics(u32);

/// How much the engine reports about its layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Verbosity {
    /// Names only.
    LayerNames = sys::TRTDL_VERBOSITY_LAYER_NAMES,
    /// Nothing.
    None = sys::TRTDL_VERBOSITY_NONE,
    /// Precisions, tactics, shapes.
    Detailed = sys::TRTDL_VERBOSITY_DETAILED,
}

impl Tactics {
    /// TensorRT's built-in kernels: neither cuBLAS nor cuDNN has to be installed.
    pub const BUILT_IN: Self = Self(
        1 << sys::TRTDL_TACTIC_EDGE_MASK_CONVOLUTIONS | 1 << sys::TRTDL_TACTIC_JIT_CONVOLUTIONS,
    );
    /// The built-in kernels and cuBLAS, cuBLASLt, cuDNN.
    pub const ALL: Self = Self(
        Self::BUILT_IN.0
            | 1 << sys::TRTDL_TACTIC_CUBLAS
            | 1 << sys::TRTDL_TACTIC_CUBLAS_LT
            | 1 << sys::TRTDL_TACTIC_CUDNN,
    );
}

/// A builder's configuration, for one build.
///
/// Declared in the order of deletion: the configuration before what it points to.
pub struct Config {
    object: Object,
    monitor: Option<Monitor>,
    timing_cache: Option<Object>,
    builder: Rc<BuilderObject>,
}

impl Config {
    pub(super) fn new(builder: &Rc<BuilderObject>) -> Result<Self> {
        let object = builder.object.library().make("create a builder configuration", |api| {
            // SAFETY: a living builder, which the configuration keeps alive.
            unsafe { sys::trtdl_builder_config(api, builder.object.get()) }
        })?;
        Ok(Self { object, monitor: None, timing_cache: None, builder: builder.clone() })
    }

    pub(super) fn pointer(&self) -> *mut std::ffi::c_void {
        self.object.get()
    }

    pub(super) fn was_stopped(&self) -> bool {
        self.monitor.as_ref().is_some_and(Monitor::was_stopped)
    }

    fn library(&self) -> &Library {
        self.object.library()
    }

    /// Switches a flag.
    ///
    /// # Errors
    /// [`Error::Unsupported`](super::Error::Unsupported) where the release has no such flag; every
    /// precision flag in strongly typed families.
    pub fn set_flag(&mut self, flag: Flag, on: bool) -> Result<()> {
        self.library().ask(format!("set the builder flag {flag:?}"), |api| {
            // SAFETY: a living configuration; the shim checks the flag.
            unsafe { sys::trtdl_config_set_flag(api, self.pointer(), flag as u32, on.into()) }
        })
    }

    /// Whether a flag is on; none where the release has no such flag.
    pub fn flag(&self, flag: Flag) -> Option<bool> {
        // SAFETY: a living configuration; the shim checks the flag.
        let answer =
            unsafe { sys::trtdl_config_flag(self.object.api(), self.pointer(), flag as u32) };
        (answer >= 0).then_some(answer == 1)
    }

    /// Caps a memory pool, bytes.
    ///
    /// # Errors
    /// [`Error::Unsupported`](super::Error::Unsupported) if the release has no such pool.
    pub fn set_pool(&mut self, pool: Pool, bytes: usize) -> Result<()> {
        self.library().ask(format!("cap the memory pool {pool:?}"), |api| {
            // SAFETY: a living configuration; the shim checks the pool.
            unsafe { sys::trtdl_config_set_pool(api, self.pointer(), pool as u32, bytes) }
        })
    }

    /// The cap of a memory pool in bytes; none where the release has no such pool.
    pub fn pool(&self, pool: Pool) -> Option<usize> {
        // SAFETY: a living configuration; the shim checks the pool.
        let bytes =
            unsafe { sys::trtdl_config_pool(self.object.api(), self.pointer(), pool as u32) };
        (bytes != usize::MAX).then_some(bytes)
    }

    /// The effort of the search, 0 to 5; TensorRT's default is 3 (8.6 on).
    ///
    /// # Errors
    /// [`Error::Unsupported`](super::Error::Unsupported) in 8.5.
    pub fn set_optimization_level(&mut self, level: u8) -> Result<()> {
        self.library().ask("set the builder optimization level", |api| {
            // SAFETY: a living configuration.
            unsafe { sys::trtdl_config_set_level(api, self.pointer(), level.into()) }
        })
    }

    /// Restricts tactics to those of every GPU from Ampere (sm 80) on, such as on Hopper: no
    /// instruction that only a newer GPU has.
    ///
    /// # Errors
    /// [`Error::Unsupported`](super::Error::Unsupported) in 8.5.
    pub fn set_ampere_plus(&mut self, on: bool) -> Result<()> {
        self.library().ask("set the hardware compatibility level", |api| {
            // SAFETY: a living configuration.
            unsafe { sys::trtdl_config_set_ampere_plus(api, self.pointer(), on.into()) }
        })
    }

    /// How much the engine reports about its layers
    /// ([`Engine::layer_information`](super::Engine::layer_information)).
    ///
    /// # Errors
    /// A verbosity that the release does not have.
    pub fn set_verbosity(&mut self, verbosity: Verbosity) -> Result<()> {
        self.library().ask("set the profiling verbosity", |api| {
            // SAFETY: a living configuration.
            unsafe { sys::trtdl_config_set_verbosity(api, self.pointer(), verbosity as u32) }
        })
    }

    /// Limits the libraries that tactics may come from.
    ///
    /// # Errors
    /// TensorRT's refusal.
    pub fn set_tactics(&mut self, tactics: Tactics) -> Result<()> {
        self.library().ask("set the tactic sources", |api| {
            // SAFETY: a living configuration.
            unsafe { sys::trtdl_config_set_tactics(api, self.pointer(), tactics.0) }
        })
    }

    /// How many runs of a tactic are averaged.
    ///
    /// # Errors
    /// [`Error::Unsupported`](super::Error::Unsupported) if the release is unknown.
    pub fn set_timing_runs(&mut self, runs: u8) -> Result<()> {
        self.library().ask("set the timing runs", |api| {
            // SAFETY: a living configuration.
            unsafe { sys::trtdl_config_set_timing_runs(api, self.pointer(), runs.into()) }
        })
    }

    /// Builds for these compute capabilities (86 for 8.6) instead of the installed GPU: TensorRT
    /// for RTX only.
    ///
    /// # Errors
    /// [`Error::Unsupported`](super::Error::Unsupported) for another product, or a capability that
    /// it does not know.
    pub fn set_targets(&mut self, sm: &[i32]) -> Result<()> {
        let count = i32::try_from(sm.len()).unwrap_or(i32::MAX);
        self.library().ask(format!("build for compute capabilities {sm:?}"), |api| {
            // SAFETY: `sm` is readable for `count` numbers during the call.
            unsafe { sys::trtdl_config_set_targets(api, self.pointer(), sm.as_ptr(), count) }
        })
    }

    /// Adds an optimization profile whose shapes are exact; returns its index.
    ///
    /// # Errors
    /// A shape of more than eight extents. A name that is no input of the network fails only when
    /// building.
    pub fn add_profile(&mut self, profile: &Profile) -> Result<usize> {
        let library = self.library();
        let mark = library.inner.log.mark();
        // SAFETY: a living builder; it owns the profile and frees it with itself.
        let pointer =
            unsafe { sys::trtdl_builder_profile(library.api(), self.builder.object.get()) };
        if pointer.is_null() {
            return Err(library.failed("create an optimization profile", mark));
        }
        for (name, shape) in &profile.shapes {
            let dims = to_dims(shape)
                .ok_or_else(|| library.unsupported(format!("tensor of {} extents", shape.len())))?;
            let input = c_name(name)?;
            for selector in
                [sys::TRTDL_SELECTOR_MIN, sys::TRTDL_SELECTOR_OPT, sys::TRTDL_SELECTOR_MAX]
            {
                library.ask(format!("fix input '{name}' to {shape:?}"), |api| {
                    // SAFETY: the profile is the builder's; name and shape are readable during the
                    // call.
                    unsafe { sys::trtdl_profile_set(api, pointer, input.as_ptr(), selector, &dims) }
                })?;
            }
        }
        // SAFETY: both are living objects of the same builder.
        let index =
            unsafe { sys::trtdl_config_add_profile(library.api(), self.pointer(), pointer) };
        usize::try_from(index).map_err(|_| library.failed("add an optimization profile", mark))
    }

    /// Starts from the timings of an earlier build; an empty slice starts a cache that
    /// [`Config::timing_cache`] reads.
    ///
    /// # Errors
    /// Bytes that are no timing cache of this release and GPU.
    pub fn set_timing_cache(&mut self, bytes: &[u8]) -> Result<()> {
        let cache = self.cache_of(bytes)?;
        self.library().ask("use the timing cache", |api| {
            // SAFETY: both are living objects; this value keeps the cache until the configuration
            // is gone.
            unsafe { sys::trtdl_config_use_timing_cache(api, self.pointer(), cache.get()) }
        })?;
        self.timing_cache = Some(cache);
        Ok(())
    }

    /// Adds the timings of another build to the cache in use.
    ///
    /// # Errors
    /// No cache is in use, or the bytes are no timing cache of this release and GPU.
    pub fn merge_timing_cache(&mut self, bytes: &[u8]) -> Result<()> {
        let other = self.cache_of(bytes)?;
        self.library().ask("merge the timing cache", |api| {
            // SAFETY: both are living objects of the same builder; TensorRT copies what the other
            // one holds.
            unsafe { sys::trtdl_config_combine_timing_cache(api, self.pointer(), other.get()) }
        })
    }

    /// A timing cache that no configuration uses yet.
    fn cache_of(&self, bytes: &[u8]) -> Result<Object> {
        self.library().make("read the timing cache", |api| {
            // SAFETY: `bytes` is readable during the call; TensorRT copies it.
            unsafe {
                let data = bytes.as_ptr().cast();
                sys::trtdl_config_timing_cache(api, self.pointer(), data, bytes.len())
            }
        })
    }

    /// The timings so far, for the next build.
    ///
    /// # Errors
    /// No cache is in use.
    pub fn timing_cache(&self) -> Result<Vec<u8>> {
        let memory = self.library().make("write the timing cache", |api| {
            // SAFETY: a living configuration.
            unsafe { sys::trtdl_config_timing_cache_bytes(api, self.pointer()) }
        })?;
        Ok(super::plan::Plan::new(memory).bytes().to_vec())
    }

    /// Reports the build to `progress` and ends it once `stop` is set; false if the release cannot
    /// (8.x).
    ///
    /// # Errors
    /// TensorRT's refusal.
    pub fn watch(&mut self, progress: Arc<dyn BuildProgress>, stop: Stop) -> Result<bool> {
        let Some(monitor) = Monitor::new(self.library(), progress, stop) else {
            return Ok(false);
        };
        self.library().ask("set the progress monitor", |api| {
            // SAFETY: both are living objects; this value keeps the monitor until the configuration
            // is gone.
            unsafe { sys::trtdl_config_set_monitor(api, self.pointer(), monitor.get()) }
        })?;
        self.monitor = Some(monitor);
        Ok(true)
    }
}
