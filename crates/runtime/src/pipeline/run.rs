/*!
One pass over a clip: frames are fed as they are decoded, results taken as they come.
*/

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::decode_ahead::{DecodeAhead, Decoded, Work};
use super::flight::Leg;
use super::lane::Results;
use super::rig::Pipeline;
use cuda::Event;
use vos::dataset::{Clip, ClipError};
use vos::geometry::Geometry;
use vos::logits::Exchange;
use vos::ranges::{self, Range, within};
use vos::record::{FrameTime, FrameTimes, Mode, SourceAge};
use vos::stage::Stage;
use vos::tracker::{BankSchedule, NetworkPrompt, require_finite};

/// An object of a pass: its prompt, and the positions among the pass's frames at which it is tracked.
#[derive(Clone, Copy, Debug)]
pub struct ObjectSpan<'a> {
    /// How it is prompted, on its first frame.
    pub prompt: &'a NetworkPrompt,
    /// Position of the prompted frame.
    pub start: usize,
    /// Position after its last frame.
    pub end: usize,
    /// What logits it hands out or takes; only with one frame in flight.
    pub logits: Exchange<'a>,
}

/// What a pass runs over.
#[derive(Clone, Debug)]
pub struct PassPlan<'a> {
    /// The clip.
    pub clip: &'a Clip,
    /// Its geometry.
    pub geometry: &'a Geometry,
    /// Indices of the clip's frames, in the order in which they are run; they may come again.
    pub frames: Vec<usize>,
    /// The objects, all in one go.
    pub objects: Vec<ObjectSpan<'a>>,
}

/// What one frame yields for one object.
#[derive(Clone, Debug)]
pub struct FrameResult<'a> {
    /// Which object of the plan.
    pub object: usize,
    /// Position among the plan's frames.
    pub position: usize,
    /// Scores and mask; the mask's words are in place and gone after the call.
    pub results: Results<'a>,
    /// What the frame took; shared by its objects.
    pub times: FrameTimes,
    /// The network's own low-resolution logits, little-endian f32, where they are handed out.
    pub logits: Option<&'a [u8]>,
}

/// Why a pass broke off.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// A frame that cannot be used.
    #[error(transparent)]
    Clip(ClipError),
    /// The device or an engine failed at a frame.
    #[error("frame {frame}: {error:#}")]
    Inference {
        /// Frame index in the clip.
        frame: usize,
        /// What it said.
        error: anyhow::Error,
    },
    /// Anything else.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

/// Runs a pass; `take` hears of each frame of each object, in order.
///
/// # Errors
/// A frame that cannot be decoded, an engine that fails, scores that are no numbers.
pub fn run(
    pipeline: &mut Pipeline,
    plan: &PassPlan<'_>,
    take: &mut dyn FnMut(FrameResult<'_>) -> Result<()>,
) -> Result<(), PassError> {
    pipeline.set_up(plan.geometry, plan.objects.len())?;
    let (work, free) = Work::new(plan.frames.clone(), plan.geometry.video_size());
    for slot in pipeline.slots.drain(..) {
        // The receiving end is in `work`, which lives.
        let _ = free.send(slot);
    }
    let threads = pipeline.options.decode_threads;
    let done = thread::scope(|scope| {
        let start = || DecodeAhead::start(scope, plan.clip, &work, free, threads);
        Pass::begin(pipeline, plan, start)?.run(take)
    });
    pipeline.slots = work.into_slots();
    if done.is_err()
        // What is still in flight must not write into the next pass.
        && let Err(error) = pipeline.gpu.synchronize()
    {
        // Where the device is lost, the first error is the one that tells at which frame.
        log::debug!("{error}");
    }
    done
}

/// Pinned memory for the logits that are exchanged, made before the first frame.
fn room_for_logits(pipeline: &mut Pipeline, plan: &PassPlan<'_>) -> Result<()> {
    let one = pipeline.options.mode == Mode::Latency;
    for (object, span) in plan.objects.iter().enumerate() {
        let exchanging = span.logits.save || span.logits.teacher.is_some();
        ensure!(one || !exchanging, "logits are exchanged in latency mode only");
        let lane = pipeline.lanes.get(object).context("an object has no lane")?;
        for flight in &mut pipeline.flights {
            let slots = &mut flight.objects[object].logits;
            slots.make_room(&pipeline.gpu, &span.logits, lane.low().len())?;
        }
    }
    Ok(())
}

struct Pass<'a> {
    pipeline: &'a mut Pipeline,
    plan: &'a PassPlan<'a>,
    ahead: DecodeAhead,
    schedules: Vec<BankSchedule>,
    /// The start of the pass on both clocks.
    base: (Event, Instant),
    /// When the last mask was there, ms after the base.
    last_ms: f64,
}

