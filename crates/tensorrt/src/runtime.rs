/*!
The runtime: it turns a plan into an engine.
*/

use std::sync::Arc;

use super::allocator::{Allocator, DeviceMemory, MemoryUse};
use super::engine::Engine;
use super::error::Result;
use super::library::Library;
use super::owners::RuntimeObject;
use super::sys;

/// Deserialises plans. May be moved to another thread; the engines keep it alive.
pub struct Runtime {
    inner: Arc<RuntimeObject>,
    // Deserialising from two threads at once is not promised: Send, not Sync.
    _one_thread_at_a_time: std::marker::PhantomData<std::cell::Cell<()>>,
}

impl Runtime {
    /// A runtime of an opened library, with TensorRT's allocator.
    ///
    /// # Errors
    /// TensorRT's refusal, as on a machine without a GPU.
    pub fn new(library: &Library) -> Result<Self> {
        Self::start(library, None)
    }

    /// A runtime whose engines and contexts take device memory from `memory`, at most `cap` bytes
    /// at once.
    ///
    /// # Errors
    /// TensorRT's refusal, or a release without allocators.
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
            unsafe { sys::trtdl_runtime_new(api) }
        })?;
        let inner = RuntimeObject { object, allocator };
        let recorder = library.inner.recorder;
        if !recorder.is_null() {
            library.ask("set the error recorder", |api| {
                // SAFETY: both are living objects; the recorder lives for ever.
                unsafe { sys::trtdl_runtime_set_recorder(api, inner.object.get(), recorder) }
            })?;
        }
        if let Some(allocator) = &inner.allocator {
            library.ask("set the allocator", |api| {
                // SAFETY: both are living objects, and `inner` drops the runtime first.
                unsafe {
                    sys::trtdl_runtime_set_allocator(api, inner.object.get(), allocator.get())
                }
            })?;
        }
        Ok(Self { inner: Arc::new(inner), _one_thread_at_a_time: std::marker::PhantomData })
    }

    /// The library that runs.
    pub fn library(&self) -> &Library {
        self.inner.object.library()
    }

    /// Memory that engines and contexts took from the allocator, bytes; none without one.
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
            // SAFETY: a living runtime; `plan` is readable during the call and TensorRT keeps no
            // pointer into it.
            unsafe {
                let data = plan.as_ptr().cast();
                sys::trtdl_runtime_engine(api, self.inner.object.get(), data, plan.len())
            }
        })?;
        Ok(Engine::new(object, self.inner.clone()))
    }
}
