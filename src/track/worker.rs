/*!
The worker: opens the clip, loads the model and tracks, in a process of its own. `track` starts it.
*/

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::job::{Event, Summary, TrackJob};
use super::output::Output;
use super::prompts;
use crate::bench::clip_run::{ClipPass, Span};
use crate::bench::gpu_runner::Opened;
use crate::bench::object_error::ObjectError;
use crate::bench::runner::{ClipRunner, ObjectFrame, PassRequest, Tracked};
use host::UsageError;
use host::{child, ctrl_c, shell};
use vos::dataset::{self, Clip, ClipError};
use vos::ffmpeg::{Ffmpeg, FfmpegError};
use vos::geometry::{Geometry, GeometryKind};
use vos::prompt::Prompt;
use vos::record::{FrameTimes, mean_stages, speed_of};
use vos::stage::Stage;
use vos::tracker::NetworkPrompt;

/// Progress comes at most this often.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// Runs the job on standard input; reports an error to the parent, which owns the screen.
///
/// # Errors
/// The parent is gone.
pub fn run() -> Result<()> {
    let Err(error) = run_job() else { return Ok(()) };
    let usage = error.downcast_ref::<UsageError>().is_some();
    child::send(&Event::Failed { reason: format!("{error:#}"), usage })
}

fn run_job() -> Result<()> {
    let job: TrackJob = child::read_job()?;
    child::end_with_parent()?;
    let stopped = ctrl_c::flag()?;
    let doing = |what: String| child::send(&Event::Doing { what });
    doing(format!("opening {}", job.clip.display()))?;
    // No more of a long video than is tracked: its frames take 3 bytes a pixel on disk.
    let most = (job.max_frames > 0).then(|| job.frame.saturating_add(job.max_frames));
    let clip = match dataset::unannotated(&job.clip, most) {
        Ok(clip) => clip,
        // Ctrl-C reaches ffmpeg too.
        Err(_) if stopped.load(Ordering::Relaxed) => return stop_early(),
        Err(error) => return Err(explained(&job.clip, error)),
    };
    let size = clip.frame_size()?;
    let prompts = prompts::of(&job, size, clip.frames.len())?;
    doing(format!("loading {}", job.model.dir.display()))?;
    let with_mask = prompts.iter().any(|prompt| matches!(prompt, Prompt::Mask(_)));
    let (mut runner, opened) = job.runtime.load(&job.model.dir, with_mask)?;
    prompts::check_room(&job, runner.manifest(), runner.most_points())?;
    if stopped.load(Ordering::Relaxed) {
        return stop_early();
    }
    let summary = track(&job, &clip, size, &prompts, runner.as_mut(), &opened, &stopped)?;
    child::send(&Event::Done(Box::new(summary)))
}

fn stop_early() -> Result<()> {
    child::send(&Event::Done(Box::new(Summary { stopped: true, ..Summary::default() })))
}

/// Refuses an input that cannot be opened, before a model is looked for.
///
/// # Errors
/// The path does not exist, or it is a video and `ffmpeg` is missing.
pub fn check_input(path: &Path) -> Result<()> {
    if !path.exists() {
        return Err(dataset::missing(path).into());
    }
    match path.is_file().then(Ffmpeg::find) {
        Some(Err(error)) => Err(explained(path, error.into())),
        _ => Ok(()),
    }
}

/// A clip's error and its remedy.
fn explained(clip: &Path, error: ClipError) -> anyhow::Error {
    match error {
        ClipError::Ffmpeg(FfmpegError::Missing) => anyhow!(
            "{} is not a folder, so it is read as a video, which needs ffmpeg, and ffmpeg is not \
             on PATH; install it (for example apt-get install ffmpeg), or give a folder of JPEG \
             frames, written on another machine by: ffmpeg -i VIDEO -r 24 -q:v 2 -start_number 0 \
             'frames/%05d.jpg'",
            clip.display()
        ),
        ClipError::Ffmpeg(FfmpegError::Failed { file, message, .. }) => {
            let empty = file.metadata().is_ok_and(|found| found.len() == 0);
            let found = if empty {
                "is empty (0 bytes)".to_owned()
            } else if message.contains("0:v:0") {
                // The stream that was asked for; every release words its absence differently.
                "has no video stream".to_owned()
            } else if message.contains("Invalid data found") {
                "is no video that ffmpeg knows".to_owned()
            } else {
                format!("cannot be decoded by ffmpeg ({message})")
            };
            anyhow!(
                "{} {found}; expected a video file or a folder of JPEG frames. See what it is: ffmpeg -i {}",
                file.display(),
                shell::path(&file)
            )
        }
        error => error.into(),
    }
}

