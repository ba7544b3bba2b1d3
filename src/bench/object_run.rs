/*!
Everything that is done for one object with one model: prompt, warm-up, recorded passes, scores, pictures.

Only the passes are timed. Ground truth is read, masks are scored and files are written after
the last pass, so none of it can slow a frame down.
*/

use anyhow::Context;

use crate::dataset::{Clip, ObjectTruth};
use crate::geometry::Geometry;
use crate::mask::Mask;
use crate::metrics::{MetricsKind, Scorer};
use crate::overlay::OverlayWriter;
use crate::process_memory;
use crate::prompt::ObjectPrompt;
use crate::record::{
    Conditions, FrameTimes, Measured, MemoryPeaks, ObjectKey, Observed, Quality, RunRecord, Status,
    Verdict, mean_gpu_ms, mean_residue_ms, mean_stages, speed_of,
};
use crate::telemetry::Telemetry;
use crate::tracker::{Network, NetworkPrompt};
use crate::verdict::{self, Evidence};

use super::clip_run::{Pass, Span, run_pass};
use super::mask_file;
use super::object_error::ObjectError;
use super::plan::BenchPlan;

/// Warm-up passes stop after this many frames: by then the memory bank (7) and the pointer bank (16)
/// are full and every later frame repeats the same work.
const WARMUP_FRAMES: usize = 18;

/// Where the worker stands, for the progress display.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Frames done of all passes over this object.
    pub done: usize,
    /// Frames of all passes over this object.
    pub total: usize,
}

/// What stays the same for all objects of a worker.
pub struct ObjectRunner<'a, N> {
    /// The bench.
    pub plan: &'a BenchPlan,
    /// Model tag, for names.
    pub tag: &'a str,
    /// How the object is prompted.
    pub prompt: crate::prompt::PromptKind,
    /// The conditions that each row states.
    pub conditions: &'a Conditions,
    /// Time that loading the model took, ms.
    pub load_ms: f64,
    /// The network.
    pub network: &'a mut N,
    /// A GPU runs it.
    pub on_gpu: bool,
    /// That GPU's sensors, where they can be read.
    pub telemetry: Option<&'a Telemetry>,
}

/// A recorded pass: its row and its frames.
pub type Recorded = (RunRecord, Vec<FrameTimes>);

