/*!
An object of a CUDA library (a handle, a descriptor, a buffer) that is destroyed with its owner.
*/

use std::ffi::c_void;
use std::fmt::Display;

use crate::{Gpu, GpuError};

/// An object of a library; only its address is known here.
pub type Object = *mut c_void;

/// A library's status, as its functions return it.
pub(crate) trait Status: Copy + PartialEq + Display {
    /// All is well.
    const SUCCESS: Self;
    /// No memory.
    const NO_MEMORY: Self;
}

/// The function that destroys an object.
type Destroy<S> = unsafe extern "C" fn(Object) -> S;

/// An object that is destroyed with this value. The library that created it is never closed; its
/// owner keeps alive what else it needs.
#[derive(Debug)]
pub(crate) struct Owned<S: Status> {
    object: Object,
    destroy: Destroy<S>,
    gpu: Gpu,
}

// SAFETY: cuBLASLt and nvJPEG tie their objects to a device, which is made current wherever they
// are used, and to no thread.
unsafe impl<S: Status> Send for Owned<S> {}

impl<S: Status> Owned<S> {
    /// Creates an object on `gpu` with `create`, which writes its address. `failed` turns a refusal
    /// into the library's error.
    ///
    /// # Safety
    /// `destroy` destroys what `create` creates, and nobody else does; whatever the object uses
    /// outlives it.
    pub unsafe fn new<E: From<GpuError>>(
        gpu: &Gpu,
        destroy: Destroy<S>,
        failed: impl FnOnce(S) -> E,
        create: impl FnOnce(*mut Object) -> S,
    ) -> Result<Self, E> {
        gpu.bind()?;
        let mut object = std::ptr::null_mut();
        let status = create(&mut object);
        if status != S::SUCCESS {
            return Err(failed(status));
        }
        // Success without an object.
        if object.is_null() {
            return Err(failed(S::NO_MEMORY));
        }
        Ok(Self { object, destroy, gpu: gpu.clone() })
    }

    /// Its address, valid as long as this value.
    pub fn get(&self) -> Object {
        self.object
    }
}

impl<S: Status> Drop for Owned<S> {
    fn drop(&mut self) {
        if let Err(error) = self.gpu.bind() {
            log::debug!("{error}");
        }
        // SAFETY: created by the matching function, destroyed here only (`new`'s contract).
        let status = unsafe { (self.destroy)(self.object) };
        if status != S::SUCCESS {
            log::debug!("an object could not be destroyed: {status}");
        }
    }
}
