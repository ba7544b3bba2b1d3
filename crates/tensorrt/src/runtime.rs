/*!
The runtime: turns a plan back into an engine.
*/

use std::sync::Arc;

use super::allocator::{Allocator, DeviceMemory, MemoryUse};
use super::door::Object;
use super::engine::Engine;
use super::error::Result;
use super::library::Library;
use super::sys;

/// Deserialises plans. The engines keep it alive.
pub struct Runtime {
    inner: Arc<Inner>,
    // Deserialising from two threads at once is not promised: Send, not Sync.
    _one_thread_at_a_time: std::marker::PhantomData<std::cell::Cell<()>>,
}

/// Declared in the order of deletion: the runtime before the allocator that it calls.
pub(super) struct Inner {
    object: Object,
    allocator: Option<Allocator>,
}

// SAFETY: TensorRT's objects may be used from any thread as long as uses do not overlap (developer guide, "Threading").
// Inner is used by Runtime, which is not Sync, and dropped by the last owner.
unsafe impl Send for Inner {}
// SAFETY: engines that share an Inner only keep it alive.
unsafe impl Sync for Inner {}

impl Runtime {
    /// A runtime of an opened library, with TensorRT's own allocator.
    pub fn new(library: &Library) -> Result<Self> {
        Self::start(library, None)
    }

    /// A runtime whose engines and contexts take device memory from `memory`, at most `cap` bytes at once.
    pub fn with_memory(
        library: &Library,
        memory: Arc<dyn DeviceMemory>,
        cap: Option<u64>,
    ) -> Result<Self> {
        let allocator = Allocator::new(library, memory, cap);
        Self::start(library, Some(allocator.ok_or_else(|| library.unsupported("allocator"))?))
    }

    fn start(library: &Library, allocator: Option<Allocator>) -> Result<Self> {
        let object = library.make("create a runtime", |api| {
            // SAFETY: `api` is the library's own; the logger inside lives for ever.
            unsafe { sys::segtrt_runtime_new(api) }
        })?;
        let inner = Inner { object, allocator };
        let recorder = library.inner.recorder;
        if !recorder.is_null() {
            library.ask("set the error recorder", |api| {
                // SAFETY: both are living objects; the recorder lives for ever.
                unsafe { sys::segtrt_runtime_set_recorder(api, inner.object.get(), recorder) }
            })?;
        }
        if let Some(allocator) = &inner.allocator {
            library.ask("set the allocator", |api| {
                // SAFETY: both are living objects, and Inner drops the runtime first.
                unsafe {
                    sys::segtrt_runtime_set_allocator(api, inner.object.get(), allocator.get())
                }
            })?;
        }
        Ok(Self { inner: Arc::new(inner), _one_thread_at_a_time: std::marker::PhantomData })
    }

    /// The library that runs.
    pub fn library(&self) -> &Library {
        self.inner.object.library()
    }

    /// What engines and contexts took from the allocator; none without one.
    pub fn memory_use(&self) -> Option<MemoryUse> {
        self.inner.allocator.as_ref().map(Allocator::usage)
    }

    /// Turns a plan into an engine; `what` names it in errors.
    ///
    /// Check the plan's hash first: TensorRT trusts what it reads, and damaged bytes may crash it.
    ///
    /// # Errors
    /// A plan of another release or GPU, no GPU, or not enough memory: TensorRT's log says which.
    pub fn deserialize(&self, plan: &[u8], what: &str) -> Result<Engine> {
        let object = self.library().make(format!("read the plan of {what}"), |api| {
            // SAFETY: a living runtime; `plan` is readable during the call and TensorRT keeps no pointer into it.
            unsafe {
                let data = plan.as_ptr().cast();
                sys::segtrt_runtime_engine(api, self.inner.object.get(), data, plan.len())
            }
        })?;
        Ok(Engine::new(object, self.inner.clone()))
    }
}
