/*!
`segtrt track`: start the worker, show where it stands, say what it wrote.
*/

mod args;
mod model;
mod words;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Outcome;
use crate::track::job::{Event, OverlayStyle, Summary, TrackJob};
use crate::track::worker::check_input;
pub use args::TrackArgs;
use host::UsageError;
use host::child::{self, End, Heard, Listener};
use host::counted;
use host::ctrl_c;
use host::printable::printable;

/// How often Ctrl-C is looked for while the worker is silent.
const LOOK: Duration = Duration::from_millis(200);

/// Tracks and tells what came of it.
///
/// # Errors
/// [`UsageError`] for prompts, files and models that do not fit; else what broke it off.
pub fn run(args: TrackArgs) -> Result<Outcome> {
    let objects = words::objects(&args.click, &args.boxes, &args.mask, &args.truth)?;
    let with_mask = objects.iter().any(|object| object.mask.is_some());
    check_input(&args.video)?;
    let (model, runtime) = model::choose(&args, with_mask)?;
    let remark = model::remark(&args, &model);
    let style = OverlayStyle { opacity: args.opacity, fps: args.show_fps };
    let job = TrackJob {
        clip: args.video.clone(),
        objects,
        frame: args.frame,
        max_frames: args.max_frames,
        model,
        runtime,
        out: args.out.clone().unwrap_or_else(|| usual_out(&args)),
        overlay: (!args.no_overlay).then_some(style),
    };
    child::check(&job).map_err(|error| UsageError(format!("{error:#}")))?;
    let summary = attend(&job, remark)?;
    for missed in &summary.missed {
        log::warn!("{missed}");
    }
    if args.json {
        println!("{:#}", serde_json::to_value(&summary)?);
    } else {
        print(&job, &summary)?;
    }
    if summary.stopped {
        eprintln!("{}", stopped(&job, &summary));
        return Ok(Outcome::Stopped);
    }
    if let Some(reason) = &summary.failed {
        eprintln!("Error: {reason}");
        let kept = summary.frames;
        eprintln!("the {kept} frames before it are kept in {}", job.out.display());
        return Ok(Outcome::PartlyFailed);
    }
    Ok(Outcome::Done)
}

/// `dog_track` for `clips/dog.mp4`.
fn usual_out(args: &TrackArgs) -> PathBuf {
    let path = std::path::absolute(&args.video).unwrap_or_else(|_| args.video.clone());
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    let name = name.map_or_else(|| "clip".to_owned(), |name| name.to_string_lossy().into_owned());
    PathBuf::from(format!("{name}_track"))
}

/// Starts the worker and listens to it until its end. `remark` is for inputs that can be used.
fn attend(job: &TrackJob, mut remark: Option<String>) -> Result<Summary> {
    let came = ctrl_c::flag()?;
    let (mut worker, _input) = child::start("track-worker", job)?;
    let listener = Listener::<Event>::of(&mut worker)?;
    let mut display = Display::default();
    let (mut done, mut told, mut failed, mut asked) = (None, None, None, false);
    loop {
        if came.load(Ordering::Relaxed) && !asked {
            // A terminal sends it to the worker too; a caller that ends this process alone does not.
            child::terminate(&mut worker);
            asked = true;
        }
        match listener.next(Some(LOOK))? {
            Heard::Event(Event::Doing { what }) => display.doing(&what),
            Heard::Event(Event::Ready { total }) => {
                if let Some(remark) = remark.take() {
                    display.aside(|| log::warn!("{remark}"));
                }
                display.start(total);
            }
            Heard::Event(Event::Frames { done, fps }) => display.frames(done, fps),
            Heard::Event(Event::Done(summary)) => done = Some(*summary),
            Heard::Event(Event::Failed { reason, usage: true }) => {
                failed = Some(anyhow::Error::new(UsageError(reason)));
            }
            Heard::Event(Event::Failed { reason, usage: false }) => told = Some(reason),
            Heard::Silence => {}
            Heard::End => break,
        }
    }
    display.finish();
    let end = child::end(worker, told)?;
    if let Some(error) = failed {
        return Err(error);
    }
    match (done, end) {
        // All is written: libraries that crash when they are closed change nothing.
        (Some(summary), _) => Ok(summary),
        (None, End::Told(reason)) => Err(anyhow!(reason)),
        (None, _) if came.load(Ordering::Relaxed) => {
            Ok(Summary { stopped: true, ..Summary::default() })
        }
        (None, End::Finished) => bail!("the worker ended without a word"),
        (None, End::Died(why)) => {
            let out = job.out.display();
            bail!("{why}; masks and lines of the frames before it are in {out}")
        }
    }
}

