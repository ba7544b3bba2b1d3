/*!
Outlines that change with time, inside radius 1.
*/

use super::random::{Random, sin, sin_cos};

/// A breathing amount: `mean + swing * sin(rate * t + phase)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wave {
    mean: f64,
    swing: f64,
    rate: f64,
    phase: f64,
}

impl Wave {
    pub fn new(random: &mut Random, mean: f64, swing: f64) -> Self {
        Self { mean, swing, rate: random.between(0.015, 0.04), phase: random.between(0.0, 1.0) }
    }

    /// The amount at frame `t`.
    pub fn at(&self, t: f64) -> f64 {
        self.mean + self.swing * sin(self.rate * t + self.phase)
    }
}

/// A kind of outline with its rules of deformation.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// One half axis is 1, the other one breathes.
    Ellipse(Wave),
    /// Distance of each corner from the centre.
    Polygon(Vec<Wave>),
    /// Cosine and sine amplitudes of the 2nd, 3rd, … harmonic of the radius.
    Blob(Vec<(Wave, Wave)>),
}

/// A shape at one moment.
#[derive(Clone, Debug)]
pub(super) enum Outline {
    Ellipse { minor: f64 },
    Polygon(Vec<(f64, f64)>),
    Blob(Vec<(f64, f64)>),
}

impl Shape {
    /// The kinds alternate, so that a few objects show all of them.
    pub fn new(random: &mut Random, kind: usize) -> Self {
        match kind % 3 {
            0 => {
                let corners = 3 + random.below(5);
                let corner = |_| {
                    let mean = random.between(0.7, 0.88);
                    Wave::new(random, mean, 0.12)
                };
                Self::Polygon((0..corners).map(corner).collect())
            }
            1 => {
                let mean = random.between(0.55, 0.8);
                Self::Ellipse(Wave::new(random, mean, 0.15))
            }
            _ => {
                let harmonic = |k: u32| {
                    let mut part = || {
                        let mean = random.between(-0.05, 0.05) / f64::from(k);
                        Wave::new(random, mean, 0.1 / f64::from(k))
                    };
                    (part(), part())
                };
                Self::Blob((2..6).map(harmonic).collect())
            }
        }
    }

    /// The outline at frame `t`.
    pub fn at(&self, t: f64) -> Outline {
        match self {
            Self::Ellipse(minor) => Outline::Ellipse { minor: minor.at(t) },
            Self::Polygon(corners) => {
                let corner = |(i, radius): (usize, &Wave)| {
                    let (sin, cos) = sin_cos(i as f64 / corners.len() as f64);
                    (radius.at(t) * cos, radius.at(t) * sin)
                };
                Outline::Polygon(corners.iter().enumerate().map(corner).collect())
            }
            Self::Blob(harmonics) => {
                Outline::Blob(harmonics.iter().map(|(c, s)| (c.at(t), s.at(t))).collect())
            }
        }
    }
}

impl Outline {
    /// Whether the point lies inside.
    pub fn contains(&self, u: f64, v: f64) -> bool {
        match self {
            Self::Ellipse { minor } => u * u + (v / minor) * (v / minor) <= 1.0,
            Self::Polygon(corners) => {
                // The number of edges to the right of the point is odd.
                let mut inside = false;
                let mut last = corners[corners.len() - 1];
                for &corner in corners {
                    let crosses = (corner.1 > v) != (last.1 > v);
                    if crosses {
                        let along = (v - corner.1) / (last.1 - corner.1);
                        inside ^= u < corner.0 + along * (last.0 - corner.0);
                    }
                    last = corner;
                }
                inside
            }
            Self::Blob(harmonics) => {
                let radius = (u * u + v * v).sqrt();
                if radius < 0.3 {
                    return true;
                }
                // cos(k a) and sin(k a) by repeated rotation; no angle is needed.
                let (cos, sin) = (u / radius, v / radius);
                let (mut c, mut s) = (cos, sin);
                let mut limit = 0.72;
                for &(a, b) in harmonics {
                    (c, s) = (c * cos - s * sin, s * cos + c * sin);
                    limit += a * c + b * s;
                }
                radius <= limit.min(1.0)
            }
        }
    }
}
