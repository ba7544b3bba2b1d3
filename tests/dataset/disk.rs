/*!
Small splits made file by file, so that a test can break exactly one thing.
*/

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType};

/// A directory that vanishes with the test.
pub struct Disk(pub tempfile::TempDir);

impl Disk {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file, its folders made.
    pub fn path(&self, name: &str) -> PathBuf {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// A JPEG of one colour.
    pub fn jpeg(&self, name: &str, (width, height): (u16, u16)) {
        let data = [90, 120, 30].repeat(usize::from(width) * usize::from(height));
        let encoder = jpeg_encoder::Encoder::new(File::create(self.path(name)).unwrap(), 90);
        encoder.encode(&data, width, height, jpeg_encoder::ColorType::Rgb).unwrap();
    }

    /// An 8-bit PNG with these samples.
    pub fn png(&self, name: &str, (width, height): (u32, u32), color: ColorType, samples: &[u8]) {
        let mut encoder = png::Encoder::new(File::create(self.path(name)).unwrap(), width, height);
        encoder.set_color(color);
        encoder.set_depth(BitDepth::Eight);
        if color == ColorType::Indexed {
            encoder.set_palette((0..=255).flat_map(|i| [i, 255 - i, i / 2]).collect::<Vec<u8>>());
        }
        encoder.write_header().unwrap().write_image_data(samples).unwrap();
    }

    /// A grey mask whose left half is `value`.
    pub fn mask(&self, name: &str, (width, height): (u32, u32), value: u8) {
        let samples: Vec<u8> =
            (0..width * height).map(|i| if i % width < width / 2 { value } else { 0 }).collect();
        self.png(name, (width, height), ColorType::Grayscale, &samples);
    }

    /// A whole SA-V video of 32x16 pixels: `frames` frames, one object `000`, masks every 4th frame.
    pub fn sav_video(&self, video: &str, frames: usize) {
        for frame in 0..frames {
            self.jpeg(&format!("JPEGImages_24fps/{video}/{frame:05}.jpg"), (32, 16));
            if frame % 4 == 0 {
                let name = format!("Annotations_6fps/{video}/000/{frame:05}.png");
                self.mask(&name, (32, 16), 255);
            }
        }
    }
}

/// File names of paths.
pub fn names<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Vec<&'a str> {
    paths.into_iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect()
}
