/*!
An object of nvJPEG's with its end.
*/

use super::error::{NvJpegError, tried};
use super::sys::{Object, Status};
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

// SAFETY: nvJPEG ties its objects to a device, which is made current wherever they are used, and to no thread.
unsafe impl Send for Owned {}

impl Owned {
    /// Makes an object on `gpu` with `create`, which writes its address.
    ///
    /// # Safety
    /// `destroy` ends what `create` makes, and nobody else does; whatever the object uses outlives it.
    pub unsafe fn new(
        gpu: &Gpu,
        what: &'static str,
        destroy: Destroy,
        create: impl FnOnce(*mut Object) -> Status,
    ) -> Result<Self, NvJpegError> {
        gpu.bind()?;
        let mut object = std::ptr::null_mut();
        tried(what, create(&mut object))?;
        if object.is_null() {
            // Told that all is well without an object: nothing can be done with that.
            return Err(NvJpegError::Failed { what, status: Status::ALLOCATOR_FAILURE });
        }
        Ok(Self { object, destroy, gpu: gpu.clone() })
    }

    /// Its address, valid as long as this value.
    pub fn get(&self) -> Object {
        self.object
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
            log::debug!("an object of nvJPEG's could not be ended: {status}");
        }
    }
}
