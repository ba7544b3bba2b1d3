/*!
The description of an ONNX file without its weights: opsets, nodes, inputs and outputs, sizes.

TensorRT's parser reports none of these when it fails. Weights are skipped by seeking, so a file of
890 MB is read in milliseconds. Field numbers are those of onnx.proto3 (onnx/onnx,
`onnx/onnx.proto3`).
*/

mod message;
mod types;
mod wire;

use std::fs::File;
use std::io;
use std::path::Path;

pub use types::{OnnxExtent, OnnxNode, OnnxSummary, OnnxTensor, OnnxType, OnnxWeights};
use wire::Reader;

impl OnnxSummary {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, or that is no ONNX (kind `InvalidData`).
    pub fn read(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        message::model(&mut Reader::new(file), length)
    }
}

#[cfg(test)]
mod tests;
