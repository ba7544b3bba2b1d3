/*!
The files of a clip, written frame by frame: palette masks, a line for each object, the overlay.

A clip that breaks off keeps what was written until then.
*/

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::job::{LINES, MASKS, OVERLAY, OverlayStyle, TrackJob};
use super::truth;
use crate::bench::runner::ObjectFrame;
use host::UsageError;
use vos::dataset::{Clip, ObjectTruth};
use vos::ffmpeg::Ffmpeg;
use vos::files::set_aside_together;
use vos::mask::{Mask, PixelBox};
use vos::overlay::{Corner, ObjectLayer, OverlayWriter, paint_objects, paint_text};
use vos::palette_png;
use vos::prompt::Prompt;
use vos::ranges;
use vos::stage::Stage;

/// Frames that show the prompt, the prompted one included. Objects soon leave the place of their
/// click.
const PROMPT_SHOWN: usize = 6;
/// Frames whose mean is the rate in the corner.
const RATE_OVER: usize = 24;

/// One object on one frame, as a line of the file.
#[derive(Serialize)]
struct Line {
    frame: usize,
    object: u8,
    /// Above 0 the object counts as visible.
    objectness: f32,
    predicted_iou: f32,
    area: usize,
    /// Inclusive corners of the mask: left, top, right, bottom.
    #[serde(rename = "box")]
    corners: Option<[usize; 4]>,
    /// Time of the frame, which its objects share.
    ms: f64,
}

/// The files of one clip.
pub struct Output<'a> {
    job: &'a TrackJob,
    clip: &'a Clip,
    size: (usize, usize),
    prompts: &'a [Prompt],
    truths: Vec<Option<ObjectTruth>>,
    lines: BufWriter<File>,
    overlay: Option<(OverlayWriter, OverlayStyle)>,
    recent_ms: VecDeque<f64>,
    /// Frames that are written.
    pub frames: usize,
    /// Time that writing took, ms.
    pub write_ms: f64,
}

impl<'a> Output<'a> {
    /// Makes the folder. Files of an earlier `track` in it are set aside.
    ///
    /// # Errors
    /// The folder has other files, or cannot be written to.
    pub fn create(
        job: &'a TrackJob,
        clip: &'a Clip,
        size: (usize, usize),
        prompts: &'a [Prompt],
    ) -> Result<Self> {
        let truths = job.objects.iter().map(|object| {
            object.truth.as_deref().map(|dir| truth::open(object.id, dir)).transpose()
        });
        let truths = truths.collect::<Result<_>>()?;
        prepare(&job.out)?;
        let path = job.out.join(LINES);
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let overlay = job.overlay.map(|style| {
            let writer = OverlayWriter::named(Ffmpeg::find().ok(), &job.out, OVERLAY, size, 1)?;
            anyhow::Ok((writer, style))
        });
        Ok(Self {
            job,
            clip,
            size,
            prompts,
            truths,
            lines: BufWriter::new(file),
            overlay: overlay.transpose()?,
            recent_ms: VecDeque::new(),
            frames: 0,
            write_ms: 0.0,
        })
    }

    /// Writes all objects of frame `index`, in their order. `pixels` is the frame, interleaved RGB;
    /// without them it is decoded for the overlay.
    ///
    /// # Errors
    /// A file cannot be written, or the frame cannot be decoded for the overlay.
    pub fn frame(
        &mut self,
        index: usize,
        objects: &[ObjectFrame],
        pixels: Option<&[u8]>,
    ) -> Result<()> {
        let _encode = ranges::enter(Stage::Encode);
        let started = Instant::now();
        let seen = self.job.objects.iter().zip(objects);
        let masks: Vec<(u8, &Mask)> =
            seen.clone().filter_map(|(o, frame)| Some((o.id, frame.mask.as_ref()?))).collect();
        let path = self.job.out.join(MASKS).join(format!("{index:05}.png"));
        palette_png::write(&path, self.size, &masks)?;
        for (object, frame) in seen {
            let Some(mask) = &frame.mask else { continue };
            let corners = mask.extents();
            let line = Line {
                frame: index,
                object: object.id,
                objectness: frame.objectness,
                predicted_iou: frame.predicted_iou,
                area: mask.area(),
                corners: corners
                    .map(|PixelBox { x_min, y_min, x_max, y_max }| [x_min, y_min, x_max, y_max]),
                ms: (frame.times.time.ms() * 1e3).round() / 1e3,
            };
            serde_json::to_writer(&mut self.lines, &line)?;
            self.lines.write_all(b"\n")?;
        }
        // A run that is killed keeps its lines.
        self.lines.flush().with_context(|| format!("cannot write {LINES}"))?;
        let ms = objects.first().map_or(0.0, |frame| frame.times.time.ms());
        self.recent_ms.push_back(ms);
        if self.recent_ms.len() > RATE_OVER {
            self.recent_ms.pop_front();
        }
        self.paint(index, &masks, pixels)?;
        self.frames += 1;
        self.write_ms += started.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }

