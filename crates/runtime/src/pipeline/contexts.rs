/*!
The contexts of the engines that track: a set for each stream, a context for each profile, all in
one scratch block.
*/

use std::rc::Rc;

use anyhow::{Context, Result};

use super::bound::{bind, tensor_of};
use super::loaded_engine::LoadedEngine;
use super::segmented_track::{KeySource, Layers, Pieces, SegmentedTrack};
use super::step_engines::{
    KeyEngine, LayerEngines, MemoryEncoderSource, StepEngines, TrackEngines,
};
use crate::engine::{MOST_POINTS, USUAL_POINTS, fill_levels};
use cuda::{Gpu, Stream, View};
use execution::{SharedEngine, TensorDesc};
use kernels::{AttentionKernels, MaskDecoder, MemoryAttention, MemoryEncoder, MemoryKeyProj};
use vos::bundle::Contract;

/// The contexts of one stream, which run one at a time.
pub struct Contexts {
    /// For one point, for two, and for as many more as the plan has profiles for.
    pub prompts: Vec<SharedEngine>,
    /// Where objects are prompted with masks.
    pub mask_prompt: Option<SharedEngine>,
    /// The track step.
    pub track: Track,
    /// The memory encoder.
    pub memory: Memory,
}

/// The memory encoder.
pub enum Memory {
    /// An engine.
    Engine(SharedEngine),
    /// CUDA kernels.
    Kernels(Rc<MemoryEncoder>),
}

impl Memory {
    fn new(
        gpu: &Gpu,
        maker: &MemoryEncoderSource,
        make: impl Fn(&LoadedEngine, usize) -> Result<SharedEngine>,
        stream: &Stream,
    ) -> Result<Self> {
        Ok(match maker {
            MemoryEncoderSource::Engine(loaded) => Self::Engine(make(loaded, one_object(loaded)?)?),
            MemoryEncoderSource::Kernels(shape, weights) => {
                Self::Kernels(Rc::new(MemoryEncoder::new(gpu, *shape, weights, stream)?))
            }
        })
    }

    /// The memory that is written.
    pub fn output(&self) -> Result<TensorDesc> {
        match self {
            Self::Engine(engine) => tensor_of(engine, "mem"),
            Self::Kernels(encoder) => Ok(encoder.output().into()),
        }
    }
}

/// The track step, in the variant in which it was built.
pub enum Track {
    /// One for each fill level in the order in which a clip meets them; a single one where the bank
    /// is padded.
    Whole(Vec<SharedEngine>),
    /// Engines with attention kernels between them.
    Segmented(Box<SegmentedTrack>),
}

impl Track {
    fn new(
        gpu: &Gpu,
        engines: &TrackEngines,
        contract: &Contract,
        kernels: Option<&AttentionKernels>,
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let make =
            |loaded: &LoadedEngine, profile: usize| bind(gpu, loaded, profile, scratch, stream);
        let single = |loaded: &LoadedEngine| make(loaded, one_object(loaded)?);
        Ok(match engines {
            TrackEngines::Padded(track) => Self::Whole(vec![single(track)?]),
            TrackEngines::PerFillLevel(track) => {
                let levels = fill_levels(contract).into_iter().map(|(memories, pointers)| {
                    let (tokens, channels) = (contract.memory_tokens, contract.memory_channels);
                    let mem = [1, memories, tokens, channels].map(|extent| extent as i64);
                    let ptrs = [1, pointers, contract.pointer_channels].map(|extent| extent as i64);
                    let wanted = [("mem", mem.to_vec()), ("ptrs", ptrs.to_vec())];
                    let profile = track.takes(&wanted).with_context(|| {
                        format!("the track step's plan has no profile for {wanted:?}")
                    })?;
                    make(track, profile)
                });
                Self::Whole(levels.collect::<Result<_>>()?)
            }
            TrackEngines::Segmented { keys, layers, decoder } => {
                let kernels = kernels.context("the attention kernels are not loaded")?;
                let layers = match layers {
                    LayerEngines::Engines(segments) => {
                        Layers::Engines(segments.iter().map(single).collect::<Result<_>>()?)
                    }
                    LayerEngines::Kernels((shape, weights)) => Layers::Kernels(Rc::new(
                        MemoryAttention::new(gpu, *shape, weights, stream)?,
                    )),
                };
                let keys = match keys {
                    KeyEngine::Engine(loaded) => KeySource::Engine(single(loaded)?),
                    KeyEngine::Kernel(shape, weights) => KeySource::Kernel(Rc::new(
                        MemoryKeyProj::new(gpu, *shape, weights, stream)?,
                    )),
                };
                let decoder = decoder.as_ref().map(|(shape, weights)| {
                    Ok::<_, anyhow::Error>(Rc::new(MaskDecoder::new(gpu, *shape, weights, stream)?))
                });
                let pieces = Pieces { keys, layers, decoder: decoder.transpose()? };
                Self::Segmented(Box::new(SegmentedTrack::new(gpu, kernels, contract, pieces)?))
            }
        })
    }

