/*!
Random numbers and angles that are identical on every machine.

The system's `sin` may differ in the last bit between C libraries; this file uses only additions,
multiplications and divisions, which IEEE 754 rounds exactly.
*/

use std::f64::consts::TAU;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// A separate stream for each pair of seed and index.
    pub fn new(seed: u64, index: u64) -> Self {
        Self(mix(seed ^ mix(index.wrapping_add(1))))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Uniform in [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * unit(self.next_u64())
    }

    /// Uniform in 0..bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (unit(self.next_u64()) * bound as f64) as usize
    }

    /// -1 or 1.
    pub fn sign(&mut self) -> f64 {
        if self.next_u64() & 1 == 0 { 1.0 } else { -1.0 }
    }
}

/// Spreads the bits of `x`.
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// 53 bits as a number in [0, 1).
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// Sine and cosine of an angle in turns, by Taylor's series around the nearest quarter.
pub(super) fn sin_cos(turns: f64) -> (f64, f64) {
    let quarters = (turns * 4.0).round();
    let x = (turns - quarters / 4.0) * TAU;
    let xx = x * x;
    let series = |first: f64, from: i32| {
        let (mut term, mut sum) = (first, first);
        for k in 0..7 {
            let n = f64::from(from + 2 * k);
            term = -term * xx / ((n + 1.0) * (n + 2.0));
            sum += term;
        }
        sum
    };
    let (sin, cos) = (series(x, 1), series(1.0, 0));
    match quarters.rem_euclid(4.0) as u8 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// Sine of an angle in turns.
pub(super) fn sin(turns: f64) -> f64 {
    sin_cos(turns).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_library_sine() {
        for step in -400..400 {
            let turns = f64::from(step) * 0.013;
            let (sin, cos) = sin_cos(turns);
            assert!((sin - (turns * TAU).sin()).abs() < 1e-12, "sin at {turns}");
            assert!((cos - (turns * TAU).cos()).abs() < 1e-12, "cos at {turns}");
        }
    }
}
