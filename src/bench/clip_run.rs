/*!
One pass of the tracker over the objects of a clip.

Decoding happens frame by frame between the timed regions, so one decoded frame is held at a time
and no decoder thread competes with the network for the processors. Only the kept masks grow with
the clip. Predecoded frames come from a mapped file.
*/

use std::time::{Duration, Instant};

use half::f16;

use vos::dataset::Clip;
use vos::decode::RgbImage;
use vos::geometry::Geometry;
use vos::logits::Exchange;
use vos::mask::Mask;
use vos::predecode::PreparedClip;
use vos::ranges::{self, Range, within};
use vos::record::{FrameTime, FrameTimes, MaskSelection, SourceAge, ms_between};
use vos::stage::Stage;
use vos::tracker::{FrameInput, FrameOutput, Network, Tracker};

use super::object_error::ObjectError;
use super::runner::{ObjectFrame, Take, Tracked};

/// The frames of a clip that one object is tracked over.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The prompted frame.
    pub start: usize,
    /// Index after the last frame.
    pub end: usize,
    /// Every how many frames one is fed, from the prompted one on; at least 1.
    pub stride: usize,
}

impl Span {
    /// From the prompted frame to the end of the clip or `max_frames` of its frames later (0: no
    /// limit).
    pub fn new(prompted: usize, clip_frames: usize, max_frames: usize, stride: usize) -> Self {
        let end = match max_frames {
            0 => clip_frames,
            n => clip_frames.min(prompted + n),
        };
        Self { start: prompted, end, stride: stride.max(1) }
    }

    /// Number of frames that are fed.
    pub fn frames(&self) -> usize {
        (self.end - self.start).div_ceil(self.stride)
    }

    /// Whether frame `index` is among them.
    pub fn has(&self, index: usize) -> bool {
        (self.start..self.end).contains(&index) && (index - self.start).is_multiple_of(self.stride)
    }

    /// Their indices.
    pub fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        (self.start..self.end).step_by(self.stride)
    }
}

/// Times, masks and scores of a pass.
#[derive(Debug, Default)]
pub struct ClipPass {
    /// Times of each frame.
    pub times: Vec<FrameTimes>,
    /// Masks of the frames that were to be kept, by frame index.
    pub masks: Vec<(usize, Mask)>,
    /// Objectness logit of each frame.
    pub objectness: Vec<f32>,
    /// The decoder's own IoU estimate of each frame.
    pub predicted_iou: Vec<f32>,
    /// The decoder's selection among its candidate masks, of each frame where it is known.
    pub selections: Vec<Option<MaskSelection>>,
    /// The network's own low-resolution logits, frame after frame, where they were to be handed
    /// out.
    pub logits: Vec<f16>,
    /// How long a GPU's pass waited for frames that were decoded ahead.
    pub waited: Duration,
}

impl ClipPass {
    /// The times of each frame and the network's scores. A clip that comes again has
    /// scores of its first time.
    pub fn scored_times(&self) -> Vec<FrameTimes> {
        let mut times = self.times.clone();
        for (time, selection) in times.iter_mut().zip(&self.selections) {
            time.selection = *selection;
        }
        for (time, (score, iou)) in
            times.iter_mut().zip(self.objectness.iter().zip(&self.predicted_iou))
        {
            // Not a number is no score, and JSON could not carry it.
            time.objectness = Some(*score).filter(|score| score.is_finite());
            time.predicted_iou = Some(*iou).filter(|iou| iou.is_finite());
        }
        times
    }
}

/// Where the frames of a pass come from.
#[derive(Clone, Copy)]
pub struct Frames<'a> {
    /// The clip.
    pub clip: &'a Clip,
    /// Its frames as they were decoded ahead of time.
    pub prepared: Option<&'a PreparedClip>,
    /// How they become squares.
    pub geometry: &'a Geometry,
}

