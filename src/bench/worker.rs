/*!
The worker: one model in its process.

`bench` starts one for each model, so that no model's memory, threads or crash shows in another's
rows. It reads a [`Job`] from standard input and answers with one JSON line per [`BenchEvent`].
*/

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::lanes;
use super::load::RuntimePlan;
use super::messages::{BenchEvent, loaded, lost, ready, rows};
use super::object_error::ObjectError;
use super::object_run::ObjectRunner;
use super::plan::Job;
use super::progress::{Doing, Progress};
use host::child;
use vos::prompt::PromptKind;
use vos::record::Status;

/// Progress lines come at most this often.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

/// Runs the job on standard input to its end; an error goes to the parent, which owns the
/// screen.
pub fn run() -> Result<()> {
    match run_job() {
        Ok(()) => Ok(()),
        Err(error) => child::send(&BenchEvent::Failed { reason: format!("{error:#}") }),
    }
}

fn run_job() -> Result<()> {
    let job: Job = child::read_job()?;
    child::end_with_parent()?;
    let model =
        job.plan.models.get(job.plan_index).context("the job names a model that it lacks")?;
    if let Some(lanes) = job.plan.lanes() {
        return lanes::run(&job, model, lanes);
    }
    let with_mask = model.tag.prompt == PromptKind::Mask;
    let (mut runner, opened) = RuntimePlan::of(&job.plan).load(&model.dir, with_mask)?;
    let loaded = loaded(&job, model, runner.manifest(), opened);
    let (loaded, telemetry) = ready(&job, loaded)?;
    let mut runner = ObjectRunner {
        plan: &job.plan,
        prompt: model.tag.prompt,
        rows: rows(&job, model, &loaded, runner.manifest()),
        runner: runner.as_mut(),
        telemetry: telemetry.as_ref(),
        prepared: None,
    };
    let split = job.plan.open_split()?;
    for (video, objects) in &job.todo {
        let clip = match split.clip(video) {
            Ok(clip) => clip,
            Err(error) => {
                let error = ObjectError::Other(anyhow::anyhow!("{error}"));
                objects.iter().try_for_each(|name| lost(&runner.rows, video, name, &error))?;
                continue;
            }
        };
        let by_name: HashMap<&str, _> = clip.objects.iter().map(|o| (o.name.as_str(), o)).collect();
        let (there, gone): (Vec<&String>, _) =
            objects.iter().partition(|name| by_name.contains_key(name.as_str()));
        for name in gone {
            let error = ObjectError::Other(anyhow::anyhow!("the object is gone from the split"));
            lost(&runner.rows, video, name, &error)?;
        }
        let together = runner.runner.objects_together().max(1) * job.plan.views();
        for names in there.chunks(together) {
            let group: Vec<_> =
                names.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect();
            let label = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(",");
            let mut report = progress_reporter(video, &label);
            let mut failed = false;
            for (key, passes) in runner.run(&clip, &group, &mut report) {
                failed |= passes.iter().any(|(row, _)| row.status == Status::Failed);
                child::send(&BenchEvent::Object { key, passes })?;
            }
            if let Some(uses) = runner.runner.memory_use() {
                child::send(&BenchEvent::Memory(Box::new(uses)))?;
            }
            if failed && let Some(reason) = runner.runner.lost() {
                return child::send(&BenchEvent::Lost { reason });
            }
        }
    }
    Ok(())
}

fn progress_reporter(video: &str, object: &str) -> impl FnMut(Progress) {
    let (video, object) = (video.to_owned(), object.to_owned());
    let mut last: Option<(Instant, Doing)> = None;
    move |Progress { doing, done, total }| {
        // Reported at once: if it hangs, the last report names the step.
        if last.is_some_and(|(at, before)| before == doing && at.elapsed() < PROGRESS_PERIOD) {
            return;
        }
        last = Some((Instant::now(), doing));
        let (video, object) = (video.clone(), object.clone());
        let event = BenchEvent::Progress { doing, video, object, done, total };
        // A parent that is gone is noticed at the next object's row.
        let _ = child::send(&event);
    }
}
