/*!
What there is to measure: every object of every chosen clip, and a row for each clip that cannot be opened.
*/

use std::collections::BTreeMap;

use anyhow::Result;

use super::plan::BenchPlan;
use crate::dataset::{ClipError, Dataset};
use crate::files::{FileHash, sha256_of_files};

/// The chosen clips, in order.
#[derive(Debug)]
pub struct Work {
    /// Each clip with its objects, or why it has none.
    pub clips: Vec<(String, Result<Vec<String>, ClipError>)>,
    /// Hash of each clip's frames and of its masks.
    pub hashes: BTreeMap<String, FileHash>,
    /// What decodes the clips that are video files, with its version; none where there is none.
    pub decoder: Option<String>,
}

impl Work {
    /// Lists and hashes the clips of `plan`; a clip that cannot be opened is kept with its reason.
    pub fn list(plan: &BenchPlan, split: &dyn Dataset) -> Result<Self> {
        let mut work = Self { clips: Vec::new(), hashes: BTreeMap::new(), decoder: None };
        for video in &plan.videos {
            let objects = match split.clip(video) {
                Ok(mut clip) => {
                    for remark in &clip.remarks {
                        log::warn!("{video}: {remark}");
                    }
                    work.decoder =
                        work.decoder.or_else(|| clip.frames.decoder().map(str::to_owned));
                    if plan.limit_objects > 0 {
                        clip.objects.truncate(plan.limit_objects);
                    }
                    let masks = clip.objects.iter().flat_map(|object| object.masks.values());
                    for (kind, files) in [
                        ("frames", clip.frames.files().iter().collect()),
                        ("masks", masks.collect::<Vec<_>>()),
                    ] {
                        match sha256_of_files(files) {
                            Ok(hash) => {
                                work.hashes.insert(format!("{video}/{kind}"), hash);
                            }
                            // A broken file costs its object a row later, and its clip the hash here.
                            Err(error) => log::warn!("{video}: no hash of its {kind}: {error:#}"),
                        }
                    }
                    Ok(clip.objects.into_iter().map(|object| object.name).collect())
                }
                Err(error) => {
                    log::warn!("{video}: {error}");
                    Err(error)
                }
            };
            work.clips.push((video.clone(), objects));
        }
        Ok(work)
    }

    /// Rows that one model will give: one for each object, one for each clip that cannot be opened.
    pub fn rows(&self) -> usize {
        self.clips.iter().map(|(_, objects)| objects.as_ref().map_or(1, Vec::len)).sum()
    }
}
