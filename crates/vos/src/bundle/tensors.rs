/*!
Files of weights that this program computes with itself (safetensors): read whole, held against the
manifest's hash, and searched for tensors whose type and shape are known before.
*/

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata};
use sha2::{Digest, Sha256};

/// Bytes in front of a file's header: its length.
const LENGTH_BYTES: usize = 8;

/// A tensor that a file has, or must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the file.
    pub name: String,
    /// The elements' type.
    pub dtype: Dtype,
    /// Extents; rows lie one after the other.
    pub shape: Vec<usize>,
}

impl Tensor {
    /// Its elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Its size, bytes.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.bitsize() / 8
    }
}

/// Reads the file whole, which is the manifest's by its hash; `what` is what errors call it.
///
/// # Errors
/// A file that cannot be read, is damaged or another's.
pub(super) fn read_file(path: &Path, sha256: &str, what: &str) -> Result<Vec<u8>> {
    let shown = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}, {what}"))?;
    let found = format!("{:x}", Sha256::digest(&bytes));
    ensure!(
        found == sha256,
        "{shown} is damaged, or not the weights of its manifest: sha256 {found} found, {sha256} expected"
    );
    Ok(bytes)
}

/// What a file's header says.
pub(super) struct Header {
    tensors: Metadata,
    /// Where the tensors' bytes begin.
    data: usize,
}

impl Header {
    /// Of a whole file, whose length the header agrees with.
    ///
    /// # Errors
    /// Bytes that are no safetensors file.
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let (header, tensors) =
            SafeTensors::read_metadata(bytes).context("it is no safetensors file")?;
        Ok(Self { tensors, data: LENGTH_BYTES + header })
    }

    /// How many tensors the file has.
    pub fn count(&self) -> usize {
        self.tensors.offset_keys().len()
    }

    /// Where a tensor lies in the file.
    ///
    /// # Errors
    /// One that is missing, or of another type or shape.
    pub fn find(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<Range<usize>> {
        let Some(info) = self.tensors.info(name) else {
            bail!("the tensor {name} is missing, expected {dtype}{shape:?}");
        };
        ensure!(
            info.dtype == dtype && info.shape == shape,
            "the tensor {name} is {}{:?}, expected {dtype}{shape:?}",
            info.dtype,
            info.shape
        );
        let (begin, end) = info.data_offsets;
        Ok(self.data + begin..self.data + end)
    }
}

/// A file that has these tensors and no others.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    bytes: Vec<u8>,
    places: BTreeMap<String, Range<usize>>,
    /// Whose tensors they are, as errors call it.
    owner: &'static str,
}

impl Contents {
    /// Of a whole file's bytes.
    ///
    /// # Errors
    /// A tensor that is missing, too many, or of another type or shape.
    pub fn read(bytes: Vec<u8>, expected: &[Tensor], owner: &'static str) -> Result<Self> {
        let header = Header::of(&bytes)?;
        let mut places = BTreeMap::new();
        for Tensor { name, dtype, shape } in expected {
            places.insert(name.clone(), header.find(name, *dtype, shape)?);
        }
        ensure!(
            header.count() == expected.len(),
            "it has {} tensors, the {owner} has {}",
            header.count(),
            expected.len()
        );
        Ok(Self { bytes, places, owner })
    }

    /// The whole file.
    pub fn file(&self) -> &[u8] {
        &self.bytes
    }

    /// A tensor's bytes, little-endian, row by row.
    ///
    /// # Errors
    /// There is no such tensor.
    pub fn get(&self, name: &str) -> Result<&[u8]> {
        let found = self.places.get(name).and_then(|place| self.bytes.get(place.clone()));
        found.with_context(|| format!("the {} has no tensor {name}", self.owner))
    }
}

/// Puts a norm's weight and bias, of so many columns.
pub(super) fn put_norm(put: &mut impl FnMut(&str, Dtype, &[usize]), name: &str, columns: usize) {
    put(&format!("{name}.weight"), Dtype::F32, &[columns]);
    put(&format!("{name}.bias"), Dtype::F32, &[columns]);
}

/// That a file has as many bytes as its manifest says.
///
/// # Errors
/// It has not.
pub(super) fn check_size(path: &Path, found: &[u8], said: u64) -> Result<()> {
    ensure!(
        found.len() as u64 == said,
        "{} has {} bytes, its manifest says {said}",
        path.display(),
        found.len()
    );
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use safetensors::tensor::{TensorView, serialize};

    use super::Tensor;

    /// A file of these tensors, each one's bytes its number.
    pub fn file(tensors: &[Tensor]) -> Vec<u8> {
        let data: Vec<Vec<u8>> =
            tensors.iter().enumerate().map(|(at, tensor)| vec![at as u8; tensor.bytes()]).collect();
        let views = tensors.iter().zip(&data).map(|(tensor, bytes)| {
            let view = TensorView::new(tensor.dtype, tensor.shape.clone(), bytes).unwrap();
            (tensor.name.clone(), view)
        });
        serialize(views, None).unwrap()
    }
}
