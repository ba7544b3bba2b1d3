/*!
A built engine: its tensors, profiles, memory and layers. Shared by the contexts that run it.
*/

use std::sync::Arc;

use super::context::Context;
use super::error::Result;
use super::ffi_object::{Object, c_name, copied};
use super::library::Library;
use super::owners::{EngineObject, RuntimeObject};
use super::sys;
use super::types::{DataType, Mode, from_dims};

/// An engine. Cheap to clone; may be shared by threads.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<EngineObject>,
}

/// An input or output of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its direction.
    pub mode: Mode,
    /// Its element type; none for a type that [`DataType`] does not have.
    pub dtype: Option<DataType>,
    /// Its extents; -1 for one that differs between profiles or has a range.
    pub shape: Vec<i64>,
    /// Inputs: the shape for which each profile was optimized.
    pub profiles: Vec<Vec<i64>>,
    /// It is in device memory; tensors that carry shapes may be on the host.
    pub on_device: bool,
    /// The layout of its elements, in TensorRT's words.
    pub format: String,
}

impl Engine {
    pub(super) fn new(object: Object, runtime: Arc<RuntimeObject>) -> Self {
        Self { inner: Arc::new(EngineObject { object, _runtime: runtime }) }
    }

    /// The library that runs it.
    pub fn library(&self) -> &Library {
        self.inner.object.library()
    }

    fn parts(&self) -> (*const sys::trtdl_api, *mut std::ffi::c_void) {
        (self.inner.object.api(), self.inner.object.get())
    }

    /// Name of the network that it was built from.
    pub fn name(&self) -> String {
        let (api, engine) = self.parts();
        // SAFETY: a living engine.
        unsafe { copied(sys::trtdl_engine_name(api, engine)) }.unwrap_or_default()
    }

    /// All inputs and outputs, in the engine's order.
    ///
    /// # Errors
    /// A name with a NUL byte inside, which TensorRT does not make.
    pub fn tensors(&self) -> Result<Vec<TensorInfo>> {
        let (api, engine) = self.parts();
        // SAFETY: a living engine; it answers NULL for an index that it does not have.
        let names: Vec<String> = unsafe {
            (0..sys::trtdl_engine_tensors(api, engine))
                .filter_map(|index| copied(sys::trtdl_engine_tensor(api, engine, index)))
                .collect()
        };
        names.into_iter().map(|name| self.tensor(name)).collect()
    }

    fn tensor(&self, name: String) -> Result<TensorInfo> {
        let (api, engine) = self.parts();
        let c = c_name(&name)?;
        // SAFETY: a living engine and the name of one of its tensors.
        let (mode, dtype, dims, location, format) = unsafe {
            (
                sys::trtdl_engine_tensor_mode(api, engine, c.as_ptr()),
                sys::trtdl_engine_tensor_type(api, engine, c.as_ptr()),
                sys::trtdl_engine_tensor_dims(api, engine, c.as_ptr()),
                sys::trtdl_engine_tensor_location(api, engine, c.as_ptr()),
                copied(sys::trtdl_engine_tensor_format(api, engine, c.as_ptr())),
            )
        };
        let output = mode == sys::TRTDL_MODE_OUTPUT.cast_signed();
        // Only inputs have profile shapes; asked about an output TensorRT logs an error.
        let profiles = if output { 0 } else { self.profile_count() };
        let profiles = (0..profiles)
            .filter_map(|index| {
                let index = i32::try_from(index).ok()?;
                // SAFETY: as above, with an index below the engine's count of profiles.
                from_dims(&unsafe {
                    let opt = sys::TRTDL_SELECTOR_OPT;
                    sys::trtdl_engine_profile_dims(api, engine, c.as_ptr(), index, opt)
                })
            })
            .collect();
        Ok(TensorInfo {
            name,
            mode: if output { Mode::Output } else { Mode::Input },
            dtype: DataType::from_shim(dtype),
            shape: from_dims(&dims).unwrap_or_default(),
            profiles,
            on_device: location == sys::TRTDL_LOCATION_DEVICE.cast_signed(),
            format: format.unwrap_or_default(),
        })
    }

    /// How many optimization profiles it has; 1 if all shapes are fixed.
    pub fn profile_count(&self) -> usize {
        let (api, engine) = self.parts();
        // SAFETY: a living engine.
        usize::try_from(unsafe { sys::trtdl_engine_profiles(api, engine) }).unwrap_or(0)
    }

    /// How many layers it has after fusion.
    pub fn layer_count(&self) -> usize {
        let (api, engine) = self.parts();
        // SAFETY: a living engine.
        usize::try_from(unsafe { sys::trtdl_engine_layers(api, engine) }).unwrap_or(0)
    }

    /// Bytes of device memory that a context needs for one profile (10 on) or for the largest; none
    /// if TensorRT does not say.
    pub fn device_memory(&self, profile: Option<usize>) -> Option<u64> {
        let (api, engine) = self.parts();
        let profile = profile.map_or(Some(-1), |profile| i32::try_from(profile).ok())?;
        // SAFETY: a living engine.
        u64::try_from(unsafe { sys::trtdl_engine_memory(api, engine, profile) }).ok()
    }

    /// The engine inspector's description of all layers, TensorRT's JSON; its detail follows the
    /// build's verbosity.
    ///
    /// # Errors
    /// TensorRT's refusal.
    pub fn layer_information(&self) -> Result<String> {
        let mark = self.library().inner.log.mark();
        let inspector = self.library().make("create an engine inspector", |api| {
            // SAFETY: a living engine; the inspector is deleted at the end of this function.
            unsafe { sys::trtdl_engine_inspector(api, self.inner.object.get()) }
        })?;
        // SAFETY: a living inspector; the text is copied while it lives.
        let text =
            unsafe { copied(sys::trtdl_inspector_text(inspector.api(), inspector.get(), -1, 1)) };
        text.ok_or_else(|| self.library().failed("describe the engine's layers", mark))
    }

    /// A context that allocates its device memory.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn context(&self) -> Result<Context> {
        self.make_context(true)
    }

    /// A context that runs in memory of the caller; contexts that never run at once can share it.
    ///
    /// # Errors
    /// TensorRT's refusal.
    pub fn context_without_memory(&self) -> Result<Context> {
        self.make_context(false)
    }

    fn make_context(&self, with_memory: bool) -> Result<Context> {
        let object = self.library().make("create an execution context", |api| {
            // SAFETY: a living engine, which the context keeps alive.
            unsafe { sys::trtdl_engine_context(api, self.inner.object.get(), with_memory.into()) }
        })?;
        Ok(Context::new(object, self.inner.clone()))
    }
}
