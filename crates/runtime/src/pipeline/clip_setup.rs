/*!
The parts of a pipeline that depend on the size of a clip's frames.
*/

use anyhow::Result;

use cuda::{Element, Gpu, MemoryTag, Stream, View};
use kernels::{Kernels, MaskMaker, Preprocess};
use vos::bundle::Contract;
use vos::geometry::Geometry;
use vos::preprocess::Filter;

/// What reads frames of one size and makes masks of it.
pub struct ClipSetup {
    pub geometry: Geometry,
    pub preprocess: Preprocess,
    pub masks: MaskMaker,
    /// One for each feature set; none where the device reads the host's memory in place.
    pub frames: Vec<View>,
    pub frame_bytes: usize,
    pub words_bytes: usize,
}

impl ClipSetup {
    /// Kernels' tables, and memory for `frames` decoded frames, which are resized with a filter to
    /// elements of a type. The uploads are enqueued on `stream`.
    ///
    /// # Errors
    /// Too little memory, or another error of the driver.
    pub fn new(
        gpu: &Gpu,
        kernels: &Kernels,
        contract: &Contract,
        geometry: &Geometry,
        (filter, element): (Filter, Element),
        frames: usize,
        stream: &Stream,
    ) -> Result<Self> {
        let (mean, std) = (contract.mean, contract.std);
        let preprocess =
            Preprocess::new(gpu, kernels, geometry, filter, element, mean, std, stream)?;
        let masks = MaskMaker::new(gpu, kernels, geometry, contract.low_size, stream)?;
        let (width, height) = geometry.video_size();
        let frame_bytes = 3 * width * height;
        let frames = (0..frames)
            .map(|_| Ok(View::new(&gpu.tagged(MemoryTag::Frames), frame_bytes)?))
            .collect::<Result<_>>()?;
        let words_bytes = masks.words_bytes();
        let geometry = geometry.clone();
        Ok(Self { geometry, preprocess, masks, frames, frame_bytes, words_bytes })
    }
}
