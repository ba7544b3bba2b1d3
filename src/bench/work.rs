/*!
The rows to measure: each object of each chosen clip, and one row for a clip that cannot be opened.
*/

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use anyhow::Result;
use sha2::{Digest, Sha256};

use super::plan::BenchPlan;
use crate::environment;
use vos::dataset::{Clip, ClipError, Dataset, ObjectTruth};
use vos::files::{Configuration, Facts, FileHash, MeasuredOn, TEACHER, sha256_of_files};
use vos::logits;
use vos::record::ObjectKey;

/// The chosen clips, in order.
#[derive(Debug, Default)]
pub struct Work {
    /// Each clip with its objects, or why it has none.
    pub clips: Vec<(String, Result<Vec<String>, ClipError>)>,
    /// Hash of each clip's frames and of its masks, and of a teacher's files; also of clips that
    /// have rows from before.
    pub hashes: BTreeMap<String, FileHash>,
    /// What decodes the clips that are video files, with its version; none where there is none.
    pub decoder: Option<String>,
    /// What an object of these is measured on, clip by clip and by object.
    objects: BTreeMap<String, BTreeMap<String, Facts>>,
    /// This machine.
    machine: Facts,
}

impl Work {
    /// Lists and hashes the clips of `plan`; a clip that cannot be opened is kept with its reason.
    /// Clips that only the resumed run has are hashed and not measured.
    pub fn list(
        plan: &BenchPlan,
        resumed: Option<&Configuration>,
        split: &dyn Dataset,
    ) -> Result<Self> {
        let mut work = Self { machine: environment::machine(), ..Self::default() };
        let limit = resumed.and_then(Configuration::limit_objects);
        let limit = limit.map_or(plan.limit_objects, |limit| limit as usize);
        for video in &plan.videos {
            let objects = split.clip(video).map(|clip| {
                for remark in &clip.remarks {
                    log::warn!("{video}: {remark}");
                }
                if work.decoder.is_none() {
                    work.decoder = clip.frames.decoder().map(str::to_owned);
                }
                let names = clip.objects.iter().map(|object| object.name.clone());
                let names = names.take(limited(plan.limit_objects)).collect();
                work.hash(clip, limit);
                names
            });
            if let Err(error) = &objects {
                log::warn!("{video}: {error}");
            }
            work.clips.push((video.clone(), objects));
        }
        let chosen: HashSet<&str> = plan.videos.iter().map(String::as_str).collect();
        let others = resumed.and_then(Configuration::videos).unwrap_or_default();
        for video in others.into_iter().filter(|video| !chosen.contains(video)) {
            // One that cannot be opened any more is gone.
            let _ = split.clip(video).map(|clip| work.hash(clip, limit));
        }
        Ok(work)
    }

    /// Hashes a clip and its first `limit` objects; the others are only known by name.
    fn hash(&mut self, clip: Clip, limit: usize) {
        let Clip { video, frames, objects, .. } = &clip;
        let chosen = objects.get(..limited(limit).min(objects.len())).unwrap_or_default();
        let masks = chosen.iter().flat_map(|object| object.masks.values());
        for (kind, files) in
            [("frames", frames.files().iter().collect()), ("masks", masks.collect::<Vec<_>>())]
        {
            match sha256_of_files(files) {
                Ok(hash) => {
                    self.hashes.insert(format!("{video}/{kind}"), hash);
                }
                // A broken file costs its object a row later, and its clip the hash here.
                Err(error) => log::warn!("{video}: no hash of its {kind}: {error:#}"),
            }
        }
        let decoder = frames.decoder().map(str::to_owned);
        let frames = self.hashes.get(&format!("{video}/frames")).map(|hash| hash.sha256.clone());
        let facts = objects.iter().enumerate().map(|(at, object)| {
            let masks = if at < chosen.len() { hash_of(object) } else { None };
            let facts =
                [("frames", frames.clone()), ("masks", masks), ("decoder", decoder.clone())];
            let known = facts.into_iter().filter_map(|(name, hash)| Some((name.to_owned(), hash?)));
            (object.name.clone(), known.collect())
        });
        self.objects.insert(video.clone(), facts.collect());
    }

    /// What a row of `key` is measured on, but for what runs the model. None where its object is
    /// not there.
    pub fn measured_on(&self, key: &ObjectKey) -> Option<MeasuredOn> {
        let machine = self.machine.clone();
        // The row of a clip that could not be opened.
        if key.object.is_empty() {
            return Some(MeasuredOn { machine, ..MeasuredOn::default() });
        }
        let mut data = self.objects.get(&key.video)?.get(&key.object)?.clone();
        let teacher = self.hashes.get(&teacher_name(key)).map(|hash| hash.sha256.clone());
        data.extend(teacher.map(|hash| (TEACHER.to_owned(), hash)));
        Some(MeasuredOn { machine, data, ..MeasuredOn::default() })
    }

    /// Clip and object of each row of this work; a run that goes on may have others.
    pub fn keys(&self) -> HashSet<(&str, &str)> {
        let mut keys = HashSet::new();
        for (video, objects) in &self.clips {
            match objects {
                Ok(names) => keys.extend(names.iter().map(|name| (video.as_str(), name.as_str()))),
                // The row of a clip that cannot be opened.
                Err(_) => keys.extend([(video.as_str(), "")]),
            }
        }
        keys
    }

    /// Rows that one model will give: one for each object, one for each clip that cannot be opened.
    pub fn rows(&self) -> usize {
        self.clips.iter().map(|(_, objects)| objects.as_ref().map_or(1, Vec::len)).sum()
    }
}

/// The name of a teacher's file among the hashes.
pub fn teacher_name(key: &ObjectKey) -> String {
    format!("teacher/{}", logits::file_name(key))
}

fn limited(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

/// One hash of an object's masks and of the frames that they are of; none where a mask cannot be
/// read.
fn hash_of(object: &ObjectTruth) -> Option<String> {
    let (frames, files): (Vec<usize>, Vec<&PathBuf>) =
        object.masks.iter().map(|(frame, file)| (*frame, file)).unzip();
    let masks = sha256_of_files(files).ok()?;
    Some(format!("{:x}", Sha256::digest(format!("{frames:?} {}", masks.sha256))))
}