fn track(
    job: &TrackJob,
    clip: &Clip,
    size: (usize, usize),
    prompts: &[Prompt],
    runner: &mut dyn ClipRunner,
    opened: &Opened,
    stopped: &AtomicBool,
) -> Result<Summary> {
    let side = runner.manifest().model.imgsz;
    let geometry = Geometry::new(GeometryKind::Stretch, size.0, size.1, side);
    let span = Span::new(job.frame, clip.frames.len(), job.max_frames, 1);
    let objects: Vec<Tracked> = prompts
        .iter()
        .map(|prompt| Tracked { prompt: NetworkPrompt::new(prompt, &geometry), span })
        .collect();
    let mut output = Output::create(job, clip, size, prompts)?;
    child::send(&Event::Ready { total: span.frames() })?;
    let mut waiting: Vec<ObjectFrame> = Vec::with_capacity(objects.len());
    let mut times: Vec<FrameTimes> = Vec::new();
    let mut missed: Vec<String> = Vec::new();
    let mut told: Option<Instant> = None;
    let mut take =
        |frame: ObjectFrame, pixels: Option<&[u8]>| -> Result<(), ObjectError> {
            waiting.push(frame);
            // All objects have the same frames, and come in their order.
            if waiting.len() < objects.len() {
                return Ok(());
            }
            let frames = std::mem::take(&mut waiting);
            let last = frames.last().context("a frame of no object")?;
            if times.is_empty() {
                let masks = frames.iter().map(|frame| frame.mask.as_ref());
                let each = job.objects.iter().zip(prompts).zip(masks);
                missed.extend(each.filter_map(|((object, prompt), mask)| {
                    prompts::missed(object.id, prompt, mask?)
                }));
            }
            output.frame(last.index, &frames, pixels)?;
            times.push(last.times);
            if told.is_none_or(|at| at.elapsed() >= PROGRESS_PERIOD) {
                told = Some(Instant::now());
                child::send(&Event::Frames { done: output.frames, fps: output.rate() })?;
            }
            match stopped.load(Ordering::Relaxed) {
                true => Err(ObjectError::Other(anyhow!("stopped"))),
                false => Ok(()),
            }
        };
    let request =
        PassRequest { clip, prepared: None, geometry: &geometry, objects: &objects, logits: &[] };
    let ran: Result<Vec<ClipPass>, ObjectError> =
        runner.stream_pass(request, 1, &|_, _| true, &mut take);
    let (frames, write_ms) = (output.frames, output.write_ms);
    let stopped = stopped.load(Ordering::Relaxed);
    let complete = frames == span.frames();
    let failed = ran.err().filter(|_| !stopped && !complete).map(|error| error.to_string());
    if frames == 0
        && let Some(reason) = failed
    {
        return Err(anyhow!(reason));
    }
    let mut summary = Summary {
        size,
        clip_frames: clip.frames.len(),
        first: job.frame,
        frames,
        objects: objects.len(),
        model: format!("{} ({side} px, {})", job.model.tag.network, job.model.precision.name()),
        backend: opened.backend.to_string(),
        device: opened.device.clone(),
        write_ms: write_ms / frames.max(1) as f64,
        load_ms: opened.load_ms,
        missed,
        failed,
        stopped: stopped && !complete,
        ..Summary::default()
    };
    if let Some(speed) = speed_of(&times) {
        summary.fps = speed.fps;
        summary.frame_ms = speed.latency_ms;
        summary.first_frame_ms = speed.first_frame_ms;
        summary.later_p50_ms = speed.later_frames.map(|later| later.p50_ms);
        summary.decode_ms =
            mean_stages(&times)[Stage::Decode].filter(|_| job.runtime.gpu.is_none());
    }
    summary.files = output.finish()?;
    Ok(summary)
}
