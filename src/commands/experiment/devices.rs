/*!
The timed bench of an experiment on several GPUs of this host: a shard each, then one run folder of
all.
*/

use anyhow::Result;

use super::timed::Timed;
use crate::experiment::{Folder, Ran};
use crate::shard::devices::{self, Task};
use crate::shard::{self, Merged, Shard};
use host::UsageError;
use host::shell;

/// What the driver shows of all GPUs.
fn visible_now() -> Option<String> {
    std::env::var(devices::VISIBLE).ok()
}

/// What a child must see to see the GPU of this ordinal.
pub(super) fn visible(ordinal: usize) -> String {
    devices::visible(ordinal, visible_now().as_deref())
}

/// Words that all shards' rows have in common with those of the merged folder.
pub(super) fn common_words(ordinals: &[usize]) -> Vec<String> {
    vec!["--other-devices".to_owned(), (ordinals.len() - 1).to_string()]
}

/// Runs what is missing of all shards, and merges.
pub(super) fn measure(
    folder: &mut Folder,
    ordinals: &[usize],
    say: &mut dyn FnMut(&str),
) -> Result<Timed> {
    let found = devices::find(ordinals).map_err(UsageError)?;
    let others = ordinals.len() - 1;
    if others > 0 {
        say(&format!(
            "{} GPUs measure at the same time and share this host's processors and disks; rows \
             and settings say so",
            ordinals.len()
        ));
    }
    let tasks: Vec<Task> = Shard::all(ordinals.len())
        .zip(ordinals.iter().zip(found))
        .map(|(shard, (ordinal, facts))| Task {
            shard,
            place: format!("GPU {ordinal} ({})", facts.name),
            visible: visible(*ordinal),
            words: words(folder, shard, common_words(ordinals)),
            folder: folder.shard(shard),
            directory: folder.spec.working_directory.clone(),
        })
        .collect();
    let (ended, stopped) = devices::run(&tasks, say)?;
    let mut sound = true;
    for one in ended {
        sound &= one.code == Some(0);
        let step = format!("bench --shard {}", one.shard);
        folder.note(Ran { step, ended: one.how, code: one.code, seconds: one.seconds })?;
    }
    // Also of a run that was stopped: what there is can be looked at.
    let merged = join(folder, ordinals.len(), say)?;
    Ok(match (stopped, sound && merged) {
        (true, _) => Timed::Stopped,
        (false, true) => Timed::Sound,
        (false, false) => Timed::PartlyFailed,
    })
}

/// The words of a shard's bench.
pub(super) fn words(folder: &Folder, shard: Shard, more: Vec<String>) -> Vec<String> {
    let mut words = folder.spec.bench.clone();
    words.extend(["--shard".to_owned(), shard.to_string()]);
    words.extend(more);
    words.extend(["--out-dir".to_owned(), folder.shard(shard).display().to_string()]);
    // Of a new folder too: where there is nothing to go on with, it begins.
    words.push("--resume".to_owned());
    words
}

/// Merges what the shards left; whether nothing is missing.
pub(super) fn join(folder: &Folder, shards: usize, say: &mut dyn FnMut(&str)) -> Result<bool> {
    let merged = shard::merge(shards, &|shard| folder.shard(shard), &folder.outputs())?;
    let Some(Merged { rows, missing, damaged, set_aside, differing }) = merged else {
        say("no shard has left rows");
        return Ok(false);
    };
    if let Some((why, place)) = set_aside {
        say(&format!(
            "*** {why}; it is set aside as {}, and the shards are merged anew ***",
            place.display()
        ));
    }
    say(&format!("merged {rows} rows of {} shards", shards - missing.len() - damaged.len()));
    if !missing.is_empty() {
        let missing: Vec<String> = missing.iter().map(usize::to_string).collect();
        say(&format!("*** rows of shard {} are missing ***", missing.join(", ")));
    }
    if !differing.is_empty() {
        say(&format!(
            "*** shards were measured under settings of their own ({}): the configuration tells each ***",
            differing.join(", ")
        ));
    }
    for (part, why) in &damaged {
        say(&format!(
            "*** error: shard {part} is left out: {why}; mend it, or remove {} to measure that \
             shard again, then go on with: segtrt experiment --resume {} ***",
            folder.shard(Shard { part: *part, of: shards }).display(),
            shell::path(&folder.path)
        ));
    }
    Ok(missing.is_empty() && damaged.is_empty())
}
