/*!
The engines of one model, opened from their folder: which of them a clip needs, and which of the two track engines runs.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::bundle::{Contract, Role};
use crate::engine::{Bank, EngineManifest, open_plan};
use crate::gpu::{Gpu, Stage};
use crate::platform::Platforms;
use crate::trt::{Engine, Runtime};

/// An engine with the shapes of its profiles.
pub struct Opened {
    /// The engine.
    pub engine: Engine,
    /// What it does.
    pub role: Role,
    /// Shapes of the inputs with open extents, for each profile; a single empty one where all shapes are fixed.
    pub profiles: Vec<Vec<(String, Vec<i64>)>>,
}

/// All engines that one kind of prompt needs.
pub struct Engines {
    /// The folder's manifest.
    pub manifest: EngineManifest,
    /// Image to features.
    pub encoder: Opened,
    /// The engines that track an object.
    pub steps: StepEngines,
    source: Source,
}

/// Where the engines came from, to open them again.
struct Source {
    runtime: Runtime,
    sm: u32,
    dir: PathBuf,
    with_mask: bool,
}

/// The engines that track an object.
pub struct StepEngines {
    /// Points to the first mask.
    pub prompt: Opened,
    /// Only where objects are prompted with masks.
    pub mask_prompt: Option<Opened>,
    /// Padded or exact; its role says which.
    pub track: Opened,
    /// Mask and features to a memory.
    pub memory: Opened,
}

impl Engines {
    /// Opens the folder's engines on `gpu`.
    ///
    /// # Errors
    /// An engine that is missing, damaged, or for another GPU or TensorRT, each with the command that builds it.
    pub fn open(gpu: &Gpu, runtime: Runtime, dir: &Path, with_mask: bool) -> Result<Self> {
        let manifest = EngineManifest::read(dir)?.with_context(|| {
            format!("{} has no engine.json; build it with: segtrt build-engines", dir.display())
        })?;
        let source = Source { runtime, sm: gpu.facts().sm, dir: dir.to_owned(), with_mask };
        Ok(Self {
            encoder: source.open(&manifest, Role::Encoder)?,
            steps: source.steps(&manifest)?,
            manifest,
            source,
        })
    }

    /// The engines that track, for one more stream. TensorRT 8 gives a profile to one context only: there they are
    /// opened again, weights and all; none where contexts can share them.
    pub fn steps_again(&self) -> Result<Option<StepEngines>> {
        let version = self.source.runtime.library().version();
        let one_context_a_profile = !version.rtx && version.major < 10;
        one_context_a_profile.then(|| self.source.steps(&self.manifest)).transpose()
    }

    /// Shapes and constants of the model.
    pub fn contract(&self) -> &Contract {
        &self.manifest.bundle.contract
    }

    /// Scratch memory that the encoder needs, and the most that any other engine needs, bytes.
    pub fn scratch_bytes(&self) -> (u64, u64) {
        let of = |opened: &Opened| Stage::scratch_bytes(&opened.engine).unwrap_or(0);
        let StepEngines { prompt, mask_prompt, track, memory } = &self.steps;
        let steps = [Some(prompt), mask_prompt.as_ref(), Some(track), Some(memory)];
        (of(&self.encoder), steps.into_iter().flatten().map(of).max().unwrap_or(0))
    }
}

impl Source {
    fn open(&self, manifest: &EngineManifest, role: Role) -> Result<Opened> {
        let engine = open_plan(&self.runtime, self.sm, &self.dir, manifest, role)?;
        let profiles = &manifest.plan(role).context("the plan is gone")?.settings.profiles;
        let profiles = match profiles.as_slice() {
            [] => vec![vec![]],
            profiles => profiles.iter().map(|profile| profile.shapes.clone()).collect(),
        };
        Ok(Opened { engine, role, profiles })
    }

    fn steps(&self, manifest: &EngineManifest) -> Result<StepEngines> {
        let open = |role| self.open(manifest, role);
        Ok(StepEngines {
            prompt: open(Role::Prompt)?,
            mask_prompt: self.with_mask.then(|| open(Role::MaskPrompt)).transpose()?,
            track: open(track_role(manifest)?)?,
            memory: open(Role::Memory)?,
        })
    }
}

impl Opened {
    /// The profile that takes inputs of these shapes; inputs that it does not name are fixed.
    ///
    /// # Errors
    /// None does: the engine was built for other runs.
    pub fn profile_for(&self, wanted: &[(&str, Vec<i64>)]) -> Result<usize> {
        let takes = |profile: &Vec<(String, Vec<i64>)>| {
            profile.iter().all(|(name, shape)| {
                wanted.iter().all(|(input, wanted)| input != name || wanted == shape)
            })
        };
        self.profiles.iter().position(takes).with_context(|| {
            let wanted: Vec<String> =
                wanted.iter().map(|(name, shape)| format!("{name} {shape:?}")).collect();
            format!(
                "the {} engine has no profile for {}; build the engines again with: segtrt build-engines --force",
                self.role.name(),
                wanted.join(", ")
            )
        })
    }
}

/// Where a folder has both track engines, the platform table says which one runs there.
fn track_role(manifest: &EngineManifest) -> Result<Role> {
    let has = |role: Role| manifest.plan(role).is_some();
    ensure!(
        has(Role::Track) || has(Role::TrackPadded),
        "there is no track engine; build it with: {}",
        manifest.rebuild_command()
    );
    let exact = Platforms::open(None)?
        .get(&manifest.platform)
        .is_some_and(|platform| platform.bank == Bank::Exact);
    Ok(match (has(Role::TrackPadded), has(Role::Track)) {
        (true, true) if exact => Role::Track,
        (true, _) => Role::TrackPadded,
        (false, _) => Role::Track,
    })
}
