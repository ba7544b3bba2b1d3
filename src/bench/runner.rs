/*!
The interface between the bench and its backends: running passes over clips.

A backend that tracks step by step on the host is driven by the tracker; a GPU runs whole clips by
itself.
*/

use std::time::Instant;

use super::clip_run::{ClipPass, Frames, Span, run_pass};
use super::object_error::ObjectError;
use vos::bundle::Manifest;
use vos::dataset::Clip;
use vos::geometry::Geometry;
use vos::logits::Exchange;
use vos::mask::Mask;
use vos::predecode::PreparedClip;
use vos::record::{DeviceMemoryUse, FrameTimes, FrameTransfer, MemoryPeaks};
use vos::tracker::{Network, NetworkPrompt};

/// Warm-up passes stop after this many frames: by then the memory bank (7) and the pointer bank
/// (16) are full and every later frame repeats the same work.
const WARMUP_FRAMES: usize = 18;

/// One object of a pass.
#[derive(Clone, Debug)]
pub struct Tracked {
    /// How it is prompted.
    pub prompt: NetworkPrompt,
    /// Its frames.
    pub span: Span,
}

/// One finished frame of one object.
#[derive(Clone, Debug)]
pub struct ObjectFrame {
    /// Index among the pass's objects.
    pub object: usize,
    /// Index of the frame in the clip.
    pub index: usize,
    /// Its mask, where it is wanted.
    pub mask: Option<Mask>,
    /// Objectness logit.
    pub objectness: f32,
    /// The decoder's own IoU estimate.
    pub predicted_iou: f32,
    /// Times of the frame, which its objects share.
    pub times: FrameTimes,
    /// When its mask was in host memory.
    pub mask_at: Instant,
}

/// Takes a finished frame of an object and, where the host decoded it, its pixels: interleaved RGB
/// of the clip's size, lent until the call returns.
pub type Take<'a> = dyn FnMut(ObjectFrame, Option<&[u8]>) -> Result<(), ObjectError> + 'a;

/// A pass over some objects of a clip, which share what objects can share.
#[derive(Clone, Copy)]
pub struct PassRequest<'a> {
    /// The clip.
    pub clip: &'a Clip,
    /// Its frames decoded ahead of time; then no frame file is read.
    pub prepared: Option<&'a PreparedClip>,
    /// How its frames become squares.
    pub geometry: &'a Geometry,
    /// The objects.
    pub objects: &'a [Tracked],
    /// What logits each of them hands out or takes; empty where none does.
    pub logits: &'a [Exchange<'a>],
}

/// Runs passes.
pub trait ClipRunner {
    /// What the graphs are.
    fn manifest(&self) -> &Manifest;

    /// Objects that one pass may have.
    fn objects_together(&self) -> usize {
        1
    }

    /// Frames after which a warm-up pass has done everything once that a recorded one does.
    fn warmup_frames(&self) -> usize {
        WARMUP_FRAMES
    }

    /// Times that a recorded pass goes over its frames.
    fn repeats(&self) -> usize {
        1
    }

    /// Lets the peaks of memory begin anew, for a clip of this geometry.
    fn reset_peaks(&mut self, _geometry: &Geometry) {}

    /// GPU memory at its peak; nothing where no GPU takes part.
    fn gpu_memory(&self) -> MemoryPeaks {
        MemoryPeaks::default()
    }

    /// Device memory by use, as it is held now; none where no GPU takes part.
    fn memory_use(&self) -> Option<DeviceMemoryUse> {
        None
    }

    /// The most points that one prompt may have; none where there is no limit but the graph's.
    fn most_points(&self) -> Option<usize> {
        None
    }

    /// The way of the last pass's predecoded frames to a GPU.
    fn transfer(&self) -> Option<FrameTransfer> {
        None
    }

    /// Why no further pass can run in this process, whatever the object; none where one can.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Runs a pass, `repeats` times over its frames; one result for each object, without its masks:
    /// `take` gets each finished frame of an object. `keep` says of which frames (object, index) it
    /// gets the mask.
    ///
    /// # Errors
    /// A frame that cannot be decoded, a network that fails, or an error of `take`, which ends the pass.
    fn stream_pass(
        &mut self,
        request: PassRequest<'_>,
        repeats: usize,
        keep: &dyn Fn(usize, usize) -> bool,
        take: &mut Take<'_>,
    ) -> Result<Vec<ClipPass>, ObjectError>;

    /// The same with the wanted masks in the results; `progress` hears of each finished frame of an object.
    ///
    /// # Errors
    /// As [`Self::stream_pass`].
    fn run_pass(
        &mut self,
        request: PassRequest<'_>,
        repeats: usize,
        keep: &dyn Fn(usize, usize) -> bool,
        progress: &mut dyn FnMut(),
    ) -> Result<Vec<ClipPass>, ObjectError> {
        let mut masks: Vec<Vec<(usize, Mask)>> = vec![Vec::new(); request.objects.len()];
        let mut take = |frame: ObjectFrame, _: Option<&[u8]>| {
            if let (Some(mask), Some(masks)) = (frame.mask, masks.get_mut(frame.object)) {
                masks.push((frame.index, mask));
            }
            progress();
            Ok(())
        };
        let mut passes = self.stream_pass(request, repeats, keep, &mut take)?;
        for (pass, masks) in passes.iter_mut().zip(masks) {
            pass.masks = masks;
        }
        Ok(passes)
    }
}

/// A network that the tracker drives. Objects of one pass share each frame's features.
pub struct StepByStep<N>(pub N);

impl<N: Network> ClipRunner for StepByStep<N> {
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }

    fn stream_pass(
        &mut self,
        request: PassRequest<'_>,
        _repeats: usize,
        keep: &dyn Fn(usize, usize) -> bool,
        take: &mut Take<'_>,
    ) -> Result<Vec<ClipPass>, ObjectError> {
        let PassRequest { clip, prepared, geometry, objects, logits } = request;
        run_pass(&mut self.0, Frames { clip, prepared, geometry }, objects, logits, keep, take)
    }
}
