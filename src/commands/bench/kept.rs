/*!
Warns about result files that rows of an earlier run lack: a resumed run does not measure these rows
again.
*/

use std::path::PathBuf;

use crate::bench::plan::BenchPlan;
use crate::bench::progress::Display;
use vos::files::{LOGITS, MASKS, ResultStore};
use vos::logits;
use vos::overlay;
use vos::record::{ObjectKey, Status};

/// Names the kept rows without a requested file, and the command that writes it.
pub(super) fn warn_of_missing_files(plan: &BenchPlan, store: &ResultStore, display: &Display) {
    let kept: Vec<&ObjectKey> = store
        .summaries()
        .filter(|row| row.pooled.status == Status::Ok)
        .map(|row| &row.pooled.key)
        .collect();
    for (flag, wanted, paths) in files(plan) {
        let lacks = |key: &&&ObjectKey| wanted && !paths(plan, key).iter().any(|it| it.exists());
        let without: Vec<_> = kept.iter().filter(lacks).collect();
        if let Some(ObjectKey { video, object, tag: model }) = without.first() {
            display.line(&format!(
                "{flag}: {} of the {} existing rows have no such file and are not measured again; \
                 first: {model} {video} {object}. To write all files, repeat the command without \
                 --resume",
                without.len(),
                kept.len()
            ));
        }
    }
}

/// Where an object's file may lie.
type Paths = fn(&BenchPlan, &ObjectKey) -> Vec<PathBuf>;

/// The flags that ask for files, and whether they were given.
fn files(plan: &BenchPlan) -> [(&'static str, bool, Paths); 3] {
    [
        ("--save-masks", plan.save_masks, |plan, key| {
            vec![plan.out_dir.join(MASKS).join(format!("{}.json", key.file_stem()))]
        }),
        ("--save-logits", plan.save_logits, |plan, key| {
            vec![plan.out_dir.join(LOGITS).join(logits::file_name(key))]
        }),
        ("--save-overlays", plan.save_overlays, |plan, key| {
            let film = format!("{}{}", key.file_stem(), overlay::FILM);
            vec![plan.out_dir.join(film), plan.out_dir.join(key.file_stem())]
        }),
    ]
}
