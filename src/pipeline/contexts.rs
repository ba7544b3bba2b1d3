/*!
The contexts of the engines that track: one set for each stream, one context for each profile, all in one scratch block.
*/

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Context, Result};

use super::engines::{Opened, StepEngines};
use crate::bundle::{Contract, Role};
use crate::engine::fill_levels;
use crate::gpu::{Gpu, Port, Stage, Stream, View};

/// A context that several pieces of recorded work bind in turn.
pub type Shared = Rc<RefCell<Stage>>;

/// What one stream runs; nothing of it runs twice at the same time.
pub struct Contexts {
    /// For one and for two points.
    pub prompts: Vec<Shared>,
    /// Where objects are prompted with masks.
    pub mask_prompt: Option<Shared>,
    /// One for each fill level in the order in which a clip meets them; a single one where the bank is padded.
    pub tracks: Vec<Shared>,
    /// Writes memories.
    pub memory: Shared,
}

impl Contexts {
    /// Makes all contexts, in `scratch`.
    pub fn new(
        gpu: &Gpu,
        engines: &StepEngines,
        contract: &Contract,
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let make = |opened: &Opened, profile: usize| context(gpu, opened, profile, scratch, stream);
        let prompts = [1, 2].map(|points| {
            make(&engines.prompt, engines.prompt.profile_for(&[("coords", vec![1, points, 2])])?)
        });
        let tracks = match engines.track.role {
            Role::TrackPadded => vec![make(&engines.track, one_object(&engines.track)?)?],
            _ => fill_levels(contract)
                .into_iter()
                .map(|(memories, pointers)| {
                    let (tokens, channels) = (contract.memory_tokens, contract.memory_channels);
                    let mem = [1, memories, tokens, channels].map(|extent| extent as i64);
                    let ptrs = [1, pointers, contract.pointer_channels].map(|extent| extent as i64);
                    let wanted = [("mem", mem.to_vec()), ("ptrs", ptrs.to_vec())];
                    make(&engines.track, engines.track.profile_for(&wanted)?)
                })
                .collect::<Result<_>>()?,
        };
        Ok(Self {
            prompts: prompts.into_iter().collect::<Result<_>>()?,
            mask_prompt: engines
                .mask_prompt
                .as_ref()
                .map(|opened| make(opened, one_object(opened)?))
                .transpose()?,
            tracks,
            memory: make(&engines.memory, one_object(&engines.memory)?)?,
        })
    }

    /// The track context of frame `t`, and its number.
    pub fn track(&self, t: usize) -> Result<(usize, &Shared)> {
        let level = t.saturating_sub(1).min(self.tracks.len().saturating_sub(1));
        self.tracks.get(level).map(|stage| (level, stage)).context("there is no track context")
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
