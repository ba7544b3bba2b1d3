/*!
The trunk of an encoder: blocks of a Hiera between the stem and the neck, which this program
computes itself.

On an H200 TensorRT 8.6.0 computes such blocks no faster than PyTorch does. So a bundle may hold the
encoder as two parts, the stem (`encoder_cut0`, image to tokens `y`) and the neck (`encoder_cut1`,
the tokens `m0` to `m3` behind each stage's last block to the features), with the weights of what
lies between them in a file of its own. `manifest.toml` describes the blocks in its table `[trunk]`;
`onnx/README.md` says what a block computes. What else this program computes with weights of its
own, the memory attention's keys, is in the same file ([`MemoryKeyProjShape`]).
*/

mod weights;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::fused_part::{FusedPart, Plans, WeightsFile, WeightsRecord};
use super::manifest::{Axis, DType, Manifest, Tensor};
use super::memory_key_proj::MemoryKeyProjShape;
use super::role::Role;
use super::tensors::Tensor as FileTensor;
pub use weights::{BlockWeights, LayerBytes};

/// Stages of a trunk, each of which gives tokens to the neck.
pub const STAGES: usize = 4;
/// Most columns of a head, a multiple of [`STEP`], that the kernels take.
pub const DEEPEST: usize = 96;
/// Most tokens along a side of a window that the kernels take.
pub const WIDEST: usize = 16;
/// Columns that the kernels move at once.
pub const STEP: usize = 8;

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
    #[serde(rename = "block")]
    pub blocks: Vec<TrunkBlock>,
    /// The memory attention's keys, whose weights are in the same file; none where the track step
    /// is not cut at its attentions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<MemoryKeyProjShape>,
}

/// The weights' file.
pub type TrunkWeights = WeightsFile<Trunk>;

/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrunkBlock {
    /// Columns of the tokens that it takes.
    pub dim: usize,
    /// Columns of the tokens that it gives.
    pub dim_out: usize,
    /// Heads of its attention.
    pub heads: usize,
    /// Side of the map that it takes, tokens.
    pub grid: usize,
    /// Side of the windows in that map within which it attends, tokens; 0 for the whole map.
    pub window: usize,
    /// Queries, and the tokens that go past the attention, are pooled: the largest of 2 × 2, each
    /// column for itself.
    pub pooled: bool,
}

impl TrunkBlock {
    /// Columns of a head.
    pub fn depth(&self) -> usize {
        self.dim_out / self.heads.max(1)
    }

    /// Side of the map that it gives, tokens.
    pub fn grid_out(&self) -> usize {
        if self.pooled { self.grid / 2 } else { self.grid }
    }

    /// Tokens that it takes.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }

    /// Tokens that it gives.
    pub fn tokens_out(&self) -> usize {
        self.grid_out() * self.grid_out()
    }

    /// The tokens that it takes have other columns than those that it gives: a projection leads
    /// past the attention.
    pub fn skips(&self) -> bool {
        self.dim != self.dim_out
    }

    fn check(&self) -> Result<()> {
        let Self { dim, dim_out, heads, grid, window, pooled } = *self;
        let steps = |columns: usize| columns > 0 && columns.is_multiple_of(STEP);
        ensure!(
            steps(dim) && steps(dim_out),
            "its dim {dim} and dim_out {dim_out} must be multiples of {STEP}"
        );
        let depth = self.depth();
        ensure!(
            heads > 0 && dim_out.is_multiple_of(heads) && steps(depth) && depth <= DEEPEST,
            "its {heads} heads divide {dim_out} columns into {depth} each, expected a multiple of \
             {STEP} up to {DEEPEST}"
        );
        ensure!(grid > 0, "its map has no tokens (grid 0)");
        ensure!(
            window <= WIDEST,
            "its windows have a side of {window} tokens, expected at most {WIDEST}, or 0 for the whole map"
        );
        ensure!(
            pooled == self.skips(),
            "it {} pooled and takes {dim} columns to {dim_out}: expected more columns where the \
             tokens are pooled, and there alone",
            if pooled { "is" } else { "is not" }
        );
        ensure!(
            !pooled || (window > 0 && window.is_multiple_of(2) && grid.is_multiple_of(2)),
            "it is pooled in windows of {window} in a map of {grid}: expected even numbers, and \
             no whole map (window 0)"
        );
        Ok(())
    }
}

