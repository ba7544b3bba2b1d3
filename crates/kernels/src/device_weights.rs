/*!
Weights on the device: all tensors in one piece of memory, found by name.
*/

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, ensure};

use cuda::cublaslt::ALIGNMENT;
use cuda::{ContentHash, Gpu, MemoryTag, Stream, View};
use sha2::{Digest, Sha256};
use vos::bundle::FileTensor;
use vos::bundle::trunk::LayerBytes;

/// Bytes of an f16 and of an f32.
const F16: usize = 2;
const F32: usize = 4;

/// The weight and the bias of a layer.
#[derive(Debug)]
pub(super) struct Affine {
    pub weight: View,
    pub bias: View,
}

/// That a layer has so many rows and columns: a weight in f16, a bias in f32.
///
/// # Errors
/// Other sizes.
pub(super) fn check_layer(
    what: &str,
    layer: &LayerBytes,
    rows: usize,
    columns: usize,
) -> Result<()> {
    let found = (layer.weight.len(), layer.bias.len());
    let expected = (F16 * rows * columns, F32 * rows);
    ensure!(found == expected, "{what} has {found:?} bytes, {expected:?} are expected");
    Ok(())
}

/// A hash of tensors that lie in memory one after the other.
pub(super) fn content_hash<'a>(tensors: impl Iterator<Item = &'a [u8]>) -> ContentHash {
    let mut hash = Sha256::new();
    for bytes in tensors {
        // Where one ends and the next begins is part of the contents.
        hash.update(bytes.len().to_le_bytes());
        hash.update(bytes);
    }
    hash.finalize().into()
}

/// The tensors. Each starts at a multiple of [`ALIGNMENT`].
pub(super) struct DeviceWeights {
    memory: View,
    /// By name.
    places: BTreeMap<String, Range<usize>>,
}

impl DeviceWeights {
    /// Uploads tensors in this order, without a copy on the host.
    ///
    /// # Errors
    /// Too little memory, or another error of the driver.
    pub fn upload(gpu: &Gpu, tensors: &[(String, &[u8])], stream: &Stream) -> Result<Self> {
        let all = tensors.iter().map(|(_, bytes)| bytes.len().next_multiple_of(ALIGNMENT)).sum();
        let (mut places, mut start) = (BTreeMap::new(), 0);
        for (name, bytes) in tensors {
            places.insert(name.clone(), start..start + bytes.len());
            start += bytes.len().next_multiple_of(ALIGNMENT);
        }
        let gpu = gpu.tagged(MemoryTag::Weights);
        let contents = || content_hash(tensors.iter().map(|(_, bytes)| *bytes));
        let memory = View::constant(&gpu, stream, contents, || {
            let memory = View::new(&gpu, all)?;
            for (name, bytes) in tensors {
                let start = places.get(name).map_or(0, |place| place.start);
                memory.part(start, bytes.len())?.upload(bytes, stream)?;
            }
            Ok(memory)
        })?;
        Ok(Self { memory, places })
    }

    /// Uploads the tensors of a file, whose bytes `get` finds by name.
    ///
    /// # Errors
    /// A tensor that is missing or of another size, and those of [`Self::upload`].
    pub fn of_file<'f>(
        gpu: &Gpu,
        tensors: &[FileTensor],
        get: impl Fn(&str) -> Result<&'f [u8]>,
        stream: &Stream,
    ) -> Result<Self> {
        let read = |tensor: &FileTensor| {
            let (name, found) = (tensor.name.clone(), get(&tensor.name)?);
            ensure!(
                found.len() == tensor.bytes(),
                "{name} has {} bytes, {} are expected",
                found.len(),
                tensor.bytes()
            );
            Ok((name, found))
        };
        Self::upload(gpu, &tensors.iter().map(read).collect::<Result<Vec<_>>>()?, stream)
    }

    /// A matmul's weight has the matmul's name.
    pub fn matmul(&self, name: &str) -> Result<Affine> {
        self.both(name, &format!("{name}_bias"))
    }

    /// A layer whose tensors are `weight` and `bias`.
    pub fn layer(&self, name: &str) -> Result<Affine> {
        self.both(&format!("{name}.weight"), &format!("{name}.bias"))
    }

    /// A weight and a bias by their names.
    pub fn both(&self, weight: &str, bias: &str) -> Result<Affine> {
        Ok(Affine { weight: self.one(weight)?, bias: self.one(bias)? })
    }

    /// One tensor.
    pub fn one(&self, name: &str) -> Result<View> {
        let place = self.place(name)?;
        Ok(self.memory.part(place.start, place.len())?)
    }

    /// The memory from one tensor to another, with the padding after the last.
    pub fn span(&self, first: &str, last: &str) -> Result<View> {
        let (start, end) = (self.place(first)?.start, self.place(last)?.end);
        Ok(self.memory.part(start, end.next_multiple_of(ALIGNMENT) - start)?)
    }

    fn place(&self, name: &str) -> Result<&Range<usize>> {
        self.places.get(name).with_context(|| format!("no tensor {name} was loaded"))
    }
}
