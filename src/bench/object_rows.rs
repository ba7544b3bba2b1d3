/*!
From a recorded pass to its row: times, scores, verdict, and the files that the pass writes.
*/

use anyhow::Context;

use host::{process_memory, program};
use runtime::pipeline::Mode;
use vos::dataset::{Clip, ObjectTruth};
use vos::geometry::Geometry;
use vos::prompt::Prompt;
use vos::record::{
    Conditions, DecodeLoad, EnqueuedFrames, FrameTimes, FrameTransfer, Measured, MemoryPeaks,
    ObjectKey, Observed, RunRecord, StagePercentiles, StageTimes, Status, Verdict, mean_gpu_ms,
    mean_residue_ms, mean_stages, speed_of,
};
use vos::verdict::{self, Evidence};

use super::clip_run::{ClipPass, Span};
use super::object_error::ObjectError;
use super::overlay_file::Shown;
use super::plan::BenchPlan;
use super::progress::Doing;
use super::scoring::score;

/// Frames of a lane that are judged together: how the lanes' steps meet changes from frame to
/// frame.
const PACED: usize = 4;

/// A recorded pass: its row and its frames.
pub type Recorded = (RunRecord, Vec<FrameTimes>);

/// What all rows of a worker have in common.
pub struct Rows<'a> {
    /// The bench.
    pub plan: &'a BenchPlan,
    /// Model tag, for names.
    pub tag: &'a str,
    /// The conditions that each row states.
    pub conditions: &'a Conditions,
    /// Time that loading the model took, ms.
    pub load_ms: f64,
    /// Least time of each stage at the GPU's peaks, ms; empty where it is unknown.
    pub least: StageTimes,
    /// A GPU runs it.
    pub on_gpu: bool,
    /// Side of the low-resolution logits.
    pub low_size: usize,
}

/// A pass over one object, as its row and its files need it.
pub struct OfPass<'a> {
    /// The clip.
    pub clip: &'a Clip,
    /// The object's ground truth.
    pub truth: &'a ObjectTruth,
    /// Its prompt, in the clip.
    pub prompt: &'a Prompt,
    /// How frames became squares.
    pub geometry: &'a Geometry,
    /// The object's frames.
    pub span: Span,
    /// The pass.
    pub pass: &'a ClipPass,
    /// The GPU's sensors.
    pub observed: Option<Observed>,
    /// The way of predecoded frames.
    pub transfer: Option<FrameTransfer>,
    /// GPU memory at its peak.
    pub memory: MemoryPeaks,
    /// Decoding beside several lanes.
    pub decode_load: Option<DecodeLoad>,
    /// The overlay that the pass encoded, below the run folder.
    pub overlay: Option<String>,
}

impl Rows<'_> {
    /// The row of recorded pass `run`. The passes are the same computation, so files of the first
    /// one are enough. `told` hears of each mask that is scored or written.
    ///
    /// # Errors
    /// A pass without times, or a file that cannot be written.
    pub fn record(
        &self,
        key: &ObjectKey,
        run: usize,
        of: &OfPass<'_>,
        told: &mut dyn FnMut(Doing),
    ) -> Result<Recorded, ObjectError> {
        let mut row = self.row(key, run, of);
        self.score(&mut row, of, &mut || told(Doing::Scoring))?;
        if run == 0 {
            let shown = Shown { clip: of.clip, truth: of.truth, prompt: of.prompt };
            self.write_files(&mut row, shown, of.geometry, of.pass, &mut || told(Doing::Writing))?;
        }
        Ok((row, of.pass.scored_times()))
    }

    /// A row for an object that could not be measured.
    pub fn row_without_numbers(&self, key: ObjectKey, error: &ObjectError) -> RunRecord {
        let row = RunRecord::unmeasured(
            key,
            self.conditions.clone(),
            error.status(),
            error.code(),
            error,
        );
        RunRecord { non_finite_logits: error.non_finite_logits(), ..row }
    }

    /// The name of an object's rows.
    pub fn key(&self, video: &str, object: &str) -> ObjectKey {
        ObjectKey { video: video.into(), object: object.into(), tag: self.tag.into() }
    }

    fn row(&self, key: &ObjectKey, run: usize, of: &OfPass<'_>) -> RunRecord {
        let OfPass { clip, geometry, span, pass, .. } = of;
        let ((width, height), side) = (geometry.video_size(), geometry.side());
        RunRecord {
            key: key.clone(),
            run,
            status: Status::Ok,
            reason: None,
            conditions: Conditions {
                transfer: of.transfer,
                ..self.conditions.of_video(clip.frames.decoder())
            },
            frames: Some(pass.times.len()),
            processed_end_frame: Some(span.end.div_ceil(self.plan.views())),
            input_size: Some([height, width]),
            infer_size: Some([side, side]),
            overlay: of.overlay.clone(),
            nsight_report: None,
            profiled: None,
            // Each frame was looked at: one that had any would have ended the pass.
            non_finite_logits: Some(0),
            measured: None,
            verdict: Verdict::default(),
        }
    }

    fn score(
        &self,
        row: &mut RunRecord,
        of: &OfPass<'_>,
        scored_one: &mut dyn FnMut(),
    ) -> Result<(), ObjectError> {
        let OfPass { truth, span, pass, observed, memory, .. } = *of;
        let scored =
            |index| truth.masks.contains_key(&index) && self.plan.strides.scores(span.start, index);
        let masks = pass.masks.iter().filter(|(index, _)| scored(*index));
        let masks = masks.inspect(|_| scored_one());
        let (quality, note) = score(self.plan.metrics, truth, masks);
        row.reason = note;
        // What the driver holds for this process, where its sensors tell; else what is missing of
        // the free memory.
        let reserved = observed.and_then(|seen| seen.process_memory_mib);
        row.measured = Some(Measured {
            speed: speed_of(&pass.times).context("a pass over no frames")?,
            stages: mean_stages(&pass.times),
            stage_percentiles: StagePercentiles::of(&[&pass.times]),
            enqueued: EnqueuedFrames::of(&[&pass.times]),
            memory: MemoryPeaks {
                gpu_peak_reserved_mib: reserved.or(memory.gpu_peak_reserved_mib),
                cpu_peak_rss_mib: process_memory::peak_rss_mib(),
                ..memory
            },
            quality,
            setup_ms: Some(self.load_ms),
            gpu_ms: mean_gpu_ms(&pass.times),
            // The stages of overlapping frames overlap too.
            residue_ms: mean_residue_ms(&pass.times).filter(|_| self.plan.mode() == Mode::Latency),
            least: self.least,
            observed,
            decode_load: of.decode_load,
        });
        row.verdict = verdict::judge(&Evidence {
            frames: &pass.times,
            overlapping: self.plan.mode() != Mode::Latency,
            batch: if self.plan.lanes().is_some() { PACED } else { self.plan.encode_batch() },
            on_gpu: self.on_gpu,
            observed: observed.as_ref(),
        });
        let exchange = verdict::exchange(self.plan.teacher.is_some(), self.plan.save_logits);
        let runner = program::runner().as_deref().map(verdict::runner);
        let findings = row.verdict.findings.drain(..).chain(exchange).chain(runner).collect();
        row.verdict = Verdict::of(findings);
        Ok(())
    }
}
