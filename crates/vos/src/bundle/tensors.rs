/*!
Weights files of custom CUDA kernels (safetensors): read whole, checked against the manifest's hash,
and searched for tensors of known type and shape.
*/

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata};
use sha2::{Digest, Sha256};

/// Bytes before a file's header: its length.
const LENGTH_BYTES: usize = 8;

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the file.
    pub name: String,
    /// The elements' type.
    pub dtype: Dtype,
    /// Extents; row-major.
    pub shape: Vec<usize>,
}

impl Tensor {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Size, bytes.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.bitsize() / 8
    }
}

/// Reads the whole file and checks it against the manifest's hash. `what` describes the file in
/// errors.
///
/// # Errors
/// The file cannot be read or has another hash.
pub(super) fn read_file(path: &Path, sha256: &str, what: &str) -> Result<Vec<u8>> {
    let shown = path.display();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}, {what}"))?;
    let found = format!("{:x}", Sha256::digest(&bytes));
    ensure!(
        found == sha256,
        "{shown} is damaged or another file: found sha256 {found}, expected {sha256} of its \
         manifest"
    );
    Ok(bytes)
}

/// A file's header.
pub(super) struct Header {
    tensors: Metadata,
    /// Offset of the tensors' bytes.
    data: usize,
}

impl Header {
    /// The header of a whole file, after comparing its length.
    ///
    /// # Errors
    /// The bytes are not a safetensors file.
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let (header, tensors) =
            SafeTensors::read_metadata(bytes).context("it is not a safetensors file")?;
        Ok(Self { tensors, data: LENGTH_BYTES + header })
    }

    /// Number of tensors.
    pub fn count(&self) -> usize {
        self.tensors.offset_keys().len()
    }

    /// Range of a tensor in the file.
    ///
    /// # Errors
    /// The tensor is missing or has another type or shape.
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

/// The contents of a file with exactly the expected tensors.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    bytes: Vec<u8>,
    places: BTreeMap<String, Range<usize>>,
    /// Name of the part in errors.
    owner: &'static str,
}

impl Contents {
    /// Checks the bytes of a whole file.
    ///
    /// # Errors
    /// A tensor is missing, unexpected, or has another type or shape.
    pub fn read(bytes: Vec<u8>, expected: &[Tensor], owner: &'static str) -> Result<Self> {
        let header = Header::of(&bytes)?;
        let mut places = BTreeMap::new();
        for Tensor { name, dtype, shape } in expected {
            places.insert(name.clone(), header.find(name, *dtype, shape)?);
        }
        ensure!(
            header.count() == expected.len(),
            "it has {} tensors, expected {} of the {owner}",
            header.count(),
            expected.len()
        );
        Ok(Self { bytes, places, owner })
    }

    /// The whole file.
    pub fn file(&self) -> &[u8] {
        &self.bytes
    }

    /// A tensor's bytes, little-endian, row-major.
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
/// The size differs.
pub(super) fn check_size(path: &Path, found: &[u8], stated: u64) -> Result<()> {
    ensure!(
        found.len() as u64 == stated,
        "{} has {} bytes, expected {stated} of its manifest",
        path.display(),
        found.len()
    );
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use safetensors::tensor::{TensorView, serialize};

    use super::Tensor;

    /// A file with these tensors, whose bytes are their index.
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