/// A bar on a terminal, nothing elsewhere.
#[derive(Default)]
struct Display {
    bar: Option<ProgressBar>,
}

impl Display {
    fn bar(&mut self) -> Option<&ProgressBar> {
        if self.bar.is_none() && std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.enable_steady_tick(LOOK);
            self.bar = Some(bar);
        }
        self.bar.as_ref()
    }

    fn doing(&mut self, what: &str) {
        if let Some(bar) = self.bar() {
            bar.set_message(printable(what).into_owned());
        }
    }

    /// Prints beside the bar.
    fn aside(&mut self, print: impl FnOnce()) {
        match self.bar() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn start(&mut self, total: usize) {
        if let Some(bar) = self.bar() {
            bar.set_length(total as u64);
            let style = "{wide_bar:.cyan/blue} {pos}/{len}  ETA {eta_precise}  {msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.set_message("");
            bar.reset_eta();
        }
    }

    fn frames(&mut self, done: usize, fps: f64) {
        if let Some(bar) = self.bar() {
            bar.set_position(done as u64);
            bar.set_message(format!("{fps:.1} FPS"));
        }
    }

    fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The last word after Ctrl-C.
fn stopped(job: &TrackJob, summary: &Summary) -> String {
    match summary.frames {
        0 => "Stopped before the first frame; nothing was written.".to_owned(),
        frames => format!(
            "Stopped after {}, kept in {}.\nThe same command tracks all frames again.",
            counted(frames, "frame"),
            job.out.display()
        ),
    }
}

fn print(job: &TrackJob, summary: &Summary) -> Result<()> {
    if summary.frames == 0 {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    let mut line = |text: String| writeln!(out, "{}", printable(&text));
    let (width, height) = summary.size;
    line(format!(
        "{}: {} of {width}x{height}, {}",
        job.clip.display(),
        counted(summary.frames, "frame"),
        counted(summary.objects, "object")
    ))?;
    line(format!("{}, {}", summary.model, summary.backend))?;
    line(format!("on {}", summary.device))?;
    if summary.first > 0 {
        line(format!(
            "{} before the prompt (--frame {}) not tracked",
            counted(summary.first, "frame"),
            summary.first
        ))?;
    }
    line(format!("{:.1} FPS, {:.1} ms a frame", summary.fps, summary.frame_ms))?;
    if let Some(p50) = summary.later_p50_ms {
        let first = summary.first_frame_ms;
        line(format!("  prompted frame {first:.1} ms, median of the others {p50:.1} ms"))?;
    }
    line("  inside: resize, image encoder, prompt or track step, mask, memory encoder".to_owned())?;
    let decode = summary
        .decode_ms
        .map_or_else(|| "decoding".to_owned(), |ms| format!("decoding {ms:.1} ms"));
    line(format!(
        "  outside: {decode} and writing files {:.1} ms a frame; loading {:.1} s",
        summary.write_ms,
        summary.load_ms / 1e3
    ))?;
    for file in &summary.files {
        line(file.display().to_string())?;
    }
    if let Some(first) = summary.files.first() {
        let open = if first.is_dir() { first.join(first_file(job)) } else { first.clone() };
        line(format!("Open first: {}", open.display()))?;
    }
    Ok(())
}

/// The first picture in a folder of frames or masks.
fn first_file(job: &TrackJob) -> String {
    match job.overlay {
        Some(_) => vos::overlay::FIRST_FRAME.to_owned(),
        None => format!("{:05}.png", job.frame),
    }
}
