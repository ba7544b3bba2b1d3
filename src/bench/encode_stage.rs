/*!
The encode stage: the overlay or the masks of a pass, written frame by frame while it runs.

Inside, the thread that takes a frame's mask encodes it, and the frame's time includes that. Beside,
another thread does, behind a short queue. A frame is encoded when its file has its bytes, or when
ffmpeg has taken them: ffmpeg compresses in its own process and takes no more when it is slow.
*/

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use super::clip_run::ClipPass;
use super::object_error::ObjectError;
use super::plan::BenchPlan;
use super::runner::{ClipRunner, ObjectFrame, PassRequest};
use vos::ffmpeg::Ffmpeg;
use vos::geometry::Geometry;
use vos::mask::Mask;
use vos::overlay::{ObjectLayer, OverlayWriter, paint_objects};
use vos::palette_png;
use vos::ranges::within;
use vos::record::{EncodeOutput, EncodePlace, EncodeStage, FrameTime, ObjectKey, ms_between};
use vos::stage::Stage;

/// Ends the name of the file or folder.
const SUFFIX: &str = "__encoded";
/// Begins the name of the temporary folder, as an overlay's.
const UNFINISHED: &str = ".overlay_";
/// Folder of the masks inside it while they are written.
const FRAMES: &str = "frames";
/// Frames that wait for the thread beside. The pass waits when it is full.
const QUEUE: usize = 8;
/// Opacity of the overlay's masks.
const OPACITY: f32 = 0.5;

/// What is encoded, and where to.
#[derive(Clone, Copy, Debug)]
pub struct EncodePlan<'a> {
    /// Output and place.
    pub stage: EncodeStage,
    /// Folder of the run.
    pub out_dir: &'a Path,
    /// Width and height of the clip, pixels.
    pub size: (usize, usize),
    /// Every how many frames of the clip one is run.
    pub stride: usize,
    /// Keep the file; a later pass over the same frames only takes the time.
    pub keep: bool,
}

impl<'a> EncodePlan<'a> {
    /// Of recorded pass number `run`; none where the bench encodes nothing.
    pub fn of(plan: &'a BenchPlan, geometry: &Geometry, run: usize) -> Option<Self> {
        Some(Self {
            stage: plan.encode?,
            out_dir: &plan.out_dir,
            size: geometry.video_size(),
            stride: plan.strides.input,
            // The passes are the same computation.
            keep: run == 0,
        })
    }
}

/// The file stem of the objects of a pass, which share one file.
pub fn stem_of(keys: &[&ObjectKey]) -> Option<String> {
    let first = *keys.first()?;
    let names: Vec<&str> = keys.iter().map(|key| key.object.as_str()).collect();
    let key = ObjectKey { object: names.join("+"), ..first.clone() };
    Some(format!("{}{SUFFIX}", key.file_stem()))
}

/// Runs a recorded pass as [`ClipRunner::run_pass`] and encodes each of its frames; also returns
/// the file or folder that was kept.
///
/// # Errors
/// The pass fails, a frame has no pixels on the host, or a file cannot be written.
pub fn run_pass(
    runner: &mut dyn ClipRunner,
    request: PassRequest<'_>,
    stem: &str,
    plan: EncodePlan<'_>,
    keep: &dyn Fn(usize, usize) -> bool,
    progress: &mut dyn FnMut(),
) -> Result<(Vec<ClipPass>, Option<PathBuf>), ObjectError> {
    let mut encoder = Encoder::start(Sink::create(plan, stem)?, plan)?;
    let mut masks: Vec<Vec<(usize, Mask)>> = vec![Vec::new(); request.objects.len()];
    let mut waiting: Vec<(usize, Mask)> = Vec::new();
    let mut take = |frame: ObjectFrame, pixels: Option<&[u8]>| {
        let ObjectFrame { object, index, mask, times, mask_at, .. } = frame;
        let mask = mask.context("a frame to encode came without its mask")?;
        if let Some(kept) = masks.get_mut(object).filter(|_| keep(object, index)) {
            kept.push((index, mask.clone()));
        }
        waiting.push((object, mask));
        if waiting.len() == times.objects.unwrap_or(1) {
            let masks = std::mem::take(&mut waiting);
            let interval_ms = times.time.ms();
            encoder.frame(Job { index, masks, mask_at, interval_ms }, pixels)?;
        }
        progress();
        Ok(())
    };
    let ran = runner.stream_pass(request, 1, &|_, _| true, &mut take);
    // An encoder that failed ended the pass, and has the reason.
    let (encoded, sink) = encoder.end()?;
    let mut passes = ran?;
    for (pass, masks) in passes.iter_mut().zip(masks) {
        pass.masks = masks;
        add_times(pass, &encoded, plan.stage.place);
    }
    // An unfinished file is removed.
    let path = plan.keep.then(|| sink.finish()).transpose()?;
    Ok((passes, path))
}

