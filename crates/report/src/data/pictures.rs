/*!
Pictures of masks: of comparisons each side next to the reference, of runs the overlays of the worst,
the median and the best object.
*/

use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::compared::ComparedModel;
use super::group::Group;
use crate::compare::iou_format;
use crate::compare::judge::SideReport;
use crate::input::{ReadComparison, ResultRow, RunSource, Validity};
use vos::decode::RgbImage;
use vos::overlay::{FIRST_FRAME, THUMBNAIL_WIDTH, THUMBNAILS, jpeg, shrink};
use vos::record::ObjectKey;

/// Bytes of all pictures of a page. Base64 needs a third more, and a page should open in a second.
const BUDGET: usize = 2_200_000;
/// Overlays of a group: worst, median, best object.
const OBJECTS: usize = 3;
/// Beginnings of an object's title, in the order of the page.
const RANKS: [&str; OBJECTS] = ["worst: ", "median: ", "best: "];
/// Frames of an overlay: the prompted one, the last one and three between them.
const FRAMES: usize = 5;

/// All pictures.
#[derive(Debug, Default, Serialize)]
pub struct Gallery {
    /// Sides of comparisons, in the order of the models and sides.
    pub compared: Vec<Strip>,
    /// Objects of runs, in the order of the groups.
    pub runs: Vec<Strip>,
    /// Pictures that were left out because the page would be too large.
    pub omitted: usize,
    /// Pictures that could not be read, with the reason.
    pub problems: Vec<String>,
}

/// Pictures that belong together.
#[derive(Debug, Serialize)]
pub struct Strip {
    /// Index of the model in the report's comparisons, or of the group.
    pub of: usize,
    /// Its name.
    pub title: String,
    /// The pictures.
    pub pictures: Vec<Picture>,
}

/// One picture.
#[derive(Debug, Serialize)]
pub struct Picture {
    /// Words below it.
    pub caption: String,
    /// Its file.
    pub path: PathBuf,
    /// The picture as JPEG.
    #[serde(skip)]
    pub jpeg: Vec<u8>,
}

/// A picture that is there and not yet read.
struct Candidate {
    caption: String,
    path: PathBuf,
}

/// The strips of a report, as many as fit on a page.
pub fn gallery(
    comparisons: &[ReadComparison],
    models: &[ComparedModel],
    sources: &[RunSource],
    groups: &[Group],
    places: &[Vec<usize>],
) -> Gallery {
    let mut gallery = Gallery::default();
    let mut spent = 0;
    for (of, title, candidates) in compared(comparisons, models) {
        let pictures = gallery.read(candidates, &mut spent);
        if !pictures.is_empty() {
            gallery.compared.push(Strip { of, title, pictures });
        }
    }
    // First one object of every group, then the second ones.
    let objects = runs(sources, groups, places);
    for turn in 0..OBJECTS {
        for (of, of_group) in objects.iter().enumerate() {
            let Some((title, candidates)) = of_group.get(turn) else { continue };
            let candidates = candidates.iter();
            let copies =
                candidates.map(|c| Candidate { caption: c.caption.clone(), path: c.path.clone() });
            let pictures = gallery.read(copies.collect(), &mut spent);
            if !pictures.is_empty() {
                gallery.runs.push(Strip { of, title: title.clone(), pictures });
            }
        }
    }
    // Worst, median, best: the order of their J&F.
    gallery
        .runs
        .sort_by_key(|strip| (strip.of, RANKS.iter().position(|r| strip.title.starts_with(r))));
    gallery
}

impl Gallery {
    fn read(&mut self, candidates: Vec<Candidate>, spent: &mut usize) -> Vec<Picture> {
        let mut pictures = Vec::new();
        for Candidate { caption, path } in candidates {
            if *spent >= BUDGET {
                self.omitted += 1;
                continue;
            }
            match read(&path) {
                Ok(jpeg) => {
                    *spent += jpeg.len();
                    pictures.push(Picture { caption, path, jpeg });
                }
                Err(error) => self.problems.push(format!("{error:#}")),
            }
        }
        pictures
    }
}

/// The shown frames of every side; of comparisons of earlier releases the worst frame.
fn compared(
    comparisons: &[ReadComparison],
    models: &[ComparedModel],
) -> Vec<(usize, String, Vec<Candidate>)> {
    let mut strips = Vec::new();
    for read in comparisons {
        let folder = read.path.parent().unwrap_or(Path::new("."));
        for (model, side) in read.sides() {
            let own = |compared: &&ComparedModel| {
                compared.path == read.path.display().to_string() && compared.model == model.model
            };
            let Some(of) = models.iter().position(|compared| own(&compared)) else { continue };
            let named = models[of].sides.iter().find(|compared| compared.side == side.side);
            let title = named.map_or_else(|| side.side.clone(), |named| named.name.clone());
            let candidates = frames_of(folder, side);
            if !candidates.is_empty() {
                strips.push((of, title, candidates));
            }
        }
    }
    strips
}

fn frames_of(folder: &Path, side: &SideReport) -> Vec<Candidate> {
    let Some(equality) = &side.equality else { return Vec::new() };
    let place = |video: &str, object: &str, frame: usize, iou: f64| {
        format!("{video} object {object} frame {frame}, IoU {}", iou_format::frame(iou))
    };
    let small = equality.shown.iter().filter_map(|shown| {
        let path = folder.join(shown.picture.as_ref()?);
        let place = place(&shown.video, &shown.object, shown.frame, shown.iou);
        path.is_file()
            .then(|| Candidate { caption: format!("{}: {place}", shown.kind.as_str()), path })
    });
    let small: Vec<Candidate> = small.collect();
    if !small.is_empty() {
        return small;
    }
    let worst = equality.worst.as_ref().and_then(|worst| {
        let path = folder.join(worst.picture.as_ref()?);
        let place = place(&worst.video, &worst.object, worst.frame, worst.iou);
        path.is_file().then(|| Candidate { caption: format!("worst: {place}"), path })
    });
    worst.into_iter().collect()
}

