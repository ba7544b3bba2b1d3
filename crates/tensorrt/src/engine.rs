/*!
A built engine: its tensors, profiles, memory and layers. Shared by the contexts that run it.
*/

use std::sync::Arc;

use super::context::Context;
use super::door::{Object, c_name, copied};
use super::error::Result;
use super::library::Library;
use super::runtime;
use super::sys;
use super::types::{DataType, Mode, from_dims};

/// An engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

/// Declared in the order of deletion: the engine before its runtime.
pub(super) struct Inner {
    pub(super) object: Object,
    _runtime: Arc<runtime::Inner>,
}

// SAFETY: an engine belongs to no thread (developer guide, "Threading").
unsafe impl Send for Inner {}
// SAFETY: NVIDIA documents the engine's questions and the making of contexts as thread-safe; different threads work on
// different contexts of one engine. No method here changes the engine.
unsafe impl Sync for Inner {}

/// An input or output of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its direction.
    pub mode: Mode,
    /// Its element type, none for one that this program has no name for.
    pub dtype: Option<DataType>,
    /// Its extents; -1 where profiles differ or a range is allowed.
    pub shape: Vec<i64>,
    /// Inputs: the shape for which each profile was optimized.
    pub profiles: Vec<Vec<i64>>,
    /// It lies in device memory; tensors that carry shapes may lie on the host.
    pub on_device: bool,
    /// How its elements are laid out, in TensorRT's words.
    pub format: String,
}

impl Engine {
    pub(super) fn new(object: Object, runtime: Arc<runtime::Inner>) -> Self {
        Self { inner: Arc::new(Inner { object, _runtime: runtime }) }
    }

    /// The library that runs it.
    pub fn library(&self) -> &Library {
        self.inner.object.library()
    }

    fn parts(&self) -> (*const sys::segtrt_api, *mut std::ffi::c_void) {
        (self.inner.object.api(), self.inner.object.get())
    }

    /// Name of the network that it was built from.
    pub fn name(&self) -> String {
        let (api, engine) = self.parts();
        // SAFETY: a living engine.
        unsafe { copied(sys::segtrt_engine_name(api, engine)) }.unwrap_or_default()
    }

    /// All inputs and outputs, in the engine's order.
    pub fn tensors(&self) -> Result<Vec<TensorInfo>> {
        let (api, engine) = self.parts();
        // SAFETY: a living engine; it answers NULL for an index that it does not have.
        let names: Vec<String> = unsafe {
            (0..sys::segtrt_engine_tensors(api, engine))
                .filter_map(|index| copied(sys::segtrt_engine_tensor(api, engine, index)))
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
                sys::segtrt_engine_tensor_mode(api, engine, c.as_ptr()),
                sys::segtrt_engine_tensor_type(api, engine, c.as_ptr()),
                sys::segtrt_engine_tensor_dims(api, engine, c.as_ptr()),
                sys::segtrt_engine_tensor_location(api, engine, c.as_ptr()),
                copied(sys::segtrt_engine_tensor_format(api, engine, c.as_ptr())),
            )
        };
        let output = mode == sys::SEGTRT_MODE_OUTPUT.cast_signed();
        // Only inputs have profile shapes; asked about an output TensorRT logs an error.
        let profiles = if output { 0 } else { self.profile_count() };
        let profiles = (0..profiles)
            .filter_map(|index| {
                let index = i32::try_from(index).ok()?;
                // SAFETY: as above, with an index below the engine's count of profiles.
                from_dims(&unsafe {
                    let opt = sys::SEGTRT_SELECTOR_OPT;
                    sys::segtrt_engine_profile_dims(api, engine, c.as_ptr(), index, opt)
                })
            })
            .collect();
        Ok(TensorInfo {
            name,
            mode: if output { Mode::Output } else { Mode::Input },
            dtype: DataType::from_shim(dtype),
            shape: from_dims(&dims).unwrap_or_default(),
            profiles,
            on_device: location == sys::SEGTRT_LOCATION_DEVICE.cast_signed(),
            format: format.unwrap_or_default(),
        })
    }

    /// How many optimization profiles it has; 1 where all shapes are fixed.
    pub fn profile_count(&self) -> usize {
        let (api, engine) = self.parts();
        // SAFETY: a living engine.
        usize::try_from(unsafe { sys::segtrt_engine_profiles(api, engine) }).unwrap_or(0)
    }

    /// How many layers it has after fusion.
    pub fn layer_count(&self) -> usize {
        let (api, engine) = self.parts();
        // SAFETY: a living engine.
        usize::try_from(unsafe { sys::segtrt_engine_layers(api, engine) }).unwrap_or(0)
    }

    /// Bytes of device memory that a context needs, for one profile (10 on) or for the worst; none where unsaid.
    pub fn device_memory(&self, profile: Option<usize>) -> Option<u64> {
        let (api, engine) = self.parts();
        let profile = profile.map_or(Some(-1), |profile| i32::try_from(profile).ok())?;
        // SAFETY: a living engine.
        u64::try_from(unsafe { sys::segtrt_engine_memory(api, engine, profile) }).ok()
    }

    /// The engine inspector's account of all layers, as TensorRT's JSON; detailed as the build's verbosity was.
    pub fn layer_information(&self) -> Result<String> {
        let mark = self.library().inner.log.mark();
        let inspector = self.library().make("create an engine inspector", |api| {
            // SAFETY: a living engine; the inspector is deleted at the end of this function.
            unsafe { sys::segtrt_engine_inspector(api, self.inner.object.get()) }
        })?;
        // SAFETY: a living inspector; the text is copied while it lives.
        let text =
            unsafe { copied(sys::segtrt_inspector_text(inspector.api(), inspector.get(), -1, 1)) };
        text.ok_or_else(|| self.library().failed("describe the engine's layers", mark))
    }

    /// A context that allocates its own device memory.
    pub fn context(&self) -> Result<Context> {
        self.make_context(true)
    }

    /// A context that runs in memory which the caller sets: several that never run at once can share it.
    pub fn context_without_memory(&self) -> Result<Context> {
        self.make_context(false)
    }

    fn make_context(&self, own_memory: bool) -> Result<Context> {
        let object = self.library().make("create an execution context", |api| {
            // SAFETY: a living engine, which the context keeps alive.
            unsafe { sys::segtrt_engine_context(api, self.inner.object.get(), own_memory.into()) }
        })?;
        Ok(Context::new(object, self.clone()))
    }
}
