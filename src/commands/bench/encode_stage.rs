/*!
Flags that `--encode` excludes.
*/

use anyhow::{Result, bail};

use super::args::BenchArgs;
use host::UsageError;
use vos::record::EncodeOutput;

/// Refuses runs whose frames have no mask or no pixels on the host to encode.
///
/// # Errors
/// The flag in the way, and the change to make.
pub(super) fn check(args: &BenchArgs) -> Result<()> {
    let Some(stage) = args.encode else { return Ok(()) };
    if args.gpu.repeat_clip > 1 {
        bail!(UsageError(format!(
            "--encode {stage} needs the mask of every frame, and --repeat-clip gives those of the \
             first time; leave --repeat-clip out, or use --profile-runs"
        )));
    }
    if stage.output == EncodeOutput::Masks {
        return Ok(());
    }
    let without_pixels = [
        (args.predecoded.is_some(), "--predecoded"),
        (!args.gpu.jpeg_decoder.is_turbo(), "--jpeg-decoder nvjpeg"),
    ];
    if let Some((_, flag)) = without_pixels.iter().find(|(given, _)| *given) {
        bail!(UsageError(format!(
            "--encode {stage} paints the frame's pixels, and {flag} leaves none in host memory; \
             use --encode masks, or leave {flag} out"
        )));
    }
    Ok(())
}
