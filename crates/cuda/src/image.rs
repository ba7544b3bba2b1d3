/*!
Images of compiled kernels, and the modules that were loaded from them.
*/

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::CudaModule;

/// A compiled module, part of the program.
#[derive(Clone, Copy, Debug)]
pub enum Image {
    /// Deflated PTX, which the driver compiles for the GPU and keeps in its cache.
    Ptx(&'static [u8]),
    /// A cubin for one architecture.
    Cubin(&'static [u8]),
}

impl Image {
    /// The address of its bytes, which identifies an image.
    fn place(self) -> usize {
        let (Self::Ptx(bytes) | Self::Cubin(bytes)) = self;
        bytes.as_ptr().addr()
    }

    /// The text of deflated PTX; none if it is damaged.
    pub fn inflated(deflated: &[u8]) -> Option<String> {
        let text = miniz_oxide::inflate::decompress_to_vec(deflated).ok()?;
        String::from_utf8(text).ok()
    }
}

/// The modules that a GPU has loaded, by the address of their images. Without a cache on disk the
/// driver compiles PTX at each load, which takes up to seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Modules(Arc<Mutex<BTreeMap<usize, Weak<CudaModule>>>>);

impl Modules {
    /// The module of this image, if it is still in use.
    pub(super) fn find(&self, image: Image) -> Option<Arc<CudaModule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&image.place())?.upgrade()
    }

    pub(super) fn add(&self, image: Image, module: &Arc<CudaModule>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(image.place(), Arc::downgrade(module));
    }
}
