/*!
Runs an encoder that is cut as a frame would have it run: all its parts, and between them what this program computes itself.
*/

use std::path::Path;

use anyhow::{Context, Result};

use super::engine_run::{Output, Repeats};
use super::record::{Cost, Timing};
use super::tensor::{POISON, Readback, Tensor};
use crate::engine::EngineManifest;
use crate::gpu::Gpu;
use crate::pipeline::EncoderAlone;
use crate::trt::Runtime;

/// An encoder of a folder, opened for its test.
pub struct Joined<'a> {
    gpu: &'a Gpu,
    encoder: EncoderAlone,
}

impl<'a> Joined<'a> {
    /// Opens it.
    ///
    /// # Errors
    /// As [`EncoderAlone::open`].
    pub fn open(
        gpu: &'a Gpu,
        runtime: &Runtime,
        dir: &Path,
        manifest: &EngineManifest,
    ) -> Result<Self> {
        Ok(Self { gpu, encoder: EncoderAlone::open(gpu, runtime, dir, manifest)? })
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
        let mut cost =
            Cost { enqueue: self.time(repeats, EncoderAlone::enqueue)?, ..Cost::default() };
        let mut replayed = None;
        // The first run records.
        match self.encoder.replay() {
            Ok(()) => {
                self.encoder.fill_features(POISON)?;
                self.encoder.replay()?;
                replayed = Some(self.read()?);
                cost.graph = self.time(repeats, EncoderAlone::replay)?;
            }
            Err(error) => cost.graph_problem = Some(format!("{error:#}")),
        }
        let mut replayed = replayed.map(Vec::into_iter);
        let outputs = enqueued.into_iter().map(|(name, enqueued)| {
            let replayed = replayed.as_mut().and_then(Iterator::next).map(|(_, read)| read);
            Output { name, enqueued, replayed }
        });
        Ok((outputs.collect(), cost))
    }

    fn read(&self) -> Result<Vec<(String, Readback)>> {
        let features = self.encoder.features()?.into_iter();
        let read = |(name, dtype, bytes): (&str, _, Vec<u8>)| {
            Ok((name.to_owned(), Readback::new(name, &bytes, dtype)?))
        };
        features.map(read).collect()
    }

    /// Single runs, each begun on an idle stream.
    fn time(
        &mut self,
        repeats: Repeats,
        mut run: impl FnMut(&mut EncoderAlone) -> Result<()>,
    ) -> Result<Option<Timing>> {
        for _ in 0..repeats.warmup {
            run(&mut self.encoder)?;
        }
        self.encoder.stream().synchronize()?;
        let (start, end) = (self.gpu.event()?, self.gpu.event()?);
        let mut samples = Vec::with_capacity(repeats.runs);
        for _ in 0..repeats.runs {
            start.record(self.encoder.stream())?;
            run(&mut self.encoder)?;
            end.record(self.encoder.stream())?;
            samples.push(end.ms_since(&start)?);
        }
        Ok(Timing::of(&samples))
    }
}
