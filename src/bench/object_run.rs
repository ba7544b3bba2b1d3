/*!
Everything that is done for one object with one model: prompt, warm-up, recorded passes, scores,
pictures.

Only the passes are timed. Ground truth is read, masks are scored and files are written after
the last pass, so none of it can slow a frame down.
*/

use std::collections::BTreeMap;

use host::process_memory;
use vos::dataset::{Clip, ObjectTruth};
use vos::geometry::Geometry;
use vos::predecode::{PreparedClip, WantedFrames};
use vos::prompt::{ObjectPrompt, Prompt, PromptError, PromptKind};
use vos::ranges::{self, Range};
use vos::record::{ObjectKey, RunRecord};
use vos::telemetry::Telemetry;
use vos::tracker::NetworkPrompt;

use super::clip_run::{Frames, Span, all_frames};
use super::encode_stage::{self, EncodePlan};
use super::object_error::ObjectError;
use super::object_rows::{OfPass, Recorded, Rows};
use super::plan::BenchPlan;
use super::progress::{Doing, Progress};
use super::runner::{ClipRunner, PassRequest, Tracked};
use super::stereo;
use super::teacher::Teachers;

/// What stays the same for all objects of a worker.
pub struct ObjectRunner<'a> {
    /// The bench.
    pub plan: &'a BenchPlan,
    /// How the object is prompted.
    pub prompt: PromptKind,
    /// What makes its rows.
    pub rows: Rows<'a>,
    /// What runs the network.
    pub runner: &'a mut dyn ClipRunner,
    /// That GPU's sensors, where they can be read.
    pub telemetry: Option<&'a Telemetry>,
    /// The clip whose frames were last taken from a file: its objects share them.
    pub prepared: Option<PreparedClip>,
}

/// An object that can be tracked.
struct Ready<'a> {
    key: ObjectKey,
    truth: &'a ObjectTruth,
    prompt: Prompt,
    recorded: Vec<Recorded>,
}

impl Ready<'_> {
    /// A pass without numbers, after passes with numbers.
    fn lose(&mut self, runner: &ObjectRunner<'_>, error: &ObjectError) {
        let row = runner.rows.row_without_numbers(self.key.clone(), error);
        let row = RunRecord { run: self.recorded.len(), ..row };
        self.recorded.push((row, Vec::new()));
    }
}

