/*!
The contexts of the engines that track: one set for each stream, one context for each profile, all in one scratch block.
*/

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context, Result};

use super::engines::Opened;
use super::segmented_track::{KeyMaker, Pieces, SegmentedTrack};
use super::step_engines::{BankKeys, MemoryMaker, StepEngines, TrackEngines};
use crate::engine::fill_levels;
use crate::{Port, Stage};
use cuda::{Gpu, Stream, View};
use kernels::{AttentionKernels, MaskDecoder, MemoryEncoder, MemoryKeyProj};
use vos::bundle::Contract;

/// A context that several pieces of recorded work bind in turn.
pub type Shared = Rc<RefCell<Stage>>;

/// What one stream runs; nothing of it runs twice at the same time.
pub struct Contexts {
    /// For one and for two points.
    pub prompts: Vec<Shared>,
    /// Where objects are prompted with masks.
    pub mask_prompt: Option<Shared>,
    /// The track step.
    pub track: Track,
    /// Writes memories.
    pub memory: Memory,
}

/// What writes memories.
pub enum Memory {
    /// An engine.
    Engine(Shared),
    /// This program's own kernels.
    Kernels(Rc<MemoryEncoder>),
}

impl Memory {
    fn new(
        gpu: &Gpu,
        maker: &MemoryMaker,
        make: impl Fn(&Opened, usize) -> Result<Shared>,
        stream: &Stream,
    ) -> Result<Self> {
        Ok(match maker {
            MemoryMaker::Engine(opened) => Self::Engine(make(opened, one_object(opened)?)?),
            MemoryMaker::Kernels(shape, weights) => {
                Self::Kernels(Rc::new(MemoryEncoder::new(gpu, *shape, weights, stream)?))
            }
        })
    }

    /// The memory that is written.
    pub fn port(&self) -> Result<Port> {
        match self {
            Self::Engine(stage) => port(stage, "mem"),
            Self::Kernels(encoder) => Ok(encoder.output().into()),
        }
    }
}

/// The track step, in the form in which it was built.
pub enum Track {
    /// One for each fill level in the order in which a clip meets them; a single one where the bank is padded.
    Whole(Vec<Shared>),
    /// Engines with attention between them.
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
        let make = |opened: &Opened, profile: usize| context(gpu, opened, profile, scratch, stream);
        let single = |opened: &Opened| make(opened, one_object(opened)?);
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
            TrackEngines::Segmented { keys, segments, decoder } => {
                let kernels = kernels.context("the attention kernels are not loaded")?;
                let segments = segments.iter().map(single).collect::<Result<_>>()?;
                let keys = match keys {
                    BankKeys::Engine(opened) => KeyMaker::Engine(single(opened)?),
                    BankKeys::Kernel(shape, weights) => {
                        KeyMaker::Kernel(Rc::new(MemoryKeyProj::new(gpu, *shape, weights, stream)?))
                    }
                };
                let decoder = decoder.as_ref().map(|(shape, weights)| {
                    Ok::<_, anyhow::Error>(Rc::new(MaskDecoder::new(gpu, *shape, weights, stream)?))
                });
                let pieces = Pieces { keys, segments, decoder: decoder.transpose()? };
                Self::Segmented(Box::new(SegmentedTrack::new(gpu, kernels, contract, pieces)?))
            }
        })
    }

    /// The engine that reads the bank; none where this program's own kernels alone do.
    pub fn reader(&self) -> Option<&Shared> {
        match self {
            Self::Whole(tracks) => tracks.last(),
            Self::Segmented(track) => track.reader(),
        }
    }

    /// A tensor of the answer, as what gives it has it.
    pub fn answer(&self, name: &str) -> Result<Port> {
        match self {
            Self::Whole(tracks) => port(tracks.last().context("there is no track context")?, name),
            Self::Segmented(track) => track.answer(name),
        }
    }
}

impl Contexts {
    /// Makes all contexts, in `scratch`. `kernels`: those of the attention, where the track step is cut at it.
    pub fn new(
        gpu: &Gpu,
        engines: &StepEngines,
        contract: &Contract,
        kernels: Option<&AttentionKernels>,
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let make = |opened: &Opened, profile: usize| context(gpu, opened, profile, scratch, stream);
        let track = Track::new(gpu, &engines.track, contract, kernels, scratch, stream)?;
        let prompts = [1, 2].map(|points| {
            make(&engines.prompt, engines.prompt.profile_for(&[("coords", vec![1, points, 2])])?)
        });
        Ok(Self {
            prompts: prompts.into_iter().collect::<Result<_>>()?,
            mask_prompt: engines
                .mask_prompt
                .as_ref()
                .map(|opened| make(opened, one_object(opened)?))
                .transpose()?,
            track,
            memory: Memory::new(gpu, &engines.memory, make, stream)?,
        })
    }
}

/// A context of one engine.
pub fn context(
    gpu: &Gpu,
    opened: &Opened,
    profile: usize,
    scratch: &View,
    stream: &Stream,
) -> Result<Shared> {
    let shapes = opened.profiles.get(profile).context("the engine lacks a profile")?;
    let name = opened.role.name();
    let stage = Stage::new(gpu, &opened.engine, name, (profile, shapes), scratch, stream)?;
    Ok(Rc::new(RefCell::new(stage)))
}

/// The port of a context; an error where the engine lacks it.
pub fn port(stage: &Shared, name: &str) -> Result<Port> {
    let stage = stage.borrow();
    let known = || stage.ports().iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
    stage
        .port(name)
        .cloned()
        .with_context(|| format!("an engine lacks the tensor '{name}'; it has {}", known()))
}

/// The profile for one object: profiles for more may follow it.
fn one_object(opened: &Opened) -> Result<usize> {
    let single = |profile: &Vec<(String, Vec<i64>)>| {
        // The objects are the first extent of whatever is not a list of bank slots.
        profile
            .iter()
            .all(|(name, shape)| name == "tidx" || name == "ptr_t" || shape.first() == Some(&1))
    };
    opened
        .profiles
        .iter()
        .position(single)
        .with_context(|| format!("the {} engine has no profile for one object", opened.role.name()))
}
