/*!
The builder: it creates networks and configurations, and builds plans from them.
*/

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::allocator::{Allocator, DeviceMemory, MemoryUse};
use super::config::Config;
use super::error::{Error, Result};
use super::library::Library;
use super::network::{Network, Typing};
use super::owners::BuilderObject;
use super::plan::Plan;
use super::sys;

/// Builds engines. Stays on the thread that created it, as do its networks and configurations.
pub struct Builder {
    inner: Rc<BuilderObject>,
}

impl Builder {
    /// A builder of an opened library.
    ///
    /// # Errors
    /// A library without a builder (a lean runtime), or a TensorRT that needs a GPU to build and
    /// finds none.
    pub fn new(library: &Library) -> Result<Self> {
        if !library.has_builder() {
            return Err(library.unsupported("builder (it is a lean runtime)"));
        }
        let object = library.make("create a builder", |api| {
            // SAFETY: `api` is the library's own; the logger inside lives for ever.
            unsafe { sys::trtdl_builder_new(api) }
        })?;
        let recorder = library.inner.recorder;
        if !recorder.is_null() {
            library.ask("set the error recorder", |api| {
                // SAFETY: both are living objects; the recorder lives for ever.
                unsafe { sys::trtdl_builder_set_recorder(api, object.get(), recorder) }
            })?;
        }
        Ok(Self { inner: Rc::new(BuilderObject { object, allocator: RefCell::new(None) }) })
    }

    /// The library that builds.
    pub fn library(&self) -> &Library {
        self.inner.object.library()
    }

    /// Takes all device memory of the build from `memory`, at most `cap` bytes at once.
    ///
    /// # Errors
    /// A second call, as the builder may hold memory of the first allocator; a release without
    /// allocators.
    pub fn set_memory(&self, memory: Arc<dyn DeviceMemory>, cap: Option<u64>) -> Result<()> {
        let mut place = self.inner.allocator.borrow_mut();
        if place.is_some() {
            return Err(self.library().unsupported("second allocator of one builder"));
        }
        let allocator = Allocator::new(self.library(), memory, cap)
            .ok_or_else(|| self.library().unsupported("allocator"))?;
        self.library().ask("set the allocator", |api| {
            // SAFETY: both are living objects, and `inner` drops the builder first.
            unsafe {
                sys::trtdl_builder_set_allocator(api, self.inner.object.get(), allocator.get())
            }
        })?;
        *place = Some(allocator);
        Ok(())
    }

    /// Memory that the build took from the allocator, bytes; none without [`Builder::set_memory`].
    pub fn memory_use(&self) -> Option<MemoryUse> {
        self.inner.allocator.borrow().as_ref().map(Allocator::usage)
    }

    /// An empty network.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a typing that the release does not have.
    pub fn network(&self, typing: Typing) -> Result<Network> {
        Network::new(&self.inner, typing)
    }

    /// A configuration with TensorRT's defaults.
    ///
    /// # Errors
    /// TensorRT's refusal.
    pub fn config(&self) -> Result<Config> {
        Config::new(&self.inner)
    }

    /// Builds a network, which takes seconds to minutes; `what` names it in errors.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the configuration's [`Stop`](super::Stop) was set, else
    /// [`Error::Failed`] with TensorRT's log; [`Error::is_out_of_memory`] recognises a lack of
    /// memory.
    pub fn build(&self, network: &mut Network, config: &mut Config, what: &str) -> Result<Plan> {
        let built = self.library().make(format!("build {what}"), |api| {
            // SAFETY: three living objects of one builder; the parser that owns the weights is kept
            // by the network.
            unsafe {
                sys::trtdl_builder_build(
                    api,
                    self.inner.object.get(),
                    network.pointer(),
                    config.pointer(),
                )
            }
        });
        match built {
            Err(Error::Failed { .. }) if config.was_stopped() => {
                Err(Error::Cancelled { what: what.to_owned() })
            }
            // A stop after the last step changes nothing.
            built => built.map(Plan::new),
        }
    }
}
