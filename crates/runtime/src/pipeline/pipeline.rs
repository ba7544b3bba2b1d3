/*!
The parts of the pipeline that stay from clip to clip, such as engines, contexts, streams and
memory, and those that depend on a clip's size.
*/

use std::rc::Rc;

use anyhow::{Context, Result};

use super::clip_setup::ClipSetup;
use super::contexts::{self, Contexts};
use super::encoder::Encoder;
use super::engines::{EncoderEngines, Engines};
use super::features::{FeatureSet, element};
use super::frame_buffer::FrameBuffer;
use super::in_flight::InFlightFrame;
use super::options::Options;
use super::prepared::{InputBuffer, PreparedRoute};
use super::tracked_object::{Results, Room, TrackedObject};
use super::trunk_file::TrunkFile;
use cuda::nvjpeg::{Decoder, Library, VARIABLE};
use cuda::{CapturedGraph, Gpu, GpuError, GraphStats, MemoryTag, Stream, View};
use execution::Program;
use kernels::{AttentionKernels, AttentionUse, Kernels};
use vos::bundle::{FusedPart, Manifest, Trunk};
use vos::geometry::Geometry;
use vos::predecode::PreparedClip;
use vos::record::{FrameTransfer, Mode};
use vos::track_variant::TrackVariant;

/// Results have room for masks of 3840 × 2160 pixels at first. Larger videos allocate them again.
const USUAL_WORDS_BYTES: usize = 3840 / 8 * 2160;

/// Sizes of clips whose memory is kept offline.
const PARKED: usize = 8;

/// A model on a GPU, ready to run clips.
///
/// Declared in the order of deletion: captured graphs, contexts, engines.
pub struct Pipeline {
    pub(super) clip: Option<ClipSetup>,
    /// Of earlier clips, with their frames' buffers.
    parked: Vec<(ClipSetup, Vec<FrameBuffer>)>,
    pub(super) tracked_objects: Vec<TrackedObject>,
    /// The encoder's work on each batch of sets, in their order.
    pub(super) encodes: Vec<CapturedGraph<Program>>,
    pub(super) sets: Vec<FeatureSet>,
    pub(super) frames_in_flight: Vec<InFlightFrame>,
    pub(super) buffers: Vec<FrameBuffer>,
    nvjpeg: Option<Decoder>,
    /// The way of predecoded frames.
    pub(super) route: Option<PreparedRoute>,
    pub(super) streams: Streams,
    contexts: Vec<Rc<Contexts>>,
    words_room: usize,
    encoder: Encoder,
    scratch: View,
    pub(super) engines: Engines,
    kernels: Kernels,
    attention: Option<AttentionKernels>,
    pub(super) options: Options,
    pub(super) gpu: Gpu,
}

/// The streams that all objects share.
pub struct Streams {
    pub upload: Stream,
    pub encode: Stream,
    pub download: Stream,
}

impl Pipeline {
    /// The most points that a prompt may have.
    pub fn most_points(&self) -> usize {
        contexts::most_points(&self.engines.steps.prompt)
    }

    /// Makes contexts and memory. With nvJPEG's library it decodes the frames, else libjpeg-turbo.
    ///
    /// # Errors
    /// Engines that do not fit together or that lack a profile, or too little memory.
    pub fn new(
        gpu: &Gpu,
        engines: Engines,
        options: Options,
        nvjpeg: Option<&Library>,
    ) -> Result<Self> {
        let purpose = gpu.tagged(MemoryTag::Frames);
        let nvjpeg = nvjpeg.map(|library| Decoder::new(&purpose, library)).transpose();
        let nvjpeg = nvjpeg.with_context(|| {
            format!(
                "frames cannot be decoded on the GPU; use --jpeg-decoder turbo, or name \
                     another nvJPEG with {VARIABLE}"
            )
        })?;
        let kernels = Kernels::load(gpu)?;
        let mut uses = Vec::new();
        if engines.steps.track.variant() == TrackVariant::Segmented {
            uses.push(AttentionUse::TrackStep);
        }
        if engines.encoder.trunk.as_ref().is_some_and(TrunkFile::is_hiera) {
            uses.push(AttentionUse::Encoder);
        }
        let attends = !uses.is_empty();
        let attention = attends.then(|| AttentionKernels::load_for(gpu, &uses)).transpose()?;
        let encode = gpu.stream()?;
        // With one frame in flight a second stream could only add waits.
        let upload = if options.overlapping() { gpu.stream()? } else { encode.clone() };
        let streams = Streams { upload, encode, download: gpu.stream()? };
        let (of_encoder, of_steps) = engines.scratch_bytes();
        let scratch = |bytes: u64| -> Result<View> {
            let bytes =
                usize::try_from(bytes).context("the engines need too much scratch memory")?;
            Ok(View::new(&gpu.tagged(MemoryTag::Scratch), bytes)?)
        };
        // With one frame in flight the encoder and the first object's engines never run at the same
        // time.
        let shared = if options.overlapping() { of_encoder } else { of_encoder.max(of_steps) };
        let scratch = scratch(shared)?;
        let encoder =
            Encoder::new(gpu, &engines.encoder, attention.as_ref(), &scratch, &streams.encode)?;
        let batch = options.batch();
        let (mut sets, mut encodes) = (Vec::new(), Vec::new());
        while sets.len() < options.feature_sets() {
            let (more, encode) =
                FeatureSet::batch(gpu, &encoder, batch, &streams.encode, options.graphs)?;
            sets.extend(more);
            encodes.push(encode);
        }
        Ok(Self {
            clip: None,
            parked: Vec::new(),
            tracked_objects: Vec::new(),
            encodes,
            sets,
            frames_in_flight: Vec::new(),
            buffers: Vec::new(),
            nvjpeg,
            route: None,
            streams,
            contexts: Vec::new(),
            words_room: USUAL_WORDS_BYTES,
            encoder,
            scratch,
            engines,
            kernels,
            attention,
            options,
            gpu: gpu.clone(),
        })
    }

