/*!
Files of weights that this program computes with itself (safetensors): read whole, held against the manifest's hash, and searched for
tensors whose type and shape are known before.
*/

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
