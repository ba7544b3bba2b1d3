/*!
A frame in flight: the events of its stages, its results, and the times between the events.
*/

use std::time::Instant;

use anyhow::{Context, Result};

use super::decode_ahead::Decoded;
use super::exchange::LogitBuffers;
use super::tracked_object::Results;
use cuda::{Event, Gpu, GpuError, Pinned, Wait};
use vos::record::{Enqueued, StageTimes};
use vos::stage::Stage;

/// One object's events and results on a frame.
pub struct ObjectEvents {
    /// Before its first step; only where the step does not directly follow the encoder.
    pub begun: Option<Event>,
    /// After the prompt or track step.
    pub track_done: Event,
    /// After the mask kernel.
    pub postprocess_done: Event,
    /// Before the download.
    pub download_begun: Event,
    /// The mask lies in host memory.
    pub download_done: Event,
    /// The memory is written.
    pub memory_done: Event,
    /// The downloaded results.
    pub results: Pinned,
    /// Logits in and out, in runs that exchange them.
    pub logits: LogitBuffers,
}

impl ObjectEvents {
    /// The results of the step (`selects` as [`Results::of`] takes it) and, `with_logits`, the
    /// network's own logits. Waits for nothing once [`InFlightFrame::wait`] returned.
    pub fn taken(
        &mut self,
        words_bytes: usize,
        selects: bool,
        with_logits: bool,
    ) -> Result<(Results<'_>, Option<&[u8]>)> {
        let bytes = self.results.bytes()?;
        let results = bytes.get(..Results::bytes(words_bytes));
        let results = results.and_then(|bytes| Results::of(bytes, selects));
        let results = results.context("the results of a frame are too short")?;
        let logits = with_logits.then(|| self.logits.saved()).transpose()?;
        Ok((results, logits))
    }
}

/// An object that is tracked on the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveObject {
    /// Which object.
    pub object: usize,
    /// Its frame number, 0 for the prompted one.
    pub t: usize,
    /// It directly follows the encoder, on the same stream.
    pub follows_encoder: bool,
    /// Its step outputs the predicted IoUs of its candidate masks.
    pub selects: bool,
}

/// One frame's events; used again for a later frame once its results are taken.
pub struct InFlightFrame {
    /// Before the upload: the first of all.
    pub begun: Event,
    /// Pixels are on the device.
    pub uploaded: Event,
    /// Before the preprocessing; only where it does not directly follow the upload.
    pub encode: Option<Event>,
    /// The network's input is there.
    pub preprocessed: Event,
    /// Before the encoder; only where it takes several frames at once, and so follows the last
    /// one's preprocessing.
    pub encoder_begun: Option<Event>,
    /// The features are there.
    pub encoded: Event,
    /// Frames that the encoder took together with this one, itself among them.
    pub batch: usize,
    /// Of each object.
    pub objects: Vec<ObjectEvents>,
    /// The objects that are tracked on this frame.
    pub active: Vec<ActiveObject>,
    /// The frame, held until its results are there.
    pub decoded: Option<Decoded>,
    /// The host's clock when the first call was made.
    pub submitted: Instant,
    /// The calls that enqueued its work; empty where it shares them with other frames.
    pub enqueued: Enqueued,
    /// Place in the order of frames.
    pub position: usize,
}

impl InFlightFrame {
    /// Events and room for the results of so many objects.
    pub fn new(
        gpu: &Gpu,
        objects: usize,
        result_bytes: usize,
        streams_differ: bool,
        batched: bool,
    ) -> Result<Self, GpuError> {
        let object = |_| {
            Ok(ObjectEvents {
                begun: Some(gpu.event()?),
                track_done: gpu.event()?,
                postprocess_done: gpu.event()?,
                download_begun: gpu.event()?,
                download_done: gpu.event()?,
                memory_done: gpu.event()?,
                results: Pinned::new(gpu, result_bytes)?,
                logits: LogitBuffers::default(),
            })
        };
        Ok(Self {
            begun: gpu.event()?,
            uploaded: gpu.event()?,
            encode: streams_differ.then(|| gpu.event()).transpose()?,
            preprocessed: gpu.event()?,
            encoder_begun: batched.then(|| gpu.event()).transpose()?,
            encoded: gpu.event()?,
            batch: 1,
            objects: (0..objects).map(object).collect::<Result<_, GpuError>>()?,
            active: Vec::with_capacity(objects),
            decoded: None,
            submitted: Instant::now(),
            enqueued: Enqueued::default(),
            position: 0,
        })
    }

    /// Waits until all masks of the frame lie in host memory, and with `memories` until all
    /// memories are written too.
    pub fn wait(&self, wait: Wait, memories: bool) -> Result<(), GpuError> {
        if self.active.is_empty() {
            return self.encoded.synchronize(wait);
        }
        for active in &self.active {
            let events = &self.objects[active.object];
            // One wait is enough for a frame with one object: its memory follows its download.
            let last = if memories { &events.memory_done } else { &events.download_done };
            last.synchronize(wait)?;
        }
        Ok(())
    }

    /// Times of the device's stages; those of several objects are sums, and of frames that were
    /// encoded together each has its share. The frame must be done.
    pub fn stages(&self) -> Result<StageTimes, GpuError> {
        let preprocess_begun = self.encode.as_ref().unwrap_or(&self.uploaded);
        let encoder_begun = self.encoder_begun.as_ref().unwrap_or(&self.preprocessed);
        let encoder_ms = self.encoded.ms_since(encoder_begun)?;
        let mut times = StageTimes::of([
            (Stage::Upload, self.uploaded.ms_since(&self.begun)?),
            (Stage::Preprocess, self.preprocessed.ms_since(preprocess_begun)?),
            (Stage::Encoder, encoder_ms / self.batch as f64),
        ]);
        for active in &self.active {
            let events = &self.objects[active.object];
            let begun = match (&events.begun, active.follows_encoder) {
                (Some(begun), false) => begun,
                _ => &self.encoded,
            };
            let step = if active.t == 0 { Stage::Prompt } else { Stage::Track };
            times.add(step, events.track_done.ms_since(begun)?);
            times.add(Stage::Postprocess, events.postprocess_done.ms_since(&events.track_done)?);
            times.add(Stage::Download, events.download_done.ms_since(&events.download_begun)?);
            times.add(Stage::Memory, events.memory_done.ms_since(&events.postprocess_done)?);
        }
        Ok(times)
    }

    /// From the first work of the frame to the last, ms. The frame must be done.
    pub fn gpu_ms(&self) -> Result<f64, GpuError> {
        let features = self.encoded.ms_since(&self.begun)?;
        self.active.iter().try_fold(features, |most, active| {
            Ok(most.max(self.objects[active.object].memory_done.ms_since(&self.begun)?))
        })
    }

    /// When the frame's last mask was in host memory, ms after `base`.
    pub fn masks_ms(&self, base: &Event) -> Result<f64, GpuError> {
        let features = self.encoded.ms_since(base)?;
        self.active.iter().try_fold(features, |most, active| {
            Ok(most.max(self.objects[active.object].download_done.ms_since(base)?))
        })
    }
}
