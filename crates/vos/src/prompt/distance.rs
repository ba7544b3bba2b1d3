/*!
Exact Euclidean distance of each foreground pixel to the nearest background pixel.

Two passes of the lower envelope of parabolas, columns then rows: P. Felzenszwalb and D.
Huttenlocher, "Distance Transforms of Sampled Functions", Theory of Computing 8 (2012). Squared
distances stay integers, so equal distances are exactly equal. Pixels outside the image count as
background.
*/

use crate::mask::Mask;

/// Squared distance for each pixel in row-major order; 0 on background.
pub(super) fn squared_distances(mask: &Mask) -> Vec<u64> {
    let (width, height) = (mask.width(), mask.height());
    let mut columns = vec![0_u64; width * height];
    for x in 0..width {
        // Down and up: the distance to the nearest background pixel of the column.
        let mut run = 0;
        for y in 0..height {
            run = if mask.get(x, y) { run + 1 } else { 0 };
            columns[y * width + x] = run;
        }
        run = 0;
        for y in (0..height).rev() {
            run = if mask.get(x, y) { run + 1 } else { 0 };
            let cell = &mut columns[y * width + x];
            *cell = (*cell).min(run);
        }
    }
    let mut result = vec![0_u64; width * height];
    let mut envelope = Envelope::default();
    for y in 0..height {
        let row = y * width..(y + 1) * width;
        envelope.row(&columns[row.clone()], &mut result[row]);
    }
    result
}

/// Scratch memory of the row pass.
#[derive(Default)]
struct Envelope {
    /// Heights of the parabolas, with the border's zero at both ends.
    heights: Vec<i64>,
    /// Positions of the parabolas on the envelope.
    vertices: Vec<i64>,
    /// First position at which each parabola is the lowest.
    starts: Vec<i64>,
}

impl Envelope {
    /// Lower envelope of `(x - q)² + column[q]²` over all q of one row.
    fn row(&mut self, column: &[u64], out: &mut [u64]) {
        self.heights.clear();
        self.heights.push(0);
        self.heights.extend(column.iter().map(|&d| (d * d) as i64));
        self.heights.push(0);
        self.vertices.clear();
        self.starts.clear();
        for q in 0..self.heights.len() as i64 {
            let mut start = i64::MIN;
            while let (Some(&v), Some(&begin)) = (self.vertices.last(), self.starts.last()) {
                start = self.overtakes(v, q);
                if start > begin {
                    break;
                }
                self.vertices.pop();
                self.starts.pop();
                start = i64::MIN;
            }
            self.vertices.push(q);
            self.starts.push(start);
        }
        let mut k = 0;
        for (index, distance) in out.iter_mut().enumerate() {
            let x = index as i64 + 1;
            while k + 1 < self.starts.len() && self.starts[k + 1] <= x {
                k += 1;
            }
            let v = self.vertices[k];
            *distance = ((x - v) * (x - v) + self.heights[v as usize]) as u64;
        }
    }

    /// First integer position at which the parabola of `q` is below that of `v` (`q > v`).
    fn overtakes(&self, v: i64, q: i64) -> i64 {
        let numerator = (self.heights[q as usize] + q * q) - (self.heights[v as usize] + v * v);
        numerator.div_euclid(2 * (q - v)) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_brute_force(width in 1_usize..14, height in 1_usize..14, bits: u128, fill: bool) {
            let mask = Mask::from_fn(width, height, |x, y| {
                fill && (x + y) % 5 != 0 || bits >> ((y * width + x) % 128) & 1 == 1
            });
            let fast = squared_distances(&mask);
            for y in 0..height {
                for x in 0..width {
                    let mut best = if mask.get(x, y) { u64::MAX } else { 0 };
                    for v in -1..=height as i64 {
                        for u in -1..=width as i64 {
                            let inside = u >= 0 && v >= 0 && u < width as i64 && v < height as i64;
                            if !inside || !mask.get(u as usize, v as usize) {
                                let (dx, dy) = (u - x as i64, v - y as i64);
                                best = best.min((dx * dx + dy * dy) as u64);
                            }
                        }
                    }
                    prop_assert_eq!(fast[y * width + x], best, "at {},{}", x, y);
                }
            }
        }
    }
}
