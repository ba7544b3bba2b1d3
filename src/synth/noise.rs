/*!
Value noise: random numbers on a lattice, smoothly blended; the stuff of backgrounds and textures.
*/

use super::random::{mix, unit};

/// Smooth noise in [0, 1) with features about one unit wide.
pub(super) fn noise(seed: u64, x: f64, y: f64) -> f64 {
    let (column, row) = (x.floor(), y.floor());
    let (fx, fy) = (ease(x - column), ease(y - row));
    let (column, row) = (column as i64, row as i64);
    let at = |dx: i64, dy: i64| {
        let place = mix((column + dx) as u64).wrapping_add((row + dy) as u64);
        unit(mix(seed ^ mix(place)))
    };
    let upper = at(0, 0) + (at(1, 0) - at(0, 0)) * fx;
    let lower = at(0, 1) + (at(1, 1) - at(0, 1)) * fx;
    upper + (lower - upper) * fy
}

/// Three octaves of [`noise`]: coarse patches with finer grain on them.
pub(super) fn fractal(seed: u64, x: f64, y: f64) -> f64 {
    let octave = |k: u64, scale: f64| noise(seed.wrapping_add(k), x * scale, y * scale);
    (4.0 * octave(0, 1.0) + 2.0 * octave(1, 2.3) + octave(2, 5.1)) / 7.0
}

fn ease(t: f64) -> f64 {
    t * t * (3.0 - 2.0 * t)
}