/// Runs `network` over `frames` for all `objects`. `logits` has what
/// logits leave and enter, in the objects' order; `keep` says of which frames (object, index)
/// `take` gets the mask.
///
/// # Errors
/// A frame that cannot be decoded, a network that fails, or an error of `take`.
pub fn run_pass<N: Network>(
    network: &mut N,
    frames: Frames<'_>,
    objects: &[Tracked],
    logits: &[Exchange<'_>],
    keep: &dyn Fn(usize, usize) -> bool,
    take: &mut Take<'_>,
) -> Result<Vec<ClipPass>, ObjectError> {
    let mut passes: Vec<ClipPass> = objects.iter().map(|_| ClipPass::default()).collect();
    let Some(all) = all_frames(objects) else { return Ok(passes) };
    let geometry = frames.geometry;
    let exchanges = logits.iter().copied().chain(std::iter::repeat(Exchange::default()));
    let spans = objects.iter().map(|object| object.span.frames());
    let mut tracker = Tracker::of_objects(network, geometry, spans.zip(exchanges))?;
    for index in all.indices() {
        let pipeline = ranges::enter(Range::Pipeline);
        let mut decoding = None;
        let mut decoded: Option<RgbImage> = None;
        let frame = match frames.prepared {
            Some(prepared) => FrameInput::Prepared(prepared.frame(index)?),
            None => {
                let start = Instant::now();
                let size = geometry.video_size();
                let image = within(Stage::Decode, || frames.clip.frame(index, size))?;
                decoding = Some((start, Instant::now()));
                FrameInput::Pixels(decoded.insert(image))
            }
        };
        let failed = |error| ObjectError::inference(index, error);
        let mut encoded = tracker.encode(frame).map_err(failed)?;
        let mut steps = Vec::with_capacity(objects.len());
        for (at, object) in objects.iter().enumerate().filter(|(_, o)| o.span.has(index)) {
            let prompt = (index == object.span.start).then_some(&object.prompt);
            steps.push((at, tracker.step(&mut encoded, at, prompt).map_err(failed)?));
        }
        drop(pipeline);
        // A frame is done when its last object is.
        let latency_ms = steps.last().map_or(0.0, |(_, step)| step.latency_ms);
        let mask_at = Instant::now();
        let decode_ms = decoding.map(|(begun, done)| ms_between(begun, done));
        let age = decoding.map(|(begun, done)| SourceAge {
            decoded_ms: ms_between(done, mask_at),
            read_ms: ms_between(begun, mask_at),
        });
        for (at, mut step) in steps {
            let Some(pass) = passes.get_mut(at) else { continue };
            step.stages[Stage::Decode] = decode_ms;
            let times = FrameTimes {
                frame: index,
                time: FrameTime::Latency(latency_ms),
                stages: step.stages,
                age,
                end_to_end_ms: decode_ms.map(|ms| ms + latency_ms),
                ..FrameTimes::default()
            };
            let FrameOutput { mask, objectness, predicted_iou, selection, .. } = step.output;
            pass.times.push(times);
            pass.objectness.push(objectness);
            pass.predicted_iou.push(predicted_iou);
            pass.selections.push(selection);
            pass.logits.extend(step.logits.into_iter().flatten());
            let mask = keep(at, index).then_some(mask);
            let object = at;
            let frame =
                ObjectFrame { object, index, mask, objectness, predicted_iou, times, mask_at };
            take(frame, decoded.as_ref().map(|image| image.data.as_slice()))?;
        }
    }
    Ok(passes)
}

/// The frames that objects are fed together, from the first one's first to the last one's last;
/// they lie on the widest grid that has all of them.
pub fn all_frames(tracked: &[Tracked]) -> Option<Span> {
    let (start, end) = (|t: &Tracked| t.span.start, |t: &Tracked| t.span.end);
    let (start, end) = tracked.iter().map(start).min().zip(tracked.iter().map(end).max())?;
    let steps = tracked.iter().flat_map(|t| [t.span.stride, t.span.start - start]);
    Some(Span { start, end, stride: steps.fold(0, gcd).max(1) })
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
