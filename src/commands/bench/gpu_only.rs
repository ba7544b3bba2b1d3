/*!
Flags of `segtrt bench` that only TensorRT's pipeline obeys, and that change what is measured: refused with another
backend, which would measure something else without a word.
*/

use anyhow::{Result, bail};

use super::args::{BackendChoice, BenchArgs};
use host::UsageError;
use runtime::pipeline::Mode;

/// Refuses what the chosen backend would not do.
///
/// # Errors
/// The first such flag, and what to add or to leave out.
pub(super) fn check(args: &BenchArgs) -> Result<()> {
    if args.backend == BackendChoice::TensorRt {
        return Ok(());
    }
    let gpu = &args.gpu;
    let asked = [
        (gpu.mode == Mode::Throughput, "--mode throughput", "frames overlap"),
        (gpu.objects_together > 1, "--objects-together", "objects share the encoder's work"),
        (gpu.object_streams, "--object-streams", "objects have a stream each"),
        (gpu.encode_batch > 1, "--encode-batch", "the encoder takes several frames at once"),
        (gpu.repeat_clip > 1, "--repeat-clip", "a clip is gone over again without forgetting"),
        (
            gpu.track_variant.is_some(),
            "--track-variant",
            "a folder of engines has several track steps to choose from",
        ),
    ];
    if let Some((_, flag, what)) = asked.iter().find(|(asked, ..)| *asked) {
        bail!(UsageError(format!(
            "{flag} needs --backend tensorrt, where {what}; ONNX Runtime takes one frame of one object at a time: add \
             --backend tensorrt, or leave {flag} out"
        )));
    }
    Ok(())
}