impl ObjectRunner<'_> {
    /// Measures `objects` of `clip` together, as far as they are fed the same frames; whatever goes
    /// wrong becomes rows with a reason. One result for each object, those that cannot be prompted
    /// first.
    pub fn run(
        &mut self,
        clip: &Clip,
        objects: &[&ObjectTruth],
        progress: &mut dyn FnMut(Progress),
    ) -> Vec<(ObjectKey, Vec<Recorded>)> {
        let mut rows = Vec::new();
        let lost = |runner: &Self, key: &ObjectKey, error: &ObjectError| {
            (key.clone(), vec![(runner.rows.row_without_numbers(key.clone(), error), Vec::new())])
        };
        let size = match clip.frame_size() {
            Ok(size) => size,
            Err(error) => {
                let error = ObjectError::Clip(error);
                let of = |object: &&ObjectTruth| {
                    lost(self, &self.rows.key(&clip.video, &object.name), &error)
                };
                return objects.iter().map(of).collect();
            }
        };
        let side = self.runner.manifest().model.imgsz;
        let geometry = Geometry::new(self.plan.geometry, size.0, size.1, side);
        let (mut ready, mut tracked) = (Vec::new(), Vec::new());
        for truth in objects {
            let key = self.rows.key(&clip.video, &truth.name);
            match prompted(self.plan, self.prompt, clip, truth, &geometry) {
                Ok((of_network, prompt)) => {
                    tracked.push(of_network);
                    ready.push(Ready { key, truth, prompt, recorded: Vec::new() });
                }
                Err(error) => rows.push(lost(self, &key, &error.into())),
            }
        }
        if self.plan.stereo && !stereo::in_step(&tracked) {
            let why =
                "the two views have no first mask on the same frame, so they cannot run in step";
            let error = ObjectError::Other(anyhow::anyhow!(why));
            rows.extend(ready.iter().map(|ready| lost(self, &ready.key, &error)));
            return rows;
        }
        for (tracked, mut ready) in of_the_same_frames(tracked, ready, self.plan.views()) {
            if let Err(error) = self.measure(clip, &geometry, &tracked, &mut ready, progress) {
                // What was recorded before stays.
                ready.iter_mut().for_each(|ready| ready.lose(self, &error));
            }
            rows.extend(ready.into_iter().map(|ready| (ready.key, ready.recorded)));
        }
        rows
    }

    fn measure(
        &mut self,
        clip: &Clip,
        geometry: &Geometry,
        tracked: &[Tracked],
        ready: &mut [Ready<'_>],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ObjectError> {
        self.prepare(clip, geometry)?;
        // Taken out for the time of the passes, which need the runner too; the clip's next object
        // finds it again, however they end.
        let prepared = self.prepared.take();
        let frames = Frames { clip, prepared: prepared.as_ref(), geometry };
        let measured = self.passes(frames, tracked, ready, progress);
        self.prepared = prepared;
        measured
    }

    /// Warms up, then runs and records the passes.
    fn passes(
        &mut self,
        frames: Frames<'_>,
        tracked: &[Tracked],
        ready: &mut [Ready<'_>],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ObjectError> {
        let Frames { clip, prepared, geometry } = frames;
        process_memory::reset_peak();
        self.runner.reset_peaks(geometry);
        let short: Vec<Tracked> =
            tracked.iter().map(|t| warmup_of(self.runner, t, tracked)).collect();
        let (warmups, runs) = (self.plan.warmup_runs, self.plan.profile_runs);
        let repeats = self.runner.repeats().max(1);
        let frames_of =
            |objects: &[Tracked]| objects.iter().map(|t| t.span.frames()).sum::<usize>();
        // A clip that comes again ends for all objects at the same frame, so each repeat is at most
        // this long.
        let total = warmups * frames_of(&short) + runs * repeats * frames_of(tracked);
        let mut done = 0;
        let mut tell = |doing: Doing| {
            done += usize::from(doing == Doing::Tracking);
            progress(Progress { doing, done: done.min(total), total });
        };
        let request = |objects, logits| PassRequest { clip, prepared, geometry, objects, logits };
        for _ in 0..warmups {
            let _warmup = ranges::enter(Range::Warmup);
            let mut count = || tell(Doing::Tracking);
            self.runner.run_pass(request(&short, &[]), 1, &|_, _| false, &mut count)?;
        }
        let keep_all = self.plan.save_overlays || self.plan.save_masks;
        let low_size = self.runner.manifest().contract.low_size;
        let keys = ready.iter().map(|ready| &ready.key).zip(tracked.iter().map(|t| t.span));
        let teachers = Teachers::open(self.plan, low_size, keys)?;
        let exchanges = teachers.exchanges();
        let fed = repeats * all_frames(tracked).map_or(0, |all| all.frames());
        for run in 0..runs {
            let strides = self.plan.strides;
            let keep = |object: usize, index: usize| {
                let annotated = ready[object].truth.masks.contains_key(&index);
                keep_all || annotated && strides.scores(tracked[object].span.start, index)
            };
            let mark = self.telemetry.map(Telemetry::mark);
            let request = request(tracked, exchanges.as_slice());
            let mut count = || tell(Doing::Tracking);
            let keys = ready.iter().map(|ready| &ready.key).collect::<Vec<_>>();
            let stage = EncodePlan::of(self.plan, geometry, run);
            let encoded = stage.zip(encode_stage::stem_of(&keys));
            let (mut passes, output) = match encoded {
                None => (self.runner.run_pass(request, repeats, &keep, &mut count)?, None),
                Some((plan, stem)) => {
                    encode_stage::run_pass(self.runner, request, &stem, plan, &keep, &mut count)?
                }
            };
            if self.plan.stereo {
                stereo::add_up(&mut passes);
            }
            let observed = self.telemetry.zip(mark).map(|(gpu, mark)| gpu.since(mark));
            let observed = observed.map(|seen| seen.beside_idle(self.plan.idle_processes));
            for ((ready, object), pass) in ready.iter_mut().zip(tracked).zip(passes) {
                let observed = observed.map(|seen| seen.of_frames(pass.times.len(), fed));
                let of = OfPass {
                    clip,
                    truth: ready.truth,
                    prompt: &ready.prompt,
                    geometry,
                    span: object.span,
                    pass: &pass,
                    observed,
                    transfer: self.runner.transfer(),
                    memory: self.runner.gpu_memory(),
                    decode_load: None,
                    overlay: output.as_deref().and_then(|path| self.rows.shown_overlay(path)),
                };
                match self.rows.record(&ready.key, run, &of, &mut tell) {
                    Ok(recorded) => ready.recorded.push(recorded),
                    // The other objects of the pass were measured too.
                    Err(error) => ready.lose(self, &error),
                }
            }
        }
        Ok(())
    }

    /// Maps and checks the clip's predecoded frames, where the bench runs on such.
    fn prepare(&mut self, clip: &Clip, geometry: &Geometry) -> Result<(), ObjectError> {
        let Some(plan) = &self.plan.predecoded else { return Ok(()) };
        if self.prepared.as_ref().is_some_and(|there| there.header.video == clip.video) {
            return Ok(());
        }
        let contract = &self.runner.manifest().contract;
        let normalisation = [contract.mean, contract.std];
        let wanted = WantedFrames { clip, geometry, values: plan.values, normalisation };
        self.prepared = Some(PreparedClip::for_bench(&plan.dir, &wanted)?);
        Ok(())
    }
}

/// The first frames of an object, as many as a warm-up of `runner` takes; objects that begin later
/// are met too.
pub(super) fn warmup_of(runner: &dyn ClipRunner, object: &Tracked, all: &[Tracked]) -> Tracked {
    let last_start = all.iter().map(|t| t.span.start).max().unwrap_or(object.span.start);
    let frames = runner.warmup_frames() * object.span.stride;
    let end = object.span.end.min(last_start + frames);
    let span = Span { end: end.max(object.span.start + 1), ..object.span };
    Tracked { prompt: object.prompt.clone(), span }
}

/// An object with its frames and its prompt: the network's, and the one in the clip.
///
/// # Errors
/// It cannot be prompted so.
pub(super) fn prompted(
    plan: &BenchPlan,
    kind: PromptKind,
    clip: &Clip,
    truth: &ObjectTruth,
    geometry: &Geometry,
) -> Result<(Tracked, Prompt), PromptError> {
    let (frames, size) = (clip.frames.len(), geometry.video_size());
    let ObjectPrompt { index, prompt, .. } =
        ObjectPrompt::new(truth, frames, size, kind, plan.prompt_policy)?;
    // The frames of two views alternate.
    let views = plan.views();
    let (stride, most) = (views * plan.strides.input, views * plan.max_clip_frames);
    let span = Span::new(index, frames, most, stride);
    Ok((Tracked { prompt: NetworkPrompt::new(&prompt, geometry), span }, prompt))
}

/// Objects with the frames that they are fed: those that can be tracked together lie together.
/// Without a stride all can; with one, objects that are prompted on frames of different grids share
/// no frame.
fn of_the_same_frames(
    tracked: Vec<Tracked>,
    ready: Vec<Ready<'_>>,
    views: usize,
) -> impl Iterator<Item = (Vec<Tracked>, Vec<Ready<'_>>)> {
    let mut groups: BTreeMap<usize, (Vec<Tracked>, Vec<Ready<'_>>)> = BTreeMap::new();
    for (tracked, ready) in tracked.into_iter().zip(ready) {
        let group =
            groups.entry(tracked.span.start / views % (tracked.span.stride / views)).or_default();
        group.0.push(tracked);
        group.1.push(ready);
    }
    groups.into_values()
}

#[cfg(test)]
mod tests;
