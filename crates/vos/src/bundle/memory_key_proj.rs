/*!
The keys of the memory attention beside a trunk: where a bundle's track step is cut at its
attentions, the file of weights also has those of all layers' keys, so that this program computes
them in place of the graph `track_keys`.
*/

use anyhow::{Error, Result, ensure};
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use super::manifest::Contract;
use super::tensors::Tensor;
use super::trunk::TrunkWeights;

/// Columns of a key; pairs of columns that turn together.
const KEY: usize = 256;
const PAIRS: usize = KEY / 2;
/// Columns of a memory's token.
const TOKEN: usize = 64;
/// Sines and cosines of a pointer's time.
const WAVES: usize = 256;
/// Most layers that segments are written for.
const LAYERS: usize = 4;

/// The manifest's table `[trunk.keys]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryKeyProjShape {
    /// Layers of the memory attention.
    pub layers: usize,
    /// Memories of a full bank.
    pub memories: usize,
    /// Tokens of a memory.
    pub tokens: usize,
    /// Pointers of a full bank.
    pub pointers: usize,
    /// Pointers' keys depend on their ages.
    pub pointer_times: bool,
}

/// What keys are made with, as little-endian bytes, row by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryKeyProjWeights {
    /// f16\[layers,256,64\]; the first columns of pairs that turn together, then the second ones.
    pub weight: Vec<u8>,
    /// f32\[layers,256\]
    pub bias: Vec<u8>,
    /// f16\[tokens,64\], what a memory's place adds to its tokens.
    pub positions: Vec<u8>,
    /// f16\[memories,64\], what its age adds.
    pub ages: Vec<u8>,
    /// f16\[tokens,128,2\], cosine and sine of each pair's angle.
    pub turns: Vec<u8>,
    /// What times add to pointers, where they do.
    pub times: Option<TimeWeights>,
}

/// What projects a pointer's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeWeights {
    /// f32\[128\]
    pub frequencies: Vec<u8>,
    /// f32\[256,64\]: a row for the sine at each frequency, then for each cosine.
    pub weight: Vec<u8>,
    /// f32\[64\]
    pub bias: Vec<u8>,
}

impl MemoryKeyProjShape {
    /// That there is a kernel for them, and that they are those of the contract's bank and of the
    /// `made` outputs of `track_keys`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, contract: &Contract, made: usize) -> Result<()> {
        let Self { layers, memories, tokens, pointers, pointer_times } = *self;
        ensure!(
            (1..=LAYERS).contains(&layers) && layers == made,
            "the keys are of {layers} layers, the track_keys graph makes those of {made}, \
             expected 1 to {LAYERS}"
        );
        let (found, expected) = (
            (memories, tokens, pointers, pointer_times),
            (
                contract.max_memories,
                contract.memory_tokens,
                contract.max_pointers,
                contract.pointer_times,
            ),
        );
        ensure!(
            found == expected,
            "the keys are of (memories, tokens, pointers, pointer times) {found:?}, the \
             contract's bank has {expected:?}"
        );
        let widths = [contract.memory_channels, contract.pointer_channels];
        ensure!(
            widths == [TOKEN, KEY],
            "memories and pointers have {widths:?} channels, the keys' kernel takes [{TOKEN}, {KEY}]"
        );
        Ok(())
    }

    /// Its tensors in the trunk's file.
    pub(super) fn tensors(&self) -> Vec<Tensor> {
        let of = |name: &str, dtype, shape: &[usize]| Tensor {
            name: format!("keys.{name}"),
            dtype,
            shape: shape.to_vec(),
        };
        let mut all = vec![
            of("weight", Dtype::F16, &[self.layers, KEY, TOKEN]),
            of("bias", Dtype::F32, &[self.layers, KEY]),
            of("positions", Dtype::F16, &[self.tokens, TOKEN]),
            of("ages", Dtype::F16, &[self.memories, TOKEN]),
            of("turns", Dtype::F16, &[self.tokens, PAIRS, 2]),
        ];
        if self.pointer_times {
            all.extend([
                of("times.frequencies", Dtype::F32, &[WAVES / 2]),
                of("times.weight", Dtype::F32, &[WAVES, TOKEN]),
                of("times.bias", Dtype::F32, &[TOKEN]),
            ]);
        }
        all
    }
}

impl MemoryKeyProjWeights {
    /// Those in a trunk's file.
    ///
    /// # Errors
    /// Some of them are missing.
    pub(super) fn of(file: &TrunkWeights) -> Result<Self> {
        let get = |name: &str| Ok::<_, Error>(file.get(&format!("keys.{name}"))?.to_vec());
        let times = || -> Result<TimeWeights> {
            Ok(TimeWeights {
                frequencies: get("times.frequencies")?,
                weight: get("times.weight")?,
                bias: get("times.bias")?,
            })
        };
        Ok(Self {
            weight: get("weight")?,
            bias: get("bias")?,
            positions: get("positions")?,
            ages: get("ages")?,
            turns: get("turns")?,
            times: file.has("keys.times.weight").then(times).transpose()?,
        })
    }
}
