/*!
Where ONNX Runtime runs a graph.
*/

use clap::ValueEnum;

/// Execution providers of ONNX Runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// The host's processor.
    Cpu,
    /// CUDA on device 0.
    Cuda,
    /// TensorRT inside ONNX Runtime, on device 0.
    Tensorrt,
}
