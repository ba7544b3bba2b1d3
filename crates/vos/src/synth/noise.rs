/*!
Value noise for backgrounds and textures: random numbers on a lattice, smoothly blended.

The lattice repeats after 256 units. It uses tables instead of a hash for each corner, because every
pixel needs several dozen of them (K. Perlin, "An Image Synthesizer", SIGGRAPH 1985).
*/

use super::random::Random;

/// One random field of numbers in [0, 1).
#[derive(Clone, Debug)]
pub(super) struct Noise {
    order: [u8; 256],
    values: [f64; 256],
}

impl Noise {
    pub fn new(random: &mut Random) -> Self {
        let mut order: [u8; 256] = std::array::from_fn(|i| i as u8);
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i + 1));
        }
        Self { order, values: std::array::from_fn(|_| random.between(0.0, 1.0)) }
    }

    /// Smooth noise with features about one unit wide.
    pub fn at(&self, x: f64, y: f64) -> f64 {
        let (column, row) = (floor(x), floor(y));
        let (fx, fy) = (ease(x - column as f64), ease(y - row as f64));
        let (left, top) = (column as u8, row as u8);
        let corner = |column: u8, row: u8| {
            let place = self.order[usize::from(column)].wrapping_add(row);
            self.values[usize::from(self.order[usize::from(place)])]
        };
        let (right, bottom) = (left.wrapping_add(1), top.wrapping_add(1));
        let mix = |a: f64, b: f64, amount: f64| a + (b - a) * amount;
        let upper = mix(corner(left, top), corner(right, top), fx);
        let lower = mix(corner(left, bottom), corner(right, bottom), fx);
        mix(upper, lower, fy)
    }

    /// Three octaves of [`Self::at`]: coarse patches with finer grain on them.
    pub fn fractal(&self, x: f64, y: f64) -> f64 {
        // Offsets keep the octaves from sharing lattice points around the origin.
        let (middle, fine) = (self.at(x * 2.3 + 37.1, y * 2.3), self.at(x * 5.1, y * 5.1 + 71.7));
        (4.0 * self.at(x, y) + 2.0 * middle + fine) / 7.0
    }
}

/// `f64::floor` is a call into the C library on machines without SSE 4.1.
fn floor(x: f64) -> i64 {
    let cut = x as i64;
    cut - i64::from(cut as f64 > x)
}

fn ease(t: f64) -> f64 {
    t * t * (3.0 - 2.0 * t)
}