    /// Frames per second of the network over the latest frames.
    pub fn rate(&self) -> f64 {
        let sum: f64 = self.recent_ms.iter().sum();
        if sum > 0.0 { 1e3 * self.recent_ms.len() as f64 / sum } else { 0.0 }
    }

    fn paint(&mut self, index: usize, masks: &[(u8, &Mask)], pixels: Option<&[u8]>) -> Result<()> {
        let rate = self.rate();
        let Some((writer, style)) = &mut self.overlay else { return Ok(()) };
        let decoded;
        let pixels = match pixels {
            Some(pixels) => pixels,
            // The GPU decoded it.
            None => {
                decoded = self.clip.frame(index, self.size)?;
                &decoded.data
            }
        };
        let truths: Vec<Option<Mask>> = self
            .truths
            .iter()
            .map(|known| truth::mask(known.as_ref()?, index, self.size))
            .collect();
        let shown = index < self.job.frame + PROMPT_SHOWN;
        let layers = masks.iter().zip(&truths).zip(self.prompts);
        let layers: Vec<ObjectLayer<'_>> = layers
            .map(|(((id, mask), truth), prompt)| ObjectLayer {
                id: *id,
                mask,
                truth: truth.as_ref(),
                prompt: shown.then_some(prompt),
            })
            .collect();
        let legend = self.truths.iter().any(Option::is_some);
        writer.write_with(pixels, |rgb, size| {
            paint_objects(rgb, size, &layers, style.opacity);
            if style.fps {
                paint_text(rgb, size, &format!("{rate:.1} FPS"), Corner::TopLeft);
            }
            if legend {
                let prompt = if shown { "disc: click  " } else { "" };
                let text = format!("{prompt}colour: mask  white line: true outline");
                paint_text(rgb, size, &text, Corner::BottomLeft);
            }
        })
    }

    /// Completes the files; returns those that there are, the one to open first in front.
    ///
    /// # Errors
    /// The overlay cannot be completed.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        self.lines.flush().with_context(|| format!("cannot write {LINES}"))?;
        let mut files = Vec::new();
        if self.frames > 0 {
            let overlay = self.overlay.take().map(|(writer, _)| writer.finish()).transpose()?;
            files.extend(overlay);
            files.extend([self.job.out.join(MASKS), self.job.out.join(LINES)]);
        }
        Ok(files)
    }
}

/// Makes the folder. What an earlier `track` wrote there is set aside, as a bench does, and said.
fn prepare(out: &Path) -> Result<()> {
    let place = || format!("cannot write into {}; choose another --out", out.display());
    let used = out.exists() && std::fs::read_dir(out).with_context(place)?.next().is_some();
    if used && !out.join(LINES).is_file() {
        bail!(UsageError(format!(
            "--out {} is not empty and not of an earlier track (it has no {LINES}); name another folder",
            out.display()
        )));
    }
    let film = format!("{OVERLAY}{}", vos::overlay::FILM);
    if used && let Some(kept) = set_aside_together(out, &[LINES, MASKS, OVERLAY, &film])? {
        log::warn!("{kept}");
    }
    std::fs::create_dir_all(out.join(MASKS)).with_context(place)
}
