/*!
The interface between the bench and its backends: running passes over clips.

A backend that tracks step by step on the host is driven by the tracker; a GPU runs whole clips by
itself.
*/

use super::clip_run::{ClipPass, Frames, Span, run_pass};
use super::object_error::ObjectError;
use vos::bundle::Manifest;
use vos::dataset::Clip;
use vos::geometry::Geometry;
use vos::logits::Exchange;
use vos::predecode::PreparedClip;
use vos::record::MemoryPeaks;
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

    /// Why no further pass can run in this process, whatever the object; none where one can.
    fn lost(&self) -> Option<String> {
        None
    }

    /// Runs a pass, `repeats` times over its frames; one result for each object. `keep` says of
    /// which frames (object, index) the masks are wanted, `progress` hears of each finished frame
    /// of an object.
    fn run_pass(
        &mut self,
        request: PassRequest<'_>,
        repeats: usize,
        keep: &dyn Fn(usize, usize) -> bool,
        progress: &mut dyn FnMut(),
    ) -> Result<Vec<ClipPass>, ObjectError>;
}

/// A network that the tracker drives, one object after the other.
pub struct StepByStep<N>(pub N);

impl<N: Network> ClipRunner for StepByStep<N> {
    fn manifest(&self) -> &Manifest {
        self.0.manifest()
    }

    fn run_pass(
        &mut self,
        request: PassRequest<'_>,
        _repeats: usize,
        keep: &dyn Fn(usize, usize) -> bool,
        progress: &mut dyn FnMut(),
    ) -> Result<Vec<ClipPass>, ObjectError> {
        let PassRequest { clip, prepared, geometry, objects, logits } = request;
        let frames = Frames { clip, prepared, geometry };
        let one = |(at, object): (usize, &Tracked)| {
            let (span, prompt) = (object.span, &object.prompt);
            let keep = |index| keep(at, index);
            let exchange = logits.get(at).copied().unwrap_or_default();
            run_pass(&mut self.0, frames, span, prompt, exchange, keep, |_| progress())
        };
        objects.iter().enumerate().map(one).collect()
    }
}
