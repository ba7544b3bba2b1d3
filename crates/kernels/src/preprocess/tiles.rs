/*!
Tables of the bicubic kernel whose tiles take all of their input into shared memory
(`cuda/preprocess_tiles.cuh`).
*/

use anyhow::Result;

use super::GROUP;
use crate::constants::constant;
use crate::{blocks, int};
use cuda::module::Launch;
use vos::geometry::Geometry;
use vos::preprocess::pillow;

/// Outputs of a block.
const TILE: (usize, usize) =
    (constant!(Preprocess, "TILE_X") as usize, constant!(Preprocess, "TALL_Y") as usize);
const THREADS: u32 = constant!(Preprocess, "THREADS");
const MOST_ROWS: usize = constant!(Preprocess, "MOST_ROWS") as usize;
const ROW_UNITS: usize = constant!(Preprocess, "ROW_UNITS") as usize;
const MOST_GROUPS: usize = constant!(Preprocess, "MOST_GROUPS") as usize;
/// Bytes that a load takes of a row, and where the frame must lie.
pub(super) const UNIT: usize = 16;
/// The bytes of a pixel.
const PIXEL: usize = 3;

/// What the blocks need along both axes.
pub(super) struct Tiles {
    pub x: TiledAxis,
    pub y: TiledAxis,
}

/// An axis, tile by tile.
pub(super) struct TiledAxis {
    /// Of each tile: the first input position that it takes, and their number.
    pub spans: Vec<[i32; 2]>,
    /// Of each output of all tiles, group by group: a byte of four weights each, low ones first, and
    /// the first of the four positions, counted from the tile's. Outputs of padding have no weight.
    pub taps: Vec<[u32; 4]>,
    /// Groups of four taps.
    pub groups: usize,
}

impl Tiles {
    /// Of a geometry whose tiles take no more than the kernel has room for; none of another, or where
    /// the columns are resized first.
    pub fn of(geometry: &Geometry) -> Option<Self> {
        let (video, content, side) = (geometry.video_size(), geometry.content(), geometry.side());
        if pillow::columns_first(video, (content.width, content.height)) {
            return None;
        }
        let axis = |from: usize, to: usize, origin: usize, tile: usize| {
            TiledAxis::new(&pillow::taps(from, to), origin, side.div_ceil(tile), tile)
        };
        let x = axis(video.0, content.width, content.x, TILE.0)?;
        let y = axis(video.1, content.height, content.y, TILE.1)?;
        // A row begins up to a unit in front of what is needed of it.
        let units = (UNIT - 1 + PIXEL * x.most()).div_ceil(UNIT);
        (units <= ROW_UNITS && y.most() <= MOST_ROWS).then_some(Self { x, y })
    }

    /// Its launch.
    pub fn launch(&self) -> Result<Launch> {
        let grid = (blocks(self.x.spans.len(), 1)?, blocks(self.y.spans.len(), 1)?, 1);
        Ok(Launch { grid, threads: THREADS })
    }
}

impl TiledAxis {
    /// Of an axis of `tiles` tiles, in which the content begins at `origin`.
    fn new(taps: &[(usize, Vec<i32>)], origin: usize, tiles: usize, tile: usize) -> Option<Self> {
        let groups = taps.iter().map(|(_, weights)| weights.len()).max()?.div_ceil(GROUP);
        if groups > MOST_GROUPS {
            return None;
        }
        let mut made = Self {
            spans: Vec::with_capacity(tiles),
            taps: vec![[0; 4]; groups * tiles * tile],
            groups,
        };
        for at in 0..tiles {
            let shown = |output: &usize| (origin..origin + taps.len()).contains(output);
            let outputs = (at * tile..(at + 1) * tile).filter(shown);
            let of = |output: usize| (output, &taps[output - origin]);
            let inputs = outputs.clone().map(|output| &taps[output - origin]);
            let first = inputs.clone().map(|(first, _)| *first).min().unwrap_or(0);
            let end = inputs.map(|(first, weights)| first + weights.len()).max().unwrap_or(first);
            made.spans.push([int(first, "a position").ok()?, int(end - first, "a span").ok()?]);
            for (output, (from, weights)) in outputs.map(of) {
                for (group, four) in weights.chunks(GROUP).enumerate() {
                    let place = u32::try_from(from - first + GROUP * group).ok()?;
                    let [low, middle, high] = bytes_of_four(four)?;
                    made.taps[group * tiles * tile + output] = [low, middle, high, place];
                }
            }
        }
        Some(made)
    }

