/*!
One pass over a clip: frames are fed as they are decoded, results taken as they come.
*/

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::PassError;
use super::decode_ahead::{DecodeAhead, DecodeQueue, Decoded};
use super::frame_buffer::FrameSource;
use super::in_flight::ActiveObject;
use super::pass_plan::{FrameResult, PassPlan};
use super::pipeline::Pipeline;
use super::prepared::Prepared;
use super::tracked_object::Results;
use cuda::{Event, Launches};
use vos::ranges::{self, Range, within};
use vos::record::{Enqueued, FrameTime, FrameTimes, ms_between};
use vos::stage::Stage;
use vos::tracker::{BankSchedule, require_finite};

/// Runs a pass; `on_result` is called once per frame and object, in order. Returns how long the
/// pass waited for decoded frames.
///
/// # Errors
/// A frame that cannot be decoded, an engine that fails, NaN or infinite scores.
pub fn run(
    pipeline: &mut Pipeline,
    plan: &PassPlan<'_>,
    on_result: &mut dyn FnMut(FrameResult<'_>) -> Result<()>,
) -> Result<Duration, PassError> {
    pipeline.set_up(plan.geometry, plan.objects.len(), plan.prepared)?;
    let route = pipeline.route.take();
    let prepared = plan.prepared.zip(route.as_ref());
    let prepared = prepared.map(|(clip, route)| Prepared { clip, route });
    let source = FrameSource { clip: plan.clip, prepared };
    let (queue, free) = DecodeQueue::new(plan.frames.clone(), plan.geometry.video_size());
    for buffer in pipeline.buffers.drain(..) {
        // The receiving end is in `queue`, which lives.
        let _ = free.send(buffer);
    }
    let threads = pipeline.options.decode_threads;
    let done = thread::scope(|scope| {
        let start = || DecodeAhead::start(scope, source, &queue, free, threads);
        Pass::begin(pipeline, plan, start)?.run(on_result)
    });
    pipeline.buffers = queue.into_buffers();
    pipeline.route = route;
    if done.is_err()
        // Enqueued work must not write into the next pass.
        && let Err(error) = pipeline.synchronize()
    {
        // Where the device is lost, the first error names the frame.
        log::debug!("{error}");
    }
    done
}

/// Pinned memory for the logits that are exchanged, allocated before the first frame.
fn room_for_logits(pipeline: &mut Pipeline, plan: &PassPlan<'_>) -> Result<()> {
    let one = !pipeline.options.overlapping();
    for (object, span) in plan.objects.iter().enumerate() {
        let exchanging = span.logits.save || span.logits.teacher.is_some();
        ensure!(one || !exchanging, "logits are exchanged in latency mode only");
        let tracked = pipeline.tracked_objects.get(object).context("an object was not set up")?;
        for in_flight in &mut pipeline.frames_in_flight {
            let buffers = &mut in_flight.objects[object].logits;
            buffers.make_room(&pipeline.gpu, &span.logits, tracked.low().len())?;
        }
    }
    Ok(())
}

struct Pass<'a> {
    pipeline: &'a mut Pipeline,
    plan: &'a PassPlan<'a>,
    ahead: DecodeAhead,
    schedules: Vec<BankSchedule>,
    /// Start of the pass: a CUDA event, and the host's clock at the same time.
    base: (Event, Instant),
    /// When the previous mask was in host memory, ms after `base`.
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
            .map(|object| BankSchedule::new(contract, object.frames()))
            .collect();
        for (tracked, schedule) in pipeline.tracked_objects.iter_mut().zip(&schedules) {
            tracked.begin(schedule)?;
        }
        room_for_logits(pipeline, plan)?;
        pipeline.synchronize()?;
        let event = pipeline.gpu.event()?;
        event.record(&pipeline.streams.upload)?;
        event.synchronize(pipeline.options.wait)?;
        let base = (event, Instant::now());
        Ok(Self { pipeline, plan, ahead: decode(), schedules, base, last_ms: 0.0 })
    }

    fn run(
        mut self,
        on_result: &mut dyn FnMut(FrameResult<'_>) -> Result<()>,
    ) -> Result<Duration, PassError> {
        let (frames, depth) = (self.plan.frames.len(), self.pipeline.frames_in_flight.len());
        for position in 0..frames {
            if position >= depth {
                self.take(position - depth, on_result)?;
            }
            let decoded = self.ahead.next()?;
            let frame = self.plan.frames[position];
            self.submit(position, decoded)
                .map_err(|error| PassError::Inference { frame, error })?;
        }
        for position in frames.saturating_sub(depth)..frames {
            self.take(position, on_result)?;
        }
        Ok(self.ahead.waited)
    }

    /// Enqueues a frame, and after the last of a batch the work that follows for all its frames.
    /// The host does not wait.
    fn submit(&mut self, position: usize, decoded: Decoded) -> Result<()> {
        let batch = self.pipeline.options.batch();
        let before = Launches::so_far();
        let _frame = ranges::enter(Range::Pipeline);
        self.feed(position, decoded)?;
        let first = position - position % batch;
        if position + 1 < (first + batch).min(self.plan.frames.len()) {
            return Ok(());
        }
        self.encode(first, position)?;
        (first..=position).try_for_each(|position| self.track(position))?;
        if batch == 1 {
            let launches = Launches::so_far().since(before);
            let slot = position % self.pipeline.frames_in_flight.len();
            let overlapping = self.pipeline.options.overlapping();
            let in_flight = &mut self.pipeline.frames_in_flight[slot];
            let time = || ms_between(in_flight.submitted, Instant::now());
            in_flight.enqueued = Enqueued {
                ms: (!overlapping).then(time),
                launches: launches.kernels(),
                graph_launches: Some(launches.graphs()),
            };
        }
        Ok(())
    }

    /// Pixels to the network's input.
    fn feed(&mut self, position: usize, mut decoded: Decoded) -> Result<()> {
        let Self { pipeline, plan, .. } = self;
        let Pipeline { clip, tracked_objects, sets, frames_in_flight, streams, options, .. } =
            &mut **pipeline;
        let clip = clip.as_ref().context("no clip is set up")?;
        let overlapping = options.overlapping();
        let set_index = position % sets.len();
        let slot = position % frames_in_flight.len();
        let in_flight = &mut frames_in_flight[slot];
        in_flight.submitted = Instant::now();
        in_flight.position = position;

        // Pixels to the device, after preprocessing has read the previous frame from this buffer.
        if overlapping {
            streams.upload.wait(&sets[set_index].frame_read)?;
        }
        in_flight.begun.record(&streams.upload)?;
        let frame = match plan.prepared {
            Some(_) => Some(&sets[set_index].image.view),
            None => clip.frames.get(set_index),
        };
        decoded.buffer.enqueue(clip.frame_bytes, frame, &streams.upload)?;
        in_flight.uploaded.record(&streams.upload)?;

        // The encoder overwrites the whole batch, so wait until tracking has read every frame of the
        // old one.
        if overlapping {
            streams.encode.wait(&in_flight.uploaded)?;
            let batch = options.batch();
            if set_index.is_multiple_of(batch) {
                for tracked in tracked_objects.iter().take(plan.objects.len()) {
                    for read in &tracked.features_read[set_index..set_index + batch] {
                        streams.encode.wait(read)?;
                    }
                }
            }
        }
        if let Some(event) = &in_flight.encode {
            event.record(&streams.encode)?;
        }
        let set = &sets[set_index];
        if plan.prepared.is_some() {
            in_flight.preprocessed.record(&streams.encode)?;
            in_flight.decoded = Some(decoded);
            return Ok(());
        }
        within(Stage::Preprocess, || {
            let pixels = decoded.buffer.pixels(frame)?;
            clip.preprocess.enqueue(pixels, &set.image.view, &streams.encode)
        })?;
        in_flight.preprocessed.record(&streams.encode)?;
        if overlapping {
            set.frame_read.record(&streams.encode)?;
        }
        in_flight.decoded = Some(decoded);
        Ok(())
    }

    /// The features of the frames from `first` to `last`.
    fn encode(&mut self, first: usize, last: usize) -> Result<()> {
        let Pipeline { encodes, sets, frames_in_flight, streams, options, .. } =
            &mut *self.pipeline;
        let (depth, count) = (frames_in_flight.len(), sets.len());
        for position in first..=last {
            let in_flight = &mut frames_in_flight[position % depth];
            in_flight.batch = last - first + 1;
            if let Some(event) = &in_flight.encoder_begun {
                event.record(&streams.encode)?;
            }
        }
        let encode = &mut encodes[first % sets.len() / options.batch()];
        within(Stage::Encoder, || encode.run())?;
        for position in first..=last {
            frames_in_flight[position % depth].encoded.record(&streams.encode)?;
            if self.plan.prepared.is_some() {
                // Predecoded frames are uploaded into the network's input.
                sets[position % count].frame_read.record(&streams.encode)?;
            }
        }
        Ok(())
    }

    /// Features to masks and memories, of all objects.
    fn track(&mut self, position: usize) -> Result<()> {
        let Self { pipeline, plan, schedules, .. } = self;
        let Pipeline { clip, tracked_objects, sets, frames_in_flight, streams, options, .. } =
            &mut **pipeline;
        let clip = clip.as_ref().context("no clip is set up")?;
        let overlapping = options.overlapping();
        let set_index = position % sets.len();
        let set = &mut sets[set_index];
        let slot = position % frames_in_flight.len();
        let in_flight = &mut frames_in_flight[slot];
        in_flight.active.clear();
        for (object, span) in plan.objects.iter().enumerate() {
            let Some(t) = span.frame_at(position) else { continue };
            let tracked = &mut tracked_objects[object];
            let schedule = &schedules[object];
            let on_encode_stream = tracked.stream.is(&streams.encode);
            let follows_encoder = on_encode_stream && in_flight.active.is_empty();
            let selects = tracked.selects(t, span.prompt);
            in_flight.active.push(ActiveObject { object, t, follows_encoder, selects });
            let events = &mut in_flight.objects[object];
            if !on_encode_stream {
                tracked.stream.wait(&in_flight.encoded)?;
            }
            if overlapping {
                tracked.stream.wait(&tracked.results_read)?;
            }
            if let (Some(begun), false) = (&events.begun, follows_encoder) {
                begun.record(&tracked.stream)?;
            }
            match t {
                0 => within(Stage::Prompt, || tracked.prompt(set_index, set, span.prompt))?,
                _ => within(Stage::Track, || tracked.track(t, set_index, set))?,
            }
            events.track_done.record(&tracked.stream)?;
            let words = tracked.words(clip.words_bytes)?;
            let non_finite = tracked.non_finite()?;
            within(Stage::Postprocess, || {
                clip.masks.enqueue(tracked.low(), &words, &non_finite, &tracked.stream)
            })?;
            events.postprocess_done.record(&tracked.stream)?;

            // Another stream downloads the mask while the memory is written.
            streams.download.wait(&events.postprocess_done)?;
            events.download_begun.record(&streams.download)?;
            let results = tracked.results(clip.words_bytes)?;
            within(Stage::Download, || events.results.download(&results, &streams.download))?;
            events.download_done.record(&streams.download)?;
            events.logits.enqueue(&span.logits, t, tracked.low(), &tracked.stream)?;
            let memory_slot = schedule.write_slots(t).memory;
            within(Stage::Memory, || tracked.memorise(memory_slot, set_index, set))?;
            if overlapping {
                tracked.results_read.record(&streams.download)?;
                tracked.read(set_index)?;
            } else {
                tracked.stream.wait(&events.download_done)?;
            }
            events.memory_done.record(&tracked.stream)?;
        }
        Ok(())
    }

    /// Waits for a frame and hands on its results.
    fn take(
        &mut self,
        position: usize,
        on_result: &mut dyn FnMut(FrameResult<'_>) -> Result<()>,
    ) -> Result<(), PassError> {
        let frame = self.plan.frames[position];
        let failed = |error: anyhow::Error| PassError::Inference { frame, error };
        let (times, mask_at) = self.finish(position, frame).map_err(failed)?;
        let words_bytes = self.pipeline.clip.as_ref().map_or(0, |clip| clip.words_bytes);
        let slot = position % self.pipeline.frames_in_flight.len();
        let in_flight = &mut self.pipeline.frames_in_flight[slot];
        let mut decoded = in_flight.decoded.take();
        let bytes = 3 * self.plan.geometry.video_size().0 * self.plan.geometry.video_size().1;
        let pixels = decoded.as_mut().and_then(|decoded| decoded.buffer.on_host(bytes));
        for active in in_flight.active.clone() {
            let save = self.plan.objects[active.object].logits.save;
            let taken = in_flight.objects[active.object].taken(words_bytes, active.selects, save);
            let (results, logits) = taken.map_err(failed)?;
            let Results { objectness, predicted_iou, non_finite, .. } = results;
            require_finite(objectness, predicted_iou, non_finite)
                .map_err(|error| failed(error.into()))?;
            let object = active.object;
            on_result(FrameResult { object, position, results, times, mask_at, logits, pixels })?;
        }
        // The decoders go on only now, though the device has read the buffer: its pixels were lent.
        if let Some(decoded) = decoded {
            self.ahead.free(decoded.buffer);
        }
        Ok(())
    }

    /// Waits for a frame; its times, and when its mask was in host memory.
    fn finish(&mut self, position: usize, frame: usize) -> Result<(FrameTimes, Instant)> {
        let options = self.pipeline.options;
        let slot = position % self.pipeline.frames_in_flight.len();
        let in_flight = &self.pipeline.frames_in_flight[slot];
        let found = in_flight.position;
        ensure!(
            found == position,
            "internal error: expected frame {position} in its slot, found frame {found}"
        );
        in_flight.wait(options.wait, !options.overlapping())?;
        let mut mask_at = Instant::now();
        let shared = self.plan.objects.len() > 1;
        let objects = shared.then_some(in_flight.active.len());
        let mut times = FrameTimes { frame, objects, ..FrameTimes::default() };
        match options.overlapping() {
            false => {
                times.time = FrameTime::Latency(ms_between(in_flight.submitted, mask_at));
            }
            true => {
                // The host may check late, so the time is that of the device's event.
                let mask_ms = in_flight.masks_ms(&self.base.0)?;
                times.time = FrameTime::Interval(mask_ms - self.last_ms);
                // A frame without objects ends with its encoder, possibly before the previous frame's
                // mask. So take the maximum.
                self.last_ms = self.last_ms.max(mask_ms);
                let after = Duration::try_from_secs_f64(mask_ms.max(0.0) / 1e3);
                mask_at = self.base.1 + after.unwrap_or_default();
                // The stages' events are complete only after the memory.
                in_flight.wait(options.wait, true)?;
            }
        }
        times.enqueued = in_flight.enqueued;
        times.stages = in_flight.stages()?;
        times.gpu_ms = Some(in_flight.gpu_ms()?);
        if self.plan.prepared.is_some() {
            times.stages[Stage::Preprocess] = None;
        } else if let Some(decoded) = &in_flight.decoded {
            let decode_ms = decoded.decode_ms();
            times.stages[Stage::Decode] = Some(decode_ms);
            times.age = Some(decoded.age(mask_at));
            times.end_to_end_ms = Some(decode_ms + ms_between(in_flight.submitted, mask_at));
        }
        Ok((times, mask_at))
    }
}
