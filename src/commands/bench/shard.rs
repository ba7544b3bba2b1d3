/*!
The clips of `--shard I/N`, after all limits.
*/

use anyhow::{Result, bail};

use super::args::BenchArgs;
use crate::bench::plan::ShardPlan;
use crate::shard::partition;
use host::UsageError;
use vos::dataset::Dataset;

/// What is measured of each clip, 0 for all.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Objects.
    pub objects: usize,
    /// Frames.
    pub frames: usize,
}

impl Limits {
    fn of(limit: usize, there: usize) -> u64 {
        (if limit == 0 { there } else { there.min(limit) }) as u64
    }
}

/// Of the selected clips those of the part that was asked for; all where none was.
pub(super) fn cut(
    args: &BenchArgs,
    selection: Vec<String>,
    split: &dyn Dataset,
    limits: Limits,
) -> Result<(Vec<String>, Option<ShardPlan>)> {
    let Some(shard) = args.shard else { return Ok((selection, None)) };
    if args.shuffle.shuffle_videos && args.shuffle.seed.is_none() {
        bail!(UsageError(format!(
            "--shard {shard} with --shuffle-videos needs a --seed, the same for all parts: else \
             each part would shuffle the clips in its own way"
        )));
    }
    let frames: Vec<u64> = selection
        .iter()
        .map(|video| match split.outline(video) {
            Ok(clip) => {
                Limits::of(limits.frames, clip.frames) * Limits::of(limits.objects, clip.objects)
            }
            // It has a row that says why, at no cost.
            Err(_) => 0,
        })
        .collect();
    let mine = partition(&frames, shard);
    let sum = mine.iter().map(|clip| frames[*clip]).sum();
    let videos = mine.iter().map(|clip| selection[*clip].clone()).collect();
    let plan = ShardPlan { shard, selection, frames: [sum, frames.iter().sum()] };
    Ok((videos, Some(plan)))
}

/// What a part is, in a line.
pub(super) fn told(plan: &ShardPlan, clips: usize) -> String {
    let ShardPlan { shard, selection, frames: [mine, all] } = plan;
    match clips {
        0 => format!(
            "shard {shard} is empty: {} clips are not enough for {} shards; its tables stay without rows",
            selection.len(),
            shard.of
        ),
        _ => format!("shard {shard}: {clips} of {} clips, {mine} of {all} frames", selection.len()),
    }
}
