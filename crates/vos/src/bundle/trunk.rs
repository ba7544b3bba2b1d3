/*!
The trunk of an encoder: blocks of a Hiera or of a RepViT between the stem and the neck, which this
program computes itself.

On an H200 TensorRT 8.6.0 computes Hiera's blocks no faster than PyTorch does, and RepViT's as many
small kernels. So a bundle may hold the encoder as two parts, the stem (`encoder_cut0`, image to
tokens `y`) and the neck (`encoder_cut1`, the tokens `m0` to `m3` behind each stage's last block to
the features), with the weights of what lies between them in a file of its own. `manifest.toml`
describes the blocks in its table `[trunk]`; `onnx/README.md` says what a block computes. What else
this program computes with weights of its own is in the same file: the memory attention's keys
([`MemoryKeyProjShape`]), and stem and neck ([`StemAndNeck`]).
*/

mod blocks;

mod hiera;
mod repvit;
mod stem;
mod stem_neck;
mod weights;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::fused_part::{FusedPart, Plans, WeightsRecord};
use super::manifest::{Axis, DType, Manifest, Tensor};
use super::memory_key_proj::MemoryKeyProjShape;
use super::role::Role;
use super::tensors::Tensor as FileTensor;
use blocks::Block;
pub use blocks::{MapShape, STEP};
pub use hiera::{DEEPEST, HieraBlock, HieraWeights, WIDEST};
pub use repvit::{RepVitBlock, RepVitWeights};
pub use stem::{MOST_EMBEDDED, StemShape, StemWeights};
pub use stem_neck::{NeckShape, StemAndNeck, StemAndNeckWeights};
pub use weights::{LayerBytes, TrunkWeights};

/// Stages of a trunk, each of which gives tokens to the neck.
pub const STAGES: usize = 4;

/// The manifest's table `[trunk]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trunk {
    /// File of the weights beside the manifest, safetensors.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates of the blocks, for one image.
    #[serde(default)]
    pub flops: u64,
    /// The last block of each stage.
    pub ends: [usize; STAGES],
    /// The blocks in order.
    #[serde(flatten)]
    pub blocks: TrunkBlocks,
    /// The memory attention's keys, whose weights are in the same file; none where the track step
    /// is not cut at its attentions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<MemoryKeyProjShape>,
    /// The stem, where a kernel computes it: its weights are in the same file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stem: Option<StemShape>,
    /// The neck, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neck: Option<NeckShape>,
}

/// The blocks of a trunk, all of one kind. They name the kernels that compute them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrunkBlocks {
    /// `[[trunk.block]]`, of SAM 2.1: tokens are f32 on either side.
    #[serde(rename = "block")]
    Hiera(Vec<HieraBlock>),
    /// `[[trunk.repvit]]`, of EdgeTAM: tokens are f16 throughout.
    #[serde(rename = "repvit")]
    RepVit(Vec<RepVitBlock>),
}

impl TrunkBlocks {
    /// Their number.
    pub fn count(&self) -> usize {
        match self {
            Self::Hiera(blocks) => blocks.len(),
            Self::RepVit(blocks) => blocks.len(),
        }
    }

    /// A Hiera's; none of another kind.
    pub fn hiera(&self) -> Option<&[HieraBlock]> {
        match self {
            Self::Hiera(blocks) => Some(blocks),
            Self::RepVit(_) => None,
        }
    }

    /// The name of their network.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Hiera(_) => "Hiera",
            Self::RepVit(_) => "RepViT",
        }
    }

    /// Type of the tokens that they take and give.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Hiera(_) => DType::F32,
            Self::RepVit(_) => DType::F16,
        }
    }

    /// The map that block `at` takes, and the one that it gives.
    fn maps(&self, at: usize) -> Option<[MapShape; 2]> {
        fn of(block: &impl Block) -> [MapShape; 2] {
            [block.takes(), block.gives()]
        }
        match self {
            Self::Hiera(blocks) => blocks.get(at).map(of),
            Self::RepVit(blocks) => blocks.get(at).map(of),
        }
    }

    fn tensors(&self) -> Vec<FileTensor> {
        fn of(blocks: &[impl Block]) -> Vec<FileTensor> {
            blocks.iter().enumerate().flat_map(|(at, block)| block.tensors(at)).collect()
        }
        match self {
            Self::Hiera(blocks) => of(blocks),
            Self::RepVit(blocks) => of(blocks),
        }
    }
}

