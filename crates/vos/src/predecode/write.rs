/*!
Writes one clip to a file of predecoded frames.

The number of frames in memory is limited for any length of the clip. The file gets its name when it
is complete.
*/

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use half::f16;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::format::{Header, file_name};
use super::read::{PreparedClip, source_of};
use crate::dataset::{Clip, ClipError};
use crate::files::atomic;
use crate::geometry::{Geometry, GeometryKind};
use crate::preprocess::{IMAGENET_MEAN, IMAGENET_STD, Preprocessor, tables};
use crate::stored_values::Values;

/// Age at which temporary files of a killed run are removed; a younger one may belong to a current
/// run.
const LITTER_AGE: Duration = Duration::from_secs(3600);

/// Settings of predecoding.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Side of the network's input, pixels.
    pub side: usize,
    /// How the video is fitted into it.
    pub geometry: GeometryKind,
    /// Kind of the stored values.
    pub values: Values,
    /// Most frames in memory at once, at least 1.
    pub frames_in_memory: usize,
    /// Also replace files that are up to date.
    pub force: bool,
}

/// Result for a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClipOutcome {
    /// Its file was written.
    Written,
    /// Its file existed, complete and from the same source.
    UpToDate,
}

/// A predecoded clip.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its file.
    pub path: PathBuf,
    /// Frames in it.
    pub frames: usize,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Whether it was written now.
    pub outcome: ClipOutcome,
    /// Why an existing file was replaced.
    pub why: Option<String>,
    /// Time including checks.
    pub took: Duration,
}

/// Writes the file of `clip` into `dir` unless it is up to date. `progress` gets the number of
/// finished frames.
///
/// A frame cannot be read, or the file cannot be written; an existing file stays.
pub fn predecode(
    clip: &Clip,
    dir: &Path,
    options: &Options,
    progress: &mut dyn FnMut(usize),
) -> Result<Done> {
    let begun = Instant::now();
    let (width, height) = clip.frame_size()?;
    let geometry = Geometry::new(options.geometry, width, height, options.side);
    let normalisation = [IMAGENET_MEAN, IMAGENET_STD];
    let frames = clip.frames.len();
    let header = Header::new(clip, &geometry, options.values, normalisation, source_of(clip)?);
    let path = dir.join(file_name(&clip.video, options.side, options.geometry, options.values));
    let bytes = header.file_bytes().context("the frames are too large to be stored")? as u64;
    let why = match path.exists() && !options.force {
        true => outdated(&path, &header),
        false => None,
    };
    let done = |outcome, why| Done {
        path: path.clone(),
        frames,
        bytes,
        outcome,
        why,
        took: begun.elapsed(),
    };
    if path.exists() && !options.force && why.is_none() {
        return Ok(done(ClipOutcome::UpToDate, None));
    }
    // A frame that cannot be read is not a write error, so the message must not be "check that
    // there is space left".
    let mut unreadable = None;
    let written = atomic::write(&path, |out| {
        let mut out = Hashing { out, hasher: Sha256::new() };
        out.write_all(&header.to_bytes()?)?;
        let indices: Vec<usize> = (0..frames).collect();
        for some in indices.chunks(options.frames_in_memory.max(1)) {
            let ready = some.par_iter().map_init(
                || Preprocessor::new(&geometry, IMAGENET_MEAN, IMAGENET_STD),
                |preprocessor, &index| frame(clip, index, preprocessor, options.values),
            );
            let ready = match ready.collect::<Result<Vec<_>>>() {
                Ok(ready) => ready,
                Err(error) => {
                    unreadable = Some(error);
                    anyhow::bail!("a frame could not be read");
                }
            };
            for planes in ready {
                out.write_all(&planes)?;
            }
            progress(some.last().map_or(0, |last| last + 1));
        }
        let digest = out.hasher.finalize();
        Ok(out.out.write_all(&digest)?)
    });
    if let Some(error) = unreadable {
        return Err(error);
    }
    written?;
    Ok(done(ClipOutcome::Written, why))
}

/// Why the existing file is unusable; `None` if it is usable.
fn outdated(path: &Path, wanted: &Header) -> Option<String> {
    let whole = |prepared: PreparedClip| match prepared.header.differs(wanted) {
        Some(what) => Some(what),
        None => prepared.verify().err().map(|error| error.to_string()),
    };
    PreparedClip::open(path).map_or_else(|error| Some(error.to_string()), whole)
}

/// The stored bytes of one frame.
fn frame(
    clip: &Clip,
    index: usize,
    preprocessor: &mut Preprocessor,
    values: Values,
) -> Result<Vec<u8>> {
    let size = preprocessor.geometry().video_size();
    let image = clip.frame(index, size)?;
    let mut planes = Vec::new();
    preprocessor.planes(&image, &mut planes).map_err(|error| {
        let path = clip.frames.file(index).unwrap_or(Path::new("")).to_owned();
        ClipError::FrameSizeChange { path, found: error.found, expected: error.expected }
    })?;
    if values == Values::U8 {
        return Ok(planes);
    }
    let tables = tables(IMAGENET_MEAN, IMAGENET_STD);
    let halves = tables.map(|table| table.map(|value| f16::from_f32(value).to_le_bytes()));
    let plane = planes.len() / 3;
    let mut bytes = Vec::with_capacity(2 * planes.len());
    for (plane, table) in planes.chunks_exact(plane).zip(&halves) {
        bytes.extend(plane.iter().flat_map(|&byte| table[usize::from(byte)]));
    }
    Ok(bytes)
}

/// Removes temporary files that killed runs left in `dir`.
pub fn remove_litter(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !(name.starts_with(".segtrt-") && name.ends_with(".tmp")) {
            continue;
        }
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let age = modified.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age > LITTER_AGE) {
            log::info!("removing {}, which a killed run left", entry.path().display());
            if let Err(error) = std::fs::remove_file(entry.path()) {
                log::warn!("cannot remove {}: {error}", entry.path().display());
            }
        }
    }
}

/// Hashes all written bytes.
struct Hashing<W> {
    out: W,
    hasher: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
