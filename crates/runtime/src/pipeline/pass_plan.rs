/*!
A pass: its clip, its objects and the results that come out.
*/

use std::time::Instant;

use super::tracked_object::Results;
use vos::dataset::Clip;
use vos::geometry::Geometry;
use vos::logits::Exchange;
use vos::predecode::PreparedClip;
use vos::record::FrameTimes;
use vos::tracker::NetworkPrompt;

/// An object of a pass: its prompt and its range of the pass's frames.
#[derive(Clone, Copy, Debug)]
pub struct ObjectSpan<'a> {
    /// How it is prompted, on its first frame.
    pub prompt: &'a NetworkPrompt,
    /// Position of the prompted frame.
    pub start: usize,
    /// Position after its last frame.
    pub end: usize,
    /// From one of its frames to the next; 2 where two clips alternate.
    pub step: usize,
    /// What logits it hands out or takes; only with one frame in flight.
    pub logits: Exchange<'a>,
}

impl ObjectSpan<'_> {
    pub(super) fn frames(&self) -> usize {
        (self.end - self.start).div_ceil(self.step)
    }

    /// The number of its frame at a position; none where it has none.
    pub(super) fn frame_at(&self, position: usize) -> Option<usize> {
        let after = position.checked_sub(self.start).filter(|_| position < self.end)?;
        after.is_multiple_of(self.step).then_some(after / self.step)
    }
}

/// A clip and its objects.
#[derive(Clone)]
pub struct PassPlan<'a> {
    /// The clip.
    pub clip: &'a Clip,
    /// Its frames decoded ahead of time.
    pub prepared: Option<&'a PreparedClip>,
    /// Its geometry.
    pub geometry: &'a Geometry,
    /// Indices of the clip's frames, in the order in which they are run; they may come again.
    pub frames: Vec<usize>,
    /// The objects, tracked together in this pass.
    pub objects: Vec<ObjectSpan<'a>>,
}

/// One frame's result for one object.
#[derive(Clone, Debug)]
pub struct FrameResult<'a> {
    /// Which object of the plan.
    pub object: usize,
    /// Position among the plan's frames.
    pub position: usize,
    /// Scores and mask. The mask's 32-bit words are borrowed from pinned memory until the callback
    /// returns.
    pub results: Results<'a>,
    /// Times of the frame; its objects share them.
    pub times: FrameTimes,
    /// When the mask was in host memory.
    pub mask_at: Instant,
    /// The network's own low-resolution logits, little-endian f32, where they are handed out.
    pub logits: Option<&'a [u8]>,
    /// The frame's pixels, interleaved RGB, borrowed like the mask; none where the device decoded it.
    pub pixels: Option<&'a [u8]>,
}
