/*!
An object of cuBLASLt's with its end.
*/

use std::ffi::c_void;

use super::error::CublasLtError;
use super::library::Library;
use super::sys::{Object, SetAttribute, Status};
use crate::Gpu;

/// The function that ends an object.
type Destroy = unsafe extern "C" fn(Object) -> Status;

/// An object, ended with this value. The library that made it is never closed; what else it needs its owner keeps.
#[derive(Debug)]
pub(super) struct Owned {
    object: Object,
    destroy: Destroy,
    gpu: Gpu,
}

// SAFETY: handles and descriptors are tied to no thread, and the handle's device is made current wherever it is used.
unsafe impl Send for Owned {}
// SAFETY: cuBLASLt may be called from several threads with one handle (NVIDIA's guide, "Thread Safety"); a descriptor changes only
// through `set`, whose caller has it alone, and is otherwise read.
unsafe impl Sync for Owned {}

impl Owned {
    /// Makes an object on `gpu` with `create`, which writes its address.
    ///
    /// # Safety
    /// `destroy` ends what `create` makes, and nobody else does; whatever the object uses outlives it.
    pub unsafe fn new(
        gpu: &Gpu,
        library: &Library,
        what: &str,
        destroy: Destroy,
        create: impl FnOnce(*mut Object) -> Status,
    ) -> Result<Self, CublasLtError> {
        gpu.bind()?;
        let mut object = std::ptr::null_mut();
        library.tried(create(&mut object), || what.to_owned())?;
        if object.is_null() {
            // Told that all is well without an object: nothing can be done with that.
            return Err(library.failed(Status::ALLOC_FAILED, what.to_owned()));
        }
        Ok(Self { object, destroy, gpu: gpu.clone() })
    }

    /// Its address, valid as long as this value.
    pub fn get(&self) -> Object {
        self.object
    }

    /// Sets an attribute with `function`.
    ///
    /// # Safety
    /// `function` sets attributes of this kind of object, and `attribute` takes a `T`.
    pub unsafe fn set<T: Copy>(
        &mut self,
        function: SetAttribute,
        attribute: i32,
        value: T,
    ) -> Status {
        let place: *const c_void = (&raw const value).cast();
        // SAFETY: the object lives, and is changed by nobody else meanwhile; the value is copied before the call returns. The
        // rest is the caller's promise.
        unsafe { function(self.object, attribute, place, size_of::<T>()) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Err(error) = self.gpu.bind() {
            log::debug!("{error}");
        }
        // SAFETY: made by the matching function, ended here only (`new`'s contract).
        let status = unsafe { (self.destroy)(self.object) };
        if status != Status::SUCCESS {
            log::debug!("an object of cuBLASLt's could not be ended: {status}");
        }
    }
}
