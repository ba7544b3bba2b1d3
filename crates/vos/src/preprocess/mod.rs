/*!
A decoded frame to the network's input, on the CPU.

This is the reference for all faster implementations: resized by a [`Filter`], padded with black in
a letterbox, then `(v / 255 - mean) / std` as planar f32.
*/

pub mod linear;
pub mod mask;
pub mod pillow;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::decode::RgbImage;
use crate::geometry::Geometry;

/// Channel means of ImageNet, with which all models here were trained.
pub const IMAGENET_MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// Channel standard deviations of ImageNet.
pub const IMAGENET_STD: [f32; 3] = [0.229, 0.224, 0.225];

/// Resize filter of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
pub enum Filter {
    /// Pillow's bicubic with antialias, bit for bit: Meta's video loader.
    #[default]
    #[value(name = "pillow")]
    #[serde(rename = "pillow")]
    PillowBicubic,
    /// torchvision's Resize of a float tensor, bilinear with antialias: Meta's image predictor.
    #[value(name = "torchvision")]
    #[serde(rename = "torchvision")]
    AntialiasBilinear,
    /// PyTorch's plain bilinear (`align_corners=False`).
    #[value(skip)]
    #[serde(rename = "bilinear")]
    Bilinear,
}

impl Filter {
    /// The word of the fidelity column.
    pub fn fidelity(self) -> &'static str {
        match self {
            Self::PillowBicubic => pillow::NAME,
            Self::AntialiasBilinear => "torchvision-bilinear",
            Self::Bilinear => "torch-bilinear",
        }
    }

    /// Whether it is Pillow's.
    pub fn is_pillow(&self) -> bool {
        *self == Self::PillowBicubic
    }
}

/// A frame whose size differs from the geometry's.
#[derive(Debug, thiserror::Error)]
#[error(
    "the frame is {}x{}, but the run was set up for {}x{}; all frames of a clip must have one size",
    found.0, found.1, expected.0, expected.1
)]
pub struct WrongFrameSize {
    /// Width and height of the frame.
    pub found: (usize, usize),
    /// Width and height of the video.
    pub expected: (usize, usize),
}

/// The network's value for each channel and byte.
pub fn tables(mean: [f32; 3], std: [f32; 3]) -> [[f32; 256]; 3] {
    // The quotient is rounded to f32 before the mean is subtracted, as in the reference loader.
    let value =
        |channel: usize, byte: usize| ((byte as f64 / 255.0) as f32 - mean[channel]) / std[channel];
    std::array::from_fn(|channel| std::array::from_fn(|byte| value(channel, byte)))
}

/// Converts frames of one size into inputs of one size; the resize weights are computed once.
#[derive(Clone, Debug)]
pub struct Preprocessor {
    geometry: Geometry,
    filter: Filter,
    mean: [f32; 3],
    std: [f32; 3],
    resizer: pillow::Resizer,
    /// The network's value for each channel and byte.
    tables: [[f32; 256]; 3],
    resized: Vec<u8>,
}

impl Preprocessor {
    /// For frames of the geometry's video size, resized like Pillow.
    pub fn new(geometry: &Geometry, mean: [f32; 3], std: [f32; 3]) -> Self {
        Self::with_filter(geometry, Filter::PillowBicubic, mean, std)
    }

    /// For frames of the geometry's video size.
    pub fn with_filter(geometry: &Geometry, filter: Filter, mean: [f32; 3], std: [f32; 3]) -> Self {
        let content = geometry.content();
        let resizer = pillow::Resizer::new(geometry.video_size(), (content.width, content.height));
        let (geometry, tables) = (geometry.clone(), tables(mean, std));
        Self { geometry, filter, mean, std, resizer, tables, resized: Vec::new() }
    }

    /// The geometry of this preprocessor.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The network's value for each channel and byte.
    pub fn tables(&self) -> &[[f32; 256]; 3] {
        &self.tables
    }

    /// Writes `3 * side * side` bytes, channel by channel, row by row, into `out`: the input before
    /// normalisation, resized like Pillow whatever the filter. Other filters have no bytes.
    ///
    /// # Errors
    /// The frame's size differs from the geometry's video.
    pub fn planes(&mut self, image: &RgbImage, out: &mut Vec<u8>) -> Result<(), WrongFrameSize> {
        self.resize(image)?;
        let (side, content) = (self.geometry.side(), self.geometry.content());
        out.clear();
        out.resize(3 * side * side, 0);
        for (channel, plane) in out.chunks_exact_mut(side * side).enumerate() {
            let rows = plane.chunks_exact_mut(side).skip(content.y);
            for (row, line) in rows.zip(self.resized.chunks_exact(3 * content.width)) {
                for (value, pixel) in row[content.x..].iter_mut().zip(line.chunks_exact(3)) {
                    *value = pixel[channel];
                }
            }
        }
        Ok(())
    }

    /// Writes `3 * side * side` values, channel by channel, row by row, into `out`.
    ///
    /// # Errors
    /// The frame's size differs from the geometry's video.
    pub fn run(&mut self, image: &RgbImage, out: &mut Vec<f32>) -> Result<(), WrongFrameSize> {
        let antialias = self.filter == Filter::AntialiasBilinear;
        if !self.filter.is_pillow() {
            *out = linear::run(&self.geometry, antialias, image, self.mean, self.std)?;
            return Ok(());
        }
        self.resize(image)?;
        let (side, content) = (self.geometry.side(), self.geometry.content());
        out.resize(3 * side * side, 0.0);
        for ((channel, plane), table) in
            out.chunks_exact_mut(side * side).enumerate().zip(&self.tables)
        {
            if content.width * content.height < side * side {
                plane.fill(table[0]);
            }
            let rows = plane.chunks_exact_mut(side).skip(content.y);
            for (row, line) in rows.zip(self.resized.chunks_exact(3 * content.width)) {
                let pixels = line.chunks_exact(3);
                for (value, pixel) in row[content.x..].iter_mut().zip(pixels) {
                    *value = table[usize::from(pixel[channel])];
                }
            }
        }
        Ok(())
    }

    fn resize(&mut self, image: &RgbImage) -> Result<(), WrongFrameSize> {
        let expected = self.geometry.video_size();
        let found = (image.width, image.height);
        if found != expected {
            return Err(WrongFrameSize { found, expected });
        }
        self.resizer.run(&image.data, &mut self.resized);
        Ok(())
    }
}
