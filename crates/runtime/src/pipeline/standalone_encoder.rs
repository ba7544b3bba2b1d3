/*!
An encoder without a pipeline, its trunk included: the self-test compares it with the encoder in one
piece.
*/

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::encoder::Encoder;
use super::engines::EncoderEngines;
use super::features::{FEATURES, FeatureSet};
use super::trunk_file::TrunkFile;
use crate::engine::EngineManifest;
use cuda::{Capturable, CapturedGraph, Gpu, MemoryTag, Stream, View};
use execution::Program;
use kernels::{AttentionKernels, AttentionUse};
use tensorrt::{DataType, Runtime};

/// The engines of one frame's encoder on a stream of their own. Declared in the order of deletion.
pub struct StandaloneEncoder {
    recorded: CapturedGraph<Program>,
    calls: Program,
    set: FeatureSet,
    _encoder: Encoder,
    _scratch: View,
    stream: Stream,
    _engines: EncoderEngines,
}

impl StandaloneEncoder {
    /// Opens and lays out the parts of the encoder of `manifest`, which lies in `dir`; whatever a
    /// clip would run where the whole encoder was built, too.
    ///
    /// # Errors
    /// Engines that are missing or do not fit together, what lies between them cannot be computed
    /// here, or too little memory.
    pub fn open(
        gpu: &Gpu,
        runtime: &Runtime,
        dir: &Path,
        manifest: &EngineManifest,
    ) -> Result<Self> {
        let gpu = &manifest.gpu(gpu);
        let roles = manifest.bundle.encoder_parts().iter().map(|part| part.role).collect();
        let engines = EncoderEngines::of(runtime, gpu.facts().sm, dir, manifest, roles)?;
        let kernels = engines
            .trunk
            .as_ref()
            .is_some_and(TrunkFile::is_hiera)
            .then(|| AttentionKernels::load_for(gpu, &[AttentionUse::Encoder]))
            .transpose()?;
        let stream = gpu.stream()?;
        let bytes = usize::try_from(engines.scratch_bytes());
        let bytes = bytes.context("the encoder needs too much scratch memory")?;
        let scratch = View::new(&gpu.tagged(MemoryTag::Scratch), bytes)?;
        let encoder = Encoder::new(gpu, &engines, kernels.as_ref(), &scratch, &stream)?;
        let (mut sets, recorded) = FeatureSet::batch(gpu, &encoder, 1, &stream, true)?;
        let set = sets.pop().context("there is no place for the features")?;
        let mut tensors = vec![("image", set.image.clone())];
        tensors.extend(set.bindings());
        let calls = encoder.program(&tensors)?;
        Ok(Self {
            recorded,
            calls,
            set,
            _encoder: encoder,
            _scratch: scratch,
            stream,
            _engines: engines,
        })
    }

    /// The element type of the image that it takes.
    pub fn image_type(&self) -> DataType {
        self.set.image.dtype
    }

    /// The stream that runs it.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Writes the image, normalised and planar.
    ///
    /// # Errors
    /// Another size than the network's.
    pub fn set_image(&self, bytes: &[u8]) -> Result<()> {
        let expected = self.set.image.view.len();
        ensure!(bytes.len() == expected, "the image takes {expected} bytes, {} came", bytes.len());
        Ok(self.set.image.view.upload(bytes, &self.stream)?)
    }

    /// Sets every byte of the features, so that a test finds bytes that a run did not write.
    ///
    /// # Errors
    /// What the driver says.
    pub fn fill_features(&self, byte: u8) -> Result<()> {
        self.set.features.iter().try_for_each(|placed| Ok(placed.view.fill(byte, &self.stream)?))
    }

    /// Enqueues everything call by call; returns before it is done.
    ///
    /// # Errors
    /// What TensorRT, cuBLASLt or the driver say.
    pub fn enqueue(&mut self) -> Result<()> {
        self.calls.enqueue(&self.stream)
    }

    /// The same as one CUDA graph, recorded behind the first run.
    ///
    /// # Errors
    /// As [`Self::enqueue`], or work that cannot be recorded.
    pub fn replay(&mut self) -> Result<()> {
        self.recorded.run()
    }

    /// The features by name, with their element types, when all that is enqueued is done.
    ///
    /// # Errors
    /// What the driver says.
    pub fn features(&self) -> Result<Vec<(&'static str, DataType, Vec<u8>)>> {
        let all = FEATURES.into_iter().zip(&self.set.features);
        all.map(|(name, placed)| Ok((name, placed.dtype, placed.view.download(&self.stream)?)))
            .collect()
    }
}
