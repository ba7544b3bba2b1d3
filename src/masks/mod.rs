/*!
The masks of a run in the layout of the evaluation servers: `Annotations/<clip>/<frame>.png`, an
indexed PNG with all objects of the frame.

A run has one mask file for each object, since objects may be measured one after another. Here they
are merged. In SA-V's layout each object keeps its folder.
*/

mod layers;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use clap::ValueEnum as _;

use layers::Layer;
use report::compare::runs::{RunFolder, SummaryRow};
use vos::dataset::{Clip, Dataset};
use vos::files::LOGITS;
use vos::geometry::{Geometry, GeometryKind};
use vos::logits::{self, LogitsFile};
use vos::palette_png;

/// Folder of the masks in the output folder.
pub const ANNOTATIONS: &str = "Annotations";

/// What was written.
#[derive(Debug, Default, PartialEq)]
pub struct Written {
    /// Clips.
    pub clips: usize,
    /// Objects.
    pub objects: usize,
    /// PNG files.
    pub files: usize,
    /// Frames without a mask of any object after the first one: the run left them out.
    pub left_out: usize,
    /// Pixels that several objects claimed.
    pub contested: usize,
    /// Objects without masks, with clip and status.
    pub lost: Vec<String>,
    /// All objects had logits, so the higher logit had each contested pixel.
    pub by_logit: bool,
}

/// Writes the masks of `model` in `run` below `out`, which must be empty or missing.
///
/// # Errors
/// A file of the run or the split cannot be read, they do not belong together, or a file cannot be
/// written.
pub fn write(run: &RunFolder, model: &str, split: &dyn Dataset, out: &Path) -> Result<Written> {
    let used = out.exists() && out.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    ensure!(!used, "{} is not empty; name another folder with --out, or remove it", out.display());
    let mut written = Written { by_logit: true, ..Written::default() };
    let mut clips: Vec<(&str, Vec<&SummaryRow>)> = Vec::new();
    for row in run.rows.iter().filter(|row| row.model == model) {
        if row.status != "ok" {
            let SummaryRow { video, object, status, reason, .. } = row;
            written.lost.push(format!("{video} object {object}: {status}, {reason}"));
            continue;
        }
        match clips.iter_mut().find(|(video, _)| *video == row.video) {
            Some((_, rows)) => rows.push(row),
            None => clips.push((&row.video, vec![row])),
        }
    }
    for (video, rows) in clips {
        let clip = split.clip(video)?;
        let geometry = geometry(&clip, rows[0])?;
        let layers: Vec<Layer> = rows.iter().map(|row| layer(run, row)).collect::<Result<_>>()?;
        let folder = out.join(ANNOTATIONS).join(video);
        written.by_logit &= layers.iter().all(|layer| layer.logits.is_some());
        if split.has_object_folders() {
            write_each(&clip, &layers, &geometry, &folder, &mut written)?;
        } else {
            write_merged(&clip, layers, &geometry, &folder, &mut written)?;
        }
        written.clips += 1;
        written.objects += rows.len();
    }
    ensure!(
        written.clips > 0,
        "{} has no mask of {model}: {}; measure again with --save-masks",
        run.path.display(),
        written.lost.first().map_or("no row", String::as_str)
    );
    Ok(written)
}

/// The mapping from the network's logits to the clip's pixels in the run.
fn geometry(clip: &Clip, row: &SummaryRow) -> Result<Geometry> {
    let (width, height) = clip.frame_size()?;
    let kind = GeometryKind::from_str(&row.geometry, false);
    let (Ok(kind), Ok(side)) = (kind, row.imgsz.parse()) else {
        bail!(
            "the row of {} has geometry {:?} and image size {:?}; expected stretch or letterbox \
             and a side in pixels",
            row.video,
            row.geometry,
            row.imgsz
        );
    };
    Ok(Geometry::new(kind, width, height, side))
}

/// The masks of an object, and its logits if the run saved them.
fn layer(run: &RunFolder, row: &SummaryRow) -> Result<Layer> {
    let key = row.key();
    let path = run.path.join(LOGITS).join(logits::file_name(&key));
    let logits = if path.is_file() { Some(LogitsFile::read(&path)?) } else { None };
    Layer::new(&row.object, run.masks(&key)?, logits)
        .with_context(|| format!("{}: object {} of {}", run.path.display(), row.object, row.video))
}

/// A PNG for each frame and object, 1 where the object is.
fn write_each(
    clip: &Clip,
    layers: &[Layer],
    geometry: &Geometry,
    folder: &Path,
    written: &mut Written,
) -> Result<()> {
    for layer in layers {
        let folder = folder.join(&layer.name);
        make(&folder)?;
        for index in layer.frames() {
            let Some(mask) = layer.mask(index)? else { continue };
            let path = file(clip, index, &folder)?;
            palette_png::write(&path, geometry.video_size(), &[(1, &mask)])?;
            written.files += 1;
        }
    }
    Ok(())
}

/// A PNG for each frame from the clip's first one on. Before the first prompt it shows nothing.
fn write_merged(
    clip: &Clip,
    layers: Vec<Layer>,
    geometry: &Geometry,
    folder: &Path,
    written: &mut Written,
) -> Result<()> {
    let mut layers: Vec<(u8, Layer)> =
        layers.into_iter().map(|layer| Ok((layer.id()?, layer))).collect::<Result<_>>()?;
    layers.sort_by_key(|(id, _)| *id);
    make(folder)?;
    let begins = layers.iter().filter_map(|(_, layer)| layer.frames().next()).min();
    let last = layers.iter().filter_map(|(_, layer)| layer.frames().last()).max();
    // An index past the clip's end is an error that names the clip.
    for index in 0..clip.frames.len().max(last.map_or(0, |last| last + 1)) {
        let has_any = layers.iter().any(|(_, layer)| layer.has(index));
        if !has_any && begins.is_some_and(|begins| index >= begins) {
            written.left_out += 1;
            continue;
        }
        let path = file(clip, index, folder)?;
        let (ids, contested) = layers::merge(&layers, index, geometry)?;
        palette_png::write_ids(&path, geometry.video_size(), &ids)?;
        written.contested += contested;
        written.files += 1;
    }
    Ok(())
}

/// The file of frame `index` below `folder`: the stem of its JPEG, or its number in a video file.
fn file(clip: &Clip, index: usize, folder: &Path) -> Result<PathBuf> {
    let path = clip.frame_path(index).context("the run has other frames than the split")?;
    let stem = match clip.frames.decoder() {
        Some(_) => format!("{index:05}"),
        None => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    Ok(folder.join(format!("{stem}.png")))
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make {}; choose a writable --out", folder.display()))
}