    /// The engine that reads the bank; none where CUDA kernels alone do.
    pub fn reader(&self) -> Option<&SharedEngine> {
        match self {
            Self::Whole(tracks) => tracks.last(),
            Self::Segmented(track) => track.reader(),
        }
    }

    /// A tensor of the track step's output.
    pub fn output(&self, name: &str) -> Result<TensorDesc> {
        match self {
            Self::Whole(tracks) => {
                tensor_of(tracks.last().context("there is no track context")?, name)
            }
            Self::Segmented(track) => track.output(name),
        }
    }
}

/// Shape of the prompt engine's points for one object.
fn coords(points: usize) -> [(&'static str, Vec<i64>); 1] {
    [("coords", vec![1, points as i64, 2])]
}

/// The most points of one object that the prompt engine has a profile for.
pub fn most_points(prompt: &LoadedEngine) -> usize {
    (1..=MOST_POINTS).take_while(|points| prompt.takes(&coords(*points)).is_some()).count()
}

impl Contexts {
    /// Makes all contexts, in `scratch`. `kernels`: the attention kernels of a segmented track
    /// step.
    pub fn new(
        gpu: &Gpu,
        engines: &StepEngines,
        contract: &Contract,
        kernels: Option<&AttentionKernels>,
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let make =
            |loaded: &LoadedEngine, profile: usize| bind(gpu, loaded, profile, scratch, stream);
        let track = Track::new(gpu, &engines.track, contract, kernels, scratch, stream)?;
        let usual = USUAL_POINTS.map(|points| engines.prompt.profile_for(&coords(points)));
        let more = (USUAL_POINTS.len() + 1..=MOST_POINTS)
            .map_while(|points| engines.prompt.takes(&coords(points)).map(Ok));
        let prompts = usual.into_iter().chain(more);
        Ok(Self {
            prompts: prompts
                .map(|profile| make(&engines.prompt, profile?))
                .collect::<Result<_>>()?,
            mask_prompt: engines
                .mask_prompt
                .as_ref()
                .map(|loaded| make(loaded, one_object(loaded)?))
                .transpose()?,
            track,
            memory: Memory::new(gpu, &engines.memory, make, stream)?,
        })
    }
}

/// The profile for one object: profiles for more may follow it.
fn one_object(loaded: &LoadedEngine) -> Result<usize> {
    let single = |profile: &Vec<(String, Vec<i64>)>| {
        // The objects are the first extent of whatever is not a list of bank slots.
        profile
            .iter()
            .all(|(name, shape)| name == "tidx" || name == "ptr_t" || shape.first() == Some(&1))
    };
    loaded
        .profiles
        .iter()
        .position(single)
        .with_context(|| format!("the {} engine has no profile for one object", loaded.role.name()))
}