impl<N: Network> ObjectRunner<'_, N> {
    /// Measures `object` of `clip`; whatever goes wrong becomes a row with a reason.
    pub fn run(
        &mut self,
        clip: &Clip,
        object: &ObjectTruth,
        progress: &mut dyn FnMut(Progress),
    ) -> Vec<Recorded> {
        let key = self.key(&clip.video, &object.name);
        match self.measure(&key, clip, object, progress) {
            Ok(recorded) => recorded,
            Err(error) => vec![(self.row_without_numbers(key, &error), Vec::new())],
        }
    }

    /// A row for an object that could not be measured.
    pub fn row_without_numbers(&self, key: ObjectKey, error: &ObjectError) -> RunRecord {
        RunRecord::unmeasured(key, self.conditions.clone(), error.status(), error.code(), error)
    }

    /// The name of an object's rows.
    pub fn key(&self, video: &str, object: &str) -> ObjectKey {
        ObjectKey { video: video.into(), object: object.into(), model: self.tag.into() }
    }

    fn measure(
        &mut self,
        key: &ObjectKey,
        clip: &Clip,
        object: &ObjectTruth,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Recorded>, ObjectError> {
        process_memory::reset_peak();
        let (width, height) = clip.frame_size()?;
        let side = self.network.manifest().model.imgsz;
        let geometry = Geometry::new(self.plan.geometry, width, height, side);
        let prompted = ObjectPrompt::new(
            object,
            clip.frames.len(),
            (width, height),
            self.prompt,
            self.plan.prompt_policy,
        )?;
        let prompt = NetworkPrompt::new(&prompted.prompt, &geometry);
        let span = Span::new(prompted.index, clip.frames.len(), self.plan.max_clip_frames);
        let warmup = Span { end: span.end.min(span.start + WARMUP_FRAMES), ..span };

        let (warmups, runs) = (self.plan.warmup_runs, self.plan.profile_runs);
        let total = warmups * warmup.frames() + runs * span.frames();
        let mut done = 0;
        let mut count = |_| {
            done += 1;
            progress(Progress { done, total });
        };
        for _ in 0..warmups {
            run_pass(self.network, clip, warmup, &prompt, &geometry, |_| false, &mut count)?;
        }
        let keep_all = self.plan.save_overlays || self.plan.save_masks;
        let keep = |index: usize| keep_all || object.masks.contains_key(&index);
        let mut recorded = Vec::new();
        for run in 0..runs {
            let mark = self.telemetry.map(Telemetry::mark);
            let pass = run_pass(self.network, clip, span, &prompt, &geometry, keep, &mut count)?;
            let observed = self.telemetry.zip(mark).map(|(gpu, mark)| gpu.since(mark));
            let mut row = RunRecord {
                key: key.clone(),
                run,
                status: Status::Ok,
                reason: None,
                conditions: self.conditions.clone(),
                frames: Some(span.frames()),
                processed_end_frame: Some(span.end),
                input_size: Some([height, width]),
                infer_size: Some([side, side]),
                overlay: None,
                nsight_report: None,
                measured: None,
                verdict: Verdict::default(),
            };
            self.score(&mut row, object, &pass, observed)?;
            // The passes are the same computation: pictures of the first one are enough.
            if run == 0 {
                row.overlay = self.write_pictures(key, clip, &geometry, &pass)?;
            }
            recorded.push((row, pass.times));
        }
        Ok(recorded)
    }

    fn score(
        &self,
        row: &mut RunRecord,
        object: &ObjectTruth,
        pass: &Pass,
        observed: Option<Observed>,
    ) -> Result<(), ObjectError> {
        let (quality, note) = score(self.plan.metrics, object, &pass.masks);
        row.reason = note;
        row.measured = Some(Measured {
            speed: speed_of(&pass.times).context("a pass over no frames")?,
            stages: mean_stages(&pass.times),
            memory: MemoryPeaks {
                gpu_peak_reserved_mib: observed.and_then(|seen| seen.process_memory_mib),
                cpu_peak_rss_mib: process_memory::peak_rss_mib(),
                ..MemoryPeaks::default()
            },
            quality,
            setup_ms: Some(self.load_ms),
            gpu_ms: mean_gpu_ms(&pass.times),
            residue_ms: mean_residue_ms(&pass.times),
            observed,
        });
        row.verdict = verdict::judge(&Evidence {
            frames: &pass.times,
            overlapping: false,
            on_gpu: self.on_gpu,
            observed: observed.as_ref(),
        });
        Ok(())
    }

    /// Overlay and mask files of a pass; the overlay's path as the CSV names it.
    fn write_pictures(
        &self,
        key: &ObjectKey,
        clip: &Clip,
        geometry: &Geometry,
        pass: &Pass,
    ) -> Result<Option<String>, ObjectError> {
        let ObjectKey { video, object, model } = key;
        let out_dir = &self.plan.out_dir;
        if self.plan.save_masks {
            let name = format!("{video}__obj{object}__{model}.json");
            mask_file::write(&out_dir.join("masks"), &name, pass)?;
        }
        if !self.plan.save_overlays {
            return Ok(None);
        }
        let size = geometry.video_size();
        let mut writer = OverlayWriter::create(out_dir, video, object, model, size)?;
        for (index, mask) in &pass.masks {
            writer.write(&clip.frame(*index, size)?, Some(mask))?;
        }
        Ok(Some(writer.finish()?.display().to_string()))
    }
}

/// J and F over the annotated frames that were run, and what is to be said about their ground truth.
fn score(
    kind: MetricsKind,
    object: &ObjectTruth,
    masks: &[(usize, Mask)],
) -> (Option<Quality>, Option<String>) {
    let mut scorer = Scorer::new(kind);
    let mut notes = Vec::new();
    for (index, mask) in masks.iter().filter(|(index, _)| object.masks.contains_key(index)) {
        let truth = object.mask(*index);
        match &truth {
            Ok(truth) if truth.same_size(mask) => {}
            Ok(truth) => notes.push(format!(
                "mask_size: the ground truth of frame {index} is {}x{}, the frames are {}x{}; it was \
                 compared with a resized prediction",
                truth.width(),
                truth.height(),
                mask.width(),
                mask.height()
            )),
            // An unreadable mask leaves its frame out of the averages, as it did before.
            Err(error) => notes.push(format!("{}: {error}; not scored", error.code())),
        }
        scorer.push(truth.as_ref().ok(), Some(mask));
    }
    let quality = scorer.finish();
    if quality.is_none() {
        notes.push(format!(
            "nothing_to_score: no annotated frame of those that were run counts under the {} rules",
            kind.as_str()
        ));
    }
    let more = notes.len().saturating_sub(1);
    let note = notes.into_iter().next();
    let note = note.map(|n| if more > 0 { format!("{n} (and {more} more)") } else { n });
    (quality, note)
}
