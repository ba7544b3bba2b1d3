/*!
The weights of a trunk's blocks, read from their file and held against what the manifest says of the blocks: what is handed on to a
GPU's kernels, which check nothing, has the size that they take.
*/

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use safetensors::tensor::Dtype;

use super::{KeyWeights, Keys, Trunk, TrunkBlock};
use crate::bundle::tensors::{Header, Tensor, read_file};

/// An opened file of weights.
pub struct TrunkWeights {
    bytes: Vec<u8>,
    blocks: Vec<Vec<Place>>,
    keys: Option<KeyWeights>,
}

/// Where a layer's tensors lie in the file.
struct Place {
    name: &'static str,
    weight: Range<usize>,
    bias: Range<usize>,
}

/// A weight and the bias that belongs to it, as little-endian bytes, row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affine<'a> {
    /// Of a product f16\[columns out, columns in\]; of a normalization f32\[columns\].
    pub weight: &'a [u8],
    /// \[columns out\], f16 or f32.
    pub bias: &'a [u8],
}

/// What one block computes with, d columns in and e out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockWeights<'a> {
    /// f32\[d\], bias f32.
    pub norm1: Affine<'a>,
    /// f16\[e,d\], bias f16; only where d and e differ.
    pub skip: Option<Affine<'a>>,
    /// f16\[3e,d\], bias f16; rows \[q|k|v\]\[head\]\[depth\], those of q times depth^-0.5.
    pub qkv: Affine<'a>,
    /// f16\[e,e\], bias f32.
    pub proj: Affine<'a>,
    /// f32\[e\], bias f32.
    pub norm2: Affine<'a>,
    /// f16\[4e,e\], bias f16.
    pub up: Affine<'a>,
    /// f16\[e,4e\], bias f32.
    pub down: Affine<'a>,
}

/// A layer of a block: its tensors' name, types and shape.
pub(super) struct Layer {
    name: &'static str,
    /// Of the weight: rows out, columns in; of a normalization its columns alone.
    shape: Vec<usize>,
    weight: Dtype,
    bias: Dtype,
}

impl Layer {
    pub(super) fn bytes(&self) -> usize {
        let elements: usize = self.shape.iter().product();
        elements * self.weight.bitsize() / 8 + self.rows() * self.bias.bitsize() / 8
    }

    fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }
}

/// What a block has, in the order of its work.
pub(super) fn layers_of(block: &TrunkBlock) -> Vec<Layer> {
    let (d, e) = (block.dim, block.dim_out);
    let norm =
        |name, columns| Layer { name, shape: vec![columns], weight: Dtype::F32, bias: Dtype::F32 };
    let product = |name, rows, columns, bias| Layer {
        name,
        shape: vec![rows, columns],
        weight: Dtype::F16,
        bias,
    };
    let mut layers = vec![norm("norm1", d)];
    layers.extend(block.skips().then(|| product("skip", e, d, Dtype::F16)));
    layers.extend([
        product("qkv", 3 * e, d, Dtype::F16),
        product("proj", e, e, Dtype::F32),
        norm("norm2", e),
        product("up", 4 * e, e, Dtype::F16),
        product("down", e, 4 * e, Dtype::F32),
    ]);
    layers
}

impl TrunkWeights {
    /// Reads the file whole and checks it: it is the manifest's (sha256), and has each block's tensors in their shapes and types, and
    /// no others.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged or another's; a tensor that is missing, too many, or of another type or shape.
    pub fn open(path: &Path, trunk: &Trunk) -> Result<Self> {
        let bytes = read_file(path, &trunk.sha256, "the weights of the encoder's trunk")?;
        Self::read(bytes, trunk).with_context(|| format!("in {}", path.display()))
    }

    fn read(bytes: Vec<u8>, trunk: &Trunk) -> Result<Self> {
        let header = Header::of(&bytes)?;
        let mut blocks = Vec::with_capacity(trunk.blocks.len());
        for (at, block) in trunk.blocks.iter().enumerate() {
            let place = |layer: Layer| {
                let name = |part| format!("blocks.{at}.{}.{part}", layer.name);
                let rows = [layer.rows()];
                Ok(Place {
                    name: layer.name,
                    weight: header.find(&name("weight"), layer.weight, &layer.shape)?,
                    bias: header.find(&name("bias"), layer.bias, &rows)?,
                })
            };
            blocks.push(layers_of(block).into_iter().map(place).collect::<Result<Vec<_>>>()?);
        }
        let of_keys = trunk.keys.as_ref().map_or_else(Vec::new, Keys::tensors);
        let expected = blocks.iter().map(|layers| 2 * layers.len()).sum::<usize>() + of_keys.len();
        let read = |tensor: &Tensor| -> Result<Vec<u8>> {
            let place = header.find(&tensor.name, tensor.dtype, &tensor.shape)?;
            let cut = bytes.get(place).with_context(|| format!("{} is cut off", tensor.name))?;
            Ok(cut.to_vec())
        };
        let keys = match &trunk.keys {
            Some(keys) => Some(keys.weights(of_keys.iter().map(read).collect::<Result<_>>()?)),
            None => None,
        };
        let found = header.count();
        ensure!(
            found == expected,
            "it has {found} tensors, the {} blocks of the manifest{} have {expected}",
            trunk.blocks.len(),
            if keys.is_some() { " and its keys" } else { "" }
        );
        Ok(Self { bytes, blocks, keys })
    }

    /// The whole file.
    pub fn file(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory attention's keys'; none where the file has none.
    pub fn keys(&self) -> Option<&KeyWeights> {
        self.keys.as_ref()
    }

    /// Block `at`'s.
    ///
    /// # Errors
    /// There is no such block.
    pub fn block(&self, at: usize) -> Result<BlockWeights<'_>> {
        let places = self.blocks.get(at).with_context(|| {
            format!("block {at} of a trunk was asked for, which has {}", self.blocks.len())
        })?;
        let get = |name: &str| -> Option<Affine<'_>> {
            let place = places.iter().find(|place| place.name == name)?;
            let cut = |range: &Range<usize>| self.bytes.get(range.clone());
            Some(Affine { weight: cut(&place.weight)?, bias: cut(&place.bias)? })
        };
        let need = |name: &str| get(name).with_context(|| format!("block {at} has no {name}"));
        Ok(BlockWeights {
            norm1: need("norm1")?,
            skip: get("skip"),
            qkv: need("qkv")?,
            proj: need("proj")?,
            norm2: need("norm2")?,
            up: need("up")?,
            down: need("down")?,
        })
    }
}
