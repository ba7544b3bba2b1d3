/*!
One pass of the tracker over one object's part of a clip.

Decoding happens frame by frame between the timed regions, so one decoded frame is held at a time
and no decoder thread competes with the network for the processors. Only the kept masks grow with
the clip. Predecoded frames come from a mapped file.
*/

use std::time::Instant;

use half::f16;

use vos::dataset::Clip;
use vos::geometry::Geometry;
use vos::logits::Exchange;
use vos::mask::Mask;
use vos::predecode::PreparedClip;
use vos::ranges::{self, Range, within};
use vos::record::{FrameTime, FrameTimes, MaskSelection};
use vos::stage::Stage;
use vos::tracker::{FrameInput, Network, NetworkPrompt, Tracker};

use super::object_error::ObjectError;

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

/// Runs `network` over `span` of `frames`; `keep` says of which frames the masks are wanted and
/// `progress` hears of each finished frame; `exchange` tells what logits leave and enter.
pub fn run_pass<N: Network>(
    network: &mut N,
    frames: Frames<'_>,
    span: Span,
    prompt: &NetworkPrompt,
    exchange: Exchange<'_>,
    keep: impl Fn(usize) -> bool,
    mut progress: impl FnMut(usize),
) -> Result<ClipPass, ObjectError> {
    let mut pass = ClipPass::default();
    let geometry = frames.geometry;
    let mut tracker = Tracker::new(network, geometry, span.frames())?.exchanging(exchange);
    for index in span.indices() {
        let pipeline = ranges::enter(Range::Pipeline);
        let mut decode_ms = None;
        let decoded;
        let frame = match frames.prepared {
            Some(prepared) => FrameInput::Prepared(prepared.frame(index)?),
            None => {
                let start = Instant::now();
                let size = geometry.video_size();
                decoded = within(Stage::Decode, || frames.clip.frame(index, size))?;
                decode_ms = Some(start.elapsed().as_secs_f64() * 1e3);
                FrameInput::Pixels(&decoded)
            }
        };
        let step = match index == span.start {
            true => tracker.prompt(frame, prompt),
            false => tracker.track(frame),
        };
        drop(pipeline);
        let mut step = step.map_err(|error| ObjectError::inference(index, error))?;
        step.stages[Stage::Decode] = decode_ms;
        pass.times.push(FrameTimes {
            frame: index,
            time: FrameTime::Latency(step.latency_ms),
            stages: step.stages,
            ..FrameTimes::default()
        });
        pass.objectness.push(step.output.objectness);
        pass.predicted_iou.push(step.output.predicted_iou);
        pass.selections.push(step.output.selection);
        pass.logits.extend(step.logits.into_iter().flatten());
        if keep(index) {
            pass.masks.push((index, step.output.mask));
        }
        progress(index);
    }
    Ok(pass)
}
