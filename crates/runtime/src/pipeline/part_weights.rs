/*!
The weights of a part that custom CUDA kernels compute, read once, however often the engines of its
folder are opened.
*/

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use crate::engine::{EngineManifest, open_part};
use vos::bundle::{FusedPart, WeightsFile};

/// A part's shape, and its weights.
pub type ShapeAndWeights<P> = (<P as FusedPart>::Shape, Arc<WeightsFile<P>>);

/// None until they are asked for.
pub struct PartWeights<P>(OnceCell<Arc<WeightsFile<P>>>);

impl<P> Clone for PartWeights<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P> Default for PartWeights<P> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<P: FusedPart<Shape: Copy>> PartWeights<P> {
    /// Those beside the plans in `dir`; none where an engine computes the part.
    ///
    /// # Errors
    /// A file that is missing, damaged, or not the manifest's.
    pub fn get(&self, dir: &Path, manifest: &EngineManifest) -> Result<Option<ShapeAndWeights<P>>> {
        let Some(part) = manifest.part::<P>() else { return Ok(None) };
        let weights = match self.0.get() {
            Some(weights) => Arc::clone(weights),
            None => {
                let weights = Arc::new(open_part(dir, manifest)?);
                Arc::clone(self.0.get_or_init(|| weights))
            }
        };
        Ok(Some((*part.shape(), weights)))
    }
}
