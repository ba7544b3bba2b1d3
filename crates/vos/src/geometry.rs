/*!
Maps between video pixels and the network's square input.

The video is stretched to the square (Meta's preprocessing) or fitted into it with black bars (the
predecessor's letterbox). In both cases one scale and one offset for each axis describe the mapping,
and prompts, frames and masks all use it.
*/

mod upsample;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
pub use upsample::Tap;

use crate::mask::Mask;
use crate::prompt::Prompt;

/// Labels of a box's corners, top left and bottom right, in Meta's prompt encoder.
const CORNERS: [i32; 2] = [2, 3];

/// How the video is fitted into the square.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GeometryKind {
    /// Both axes scaled to the side, without keeping the aspect ratio.
    #[default]
    Stretch,
    /// The aspect ratio kept, the rest padded with black, centred.
    Letterbox,
}

impl GeometryKind {
    /// The name on the command line and in every CSV row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stretch => "stretch",
            Self::Letterbox => "letterbox",
        }
    }
}

/// A rectangle of network pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// Left edge; also the width of the padding left of the content.
    pub x: usize,
    /// Top edge; also the height of the padding above the content.
    pub y: usize,
    /// Width, at least 1.
    pub width: usize,
    /// Height, at least 1.
    pub height: usize,
}

/// The mapping between a video of one size and a network of one input side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    kind: GeometryKind,
    video_width: usize,
    video_height: usize,
    side: usize,
    content: Rect,
}

/// A prompt for the prompt step: coordinates in network pixels and a label for each.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPoints {
    /// (x, y). In [0, side - 1], but for [`Prompt::Clicks`], which are not clipped.
    pub coords: Vec<[f32; 2]>,
    /// 1 positive click, 0 negative click, 2 top-left and 3 bottom-right corner of a box.
    pub labels: Vec<i32>,
}

impl Geometry {
    /// The mapping for `video_width` × `video_height` frames into `side` × `side` inputs.
    ///
    /// Letterbox sizes follow the predecessor: rounded half to even, then up to an even number,
    /// never above the side; an odd rest is at the bottom and the right. Sizes of 0 count as 1.
    pub fn new(kind: GeometryKind, video_width: usize, video_height: usize, side: usize) -> Self {
        let (video_width, video_height, side) =
            (video_width.max(1), video_height.max(1), side.max(1));
        let content = match kind {
            GeometryKind::Stretch => Rect { x: 0, y: 0, width: side, height: side },
            GeometryKind::Letterbox => {
                let (s, w, h) = (side as f64, video_width as f64, video_height as f64);
                let ratio = (s / h).min(s / w);
                let fit = |length: f64| {
                    let rounded = ((length * ratio).round_ties_even() as usize).max(1);
                    (rounded + rounded % 2).min(side)
                };
                let (width, height) = (fit(w), fit(h));
                Rect { x: (side - width) / 2, y: (side - height) / 2, width, height }
            }
        };
        Self { kind, video_width, video_height, side, content }
    }

    /// How the video is fitted.
    pub fn kind(&self) -> GeometryKind {
        self.kind
    }

    /// Width and height of the video in pixels.
    pub fn video_size(&self) -> (usize, usize) {
        (self.video_width, self.video_height)
    }

    /// Side of the network's input in pixels.
    pub fn side(&self) -> usize {
        self.side
    }

    /// The part of the network's input with the video; the rest is padding.
    pub fn content(&self) -> Rect {
        self.content
    }

    /// A point of the video in network pixels, `p * scale + padding`, clipped to [0, side - 1].
    pub fn to_network(&self, x: f32, y: f32) -> [f32; 2] {
        let last = (self.side - 1) as f64;
        self.mapped(x, y).map(|p| p.clamp(0.0, last) as f32)
    }

    fn mapped(&self, x: f32, y: f32) -> [f64; 2] {
        let (scale_x, scale_y) = self.scale();
        let map = |p: f32, scale: f64, pad: usize| f64::from(p) * scale + pad as f64;
        [map(x, scale_x, self.content.x), map(y, scale_y, self.content.y)]
    }

    /// Clicks and boxes as coordinates and labels; a mask is returned unchanged.
    ///
    /// [`Prompt::Clicks`] are mapped as Meta's predictor maps them: the box's corners first, and a
    /// coordinate in the last pixel of a large video is not moved. The predecessor clips it.
    pub fn points<'p>(&self, prompt: &'p Prompt) -> Result<NetworkPoints, &'p Mask> {
        match *prompt {
            Prompt::Point { x, y } => {
                Ok(NetworkPoints { coords: vec![self.to_network(x, y)], labels: vec![1] })
            }
            Prompt::Box { x_min, y_min, x_max, y_max } => Ok(NetworkPoints {
                coords: vec![self.to_network(x_min, y_min), self.to_network(x_max, y_max)],
                labels: CORNERS.to_vec(),
            }),
            Prompt::Clicks(ref given) => {
                let corners = given.bbox.map(|[left, top, right, bottom]| {
                    [(left, top, CORNERS[0]), (right, bottom, CORNERS[1])]
                });
                let clicks = given.clicks.iter().map(|c| (c.x, c.y, i32::from(c.positive)));
                let points = corners.into_iter().flatten().chain(clicks);
                let (coords, labels) = points
                    .map(|(x, y, label)| (self.mapped(x, y).map(|p| p as f32), label))
                    .unzip();
                Ok(NetworkPoints { coords, labels })
            }
            Prompt::Mask(ref mask) => Err(mask),
        }
    }

    /// Network pixels per video pixel, for each axis.
    fn scale(&self) -> (f64, f64) {
        (
            self.content.width as f64 / self.video_width as f64,
            self.content.height as f64 / self.video_height as f64,
        )
    }
}
