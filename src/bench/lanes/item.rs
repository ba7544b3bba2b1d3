/*!
The objects that lanes measure, with all that a pass over one needs.
*/

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};

use crate::bench::clip_run::Span;
use crate::bench::object_error::ObjectError;
use crate::bench::object_run::prompted;
use crate::bench::plan::{BenchPlan, Job};
use crate::bench::runner::Tracked;
use host::meminfo::MemInfo;
use vos::bundle::Manifest;
use vos::dataset::{Clip, ObjectTruth};
use vos::geometry::Geometry;
use vos::predecode::{PreparedClip, WantedFrames};
use vos::prompt::{Prompt, PromptKind};

/// Part of the free memory that the masks of all passes may take.
const MASKS_SHARE: f64 = 0.5;

/// One object.
pub struct Item {
    /// Its clip.
    pub clip: Arc<Clip>,
    /// Its place among the clip's objects.
    object: usize,
    /// How the clip's frames become squares.
    pub geometry: Geometry,
    /// The object, as a pass takes it.
    pub tracked: [Tracked; 1],
    /// Its prompt, in the clip.
    pub prompt: Prompt,
    /// The clip's predecoded frames.
    pub prepared: Option<Arc<PreparedClip>>,
}

/// An object without a pass: clip, object, and why.
pub type Lost = (String, String, ObjectError);

impl Item {
    /// Its ground truth.
    pub fn truth(&self) -> Option<&ObjectTruth> {
        self.clip.objects.get(self.object)
    }

    /// Its frames.
    pub fn span(&self) -> Span {
        self.tracked[0].span
    }

    /// Whether the mask of a frame is scored or written.
    pub fn keeps(&self, plan: &BenchPlan, index: usize) -> bool {
        let annotated = self.truth().is_some_and(|truth| truth.masks.contains_key(&index));
        let scored = annotated && plan.strides.scores(self.span().start, index);
        plan.save_overlays || plan.save_masks || scored
    }

    /// Bytes of the masks that a pass keeps.
    fn mask_bytes(&self, plan: &BenchPlan) -> u64 {
        let kept = self.span().indices().filter(|index| self.keeps(plan, *index)).count() as u64;
        let (width, height) = self.geometry.video_size();
        kept * (width as u64 * height as u64).div_ceil(8)
    }
}

/// The objects of a job, and those that cannot be measured.
///
/// # Errors
/// The split cannot be read.
pub fn items(job: &Job, kind: PromptKind, manifest: &Manifest) -> Result<(Vec<Item>, Vec<Lost>)> {
    let plan = &job.plan;
    let split = plan.open_split()?;
    let (mut items, mut lost) = (Vec::new(), Vec::new());
    for (video, names) in &job.todo {
        let clip = split.clip(video).map(Arc::new);
        // The objects of a clip share its predecoded frames.
        let mut prepared = None;
        for name in names {
            let made = match &clip {
                Ok(clip) => item(plan, kind, manifest, clip, name, &mut prepared),
                Err(error) => Err(ObjectError::Other(anyhow!("{error}"))),
            };
            match made {
                Ok(item) => items.push(item),
                Err(error) => lost.push((video.clone(), name.clone(), error)),
            }
        }
    }
    Ok((items, lost))
}

fn item(
    plan: &BenchPlan,
    kind: PromptKind,
    manifest: &Manifest,
    clip: &Arc<Clip>,
    name: &str,
    prepared: &mut Option<Arc<PreparedClip>>,
) -> Result<Item, ObjectError> {
    let object = clip.objects.iter().position(|object| object.name == name);
    let object = object.context("the object is gone from the split")?;
    let size = clip.frame_size()?;
    let geometry = Geometry::new(plan.geometry, size.0, size.1, manifest.model.imgsz);
    let truth = clip.objects.get(object).context("the object is gone from the split")?;
    let (tracked, prompt) = prompted(plan, kind, clip, truth, &geometry)?;
    if let (Some(frames), None) = (&plan.predecoded, &prepared) {
        let normalisation = [manifest.contract.mean, manifest.contract.std];
        let (geometry, values) = (&geometry, frames.values);
        let wanted = WantedFrames { clip, geometry, values, normalisation };
        *prepared = Some(Arc::new(PreparedClip::for_bench(&frames.dir, &wanted)?));
    }
    let (clip, prepared) = (Arc::clone(clip), prepared.clone());
    Ok(Item { clip, object, geometry, tracked: [tracked], prompt, prepared })
}

/// Refuses runs whose masks do not fit into this machine's memory: nothing is scored before the
/// last pass has ended, since that would take processors from decoding.
///
/// # Errors
/// The memory that they need, and how to measure fewer clips.
pub fn check_memory(items: &[Item], plan: &BenchPlan) -> Result<()> {
    let masks: u64 = items.iter().map(|item| item.mask_bytes(plan)).sum();
    let needed = masks as f64 * plan.profile_runs as f64;
    let Some((_, free_kib)) = MemInfo::read(Path::new("/")).total_and_available_kib() else {
        return Ok(());
    };
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    ensure!(
        needed <= MASKS_SHARE * 1024.0 * free_kib,
        "--lanes keeps the masks of all passes until the last one ends: {:.1} GiB, and {:.1} GiB \
         of memory are free; measure fewer clips at a time with --limit-videos or --shard, or use \
         a smaller --profile-runs",
        gib(needed),
        gib(1024.0 * free_kib)
    );
    Ok(())
}