    /// The most input positions of a tile.
    fn most(&self) -> usize {
        self.spans.iter().map(|[_, count]| *count as usize).max().unwrap_or(0)
    }
}

/// Up to four weights of 24 bits, a byte of each in a word, low ones first; none if a weight has more.
fn bytes_of_four(weights: &[i32]) -> Option<[u32; 3]> {
    let mut words = [0; 3];
    for (at, weight) in weights.iter().enumerate() {
        if !(-(1 << 23)..1 << 23).contains(weight) {
            return None;
        }
        let [low, middle, high, _] = weight.to_le_bytes();
        for (word, byte) in words.iter_mut().zip([low, middle, high]) {
            *word |= u32::from(byte) << (8 * at);
        }
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::geometry::GeometryKind::{Letterbox, Stretch};

    /// The sum over a group, as the kernel makes it.
    fn sum(pixels: [u8; 4], [low, middle, high, _]: [u32; 4]) -> i32 {
        let bytes = |word: u32| word.to_le_bytes();
        (0..4).fold(0, |sum, at| {
            let high = i32::from(bytes(high)[at] as i8);
            let weight =
                i32::from(bytes(low)[at]) + i32::from(bytes(middle)[at]) * 256 + high * 65536;
            sum + i32::from(pixels[at]) * weight
        })
    }

    #[test]
    fn weights_are_the_sums_of_their_bytes() {
        let weights = [-300_000, 4_194_304, 1, -8_388_608];
        let [low, middle, high] = bytes_of_four(&weights).unwrap();
        let pixels = [255, 3, 77, 20];
        let expected: i32 = weights.iter().zip(pixels).map(|(w, p)| w * i32::from(p)).sum();
        assert_eq!(sum(pixels, [low, middle, high, 0]), expected);
        assert_eq!(bytes_of_four(&[1 << 23]), None);
    }

    /// What benchmarks resize: clips of 480, 720 and 1080 lines.
    #[test]
    fn tiles_of_the_usual_sizes_fit() {
        let fits = |width, height, side, kind| {
            Tiles::of(&Geometry::new(kind, width, height, side)).is_some()
        };
        for (width, height) in [(854, 480), (1280, 720), (1920, 1080)] {
            assert!(fits(width, height, 1024, Stretch), "{width}x{height}");
        }
        assert!(fits(854, 480, 512, Stretch));
        // Too many taps, too many rows, and the columns first.
        assert!(!fits(3840, 2160, 1024, Letterbox) && !fits(640, 360, 512, Letterbox));
        assert!(!fits(720, 1280, 1024, Stretch));
    }

    #[test]
    fn outputs_of_padding_weigh_nothing_and_all_others_lie_in_their_tile() {
        let geometry = Geometry::new(Letterbox, 100, 75, 96);
        let Tiles { x, y } = Tiles::of(&geometry).unwrap();
        let content = geometry.content();
        assert!(content.y > 0 && content.width == 96);
        for (axis, tile, origin, length) in
            [(&x, TILE.0, content.x, content.width), (&y, TILE.1, content.y, content.height)]
        {
            for (at, taps) in axis.taps.iter().enumerate() {
                let output = at % (axis.spans.len() * tile);
                let shown = (origin..origin + length).contains(&output);
                assert!(shown || *taps == [0; 4], "{at}");
                // Taps without weight may lie behind the tile's last position.
                let weighs = |tap: &u32| taps[..3].iter().any(|word| word >> (8 * tap) & 255 > 0);
                let count = axis.spans[output / tile][1] as u32;
                assert!((0..4).filter(weighs).all(|tap| taps[3] + tap < count), "{at}");
            }
        }
    }
}
