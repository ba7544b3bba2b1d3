/*!
Flags that `--stereo` excludes.
*/

use anyhow::{Result, bail};

use super::args::{BenchArgs, Toggle};
use host::UsageError;

/// Refuses flags that count the frames of one clip.
///
/// # Errors
/// The flag in the way.
pub(super) fn check(args: &BenchArgs) -> Result<()> {
    if !args.stereo {
        return Ok(());
    }
    let given = [
        (args.resume, "--resume"),
        (args.shard.is_some(), "--shard"),
        (args.video_list.is_some(), "--video-list"),
        (args.predecoded.is_some(), "--predecoded"),
        (args.input_frame_stride > 1, "--input-frame-stride"),
        (args.annotation_stride_frames > 0, "--annotation-stride-frames"),
        (args.gpu.repeat_clip > 1, "--repeat-clip"),
        (args.encode.is_some(), "--encode"),
        (args.save_overlays == Toggle::On, "--save-overlays"),
        (args.save_logits, "--save-logits"),
        (args.teacher.is_some(), "--teacher"),
    ];
    if let Some((_, flag)) = given.iter().find(|(given, _)| *given) {
        bail!(UsageError(format!(
            "--stereo runs the frames of two clips in turn, and {flag} is for one clip; leave one \
             of the two out"
        )));
    }
    Ok(())
}
