/*!
A serialized engine as TensorRT's builder gives it out.
*/

use super::ffi_object::Object;
use super::sys;

/// The bytes of a plan, in memory that TensorRT owns.
pub struct Plan {
    memory: Object,
}

impl Plan {
    pub(super) fn new(memory: Object) -> Self {
        Self { memory }
    }

    /// The plan, to be written to a file.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `memory` is an IHostMemory; both questions only read it.
        let (data, size) = unsafe {
            let data = sys::trtdl_memory_data(self.memory.api(), self.memory.get());
            (data, sys::trtdl_memory_size(self.memory.api(), self.memory.get()))
        };
        if data.is_null() || size == 0 {
            return &[];
        }
        // SAFETY: TensorRT keeps `size` initialised bytes at `data` unchanged until the object is
        // deleted, which the returned borrow of `self` prevents.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
    }
}
