/*!
The engines of one model, opened from their folder: those that a clip needs, with one variant of the
track step.
*/

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::loaded_engine::LoadedEngine;
use super::options::Options;
use super::part_weights::PartWeights;
use super::step_engines::{
    KeyEngine, LayerEngines, MemoryEncoderSource, StepEngines, TrackEngines,
};
use super::trunk_file::TrunkFile;
use crate::engine::{EngineManifest, open_plan};
use cuda::Gpu;
use tensorrt::{Runtime, Version};
use vos::bundle::{
    Contract, MaskDecoderPart, MemoryAttentionPart, MemoryEncoderPart, MemoryKeyProjWeights,
    PartGraph, Role,
};
use vos::platform::Platforms;
use vos::record::EngineMemory;
use vos::track_variant::TrackVariant;

/// All engines that one kind of prompt needs.
pub struct Engines {
    /// The folder's manifest.
    pub manifest: EngineManifest,
    /// Images to features: one image, or as many as were asked for.
    pub encoder: EncoderEngines,
    /// The engines that track an object.
    pub steps: StepEngines,
    source: Source,
}

/// The engines of the image encoder.
pub struct EncoderEngines {
    /// The parts in order; a single one where the encoder is not split, none where custom CUDA
    /// kernels compute all of it.
    pub parts: Vec<LoadedEngine>,
    /// The tensors between the parts.
    pub part_graph: PartGraph,
    /// The weights file of the trunk, where the encoder is split at it or has no engine.
    pub trunk: Option<TrunkFile>,
}

/// Where the engines came from, to open them again.
#[derive(Clone)]
struct Source {
    /// One thread at a time opens engines.
    runtime: Arc<Mutex<Runtime>>,
    version: Version,
    sm: u32,
    dir: PathBuf,
    with_mask: bool,
    track_variant: Option<TrackVariant>,
    /// Read once, however often the engines are opened.
    keys: OnceCell<Arc<MemoryKeyProjWeights>>,
    attention: PartWeights<MemoryAttentionPart>,
    decoder: PartWeights<MaskDecoderPart>,
    memory: PartWeights<MemoryEncoderPart>,
}

impl Engines {
    /// Opens the folder's engines on `gpu`. `with_mask`: the engine for mask prompts too.
    /// `track_variant`: the variant of the track step, in place of the folder's usual one. `batch`:
    /// frames that the encoder takes at once.
    ///
    /// # Errors
    /// An engine that is missing, damaged, or for another GPU or TensorRT, each with the command
    /// that builds it.
    pub fn open(
        gpu: &Gpu,
        runtime: Runtime,
        dir: &Path,
        with_mask: bool,
        track_variant: Option<TrackVariant>,
        batch: usize,
    ) -> Result<Self> {
        let manifest = EngineManifest::read(dir)?.with_context(|| {
            format!("{} has no engine.json; build it with: segtrt build-engines", dir.display())
        })?;
        let sm = gpu.facts().sm;
        let encoder = EncoderEngines::open(&runtime, sm, dir, &manifest, batch)?;
        let source = Source {
            version: runtime.library().version(),
            runtime: Arc::new(Mutex::new(runtime)),
            sm,
            dir: dir.to_owned(),
            with_mask,
            track_variant,
            keys: OnceCell::new(),
            attention: PartWeights::default(),
            decoder: PartWeights::default(),
            memory: PartWeights::default(),
        };
        let steps = source.steps(&manifest, encoder.trunk.as_ref())?;
        Ok(Self { encoder, steps, manifest, source })
    }

    /// The same engines for another pipeline in this process. They share weights as far as
    /// TensorRT allows.
    ///
    /// # Errors
    /// As [`Engines::open`].
    pub fn again(&self) -> Result<Self> {
        let (manifest, source) = (self.manifest.clone(), self.source.clone());
        Ok(Self { manifest, source, encoder: self.encoder_again()?, steps: self.steps_again()? })
    }

    /// The engines that track, for one more stream.
    pub fn steps_again(&self) -> Result<StepEngines> {
        self.steps.again(|loaded| self.source.again(&self.manifest, loaded))
    }

    /// The encoder's engines, for one more pipeline.
    fn encoder_again(&self) -> Result<EncoderEngines> {
        let EncoderEngines { parts, part_graph, trunk } = &self.encoder;
        let again = |part| self.source.again(&self.manifest, part);
        Ok(EncoderEngines {
            parts: parts.iter().map(again).collect::<Result<_>>()?,
            part_graph: part_graph.clone(),
            trunk: trunk.as_ref().map(TrunkFile::again),
        })
    }