/// A frame with the masks of its objects.
struct Job {
    index: usize,
    masks: Vec<(usize, Mask)>,
    mask_at: Instant,
    /// The frame's time without its encoding, ms.
    interval_ms: f64,
}

/// A frame that is encoded.
struct Encoded {
    index: usize,
    mask_at: Instant,
    interval_ms: f64,
    begun: Instant,
    done: Instant,
}

/// Brings the encode stage into the times of a pass, whose frames are a part of `encoded`.
fn add_times(pass: &mut ClipPass, encoded: &[Encoded], place: EncodePlace) {
    let mut at = 0;
    for times in &mut pass.times {
        let Some(found) = encoded[at..].iter().position(|one| one.index == times.frame) else {
            continue;
        };
        at += found;
        let Encoded { mask_at, interval_ms, begun, done, .. } = encoded[at];
        let encode_ms = ms_between(begun, done);
        times.stages[Stage::Encode] = Some(encode_ms);
        if let Some(ms) = &mut times.end_to_end_ms {
            *ms += ms_between(mask_at, done);
        }
        match (place, times.time) {
            (EncodePlace::Beside, _) => times.encoded_beside = true,
            (EncodePlace::Inside, FrameTime::Latency(ms)) => {
                times.time = FrameTime::Latency(ms + encode_ms);
            }
            // From encoded frame to encoded frame; the first from the beginning of the pass.
            (EncodePlace::Inside, FrameTime::Interval(_) | FrameTime::Lane { .. }) => {
                let before = at.checked_sub(1).map(|before| encoded[before].done);
                times.time = FrameTime::Interval(match before {
                    Some(before) => ms_between(before, done),
                    None => interval_ms + ms_between(mask_at, done),
                });
            }
        }
    }
}

/// Encodes on this thread or on another.
enum Encoder {
    Here { sink: Sink, encoded: Vec<Encoded> },
    Thread { jobs: SyncSender<(Job, Vec<u8>)>, free: Receiver<Vec<u8>>, thread: Worker },
}

type Worker = JoinHandle<Result<(Vec<Encoded>, Sink)>>;

impl Encoder {
    fn start(mut sink: Sink, plan: EncodePlan<'_>) -> Result<Self> {
        if plan.stage.place == EncodePlace::Inside {
            return Ok(Self::Here { sink, encoded: Vec::new() });
        }
        let (jobs, queue) = sync_channel::<(Job, Vec<u8>)>(QUEUE);
        let (give, free) = channel();
        let body = move || {
            let mut encoded = Vec::new();
            for (job, pixels) in queue {
                encoded.push(sink.encode(job, &pixels)?);
                // The pass may have ended.
                let _ = give.send(pixels);
            }
            Ok((encoded, sink))
        };
        let thread = std::thread::Builder::new().name("encode".to_owned()).spawn(body);
        let thread = thread.context("no thread to encode on")?;
        Ok(Self::Thread { jobs, free, thread })
    }