impl Trunk {
    /// The tokens that it takes, as the stem makes them: f32\[1,g,g,C\].
    ///
    /// # Errors
    /// It has no blocks.
    pub fn takes(&self) -> Result<Tensor> {
        let first = self.blocks.first().context("the trunk has no blocks")?;
        Ok(tokens("y", first.grid, first.dim))
    }

    /// The tokens behind each stage, as the neck takes them: f32\[1,h,w,C\].
    ///
    /// # Errors
    /// A stage ends at a block that is not there.
    pub fn gives(&self) -> Result<[Tensor; STAGES]> {
        let mut given = Vec::with_capacity(STAGES);
        for (stage, end) in self.ends.iter().enumerate() {
            let block = self.blocks.get(*end).with_context(|| {
                format!("the trunk's stage {stage} ends at block {end}, of {}", self.blocks.len())
            })?;
            given.push(tokens(&format!("m{stage}"), block.grid_out(), block.dim_out));
        }
        given.try_into().ok().context("the trunk has other stages than the neck takes")
    }

    /// That the blocks follow each other, that there are kernels for each, and that a stage's
    /// tokens keep their shape within it.
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
        let (count, ends) = (self.blocks.len(), &self.ends);
        ensure!(
            ends.is_sorted_by(|a, b| a < b) && ends.last().map(|end| end + 1) == Some(count),
            "the trunk has {count} blocks and its stages end at {ends:?}: expected rising \
             numbers, and the last block's at the end"
        );
        for (at, block) in self.blocks.iter().enumerate() {
            block.check().with_context(|| format!("block {at} of the trunk"))?;
            let begins = at > 0 && ends.contains(&(at - 1));
            ensure!(
                block.pooled == begins,
                "block {at} of the trunk {} pooled and {} a stage (ends = {ends:?}): expected the \
                 first block of each later stage to be pooled, and no other",
                if block.pooled { "is" } else { "is not" },
                if begins { "begins" } else { "does not begin" }
            );
            if let Some(before) = at.checked_sub(1).and_then(|before| self.blocks.get(before)) {
                let (made, taken) = ((before.grid_out(), before.dim_out), (block.grid, block.dim));
                ensure!(
                    made == taken,
                    "block {at} of the trunk takes a map of side {} with {} columns, the one \
                     before it gives side {} with {}",
                    taken.0,
                    taken.1,
                    made.0,
                    made.1
                );
            }
        }
        Ok(())
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
        let mut all = weights::tensors(&shape.blocks);
        all.extend(shape.keys.iter().flat_map(MemoryKeyProjShape::tensors));
        all
    }

    fn check_against(&self, manifest: &Manifest) -> Result<()> {
        self.check()?;
        let Some(keys) = &self.keys else { return Ok(()) };
        let layers = manifest.graph(Role::TrackKeys).map_or(0, |graph| graph.outputs.len());
        keys.check(&manifest.contract, layers).context("its keys, [trunk.keys]")
    }

    /// The encoder was built as stem and neck.
    fn replaces_plan(_: &Manifest, plans: &Plans<'_>) -> bool {
        Role::CUTS.into_iter().any(plans.has)
    }
}

fn tokens(name: &str, grid: usize, columns: usize) -> Tensor {
    let shape = [1, grid, grid, columns].map(Axis::Fixed).to_vec();
    Tensor { name: name.to_owned(), dtype: DType::F32, shape }
}

#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
#[cfg(test)]
mod tests;