    /// The engines that are opened for each pipeline, by the names of their roles; the others
    /// share their weights.
    pub fn not_shared(&self) -> Vec<&'static str> {
        let StepEngines { prompt, mask_prompt, track, memory } = &self.steps;
        let steps = [Some(prompt), mask_prompt.as_ref(), memory.engine()].into_iter().flatten();
        let all = self.encoder.parts.iter().chain(steps).chain(track.all());
        let alone = all.filter(|loaded| !self.source.shares(loaded));
        alone.map(|loaded| loaded.role.name()).collect()
    }

    /// Shapes and constants of the model.
    pub fn contract(&self) -> &Contract {
        &self.manifest.bundle.contract
    }

    /// The most scratch memory that any part of the encoder needs, and the most that any other
    /// engine needs, bytes.
    pub fn scratch_bytes(&self) -> (u64, u64) {
        let steps = self.step_engines().map(LoadedEngine::scratch_bytes);
        (self.encoder.scratch_bytes(), steps.max().unwrap_or(0))
    }

    /// The engines that track an object.
    fn step_engines(&self) -> impl Iterator<Item = &LoadedEngine> {
        let StepEngines { prompt, mask_prompt, track, memory } = &self.steps;
        let few = [Some(prompt), mask_prompt.as_ref(), memory.engine()].into_iter().flatten();
        few.chain(track.all())
    }

    /// Plan and scratch memory of each engine that runs.
    pub fn memory(&self) -> Vec<EngineMemory> {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let of = |loaded: &LoadedEngine| EngineMemory {
            role: loaded.role.name().to_owned(),
            plan: self.manifest.plan(loaded.role).map_or(0.0, |plan| mib(plan.bytes)),
            activations: mib(loaded.scratch_bytes()),
        };
        self.encoder.parts.iter().chain(self.step_engines()).map(of).collect()
    }
}

impl EncoderEngines {
    /// Opens those of `manifest`, which lies in `dir`, for `batch` frames at once.
    ///
    /// # Errors
    /// As [`Engines::open`].
    pub fn open(
        runtime: &Runtime,
        sm: u32,
        dir: &Path,
        manifest: &EngineManifest,
        batch: usize,
    ) -> Result<Self> {
        Self::of(runtime, sm, dir, manifest, encoder(manifest, batch)?)
    }

    /// Opens the engines of these roles: one encoder, or its parts in order; none where kernels
    /// compute all of it.
    ///
    /// # Errors
    /// As [`Engines::open`].
    pub fn of(
        runtime: &Runtime,
        sm: u32,
        dir: &Path,
        manifest: &EngineManifest,
        roles: Vec<Role>,
    ) -> Result<Self> {
        let part_graph = part_graph(manifest, &roles)?;
        let whole = manifest.trunk().filter(|_| roles.is_empty());
        let trunk =
            part_graph.trunk.as_ref().or(whole).map(|trunk| TrunkFile::new(dir, manifest, trunk));
        let open = |role| {
            let engine = open_plan(runtime, sm, dir, manifest, role)?;
            Ok(LoadedEngine::new(engine, manifest.plan(role).context("the plan is gone")?))
        };
        Ok(Self { parts: roles.into_iter().map(open).collect::<Result<_>>()?, part_graph, trunk })
    }

    /// The most scratch memory that any part needs, or what is computed between them, bytes.
    pub fn scratch_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(LoadedEngine::scratch_bytes);
        let trunk = self.trunk.as_ref().map(TrunkFile::scratch_bytes);
        parts.chain(trunk).max().unwrap_or(0)
    }
}

impl Source {
    /// Whether several contexts can use one engine at the same time. TensorRT 8 gives a profile
    /// with open shapes to one context only.
    fn shares(&self, loaded: &LoadedEngine) -> bool {
        self.version.rtx || self.version.major >= 10 || loaded.is_fixed()
    }

    /// An engine for other contexts: the same one, or else opened again, weights and all.
    fn again(&self, manifest: &EngineManifest, loaded: &LoadedEngine) -> Result<LoadedEngine> {
        if self.shares(loaded) { Ok(loaded.clone()) } else { self.open(manifest, loaded.role) }
    }

    fn open(&self, manifest: &EngineManifest, role: Role) -> Result<LoadedEngine> {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = open_plan(&runtime, self.sm, &self.dir, manifest, role)?;
        Ok(LoadedEngine::new(engine, manifest.plan(role).context("the plan is gone")?))
    }

    /// The kernel if the trunk's weights file has its weights; else the engine.
    fn keys(&self, manifest: &EngineManifest, trunk: Option<&TrunkFile>) -> Result<KeyEngine> {
        let Some((shape, of)) = manifest.keys().zip(manifest.trunk()) else {
            return Ok(KeyEngine::Engine(self.open(manifest, Role::TrackKeys)?));
        };
        if let Some(weights) = self.keys.get() {
            return Ok(KeyEngine::Kernel(shape, Arc::clone(weights)));
        }
        let weights = Arc::new(match trunk {
            Some(trunk) => trunk.keys()?,
            None => TrunkFile::new(&self.dir, manifest, of).keys()?,
        });
        Ok(KeyEngine::Kernel(shape, Arc::clone(self.keys.get_or_init(|| weights))))
    }