impl Trunk {
    /// The map behind each stage.
    ///
    /// # Errors
    /// A stage ends at a block that is not there.
    pub fn stages(&self) -> Result<[MapShape; STAGES]> {
        let mut given = Vec::with_capacity(STAGES);
        for (stage, end) in self.ends.iter().enumerate() {
            let [_, map] = self.blocks.maps(*end).with_context(|| {
                let count = self.blocks.count();
                format!("the trunk's stage {stage} ends at block {end}, of {count}")
            })?;
            given.push(map);
        }
        given.try_into().ok().context("the trunk has other stages than the neck takes")
    }

    /// The tokens that it takes, as the stem makes them: \[1,g,g,C\].
    ///
    /// # Errors
    /// It has no blocks.
    pub fn takes(&self) -> Result<Tensor> {
        let [first, _] = self.blocks.maps(0).context("the trunk has no blocks")?;
        Ok(self.tokens("y", first))
    }

    /// The tokens behind each stage, as the neck takes them: \[1,h,w,C\].
    ///
    /// # Errors
    /// As those of [`Self::stages`].
    pub fn gives(&self) -> Result<[Tensor; STAGES]> {
        let mut stage = 0..;
        let named = |map| self.tokens(&format!("m{}", stage.next().unwrap_or_default()), map);
        Ok(self.stages()?.map(named))
    }

    /// That the blocks follow each other, that there are kernels for each, and that a stage's
    /// tokens keep their shape where its blocks work in place.
    ///
    /// # Errors
    /// What does not fit, with the block's number.
    pub fn check(&self) -> Result<()> {
        // It is written into engine folders and packs under this name.
        ensure!(
            self.file == Self::FILE,
            "the trunk's weights are said to be in '{}', expected {} beside the manifest",
            self.file,
            Self::FILE
        );
        match &self.blocks {
            TrunkBlocks::Hiera(all) => blocks::check(all, &self.ends),
            TrunkBlocks::RepVit(all) => blocks::check(all, &self.ends),
        }
    }

    fn tokens(&self, name: &str, MapShape { grid, columns }: MapShape) -> Tensor {
        let shape = [1, grid, grid, columns].map(Axis::Fixed).to_vec();
        Tensor { name: name.to_owned(), dtype: self.blocks.dtype(), shape }
    }

    /// Whether it is a Hiera's: its blocks have attention, and products that cuBLASLt computes,
    /// which the user installs.
    pub fn is_hiera(&self) -> bool {
        self.blocks.hiera().is_some()
    }

    /// Bytes of all tensors of the weights' file.
    pub fn bytes(&self) -> u64 {
        Self::tensors(self).iter().map(|tensor| tensor.bytes() as u64).sum()
    }
}

impl FusedPart for Trunk {
    type Shape = Self;

    const NAME: &'static str = "encoder's trunk";
    const TABLE: &'static str = "trunk";
    const GRAPH: &'static str = "encoder_trunk";
    const FILE: &'static str = "encoder_trunk.safetensors";
    const LABEL: &'static str = "trunk";

    fn of(manifest: &Manifest) -> Option<&Self> {
        manifest.trunk.as_ref()
    }

    fn shape(&self) -> &Self {
        self
    }

    fn record(&self) -> WeightsRecord<'_> {
        let Self { file, sha256, flops, .. } = self;
        let (graph, what, bytes) = (Self::GRAPH, Self::NAME, None);
        WeightsRecord { graph, what, file, sha256, bytes, flops: *flops }
    }

    fn tensors(shape: &Self) -> Vec<FileTensor> {
        let mut all = shape.blocks.tensors();
        all.extend(shape.keys.iter().flat_map(MemoryKeyProjShape::tensors));
        all.extend(shape.tensors_of_stem_and_neck());
        all
    }

    fn check_against(&self, manifest: &Manifest) -> Result<()> {
        self.check()?;
        self.check_stem_and_neck(manifest)?;
        let Some(keys) = &self.keys else { return Ok(()) };
        let layers = manifest.graph(Role::TrackKeys).map_or(0, |graph| graph.outputs.len());
        keys.check(&manifest.contract, layers).context("its keys, [trunk.keys]")
    }

    /// The encoder was built as stem and neck; or kernels compute these too.
    fn replaces_plan(manifest: &Manifest, plans: &Plans<'_>) -> bool {
        Role::CUTS.into_iter().any(plans.has) || Self::computes_all(manifest, plans).is_some()
    }
}

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
#[cfg(test)]
mod tests;
