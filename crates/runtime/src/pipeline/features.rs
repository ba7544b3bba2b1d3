/*!
Feature sets: what the encoder reads and writes, as often as frames may be in it at once. The sets of a batch lie one behind
the other, so that the encoder takes and gives them as one tensor.
*/

use anyhow::{Result, bail};

use super::contexts::{Shared, port};
use super::encoder::Encoder;
use super::steps::Steps;
use crate::{Placed, Port, Stage};
use cuda::Element;
use cuda::{CapturedGraph, Event, Gpu, MemoryTag, Stream, View};
use tensorrt::DataType;

pub use vos::bundle::parts::FEATURES;

/// One frame's set.
pub struct FeatureSet {
    /// The network's input.
    pub image: Placed,
    /// In the order of [`FEATURES`].
    pub features: [Placed; 3],
    /// Behind the preprocessing that read the set's frame: the frame may be overwritten.
    pub frame_read: Event,
}

impl FeatureSet {
    /// Memory for the `batch` frames that the encoder takes at once, and the encoder's work on them.
    pub fn batch(
        gpu: &Gpu,
        encoder: &Encoder,
        batch: usize,
        stream: &Stream,
        graphs: bool,
    ) -> Result<(Vec<Self>, CapturedGraph<Steps>)> {
        let of = |name: &str, purpose| placed(gpu, encoder.stage_of(name)?, name, purpose);
        let images = of("image", MemoryTag::Frames)?;
        let [feat, hr0, hr1] = FEATURES.map(|name| of(name, MemoryTag::Features));
        let features = [feat?, hr0?, hr1?];
        let part = |whole: &Placed, at: usize| -> Result<Placed> {
            let bytes = whole.view.len() / batch;
            Ok(Placed { view: whole.view.part(at * bytes, bytes)?, dtype: whole.dtype })
        };
        let sets = (0..batch).map(|at| {
            let [feat, hr0, hr1] = &features;
            let features = [part(feat, at)?, part(hr0, at)?, part(hr1, at)?];
            Ok(Self { image: part(&images, at)?, features, frame_read: gpu.mark()? })
        });
        let sets = sets.collect::<Result<_>>()?;
        let mut bindings = vec![("image", images)];
        bindings.extend(FEATURES.into_iter().zip(features));
        Ok((sets, CapturedGraph::new(encoder.steps(&bindings), stream, graphs)))
    }

    /// The features as bindings.
    pub fn bindings(&self) -> Vec<(&'static str, Placed)> {
        FEATURES.into_iter().zip(self.features.iter().cloned()).collect()
    }
}

/// New memory for a tensor of an engine.
pub fn placed(gpu: &Gpu, stage: &Shared, name: &str, purpose: MemoryTag) -> Result<Placed> {
    memory_of(gpu, &port(stage, name)?, purpose)
}

/// New memory for a tensor.
pub fn memory_of(gpu: &Gpu, port: &Port, purpose: MemoryTag) -> Result<Placed> {
    let view = View::new(&gpu.tagged(purpose), Stage::port_bytes(port)?)?;
    Ok(Placed { view, dtype: port.dtype })
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