impl<'a> Pass<'a> {
    /// `decode` is called when the pass has begun: no file is opened before.
    fn begin(
        pipeline: &'a mut Pipeline,
        plan: &'a PassPlan<'a>,
        decode: impl FnOnce() -> DecodeAhead,
    ) -> Result<Self> {
        let contract = &pipeline.engines.manifest.bundle.contract;
        let schedules: Vec<BankSchedule> = plan
            .objects
            .iter()
            .map(|object| BankSchedule::new(contract, object.end - object.start))
            .collect();
        for (lane, schedule) in pipeline.lanes.iter_mut().zip(&schedules) {
            lane.begin(schedule)?;
        }
        room_for_logits(pipeline, plan)?;
        pipeline.gpu.synchronize()?;
        let event = pipeline.gpu.event()?;
        event.record(&pipeline.streams.upload)?;
        event.synchronize(pipeline.options.wait)?;
        let base = (event, Instant::now());
        Ok(Self { pipeline, plan, ahead: decode(), schedules, base, last_ms: 0.0 })
    }

    fn run(mut self, take: &mut dyn FnMut(FrameResult<'_>) -> Result<()>) -> Result<(), PassError> {
        let (frames, flights) = (self.plan.frames.len(), self.pipeline.flights.len());
        for position in 0..frames {
            if position >= flights {
                self.take(position - flights, take)?;
            }
            let decoded = self.ahead.next()?;
            let frame = self.plan.frames[position];
            self.submit(position, decoded)
                .map_err(|error| PassError::Inference { frame, error })?;
        }
        for position in frames.saturating_sub(flights)..frames {
            self.take(position, take)?;
        }
        Ok(())
    }

    /// Enqueues a frame, and where it is the last of its batch what follows for all of them; the host waits for nothing.
    fn submit(&mut self, position: usize, decoded: Decoded) -> Result<()> {
        let batch = self.pipeline.options.batch();
        let _frame = ranges::enter(Range::Pipeline);
        self.feed(position, decoded)?;
        let first = position - position % batch;
        if position + 1 < (first + batch).min(self.plan.frames.len()) {
            return Ok(());
        }
        self.encode(first, position)?;
        (first..=position).try_for_each(|position| self.track(position))
    }

    /// Pixels to the network's input.
    fn feed(&mut self, position: usize, mut decoded: Decoded) -> Result<()> {
        let Self { pipeline, plan, .. } = self;
        let Pipeline { clip, lanes, sets, flights, streams, options, .. } = &mut **pipeline;
        let clip = clip.as_ref().context("no clip is set up")?;
        let overlapping = options.mode == Mode::Throughput;
        let number = position % sets.len();
        let at = position % flights.len();
        let flight = &mut flights[at];
        flight.submitted = Instant::now();
        flight.position = position;

        // Pixels to the device, once the frame that lay there was read.
        if overlapping {
            streams.upload.wait(&sets[number].frame_read)?;
        }
        flight.begun.record(&streams.upload)?;
        let frame = clip.frames.get(number);
        decoded.slot.enqueue(clip.frame_bytes, frame, &streams.upload)?;
        flight.uploaded.record(&streams.upload)?;

        // Pixels to features, once everybody who read the features there is done: those of the whole batch, for the
        // encoder writes them all, however few frames it is given.
        if overlapping {
            streams.encode.wait(&flight.uploaded)?;
            let batch = options.batch();
            if number.is_multiple_of(batch) {
                for lane in lanes.iter().take(plan.objects.len()) {
                    for read in &lane.features_read[number..number + batch] {
                        streams.encode.wait(read)?;
                    }
                }
            }
        }
        if let Some(event) = &flight.encode {
            event.record(&streams.encode)?;
        }
        let set = &mut sets[number];
        within(Stage::Preprocess, || {
            let pixels = decoded.slot.pixels(frame)?;
            clip.preprocess.enqueue(pixels, &set.image.view, &streams.encode)
        })?;
        flight.preprocessed.record(&streams.encode)?;
        if overlapping {
            set.frame_read.record(&streams.encode)?;
        }
        flight.decoded = Some(decoded);
        Ok(())
    }

    /// The features of the frames from `first` to `last`.
    fn encode(&mut self, first: usize, last: usize) -> Result<()> {
        let Pipeline { encodes, sets, flights, streams, options, .. } = &mut *self.pipeline;
        let in_flight = flights.len();
        for position in first..=last {
            let flight = &mut flights[position % in_flight];
            flight.batch = last - first + 1;
            if let Some(event) = &flight.encoder_begun {
                event.record(&streams.encode)?;
            }
        }
        let encode = &mut encodes[first % sets.len() / options.batch()];
        within(Stage::Encoder, || encode.run())?;
        for position in first..=last {
            flights[position % in_flight].encoded.record(&streams.encode)?;
        }
        Ok(())
    }

    /// Features to masks and memories, of all objects.
    fn track(&mut self, position: usize) -> Result<()> {
        let Self { pipeline, plan, schedules, .. } = self;
        let Pipeline { clip, lanes, sets, flights, streams, options, .. } = &mut **pipeline;
        let clip = clip.as_ref().context("no clip is set up")?;
        let overlapping = options.mode == Mode::Throughput;
        let number = position % sets.len();
        let set = &mut sets[number];
        let at = position % flights.len();
        let flight = &mut flights[at];
        flight.legs.clear();
        for (object, span) in plan.objects.iter().enumerate() {
            if !(span.start..span.end).contains(&position) {
                continue;
            }
            let t = position - span.start;
            let lane = &mut lanes[object];
            let schedule = &schedules[object];
            let on_encode_stream = lane.stream.is(&streams.encode);
            let leg = Leg { object, t, behind_encoder: on_encode_stream && flight.legs.is_empty() };
            flight.legs.push(leg);
            let events = &mut flight.objects[object];
            if !on_encode_stream {
                lane.stream.wait(&flight.encoded)?;
            }
            if overlapping {
                lane.stream.wait(&lane.results_read)?;
            }
            if let (Some(begun), false) = (&events.begun, leg.behind_encoder) {
                begun.record(&lane.stream)?;
            }
            match t {
                0 => within(Stage::Prompt, || lane.prompt(number, set, span.prompt))?,
                _ => within(Stage::Track, || lane.track(t, number, set))?,
            }
            events.track_done.record(&lane.stream)?;
            let words = lane.words(clip.words_bytes)?;
            let non_finite = lane.non_finite()?;
            within(Stage::Postprocess, || {
                clip.masks.enqueue(lane.low(), &words, &non_finite, &lane.stream)
            })?;
            events.postprocess_done.record(&lane.stream)?;

            // The mask leaves on a stream of its own: the memory is written meanwhile.
            streams.download.wait(&events.postprocess_done)?;
            events.download_begun.record(&streams.download)?;
            let results = lane.results(clip.words_bytes)?;
            within(Stage::Download, || events.results.download(&results, &streams.download))?;
            events.download_done.record(&streams.download)?;
            events.logits.enqueue(&span.logits, t, lane.low(), &lane.stream)?;
            let slot = schedule.write_slots(t).memory;
            within(Stage::Memory, || lane.memorise(slot, number, set))?;
            if overlapping {
                lane.results_read.record(&streams.download)?;
                lane.read(number)?;
            } else {
                lane.stream.wait(&events.download_done)?;
            }
            events.memory_done.record(&lane.stream)?;
        }
        Ok(())
    }

    /// Waits for a frame and hands on what it gave.
    fn take(
        &mut self,
        position: usize,
        take: &mut dyn FnMut(FrameResult<'_>) -> Result<()>,
    ) -> Result<(), PassError> {
        let frame = self.plan.frames[position];
        let failed = |error: anyhow::Error| PassError::Inference { frame, error };
        let times = self.finish(position, frame).map_err(failed)?;
        let words_bytes = self.pipeline.clip.as_ref().map_or(0, |clip| clip.words_bytes);
        let at = position % self.pipeline.flights.len();
        let flight = &mut self.pipeline.flights[at];
        if let Some(decoded) = flight.decoded.take() {
            self.ahead.free(decoded.slot);
        }
        for leg in flight.legs.clone() {
            let save = self.plan.objects[leg.object].logits.save;
            let taken = flight.objects[leg.object].taken(words_bytes, save);
            let (results, logits) = taken.map_err(failed)?;
            let Results { objectness, predicted_iou, non_finite, .. } = results;
            require_finite(objectness, predicted_iou, non_finite)
                .map_err(|error| failed(error.into()))?;
            take(FrameResult { object: leg.object, position, results, times, logits })?;
        }
        Ok(())
    }

    /// Waits for a frame; what it took.
    fn finish(&mut self, position: usize, frame: usize) -> Result<FrameTimes> {
        let options = self.pipeline.options;
        let at = position % self.pipeline.flights.len();
        let flight = &self.pipeline.flights[at];
        anyhow::ensure!(flight.position == position, "frame {position} is not in flight");
        flight.wait(options.wait, options.mode == Mode::Latency)?;
        let done = Instant::now();
        let shared = self.plan.objects.len() > 1;
        let objects = shared.then_some(flight.legs.len());
        let mut times = FrameTimes { frame, objects, ..FrameTimes::default() };
        match options.mode {
            Mode::Latency => {
                let ms = (done - flight.submitted).as_secs_f64() * 1e3;
                times.time = FrameTime::Latency(ms);
            }
            Mode::Throughput => {
                // The host may look later than the mask came; the device's clock tells.
                let mask_ms = flight.masks_ms(&self.base.0)?;
                times.time = FrameTime::Interval(mask_ms - self.last_ms);
                // A frame that no object has is done when it is encoded, perhaps before the last mask.
                self.last_ms = self.last_ms.max(mask_ms);
                times.age = flight.decoded.as_ref().map(|decoded| self.age(decoded, mask_ms));
                // What the stages' events tell is there only after the memory.
                flight.wait(options.wait, true)?;
            }
        }
        times.stages = flight.stages()?;
        times.gpu_ms = Some(flight.gpu_ms()?);
        times.stages[Stage::Decode] = flight.decoded.as_ref().map(Decoded::decode_ms);
        Ok(times)
    }

    fn age(&self, decoded: &Decoded, mask_ms: f64) -> SourceAge {
        let at = |instant: Instant| match instant.checked_duration_since(self.base.1) {
            Some(after) => after.as_secs_f64() * 1e3,
            None => -((self.base.1 - instant).as_secs_f64() * 1e3),
        };
        SourceAge {
            decoded_ms: mask_ms - at(decoded.decoded),
            read_ms: mask_ms - at(decoded.read_begun),
        }
    }
}