    fn frame(&mut self, job: Job, pixels: Option<&[u8]>) -> Result<()> {
        match self {
            Self::Here { sink, encoded } => {
                encoded.push(sink.encode(job, pixels.unwrap_or_default())?);
                Ok(())
            }
            Self::Thread { jobs, free, .. } => {
                // The pass lends its pixels only until this returns.
                let mut copy = free.try_recv().unwrap_or_default();
                copy.clear();
                copy.extend_from_slice(pixels.unwrap_or_default());
                jobs.send((job, copy)).map_err(|_| anyhow!("the encode thread ended early"))
            }
        }
    }

    /// The encoded frames, when all are.
    fn end(self) -> Result<(Vec<Encoded>, Sink)> {
        match self {
            Self::Here { sink, encoded } => Ok((encoded, sink)),
            Self::Thread { jobs, thread, .. } => {
                drop(jobs);
                thread.join().map_err(|_| anyhow!("the encode thread panicked"))?
            }
        }
    }
}

/// Takes frames in order.
struct Sink {
    size: (usize, usize),
    target: Target,
}

enum Target {
    Overlay(OverlayWriter),
    Masks { temporary: tempfile::TempDir, path: PathBuf },
}

impl Sink {
    fn create(plan: EncodePlan<'_>, stem: &str) -> Result<Self> {
        let EncodePlan { stage, out_dir, size, stride, .. } = plan;
        let target = match stage.output {
            EncodeOutput::Overlay => {
                let ffmpeg = Ffmpeg::find().ok();
                Target::Overlay(OverlayWriter::named(ffmpeg, out_dir, stem, size, stride)?)
            }
            EncodeOutput::Masks => {
                let temporary = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(out_dir);
                let temporary = temporary
                    .and_then(|dir| std::fs::create_dir(dir.path().join(FRAMES)).map(|()| dir))
                    .with_context(|| format!("cannot write masks into {}", out_dir.display()))?;
                Target::Masks { temporary, path: out_dir.join(stem) }
            }
        };
        Ok(Self { size, target })
    }

    fn encode(&mut self, job: Job, pixels: &[u8]) -> Result<Encoded> {
        let Job { index, masks, mask_at, interval_ms } = job;
        let begun = Instant::now();
        within(Stage::Encode, || self.write(index, &masks, pixels))?;
        Ok(Encoded { index, mask_at, interval_ms, begun, done: Instant::now() })
    }

    fn write(&mut self, index: usize, masks: &[(usize, Mask)], pixels: &[u8]) -> Result<()> {
        let id = |object: usize| u8::try_from(object + 1).unwrap_or(u8::MAX);
        let masks: Vec<(u8, &Mask)> = masks.iter().map(|(at, mask)| (id(*at), mask)).collect();
        match &mut self.target {
            Target::Overlay(writer) => writer.write_with(pixels, |rgb, size| {
                let layers = masks.iter().map(|&(id, mask)| ObjectLayer {
                    id,
                    mask,
                    truth: None,
                    prompt: None,
                });
                paint_objects(rgb, size, &layers.collect::<Vec<_>>(), OPACITY);
            }),
            Target::Masks { temporary, .. } => {
                let path = temporary.path().join(FRAMES).join(format!("{index:05}.png"));
                let wrong = || format!("cannot write {}", path.display());
                let mut out = BufWriter::new(File::create(&path).with_context(wrong)?);
                palette_png::encode(&mut out, self.size, &masks).with_context(wrong)?;
                out.flush().with_context(wrong)
            }
        }
    }

    fn finish(self) -> Result<PathBuf> {
        match self.target {
            Target::Overlay(writer) => writer.finish(),
            Target::Masks { temporary, path } => {
                let cannot = || format!("cannot replace {}", path.display());
                if path.is_dir() {
                    std::fs::remove_dir_all(&path).with_context(cannot)?;
                }
                std::fs::rename(temporary.path().join(FRAMES), &path).with_context(cannot)?;
                Ok(path)
            }
        }
    }
}

#[cfg(test)]
mod tests;
