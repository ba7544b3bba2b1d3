/*!
Feature sets: what the encoder reads and writes, as often as frames may be in it at once.
*/

use anyhow::{Result, bail};

use super::contexts::{Shared, port};
use super::steps::Steps;
use crate::gpu::kernels::Element;
use crate::gpu::{Event, Gpu, Placed, Purpose, Recorded, Stage, Stream, View};
use crate::trt::DataType;

/// The encoder's outputs, which all other engines take.
pub const FEATURES: [&str; 3] = ["feat", "hr0", "hr1"];

/// One set.
pub struct FeatureSet {
    /// The network's input.
    pub image: Placed,
    /// In the order of [`FEATURES`].
    pub features: [Placed; 3],
    /// The encoder on this set.
    pub encode: Recorded<Steps>,
    /// Behind the preprocessing that read the set's frame: the frame may be overwritten.
    pub frame_read: Event,
}

impl FeatureSet {
    /// Memory for one frame, and the encoder's work on it.
    pub fn new(gpu: &Gpu, encoder: &Shared, stream: &Stream, graphs: bool) -> Result<Self> {
        let of = |name: &str, purpose| placed(gpu, encoder, name, purpose);
        let image = of("image", Purpose::Frames)?;
        let [feat, hr0, hr1] = FEATURES.map(|name| of(name, Purpose::Features));
        let features = [feat?, hr0?, hr1?];
        let mut bindings = vec![("image", image.clone())];
        bindings.extend(FEATURES.into_iter().zip(features.iter().cloned()));
        let work = Steps(vec![Steps::engine(encoder, bindings)]);
        Ok(Self {
            image,
            features,
            encode: Recorded::new(work, stream, graphs),
            frame_read: gpu.mark()?,
        })
    }

    /// The features as bindings.
    pub fn bindings(&self) -> Vec<(&'static str, Placed)> {
        FEATURES.into_iter().zip(self.features.iter().cloned()).collect()
    }
}

/// New memory for a tensor of an engine.
pub fn placed(gpu: &Gpu, stage: &Shared, name: &str, purpose: Purpose) -> Result<Placed> {
    let port = port(stage, name)?;
    let view = View::new(&gpu.towards(purpose), Stage::port_bytes(&port)?)?;
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
