/*!
A bundle: the ONNX graphs of one model at one size and precision, with their manifest.

Opening a bundle checks everything that can be checked without running it, so that a measurement
never starts with graphs that differ from their manifest.
*/

mod find;
pub mod fused_part;
mod graph;
pub mod manifest;
pub mod mask_decoder;
pub mod memory_attention;
pub mod memory_encoder;
pub mod memory_key_proj;
pub mod part_graph;
mod ports;
mod role;
mod tensors;
pub mod trunk;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::files::sha256_of_file;
pub use find::{WantedBundle, find, list};
pub use fused_part::{
    FusedPart, PARTS, PartKind, Plans, ReplacedEngine, WeightsFile, WeightsRecord,
};
pub use graph::{Axis, Contract, DType, Graph, Tensor};
pub use manifest::{Family, Manifest};
pub use mask_decoder::{MaskDecoderPart, MaskDecoderShape, MaskDecoderWeights};
pub use memory_attention::{MemoryAttentionPart, MemoryAttentionShape, MemoryAttentionWeights};
pub use memory_encoder::{MemoryEncoderPart, MemoryEncoderShape, MemoryEncoderWeights};
pub use memory_key_proj::{MemoryKeyProjShape, MemoryKeyProjWeights, TimeWeights};
pub use part_graph::PartGraph;
pub use role::Role;
pub use tensors::Tensor as FileTensor;
pub use trunk::{HieraBlock, HieraWeights, RepVitBlock, RepVitWeights, Trunk, TrunkWeights};

/// An opened bundle.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// The folder of the manifest.
    pub dir: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
}

impl Bundle {
    /// Reads and checks `dir/manifest.toml`; [`Bundle::verify`] checks the graphs' hashes.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("manifest.toml");
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "cannot read {}; name a bundle, a folder that onnx/export.py wrote",
                path.display()
            )
        })?;
        let manifest: Manifest = toml::from_str(&text).with_context(|| {
            format!("{} is not a bundle manifest; export the model again", path.display())
        })?;
        if manifest.format != manifest::FORMAT {
            bail!(
                "{} has format {}, this segtrt reads format {}; export the model again with the \
                 onnx/export.py of this version",
                path.display(),
                manifest.format,
                manifest::FORMAT
            );
        }
        check_contract(&manifest).with_context(|| format!("in {}", path.display()))?;
        Ok(Self { dir: dir.to_owned(), manifest })
    }

    /// The file of the graph with this role; an error if the bundle lacks it.
    pub fn graph_file(&self, role: Role) -> Result<PathBuf> {
        match self.manifest.graph(role) {
            Some(graph) => Ok(self.dir.join(&graph.file)),
            None => bail!(
                "the bundle {} has no {} graph; export the model again with this version's \
                 onnx/export.py",
                self.dir.display(),
                role.name()
            ),
        }
    }

    /// Compares the SHA-256 of the graphs with these roles with the manifest.
    pub fn verify(&self, roles: &[Role]) -> Result<()> {
        for graph in self.manifest.graphs.iter().filter(|graph| roles.contains(&graph.role)) {
            let path = self.dir.join(&graph.file);
            let found = sha256_of_file(&path).with_context(|| {
                format!("the graph in {}", self.dir.join("manifest.toml").display())
            })?;
            if found.sha256 != graph.sha256 {
                bail!(
                    "{} is not the graph of its manifest: sha256 found {}, expected {}; \
                     export the model again or restore the file",
                    path.display(),
                    found.sha256,
                    graph.sha256
                );
            }
        }
        Ok(())
    }

    /// The checkpoint of its weights, where it lies in the bundle's folder.
    pub fn checkpoint(&self) -> Option<PathBuf> {
        let file = self.dir.join(self.manifest.weights.checkpoint_file.as_ref()?);
        file.is_file().then_some(file)
    }

    /// The folder's name, which names the bundle in messages.
    pub fn name(&self) -> String {
        let m = &self.manifest.model;
        format!("{}_{}_{}", m.name, m.imgsz, m.precision)
    }
}

/// Checks shapes that the tracker relies on; without this, errors would appear later and less
/// clearly.
fn check_contract(manifest: &Manifest) -> Result<()> {
    manifest.check_names()?;
    let c = &manifest.contract;
    let side = manifest.model.imgsz;
    if c.grid.checked_mul(16) != Some(side) || c.grid.checked_mul(4) != Some(c.low_size) {
        bail!(
            "grid {} and low_size {} do not match imgsz {side}; expected {} and {}",
            c.grid,
            c.low_size,
            side / 16,
            side / 4
        );
    }
    if c.max_memories < 2 || c.max_pointers < 2 {
        bail!(
            "max_memories {} and max_pointers {}: both must be at least 2",
            c.max_memories,
            c.max_pointers
        );
    }
    for role in [Role::Encoder, Role::Prompt, Role::Track, Role::Memory] {
        if manifest.graph(role).is_none() {
            bail!("the {} graph is missing", role.name());
        }
    }
    let parts = manifest.encoder_parts();
    if let Some(beyond) = Role::CUTS[parts.len()..].iter().find_map(|role| manifest.graph(*role)) {
        let missing = Role::CUTS[parts.len()].name();
        bail!("the encoder is cut and {} exists, but {missing} is missing", beyond.role.name());
    }
    PARTS.iter().try_for_each(|part| part.check(manifest))?;
    let is_cut = !parts.is_empty() || manifest.trunk.is_some();
    if let (Some(whole), true) = (manifest.graph(Role::Encoder), is_cut) {
        part_graph::check_against(whole, &parts, manifest.trunk.as_ref())
            .context("the encoder's parts cannot be connected; export the model again")?;
    }
    let segments = Role::SEGMENTS.map(|role| manifest.graph(role).is_some());
    let first_missing = segments.iter().take_while(|there| **there).count();
    if segments[first_missing..].contains(&true)
        || (first_missing > 0) != manifest.graph(Role::TrackKeys).is_some()
        || (first_missing > 0 && first_missing % 2 == 0)
    {
        bail!(
            "the track step's parts are incomplete; expected track_keys and an odd number of \
             segments from track_seg0 on"
        );
    }
    mask_decoder::check_answers(manifest)
        .context("the track step has no outputs; export the model again")?;
    let timed = manifest.graph(Role::Track).is_some_and(|track| track.input("ptr_t").is_some());
    if timed != c.pointer_times {
        bail!("contract.pointer_times is {}, but {timed} in the track graph", c.pointer_times);
    }
    Ok(())
}
