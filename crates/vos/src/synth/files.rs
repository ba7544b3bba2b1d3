/*!
Writes the files of a synthetic split without overwriting other files.
*/

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::scene::View;
use super::{SPLIT_NAME, SynthOptions};

/// Marks a directory as written by this program, with the options.
const MARKER: &str = "synth.json";
const FRAMES: &str = "JPEGImages_24fps";
const MASKS: &str = "Annotations_6fps";
const JPEG_QUALITY: u8 = 90;

/// The directory of a split that is being written.
pub(super) struct Split {
    root: PathBuf,
}

impl Split {
    /// Creates the directory, or empties one from an earlier call.
    pub fn prepare(options: &SynthOptions) -> Result<Self> {
        let root = options.out.clone();
        fs::create_dir_all(&root)
            .with_context(|| format!("cannot create the split directory {}", root.display()))?;
        let marker = root.join(MARKER);
        let listing = || format!("cannot list {}", root.display());
        let used = fs::read_dir(&root).with_context(listing)?.next().is_some();
        if used && !marker.is_file() {
            bail!(
                "{} is not empty and was not written by `segtrt synth` (it has no {MARKER}); \
                 choose another --out or empty it yourself",
                root.display()
            );
        }
        for name in [FRAMES, MASKS] {
            let dir = root.join(name);
            if dir.exists() {
                fs::remove_dir_all(&dir)
                    .with_context(|| format!("cannot remove the old {}", dir.display()))?;
            }
        }
        let split = Self { root };
        let &SynthOptions { videos, objects, frames, width, height, seed, alike, .. } = options;
        let about = json!({
            "videos": videos, "objects": objects, "frames": frames,
            "width": width, "height": height, "seed": seed, "alike": alike,
        });
        split.write(Path::new(MARKER), |file| Ok(writeln!(file, "{about:#}")?))?;
        split.write(&manifest(), |_| Ok(()))?;
        Ok(split)
    }

    pub fn start_video(&self, video: &str, objects: usize) -> Result<()> {
        let masks = (0..objects).map(|object| Path::new(MASKS).join(video).join(name(object)));
        for dir in std::iter::once(Path::new(FRAMES).join(video)).chain(masks) {
            let dir = self.root.join(dir);
            fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
        Ok(())
    }

    pub fn write_frame(&self, video: &str, frame: usize, view: &View) -> Result<()> {
        let path = Path::new(FRAMES).join(video).join(format!("{frame:05}.jpg"));
        self.write(&path, |file| {
            let (width, height) = (view.image.width, view.image.height);
            let encoder = jpeg_encoder::Encoder::new(file, JPEG_QUALITY);
            let rgb = jpeg_encoder::ColorType::Rgb;
            Ok(encoder.encode(&view.image.data, width.try_into()?, height.try_into()?, rgb)?)
        })
    }

    /// The visible part of each object, 0 and 255 in 8-bit grey.
    pub fn write_masks(
        &self,
        video: &str,
        frame: usize,
        objects: usize,
        view: &View,
    ) -> Result<()> {
        let (width, height) = (view.image.width as u32, view.image.height as u32);
        for object in 0..objects {
            let owner = object as u32 + 1;
            let grey: Vec<u8> =
                view.owners.iter().map(|&o| if o == owner { 255 } else { 0 }).collect();
            let file = format!("{frame:05}.png");
            let path = Path::new(MASKS).join(video).join(name(object)).join(file);
            self.write(&path, |file| {
                let mut encoder = png::Encoder::new(file, width, height);
                encoder.set_color(png::ColorType::Grayscale);
                encoder.set_depth(png::BitDepth::Eight);
                let mut writer = encoder.write_header()?;
                writer.write_image_data(&grey)?;
                Ok(writer.finish()?)
            })?;
        }
        Ok(())
    }

    /// Adds the finished video to the manifest.
    pub fn finish_video(&self, video: &str) -> Result<()> {
        let path = self.root.join(manifest());
        let append = || writeln!(File::options().append(true).open(&path)?, "{video}");
        append().with_context(|| format!("cannot add {video} to {}", path.display()))
    }

    fn write(
        &self,
        path: &Path,
        fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
    ) -> Result<()> {
        let path = self.root.join(path);
        let fill = || -> Result<()> {
            let mut file = BufWriter::new(File::create(&path)?);
            fill(&mut file)?;
            Ok(file.flush()?)
        };
        fill().with_context(|| format!("cannot write {}", path.display()))
    }
}

fn manifest() -> PathBuf {
    format!("{SPLIT_NAME}.txt").into()
}

/// Name of an object's directory, zero-padded as in SA-V.
fn name(object: usize) -> String {
    format!("{object:03}")
}
