/*!
Everything of the pipeline that stays from clip to clip: engines, contexts, streams, memory; and what is made anew where
a clip has another size.
*/

use std::rc::Rc;

use anyhow::{Context, Result};

use super::contexts::Contexts;
use super::encoder::Encoder;
use super::engines::Engines;
use super::features::{FeatureSet, element};
use super::flight::Flight;
use super::lane::{Lane, Results, Room};
use super::options::Options;
use super::slot::Slot;
use super::steps::Steps;
use cuda::nvjpeg::{Decoder, Library, VARIABLE};
use cuda::{CapturedGraph, Gpu, GraphStats, MemoryTag, Stream, View};
use kernels::{AttentionKernels, Filter, Kernels, MaskMaker, Preprocess};
use vos::bundle::Manifest;
use vos::geometry::Geometry;
use vos::record::Mode;
use vos::track_variant::TrackVariant;

/// Room for masks up to this size at first: 3840 × 2160 pixels. Larger videos make all results anew.
const USUAL_WORDS_BYTES: usize = 3840 / 8 * 2160;

/// A model on a GPU, ready to run clips.
///
/// Declared in the order of deletion: recorded work, contexts, engines.
pub struct Pipeline {
    pub(super) clip: Option<ClipSetup>,
    pub(super) lanes: Vec<Lane>,
    /// The encoder's work on each batch of sets, in their order.
    pub(super) encodes: Vec<CapturedGraph<Steps>>,
    pub(super) sets: Vec<FeatureSet>,
    pub(super) flights: Vec<Flight>,
    pub(super) slots: Vec<Slot>,
    nvjpeg: Option<Decoder>,
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

/// What depends on the size of the video.
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
    /// Lays out the engines. With nvJPEG's library it decodes the frames, else libjpeg-turbo.
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
            format!("frames cannot be decoded on the GPU; use --jpeg-decoder turbo, or name another nvJPEG with {VARIABLE}")
        })?;
        let kernels = Kernels::load(gpu)?;
        let attends = engines.steps.track.variant() == TrackVariant::Segmented
            || engines.encoder.wiring.trunk.is_some();
        let attention = attends.then(|| AttentionKernels::load(gpu)).transpose()?;
        let encode = gpu.stream()?;
        // With one frame in flight a second stream could only add waits.
        let upload = match options.mode {
            Mode::Latency => encode.clone(),
            Mode::Throughput => gpu.stream()?,
        };
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
            lanes: Vec::new(),
            encodes,
            sets,
            flights: Vec::new(),
            slots: Vec::new(),
            nvjpeg,
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

    /// What computes the products of the encoder's trunk, and its file; none where there is no trunk.
    pub fn products(&self) -> Option<String> {
        self.encoder.products()
    }

    /// What the attention kernels were loaded from; none where the engines need none.
    pub fn attention(&self) -> Option<&str> {
        self.attention.as_ref().map(AttentionKernels::form)
    }

    /// The GPU, and with it the count of its memory.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// How often engines' work was enqueued, recorded and replayed.
    pub fn replay(&self) -> GraphStats {
        let encodes = self.encodes.iter().map(CapturedGraph::count);
        let lanes = self.lanes.iter().map(Lane::replay);
        encodes.chain(lanes).fold(GraphStats::default(), |sum, count| sum + count)
    }

    /// Frames from which on no pass over a clip does anything for the first time: the bank is full, and each of its
    /// slots has met each feature set.
    pub fn warmup_frames(&self) -> usize {
        let contract = self.engines.contract();
        let (sets, ring) = (self.sets.len(), contract.max_memories - 1);
        let repeats_after = sets * ring / gcd(sets, ring);
        let usual = contract.max_memories.max(contract.max_pointers) + repeats_after.max(sets) + 1;
        // nvJPEG makes room in a slot when it first decodes into it.
        let slots = if self.nvjpeg.is_some() { self.options.slots() + 1 } else { 0 };
        usual.max(slots)
    }

    /// Gives back what depends on the size of the last clip, unless the next one is of the same.
    pub fn leave_clip_for(&mut self, next: &Geometry) {
        if self.clip.as_ref().is_some_and(|clip| clip.geometry != *next) {
            self.clip = None;
            self.slots.clear();
        }
    }

    /// Makes ready for clips of this geometry and so many objects at once; does nothing where it is.
    pub(super) fn set_up(&mut self, geometry: &Geometry, objects: usize) -> Result<()> {
        let words_bytes = match &self.clip {
            Some(clip) if clip.geometry == *geometry => clip.words_bytes,
            _ => self.set_up_clip(geometry)?,
        };
        if words_bytes > self.words_room {
            self.words_room = words_bytes;
            self.lanes.clear();
            self.contexts.clear();
            self.flights.clear();
        }
        while self.lanes.len() < objects {
            self.add_lane()?;
        }
        let wanted = self.options.flights();
        if self.flights.len() != wanted || self.flights.iter().any(|f| f.objects.len() < objects) {
            let differ = self.options.mode == Mode::Throughput;
            let bytes = Results::bytes(self.words_room);
            let batched = self.options.batch() > 1;
            self.flights = (0..wanted)
                .map(|_| Ok(Flight::new(&self.gpu, objects, bytes, differ, batched)?))
                .collect::<Result<_>>()?;
        }
        self.fill_slots()
    }

    fn set_up_clip(&mut self, geometry: &Geometry) -> Result<usize> {
        // The old one first: both at once would be the peak.
        self.clip = None;
        self.slots.clear();
        let contract = self.engines.contract();
        let stream = &self.streams.encode;
        let image = self.sets.first().context("there is no feature set")?.image.dtype;
        let (gpu, kernels) = (&self.gpu, &self.kernels);
        let preprocess = Preprocess::new(
            gpu,
            kernels,
            geometry,
            Filter::PillowBicubic,
            element("image", image)?,
            contract.mean,
            contract.std,
            stream,
        )?;
        let masks = MaskMaker::new(gpu, kernels, geometry, contract.low_size, stream)?;
        let (width, height) = geometry.video_size();
        let frame_bytes = 3 * width * height;
        // nvJPEG's pixels begin on the device; others a device that shares the host's memory reads where they are.
        let in_place = gpu.facts().unified && self.nvjpeg.is_none();
        let frames = if in_place { 0 } else { self.sets.len() };
        let frames = (0..frames)
            .map(|_| Ok(View::new(&gpu.tagged(MemoryTag::Frames), frame_bytes)?))
            .collect::<Result<_>>()?;
        let words_bytes = masks.words_bytes();
        let geometry = geometry.clone();
        self.clip =
            Some(ClipSetup { geometry, preprocess, masks, frames, frame_bytes, words_bytes });
        Ok(words_bytes)
    }

    /// Slots of frames between their files and the device.
    fn fill_slots(&mut self) -> Result<()> {
        let bytes = self.clip.as_ref().context("no clip is set up")?.frame_bytes;
        while self.slots.len() < self.options.slots() {
            self.slots.push(Slot::new(&self.gpu, self.nvjpeg.as_ref(), bytes)?);
        }
        Ok(())
    }

    /// One more object. Objects on one stream share contexts; each stream has its own.
    fn add_lane(&mut self) -> Result<()> {
        let at = self.lanes.len();
        let own_stream = at == 0 || self.options.object_streams;
        if own_stream {
            let overlapping = self.options.mode == Mode::Throughput || at > 0;
            let (stream, scratch) = if overlapping {
                let (_, bytes) = self.engines.scratch_bytes();
                let bytes = usize::try_from(bytes).context("too much scratch memory")?;
                (self.gpu.stream()?, View::new(&self.gpu.tagged(MemoryTag::Scratch), bytes)?)
            } else {
                (self.streams.encode.clone(), self.scratch.clone())
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
            self.push_lane(&contexts, &stream)?;
            // Only now: contexts whose object found no room must not stay in the memory that the next attempt needs.
            self.contexts.push(contexts);
            Ok(())
        } else {
            let stream = self.lanes.first().context("there is no first object")?.stream.clone();
            let contexts = Rc::clone(self.contexts.last().context("there are no contexts")?);
            self.push_lane(&contexts, &stream)
        }
    }

    fn push_lane(&mut self, contexts: &Rc<Contexts>, stream: &Stream) -> Result<()> {
        let (gpu, contract) = (&self.gpu, self.engines.contract());
        let room = Room {
            words_bytes: self.words_room,
            sets: self.sets.len(),
            graphs: self.options.graphs,
        };
        let lane = Lane::new(gpu, &self.kernels, contract, contexts, stream, room)?;
        self.lanes.push(lane);
        Ok(())
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // Everything below names memory that the device may still use.
        if let Err(error) = self.gpu.synchronize() {
            log::debug!("{error}");
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
