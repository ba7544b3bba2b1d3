/*!
Arguments of `segtrt inspect`.
*/

use std::path::PathBuf;

use clap::Args;

/// What `segtrt inspect` looks at.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt inspect onnx/bundles/edgetam_mini_256_fp32/track.onnx\n  \
    segtrt inspect engines/orin/edgetam_1024_fp16 --json\n\n\
    A plan is opened by TensorRT where its release and its GPU are at hand, in a process of its own; \
    elsewhere its manifest tells what was built.")]
pub struct InspectArgs {
    /// ONNX files, plans, bundles, engine folders, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print one JSON document, a list with a report for each thing found.
    #[arg(long)]
    pub json: bool,
    /// List every layer of a plan.
    #[arg(long)]
    pub layers: bool,
    /// Directory of TensorRT's libraries, or the library [env: SEGTRT_TENSORRT_LIB].
    #[arg(long, value_name = "DIR")]
    pub tensorrt_lib: Option<PathBuf>,
}
