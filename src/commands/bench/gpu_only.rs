/*!
Flags of `segtrt bench` that only the TensorRT pipeline supports. Another backend refuses them,
because it would measure something else without notice.
*/

use anyhow::{Result, bail};

use super::args::{BackendChoice, BenchArgs};
use host::UsageError;
use runtime::pipeline::Mode;

/// Refuses flags that the backend does not support.
///
/// # Errors
/// The first such flag, and the change to make.
pub(super) fn check(args: &BenchArgs) -> Result<()> {
    if args.backend == BackendChoice::TensorRt {
        return Ok(());
    }
    let gpu = &args.gpu;
    let asked = [
        (gpu.mode == Mode::Throughput, "--mode throughput", "frames overlap"),
        (gpu.objects_together > 1, "--objects-together", "objects share the encoder"),
        (gpu.object_streams, "--object-streams", "each object has a CUDA stream"),
        (gpu.encode_batch > 1, "--encode-batch", "the encoder takes batches"),
        (gpu.lanes.is_some(), "--lanes", "several clips run at once"),
        (gpu.repeat_clip > 1, "--repeat-clip", "a pass can repeat the clip"),
        (gpu.track_variant.is_some(), "--track-variant", "engines have several track variants"),
    ];
    if let Some((_, flag, what)) = asked.iter().find(|(asked, ..)| *asked) {
        bail!(UsageError(format!(
            "{flag} needs --backend tensorrt, where {what}; ONNX Runtime runs one frame of one \
             object at a time; add --backend tensorrt, or leave {flag} out"
        )));
    }
    Ok(())
}
