/*!
Runs an encoder in parts as a frame does: all its engines, and the CUDA kernels between them.
*/

use std::path::Path;

use anyhow::{Context, Result};

use super::engine_run::{Output, Repeats, outputs, times};
use super::record::{Cost, Timing};
use super::tensor::{POISON, Readback, Tensor};
use cuda::Gpu;
use runtime::engine::EngineManifest;
use runtime::pipeline::StandaloneEncoder;
use tensorrt::Runtime;

/// An encoder of a folder, opened for its test.
pub struct Joined<'a> {
    gpu: &'a Gpu,
    encoder: StandaloneEncoder,
}

impl<'a> Joined<'a> {
    /// Opens it.
    ///
    /// # Errors
    /// As [`StandaloneEncoder::open`].
    pub fn open(
        gpu: &'a Gpu,
        runtime: &Runtime,
        dir: &Path,
        manifest: &EngineManifest,
    ) -> Result<Self> {
        Ok(Self { gpu, encoder: StandaloneEncoder::open(gpu, runtime, dir, manifest)? })
    }

    /// Rounds the image to what the engines take.
    ///
    /// # Errors
    /// There is none.
    pub fn fit(&self, inputs: &mut [Tensor]) -> Result<()> {
        let image = inputs.first_mut().context("no image was made")?;
        image.round_to(self.encoder.image_type());
        Ok(())
    }

    /// Once for its values, often for its times, enqueued and as a CUDA graph.
    ///
    /// # Errors
    /// What TensorRT, cuBLASLt or the driver say.
    pub fn run(mut self, inputs: &[Tensor], repeats: Repeats) -> Result<(Vec<Output>, Cost)> {
        let image = inputs.first().context("no image was made")?;
        self.encoder.set_image(&image.bytes(self.encoder.image_type())?)?;
        self.encoder.fill_features(POISON)?;
        self.encoder.enqueue()?;
        let enqueued = self.read()?;
        let (gpu, stream) = (self.gpu, self.encoder.stream().clone());
        let enqueue = Timing::of(&times(gpu, &stream, repeats, || self.encoder.enqueue())?);
        let mut cost = Cost { enqueue, ..Cost::default() };
        let mut replayed = None;
        // The first run records.
        match self.encoder.replay() {
            Ok(()) => {
                self.encoder.fill_features(POISON)?;
                self.encoder.replay()?;
                replayed = Some(self.read()?);
                cost.graph = Timing::of(&times(gpu, &stream, repeats, || self.encoder.replay())?);
            }
            Err(error) => cost.graph_problem = Some(format!("{error:#}")),
        }
        Ok((outputs(enqueued, replayed), cost))
    }

    fn read(&self) -> Result<Vec<(String, Readback)>> {
        let features = self.encoder.features()?.into_iter();
        let read = |(name, dtype, bytes): (&str, _, Vec<u8>)| {
            Ok((name.to_owned(), Readback::new(name, &bytes, dtype)?))
        };
        features.map(read).collect()
    }
}
