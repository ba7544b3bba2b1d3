/*!
The groups of flags in `--help`. A field names its group, because a heading of a flattened struct
would reach the fields after it.
*/

/// Clips, prompts and ground truth.
pub const DATA: &str = "Data";
/// Networks, bundles and engines.
pub const MODEL: &str = "Model";
/// What is measured, and how often.
pub const MEASURING: &str = "Measuring";
/// GPU, CUDA and TensorRT.
pub const GPU: &str = "GPU";
/// Files and formats.
pub const OUTPUT: &str = "Output";
/// Flags of every subcommand.
pub const GLOBAL: &str = "Global";
