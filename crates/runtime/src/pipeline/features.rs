/*!
Feature sets: the encoder's input and outputs, once for each frame that may be in it at the same
time. The sets of a batch are contiguous, so that the encoder reads and writes them as one tensor.
*/

use anyhow::{Result, bail};

use super::bound::allocate;
use super::encoder::Encoder;
use cuda::{CapturedGraph, Element, Event, Gpu, MemoryTag, Stream};
use execution::{DeviceTensor, Program};
use tensorrt::DataType;

pub use vos::bundle::part_graph::FEATURES;

/// One frame's set.
pub struct FeatureSet {
    /// The network's input.
    pub image: DeviceTensor,
    /// In the order of [`FEATURES`].
    pub features: [DeviceTensor; 3],
    /// The preprocessing has read the set's frame, which may be overwritten.
    pub frame_read: Event,
}

impl FeatureSet {
    /// Memory for the `batch` frames that the encoder takes at once, and the encoder's work on
    /// them.
    pub fn batch(
        gpu: &Gpu,
        encoder: &Encoder,
        batch: usize,
        stream: &Stream,
        graphs: bool,
    ) -> Result<(Vec<Self>, CapturedGraph<Program>)> {
        let of = |name: &str, tag| allocate(gpu, &encoder.tensor(name)?, tag);
        let images = of("image", MemoryTag::Frames)?;
        let [feat, hr0, hr1] = FEATURES.map(|name| of(name, MemoryTag::Features));
        let features = [feat?, hr0?, hr1?];
        let part = |whole: &DeviceTensor, at: usize| -> Result<DeviceTensor> {
            let bytes = whole.view.len() / batch;
            Ok(DeviceTensor { view: whole.view.part(at * bytes, bytes)?, dtype: whole.dtype })
        };
        let sets = (0..batch).map(|at| {
            let [feat, hr0, hr1] = &features;
            let features = [part(feat, at)?, part(hr0, at)?, part(hr1, at)?];
            Ok(Self { image: part(&images, at)?, features, frame_read: gpu.mark()? })
        });
        let sets = sets.collect::<Result<_>>()?;
        let mut bindings = vec![("image", images)];
        bindings.extend(FEATURES.into_iter().zip(features));
        Ok((sets, CapturedGraph::new(encoder.program(&bindings)?, stream, graphs)))
    }

    /// The features as bindings.
    pub fn bindings(&self) -> Vec<(&'static str, DeviceTensor)> {
        FEATURES.into_iter().zip(self.features.iter().cloned()).collect()
    }
}

/// The kernels' name of an element type.
pub fn element(name: &str, dtype: DataType) -> Result<Element> {
    Ok(match dtype {
        DataType::Float => Element::F32,
        DataType::Half => Element::F16,
        other => bail!(
            "'{name}' is {other}, expected fp32 or fp16; export the model again and build its engines"
        ),
    })
}
