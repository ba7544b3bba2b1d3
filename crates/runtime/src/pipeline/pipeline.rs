/*!
The parts of the pipeline that stay from clip to clip, such as engines, contexts, streams and
memory, and those that depend on a clip's size.
*/

use std::rc::Rc;

use anyhow::{Context, Result};

use super::contexts::{self, Contexts};
use super::encoder::Encoder;
use super::engines::Engines;
use super::features::{FeatureSet, element};
use super::frame_buffer::FrameBuffer;
use super::in_flight::InFlightFrame;
use super::options::Options;
use super::prepared::{InputBuffer, PreparedRoute};
use super::tracked_object::{Results, Room, TrackedObject};
use cuda::nvjpeg::{Decoder, Library, VARIABLE};
use cuda::{CapturedGraph, Gpu, GpuError, GraphStats, MemoryTag, Priority, Stream, View};
use execution::Program;
use kernels::{AttentionKernels, Kernels, MaskMaker, Preprocess};
use vos::bundle::Manifest;
use vos::geometry::Geometry;
use vos::predecode::PreparedClip;
use vos::record::{FrameTransfer, Mode};
use vos::track_variant::TrackVariant;

/// Results have room for masks of 3840 × 2160 pixels at first. Larger videos allocate them again.
const USUAL_WORDS_BYTES: usize = 3840 / 8 * 2160;

/// A model on a GPU, ready to run clips.
///
/// Declared in the order of deletion: captured graphs, contexts, engines.
pub struct Pipeline {
    pub(super) clip: Option<ClipSetup>,
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
    /// One for each stream that encodes.
    encoders: Vec<Encoder>,
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
    /// Those that encode batches of frames in turn; in latency mode the only one, which tracks too.
    pub encode: Vec<Stream>,
    pub download: Stream,
}

/// The parts that depend on the size of the video.
pub struct ClipSetup {
    pub geometry: Geometry,
    pub preprocess: Preprocess,
    pub masks: MaskMaker,
    /// One for each feature set; none where the device reads the host's memory in place.
    pub frames: Vec<View>,
    pub frame_bytes: usize,
    pub words_bytes: usize,
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
        let attends = engines.steps.track.variant() == TrackVariant::Segmented
            || engines.encoder.part_graph.trunk.is_some();
        let attention = attends.then(|| AttentionKernels::load(gpu)).transpose()?;
        let first = encode_stream(gpu, &options)?;
        // With one frame in flight a second stream could only add waits.
        let upload = match options.mode {
            Mode::Latency => first.clone(),
            Mode::Throughput => gpu.stream()?,
        };
        let mut encode = vec![first];
        while encode.len() < options.encode_streams() {
            encode.push(encode_stream(gpu, &options)?);
        }
        let streams = Streams { upload, encode, download: gpu.stream()? };
        let (of_encoder, of_steps) = engines.scratch_bytes();
        let scratch = |bytes: u64| -> Result<View> {
            let bytes =
                usize::try_from(bytes).context("the engines need too much scratch memory")?;
            Ok(View::new(&gpu.tagged(MemoryTag::Scratch), bytes)?)
        };
        // In latency mode the encoder and the first object's engines never run at the same time.
        let shared = match options.mode {
            Mode::Latency => of_encoder.max(of_steps),
            Mode::Throughput => of_encoder,
        };
        let (first, mut encoders) = (scratch(shared)?, Vec::new());
        for (at, stream) in streams.encode.iter().enumerate() {
            let again = if at > 0 { engines.encoder_again()? } else { None };
            let scratch = if at > 0 { scratch(of_encoder)? } else { first.clone() };
            let engines = again.as_ref().unwrap_or(&engines.encoder);
            encoders.push(Encoder::new(gpu, engines, attention.as_ref(), &scratch, stream)?);
        }
        let (batch, graphs) = (options.batch(), options.graphs);
        let (mut sets, mut encodes) = (Vec::new(), Vec::new());
        let in_turn = encoders.iter().zip(&streams.encode).cycle();
        for (encoder, stream) in in_turn.take(options.feature_sets() / batch) {
            let (more, encode) = FeatureSet::batch(gpu, encoder, batch, stream, graphs)?;
            sets.extend(more);
            encodes.push(encode);
        }
        Ok(Self {
            clip: None,
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
            encoders,
            scratch: first,
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

    /// The matmul library of the encoder's trunk and its file; none where there is no trunk.
    pub fn products(&self) -> Option<String> {
        self.encoders.first()?.products()
    }

    /// The form of the loaded attention kernels; none where the engines need none.
    pub fn attention(&self) -> Option<&str> {
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
            let differ = self.options.mode == Mode::Throughput;
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
        // Free the old one first: both at once would raise the peak.
        self.clip = None;
        self.buffers.clear();
        let contract = self.engines.contract();
        // The pass begins when its work is done.
        let stream = self.streams.encode.first().context("there is no stream")?;
        let image = self.sets.first().context("there is no feature set")?.image.dtype;
        let (gpu, kernels) = (&self.gpu, &self.kernels);
        let preprocess = Preprocess::new(
            gpu,
            kernels,
            geometry,
            self.options.resize,
            element("image", image)?,
            contract.mean,
            contract.std,
            stream,
        )?;
        let masks = MaskMaker::new(gpu, kernels, geometry, contract.low_size, stream)?;
        let (width, height) = geometry.video_size();
        let frame_bytes = 3 * width * height;
        // nvJPEG's pixels are on the device. A device that shares the host's memory reads other
        // pixels in place.
        let in_place = gpu.facts().unified && self.nvjpeg.is_none();
        let frames = if in_place || self.route.is_some() { 0 } else { self.sets.len() };
        let frames = (0..frames)
            .map(|_| Ok(View::new(&gpu.tagged(MemoryTag::Frames), frame_bytes)?))
            .collect::<Result<_>>()?;
        let words_bytes = masks.words_bytes();
        let geometry = geometry.clone();
        self.clip =
            Some(ClipSetup { geometry, preprocess, masks, frames, frame_bytes, words_bytes });
        Ok(words_bytes)
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
            let overlapping = self.options.mode == Mode::Throughput || at > 0;
            let (stream, scratch) = if overlapping {
                let (_, bytes) = self.engines.scratch_bytes();
                let bytes = usize::try_from(bytes).context("too much scratch memory")?;
                let stream = match self.options.tracker_first() {
                    true => self.gpu.stream_of(Priority::Greatest)?,
                    false => self.gpu.stream()?,
                };
                (stream, View::new(&self.gpu.tagged(MemoryTag::Scratch), bytes)?)
            } else {
                let stream = self.streams.encode.first().context("there is no stream")?;
                (stream.clone(), self.scratch.clone())
            };
            let again = if at > 0 { self.engines.steps_again()? } else { None };
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

fn encode_stream(gpu: &Gpu, options: &Options) -> Result<Stream, GpuError> {
    if options.tracker_first() { gpu.stream_of(Priority::Least) } else { gpu.stream() }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
