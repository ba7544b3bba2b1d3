/*!
Flags that `--lanes` excludes.
*/

use anyhow::{Result, bail};

use super::args::BenchArgs;
use host::UsageError;
use runtime::pipeline::Mode;

/// Refuses flags that a lane, which runs one object with one frame in flight, does not have.
///
/// # Errors
/// The flag in the way.
pub(super) fn check(args: &BenchArgs) -> Result<()> {
    let Some(lanes) = args.gpu.lanes else { return Ok(()) };
    let given = [
        (
            args.gpu.mode == Mode::Throughput,
            "--mode throughput",
            "a lane has one frame in flight, and frames of other lanes overlap with it",
        ),
        (args.gpu.objects_together > 1, "--objects-together", "a lane tracks one object"),
        (args.gpu.object_streams, "--object-streams", "a lane tracks one object"),
        (args.stereo, "--stereo", "a lane runs one clip"),
        (args.encode.is_some(), "--encode", "lanes give their masks out when all have ended"),
        (args.save_logits, "--save-logits", "it is no measurement of speed"),
        (args.teacher.is_some(), "--teacher", "it is no measurement of speed"),
    ];
    if let Some((_, flag, why)) = given.iter().find(|(given, ..)| *given) {
        bail!(UsageError(format!("--lanes {lanes} with {flag}: {why}; leave {flag} out")));
    }
    Ok(())
}