    /// What the engines are.
    pub fn manifest(&self) -> &Manifest {
        &self.engines.manifest.bundle
    }

    /// The `backend` column's word for the work of custom CUDA kernels in the encoder: its trunk, or
    /// all of it; none where engines compute it.
    pub fn encoder_label(&self) -> Option<&'static str> {
        let EncoderEngines { parts, trunk, .. } = &self.engines.encoder;
        let label = if parts.is_empty() { Trunk::WHOLE_LABEL } else { Trunk::LABEL };
        trunk.is_some().then_some(label)
    }

    /// The matmul library of the encoder's trunk and its file; none where there is none, or where
    /// it needs no library.
    pub fn products(&self) -> Option<String> {
        self.encoder.products()
    }

    /// The form of the loaded attention kernels; none where the engines need none.
    pub fn attention(&self) -> Option<String> {
        self.attention.as_ref().map(AttentionKernels::form)
    }

    /// The GPU, and with it the count of its memory.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// How often engines' work was enqueued, captured and replayed.
    pub fn replay(&self) -> GraphStats {
        let encodes = self.encodes.iter().map(CapturedGraph::count);
        let tracked_objects = self.tracked_objects.iter().map(TrackedObject::replay);
        encodes.chain(tracked_objects).fold(GraphStats::default(), |sum, count| sum + count)
    }

    /// Frames after which a pass does nothing for the first time: the bank is full, and each of its
    /// slots was written from each feature set.
    pub fn warmup_frames(&self) -> usize {
        let contract = self.engines.contract();
        let (sets, ring) = (self.sets.len(), contract.max_memories - 1);
        let repeats_after = sets * ring / gcd(sets, ring);
        let usual = contract.max_memories.max(contract.max_pointers) + repeats_after.max(sets) + 1;
        // nvJPEG allocates memory when it first decodes into a buffer.
        let buffers = if self.nvjpeg.is_some() { self.options.frame_buffers() + 1 } else { 0 };
        usual.max(buffers)
    }

    /// Waits for all its work. Offline the device has other pipelines' work too, which is not waited
    /// for.
    pub(super) fn synchronize(&self) -> Result<(), GpuError> {
        if self.options.mode != Mode::Offline {
            return self.gpu.synchronize();
        }
        let Streams { upload, encode, download } = &self.streams;
        let shared = [upload, encode, download].into_iter();
        let objects = self.tracked_objects.iter().map(|tracked| &tracked.stream);
        shared.chain(objects).try_for_each(Stream::synchronize)
    }

    /// Frees the memory that depends on the last clip's size, unless the next clip has the same.
    pub fn leave_clip_for(&mut self, next: &Geometry) {
        if self.clip.as_ref().is_some_and(|clip| clip.geometry != *next) {
            self.clip = None;
            self.buffers.clear();
        }
    }

    /// Prepares for clips of this geometry and so many objects at once; does nothing where it is
    /// prepared.
    pub(super) fn set_up(
        &mut self,
        geometry: &Geometry,
        objects: usize,
        prepared: Option<&PreparedClip>,
    ) -> Result<()> {
        self.set_up_route(prepared)?;
        let words_bytes = match &self.clip {
            Some(clip) if clip.geometry == *geometry => clip.words_bytes,
            _ => self.set_up_clip(geometry)?,
        };
        if words_bytes > self.words_room {
            self.words_room = words_bytes;
            self.tracked_objects.clear();
            self.contexts.clear();
            self.frames_in_flight.clear();
        }
        while self.tracked_objects.len() < objects {
            self.add_object()?;
        }
        let wanted = self.options.frames_in_flight();
        if self.frames_in_flight.len() != wanted
            || self.frames_in_flight.iter().any(|f| f.objects.len() < objects)
        {
            let differ = self.options.overlapping();
            let bytes = Results::bytes(self.words_room);
            let batched = self.options.batch() > 1;
            self.frames_in_flight = (0..wanted)
                .map(|_| Ok(InFlightFrame::new(&self.gpu, objects, bytes, differ, batched)?))
                .collect::<Result<_>>()?;
        }
        self.fill_buffers()
    }

    /// The way of predecoded frames; buffers of another way go.
    fn set_up_route(&mut self, prepared: Option<&PreparedClip>) -> Result<()> {
        let same = match (&self.route, prepared) {
            (Some(route), Some(prepared)) => route.is_of(prepared),
            (route, prepared) => route.is_none() && prepared.is_none(),
        };
        if !same {
            self.buffers.clear();
            self.route = None;
            let image = self.sets.first().context("there is no feature set")?.image.dtype;
            let contract = self.engines.contract();
            self.route = prepared.map(|it| PreparedRoute::new(&self.gpu, it, image, contract));
        }
        Ok(())
    }

    /// The engines that run.
    pub fn engines(&self) -> &Engines {
        &self.engines
    }

    /// The way of the last clip's predecoded frames; none where they were decoded.
    pub fn transfer(&self) -> Option<FrameTransfer> {
        self.route.as_ref().map(|route| route.transfer)
    }

    fn set_up_clip(&mut self, geometry: &Geometry) -> Result<usize> {
        self.leave_clip();
        let parked = self.parked.iter().position(|(clip, _)| clip.geometry == *geometry);
        let clip = match parked.map(|at| self.parked.remove(at)) {
            Some((clip, buffers)) => {
                self.buffers = buffers;
                clip
            }
            None => {
                let image = self.sets.first().context("there is no feature set")?.image.dtype;
                // The pass begins when its work is done.
                let stream = &self.streams.encode;
                let (gpu, contract) = (&self.gpu, self.engines.contract());
                // nvJPEG's pixels are on the device. A device that shares the host's memory reads
                // other pixels in place.
                let in_place = gpu.facts().unified && self.nvjpeg.is_none();
                let frames = if in_place || self.route.is_some() { 0 } else { self.sets.len() };
                let resized = (self.options.resize, element("image", image)?);
                ClipSetup::new(gpu, &self.kernels, contract, geometry, resized, frames, stream)?
            }
        };
        Ok(self.clip.insert(clip).words_bytes)
    }

    /// Frees the memory that depends on the last clip's size: both clips' at once would raise the
    /// peak. Offline other lanes would wait for that, so it is kept for the next clip of the size.
    fn leave_clip(&mut self) {
        let buffers = std::mem::take(&mut self.buffers);
        let Some(clip) = self.clip.take() else { return };
        if self.options.mode == Mode::Offline && self.route.is_none() {
            self.parked.push((clip, buffers));
            let more = self.parked.len().saturating_sub(PARKED);
            self.parked.drain(..more);
        }
    }

    /// Buffers of frames between file and device.
    fn fill_buffers(&mut self) -> Result<()> {
        let clip = self.clip.as_ref().context("no clip is set up")?;
        while self.buffers.len() < self.options.frame_buffers() {
            self.buffers.push(match &self.route {
                Some(route) => {
                    let bytes = clip.preprocess.image_bytes();
                    FrameBuffer::Input(InputBuffer::new(&self.gpu, route, bytes)?)
                }
                None => FrameBuffer::new(&self.gpu, self.nvjpeg.as_ref(), clip.frame_bytes)?,
            });
        }
        Ok(())
    }

    /// One more object. Objects on one stream share contexts; each stream has its own.
    fn add_object(&mut self) -> Result<()> {
        let at = self.tracked_objects.len();
        let own_stream = at == 0 || self.options.object_streams;
        if own_stream {
            let overlapping = self.options.overlapping() || at > 0;
            let (stream, scratch) = if overlapping {
                let (_, bytes) = self.engines.scratch_bytes();
                let bytes = usize::try_from(bytes).context("too much scratch memory")?;
                (self.gpu.stream()?, View::new(&self.gpu.tagged(MemoryTag::Scratch), bytes)?)
            } else {
                (self.streams.encode.clone(), self.scratch.clone())
            };
            let again = (at > 0).then(|| self.engines.steps_again()).transpose()?;
            let engines = again.as_ref().unwrap_or(&self.engines.steps);
            let contract = self.engines.contract();
            let contexts = Contexts::new(
                &self.gpu,
                engines,
                contract,
                self.attention.as_ref(),
                &scratch,
                &stream,
            )?;
            let contexts = Rc::new(contexts);
            self.push_object(&contexts, &stream)?;
            // Only now: contexts of an object without memory must not stay in the memory that the
            // next attempt needs.
            self.contexts.push(contexts);
            Ok(())
        } else {
            let stream =
                self.tracked_objects.first().context("there is no first object")?.stream.clone();
            let contexts = Rc::clone(self.contexts.last().context("there are no contexts")?);
            self.push_object(&contexts, &stream)
        }
    }

    fn push_object(&mut self, contexts: &Rc<Contexts>, stream: &Stream) -> Result<()> {
        let (gpu, contract) = (&self.gpu, self.engines.contract());
        let room = Room {
            words_bytes: self.words_room,
            sets: self.sets.len(),
            graphs: self.options.graphs,
        };
        let tracked = TrackedObject::new(gpu, &self.kernels, contract, contexts, stream, room)?;
        self.tracked_objects.push(tracked);
        Ok(())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // The device may still use the memory of the fields.
        if let Err(error) = self.gpu.synchronize() {
            log::debug!("{error}");
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