    /// The kernels if the folder has their weights; else the engine.
    fn memory(&self, manifest: &EngineManifest) -> Result<MemoryEncoderSource> {
        Ok(match self.memory.get(&self.dir, manifest)? {
            Some((shape, weights)) => MemoryEncoderSource::Kernels(shape, weights),
            None => MemoryEncoderSource::Engine(self.open(manifest, Role::Memory)?),
        })
    }

    fn steps(&self, manifest: &EngineManifest, trunk: Option<&TrunkFile>) -> Result<StepEngines> {
        let open = |role| self.open(manifest, role);
        Ok(StepEngines {
            prompt: open(Role::Prompt)?,
            mask_prompt: self.with_mask.then(|| open(Role::MaskPrompt)).transpose()?,
            track: match track_variant(manifest, self.track_variant)? {
                TrackVariant::Padded => TrackEngines::Padded(open(Role::TrackPadded)?),
                TrackVariant::PerFillLevel => {
                    TrackEngines::PerFillLevel(self.open(manifest, Role::Track)?)
                }
                TrackVariant::Segmented => {
                    let there = |role: &Role| manifest.plan(*role).is_some();
                    let decoder = self.decoder.get(&self.dir, manifest)?;
                    let segments = Role::SEGMENTS.into_iter().filter(there);
                    let image = decoder.is_some().then_some(Role::TrackImage);
                    let segments = segments.chain(image).map(open);
                    let layers = match self.attention.get(&self.dir, manifest)? {
                        Some(attention) => LayerEngines::Kernels(attention),
                        None => LayerEngines::Engines(segments.collect::<Result<_>>()?),
                    };
                    TrackEngines::Segmented { keys: self.keys(manifest, trunk)?, layers, decoder }
                }
            },
            memory: self.memory(manifest)?,
        })
    }
}

/// Roles of the encoder graphs that these options will run.
///
/// # Errors
/// There are none for so many frames at once.
pub fn encoder_roles(manifest: &EngineManifest, options: &Options) -> Result<Vec<Role>> {
    encoder(manifest, options.batch())
}

/// The encoder of `batch` frames: in one piece where it was built so, for that was asked for; else
/// none where kernels compute all of it; else in its parts, where the bundle has any.
fn encoder(manifest: &EngineManifest, batch: usize) -> Result<Vec<Role>> {
    let role = Role::encoder_of(batch).with_context(|| {
        format!("there are encoders for 1, 2, 4, 8 and 16 frames at once, not for {batch}")
    })?;
    let parts: Vec<Role> = manifest.bundle.encoder_parts().iter().map(|part| part.role).collect();
    match role {
        role if manifest.plan(role).is_some() => Ok(vec![role]),
        Role::Encoder if manifest.stem_and_neck().is_some() => Ok(Vec::new()),
        Role::Encoder if parts.is_empty() => Ok(vec![role]),
        Role::Encoder => Ok(parts),
        _ => bail!(
            "there is no engine that encodes {batch} frames at once; export the bundle again with \
             onnx/export.py --encoder-batches {batch}, then build it with: {}",
            manifest.rebuild_command()
        ),
    }
}

/// The tensors between the encoder's parts; none where it is in one piece.
fn part_graph(manifest: &EngineManifest, encoder: &[Role]) -> Result<PartGraph> {
    let graphs = encoder.iter().map(|role| manifest.bundle.graph(*role));
    match graphs.collect::<Option<Vec<_>>>() {
        Some(parts) if parts.len() > 1 => PartGraph::of(&parts, manifest.bundle.trunk.as_ref())
            .with_context(|| {
                let again = manifest.rebuild_command();
                format!(
                    "the encoder's parts do not fit together; export the model again, then: {again}"
                )
            }),
        _ => Ok(PartGraph::default()),
    }
}

/// The variant of the track step: the requested one; else by [`TrackVariant::by_preference`].
fn track_variant(manifest: &EngineManifest, asked: Option<TrackVariant>) -> Result<TrackVariant> {
    let has = |variant: &TrackVariant| manifest.has_variant(*variant);
    let missing = |what: &str, command: String| {
        format!("there is no {what} engine; build it with: {command}")
    };
    if let Some(variant) = asked {
        let command = || manifest.rebuild_command_for(variant);
        return Some(variant)
            .filter(has)
            .with_context(|| missing(Role::of_variant(variant).name(), command()));
    }
    let usual =
        Platforms::open(None)?.get(&manifest.platform).map(|platform| platform.track_variant);
    TrackVariant::by_preference(usual)
        .find(has)
        .with_context(|| missing("track", manifest.rebuild_command()))
}
