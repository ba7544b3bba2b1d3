/*!
An execution context: shapes and addresses of one run, and the enqueue.

Methods that take device memory are `unsafe`: Rust cannot see whether an address is valid, nor when
the GPU has finished with it. `stream` is a `CUstream` of the driver API, which `cudaStream_t`
equals.
*/

use std::ffi::c_void;
use std::sync::Arc;

use super::error::Result;
use super::ffi_object::{Object, c_name, copied};
use super::library::Library;
use super::owners::EngineObject;
use super::profiler::{LayerTime, Profiler};
use super::sys;
use super::types::{from_dims, to_dims};

/// Runs an engine. One thread at a time; different contexts may run at once.
///
/// Declared in the order of deletion: the context before its profiler and its engine.
pub struct Context {
    object: Object,
    profiler: Option<Profiler>,
    _engine: Arc<EngineObject>,
}

// SAFETY: a context belongs to no thread; its uses must not overlap, and every use here takes `&mut
// self` or only reads (developer guide, "Threading"). It is not Sync.
unsafe impl Send for Context {}

impl Context {
    pub(super) fn new(object: Object, engine: Arc<EngineObject>) -> Self {
        Self { object, profiler: None, _engine: engine }
    }

    fn library(&self) -> &Library {
        self.object.library()
    }

    /// Chooses an optimization profile; takes effect in the order of the stream.
    ///
    /// # Errors
    /// The engine has no such profile.
    ///
    /// # Safety
    /// `stream` is a living stream of the current CUDA context, and stays so until its work is
    /// done.
    pub unsafe fn set_profile(&mut self, profile: usize, stream: *mut c_void) -> Result<()> {
        let index = i32::try_from(profile).unwrap_or(-1);
        self.library().ask(format!("choose optimization profile {profile}"), |api| {
            // SAFETY: a living context; the caller answers for the stream.
            unsafe { sys::trtdl_context_set_profile(api, self.object.get(), index, stream) }
        })
    }

    /// The profile in use; none before one is chosen.
    pub fn profile(&self) -> Option<usize> {
        // SAFETY: a living context.
        let profile = unsafe { sys::trtdl_context_profile(self.object.api(), self.object.get()) };
        usize::try_from(profile).ok()
    }

    /// Sets the shape of an input that has open extents.
    ///
    /// # Errors
    /// No such input, or a shape outside the profile.
    pub fn set_input_shape(&mut self, name: &str, shape: &[i64]) -> Result<()> {
        let (tensor, dims) = (c_name(name)?, to_dims(shape));
        let dims = dims.ok_or_else(|| {
            self.library().unsupported(format!("tensor of {} extents", shape.len()))
        })?;
        self.library().ask(format!("set input '{name}' to shape {shape:?}"), |api| {
            // SAFETY: a living context; name and shape are readable during the call.
            unsafe { sys::trtdl_context_set_shape(api, self.object.get(), tensor.as_ptr(), &dims) }
        })
    }

    /// The shape of a tensor for the inputs set so far; -1 for an open extent, none if there is no
    /// such tensor.
    ///
    /// # Errors
    /// A name with a NUL byte inside.
    pub fn shape(&self, name: &str) -> Result<Option<Vec<i64>>> {
        let tensor = c_name(name)?;
        // SAFETY: a living context and a C string.
        Ok(from_dims(&unsafe {
            sys::trtdl_context_shape(self.object.api(), self.object.get(), tensor.as_ptr())
        }))
    }

    /// Names of tensors that still lack a shape; none if TensorRT cannot say.
    pub fn missing_shapes(&mut self) -> Option<Vec<String>> {
        let mut names = [std::ptr::null(); 32];
        // SAFETY: a living context; `names` has room for as many as the call is told.
        let count = unsafe {
            let capacity = i32::try_from(names.len()).unwrap_or(0);
            let place = names.as_mut_ptr();
            sys::trtdl_context_missing(self.object.api(), self.object.get(), place, capacity)
        };
        let count = usize::try_from(count).ok()?;
        let names = names.iter().take(count);
        // SAFETY: names of the living engine's tensors, as many as the call said that it wrote.
        Some(names.filter_map(|name| unsafe { copied(*name) }).collect())
    }

    /// Sets the address of a tensor.
    ///
    /// # Errors
    /// No such tensor.
    ///
    /// # Safety
    /// `address` is memory of the tensor's kind (device or host) with room for its largest shape,
    /// 256-byte aligned, and stays so until the last enqueued run that uses it is done.
    pub unsafe fn set_address(&mut self, name: &str, address: *mut c_void) -> Result<()> {
        let tensor = c_name(name)?;
        self.library().ask(format!("set the address of '{name}'"), |api| {
            // SAFETY: a living context; the caller answers for the memory.
            unsafe {
                let context = self.object.get();
                sys::trtdl_context_set_address(api, context, tensor.as_ptr(), address)
            }
        })
    }

    /// Sets the memory of a context that was created without any.
    ///
    /// # Errors
    /// TensorRT's refusal: too few bytes.
    ///
    /// # Safety
    /// `memory` is `bytes` of device memory, 256-byte aligned, at least what
    /// [`Engine::device_memory`](super::Engine::device_memory) says for the profile in use; nothing
    /// else uses it while a run is under way.
    pub unsafe fn set_device_memory(&mut self, memory: *mut c_void, bytes: u64) -> Result<()> {
        let size = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.library().ask("set the device memory", |api| {
            // SAFETY: a living context; the caller answers for the memory.
            unsafe { sys::trtdl_context_set_memory(api, self.object.get(), memory, size) }
        })
    }

    /// Enqueues one run; returns before the GPU is done.
    ///
    /// # Errors
    /// A tensor without an address, a shape that is missing, or a failed launch.
    ///
    /// # Safety
    /// All addresses are set and valid until the run is done, and `stream` is a living stream of
    /// the CUDA context in which the engine was made.
    pub unsafe fn enqueue(&mut self, stream: *mut c_void) -> Result<()> {
        self.library().ask("enqueue a run", |api| {
            // SAFETY: a living context; the caller answers for memory and stream.
            unsafe { sys::trtdl_context_enqueue(api, self.object.get(), stream) }
        })
    }

    /// Measures each layer from now on. With `at_once` false, [`Context::layer_times`] collects the
    /// times, so the enqueue stays asynchronous and can be captured into a CUDA graph.
    ///
    /// # Errors
    /// TensorRT's refusal.
    pub fn profile_layers(&mut self, at_once: bool) -> Result<()> {
        let profiler = Profiler::new(self.library())
            .ok_or_else(|| self.library().unsupported("layer profiler"))?;
        self.library().ask("set the layer profiler", |api| {
            // SAFETY: both are living objects; this value keeps the profiler until the context is
            // gone.
            unsafe {
                sys::trtdl_context_emit_profile(api, self.object.get(), at_once.into());
                sys::trtdl_context_set_profiler(api, self.object.get(), profiler.get())
            }
        })?;
        self.profiler = Some(profiler);
        Ok(())
    }

    /// Layer times of the runs since the last call; empty without [`Context::profile_layers`].
    ///
    /// # Errors
    /// Runs that are not done: synchronise the stream first.
    pub fn layer_times(&mut self) -> Result<Vec<LayerTime>> {
        let Some(profiler) = &self.profiler else { return Ok(Vec::new()) };
        let times = profiler.take();
        if !times.is_empty() {
            return Ok(times);
        }
        self.library().ask("report layer times", |api| {
            // SAFETY: a living context with a living profiler.
            unsafe { sys::trtdl_context_report(api, self.object.get()) }
        })?;
        Ok(profiler.take())
    }
}