/// Of each group up to three objects with an overlay: the median, the worst and the best by J&F.
fn runs(
    sources: &[RunSource],
    groups: &[Group],
    places: &[Vec<usize>],
) -> Vec<Vec<(String, Vec<Candidate>)>> {
    let mut of_group: Vec<Vec<(&ResultRow, Vec<PathBuf>)>> =
        groups.iter().map(|_| Vec::new()).collect();
    for (source, of_rows) in sources.iter().zip(places) {
        let folder = source.path.parent().unwrap_or(Path::new("."));
        let thumbnails = thumbnails(&folder.join(THUMBNAILS));
        for (row, group) in source.rows.iter().zip(of_rows) {
            if row.validity() == Validity::Unmeasured {
                continue;
            }
            let (video, object, tag) = row.key();
            let key = ObjectKey { video: video.into(), object: object.into(), tag: tag.into() };
            let stem = key.file_stem();
            let mut files = thumbnails.get(&stem).cloned().unwrap_or_default();
            if files.is_empty() {
                files = frames_in(&folder.join(&stem));
            }
            let is_new = of_group[*group].iter().all(|(known, _)| known.key() != row.key());
            if !files.is_empty() && is_new {
                of_group[*group].push((row, files));
            }
        }
    }
    of_group.into_iter().map(chosen).collect()
}

fn chosen(mut objects: Vec<(&ResultRow, Vec<PathBuf>)>) -> Vec<(String, Vec<Candidate>)> {
    let quality = |row: &ResultRow| row.number("JandF").unwrap_or(f64::INFINITY);
    objects.sort_by(|a, b| quality(a.0).total_cmp(&quality(b.0)));
    let last = objects.len().saturating_sub(1);
    let mut chosen = vec![(last / 2, "median"), (0, "worst"), (last, "best")];
    let mut seen = Vec::new();
    chosen.retain(|(at, _)| {
        let is_new = !seen.contains(at);
        seen.push(*at);
        is_new
    });
    let alone = objects.len() == 1;
    let strip = |(at, word): (usize, &str)| {
        let (row, files) = objects.get(at)?;
        let (video, object, _) = row.key();
        let quality = row.number("JandF").map(|jf| format!(", J&F {:.1} %", 100.0 * jf));
        let word = if alone { String::new() } else { format!("{word}: ") };
        let title = format!("{word}{video} object {object}{}", quality.unwrap_or_default());
        let candidates = files.iter().map(|path| Candidate {
            caption: format!("frame {}", frame_of(path)),
            path: path.clone(),
        });
        Some((title, candidates.collect()))
    };
    chosen.into_iter().filter_map(strip).collect()
}

/// The small pictures of a run by the stem of their object, in the order of their frames.
fn thumbnails(folder: &Path) -> HashMap<String, Vec<PathBuf>> {
    let mut found: HashMap<String, Vec<PathBuf>> = HashMap::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for path in entries.map(|entry| entry.path()) {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if let Some((object, _)) = stem.and_then(|stem| stem.rsplit_once("__")) {
            found.entry(object.to_owned()).or_default().push(path);
        }
    }
    found.values_mut().for_each(|files| files.sort());
    found
}

/// Five frames of an overlay that was written as PNG files.
fn frames_in(folder: &Path) -> Vec<PathBuf> {
    if !folder.join(FIRST_FRAME).is_file() {
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "png"));
    files.sort();
    let last = files.len() - 1;
    let mut places: Vec<usize> = (0..FRAMES).map(|at| last * at / (FRAMES - 1)).collect();
    places.dedup();
    places.into_iter().map(|at| files[at].clone()).collect()
}

/// The number at the end of a file's stem.
fn frame_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let digits = stem.rsplit("__").next().unwrap_or_default();
    digits.parse::<usize>().map_or_else(|_| digits.to_owned(), |frame| frame.to_string())
}

/// A small JPEG as it is, a PNG made small.
fn read(path: &Path) -> Result<Vec<u8>> {
    let context = || format!("the picture {} cannot be read", path.display());
    if path.extension().is_some_and(|extension| extension == "jpg") {
        let bytes = std::fs::read(path).with_context(context)?;
        if !bytes.starts_with(&[0xff, 0xd8]) {
            bail!("{} is no JPEG", path.display());
        }
        return Ok(bytes);
    }
    let file = BufReader::new(File::open(path).with_context(context)?);
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().with_context(context)?;
    let size = reader.output_buffer_size().with_context(context)?;
    let mut data = vec![0; size];
    let info = reader.next_frame(&mut data).with_context(context)?;
    if info.color_type != png::ColorType::Rgb {
        bail!("the picture {} has {:?} pixels, expected RGB", path.display(), info.color_type);
    }
    data.truncate(info.buffer_size());
    let image = RgbImage { width: info.width as usize, height: info.height as usize, data };
    // Four panels of a worst frame lie next to each other.
    let panels = (image.width / image.height.max(1)).clamp(1, 4);
    jpeg(&shrink(&image, panels * THUMBNAIL_WIDTH)).with_context(context)
}
