/*!
One synthetic video: a drifting background and objects on crossing paths, with the visible part of
each.

On the first frame the objects are apart on a grid, so that every prompt mask has pixels; then they
move towards the middle and back and occlude one another.
*/

use super::noise::Noise;
use super::random::{Random, sin, sin_cos};
use super::shape::{Shape, Wave};
use super::{SynthOptions, grid};
use crate::decode::RgbImage;

type Colour = [f64; 3];

/// Everything that moves, as functions of the frame number.
#[derive(Debug)]
pub(super) struct Scene {
    width: usize,
    height: usize,
    noise: Noise,
    /// Size of the coarsest background patches in pixels.
    patch: f64,
    colours: [Colour; 2],
    /// Background drift in pixels a frame.
    drift: (f64, f64),
    zoom: Wave,
    /// Hand-held camera: amplitude in pixels.
    shake: f64,
    /// From back to front, each with its number.
    objects: Vec<(usize, Object)>,
}

#[derive(Clone, Debug)]
struct Object {
    shape: Shape,
    radius: f64,
    breath: Wave,
    start: (f64, f64),
    target: (f64, f64),
    /// Frames from the start to the target and back.
    period: f64,
    angle: f64,
    /// Turns a frame.
    spin: f64,
    colours: [Colour; 2],
    noise: Noise,
    striped: bool,
}

/// A frame and, for each pixel, the visible object: 0 for none, else its number + 1.
pub(super) struct View {
    pub image: RgbImage,
    pub owners: Vec<u32>,
}

impl Scene {
    pub fn new(options: &SynthOptions, video: usize) -> Self {
        let (width, height) = (options.width as f64, options.height as f64);
        let mut random = Random::new(options.seed, video as u64);
        let (columns, rows) = grid(options.objects, options.width, options.height);
        let (cell_width, cell_height) = (width / columns as f64, height / rows as f64);
        let largest = (0.48 * cell_width.min(cell_height)).min(0.26 * width.min(height));
        let mut objects = Vec::new();
        for index in 0..options.objects {
            let start = (
                (index % columns) as f64 * cell_width + cell_width / 2.0,
                (index / columns) as f64 * cell_height + cell_height / 2.0,
            );
            let target = (width * random.between(0.3, 0.7), height * random.between(0.3, 0.7));
            objects.push((index, Object::new(&mut random, index + video, largest, start, target)));
        }
        if options.alike {
            let looks = objects[0].1.clone();
            objects.iter_mut().for_each(|(_, object)| object.take_looks(&looks));
        }
        // Front to back is independent of the numbers.
        for i in (1..objects.len()).rev() {
            objects.swap(i, random.below(i + 1));
        }
        let colours = [colour(&mut random, 40.0, 120.0), colour(&mut random, 110.0, 200.0)];
        Self {
            width: options.width,
            height: options.height,
            noise: Noise::new(&mut random),
            patch: width.min(height) / 5.0,
            colours,
            drift: (random.between(-1.5, 1.5), random.between(-0.7, 0.7)),
            zoom: Wave::new(&mut random, 1.0, 0.06),
            shake: 0.008 * width.min(height),
            objects,
        }
    }

    /// The frame with that number.
    pub fn render(&self, frame: usize) -> View {
        let t = frame as f64;
        // Both are zero on the first frame, where the objects must be in their cells.
        let shake = (self.shake * sin(0.11 * t), self.shake * sin(0.073 * t));
        let mut data = Vec::with_capacity(3 * self.width * self.height);
        let scale = self.zoom.at(t) / self.patch;
        for y in 0..self.height {
            for x in 0..self.width {
                let u = (x as f64 - shake.0 + self.drift.0 * t) * scale;
                let v = (y as f64 - shake.1 + self.drift.1 * t) * scale;
                let mixed = blend(self.colours, self.noise.fractal(u, v));
                let grain = 30.0 * (self.noise.at(u * 14.0, v * 14.0) - 0.5);
                data.extend(mixed.map(|c| to_byte(c + grain)));
            }
        }
        let mut view = View {
            image: RgbImage { width: self.width, height: self.height, data },
            owners: vec![0; self.width * self.height],
        };
        for (number, object) in &self.objects {
            object.draw(t, shake, *number as u32 + 1, &mut view);
        }
        view
    }
}

impl Object {
    fn new(
        random: &mut Random,
        kind: usize,
        largest: f64,
        start: (f64, f64),
        target: (f64, f64),
    ) -> Self {
        // The breathing must not move the object out of its cell on the first frame.
        let radius = largest * random.between(0.8, 0.92);
        Self {
            shape: Shape::new(random, kind),
            radius,
            breath: Wave::new(random, 1.0, 0.08),
            start,
            target,
            period: random.between(24.0, 56.0),
            angle: random.between(0.0, 1.0),
            spin: random.sign() * random.between(0.003, 0.015),
            colours: [colour(random, 20.0, 255.0), colour(random, 20.0, 255.0)],
            noise: Noise::new(random),
            striped: random.next_u64() & 1 == 0,
        }
    }

    /// Looks like `other` from now on; place, path and turning stay.
    fn take_looks(&mut self, other: &Self) {
        let &mut Self { start, target, period, angle, spin, .. } = self;
        *self = Self { start, target, period, angle, spin, ..other.clone() };
    }

    fn draw(&self, t: f64, shake: (f64, f64), owner: u32, view: &mut View) {
        let (width, height) = (view.image.width, view.image.height);
        let along = (1.0 - sin_cos(t / self.period).1) / 2.0;
        let x0 = self.start.0 + (self.target.0 - self.start.0) * along + shake.0;
        let y0 = self.start.1 + (self.target.1 - self.start.1) * along + shake.1;
        let radius = self.radius * self.breath.at(t);
        let (sin, cos) = sin_cos(self.angle + self.spin * t);
        let outline = self.shape.at(t);
        let span = |centre: f64, length: usize| {
            let first = (centre - radius).floor().max(0.0) as usize;
            first..((centre + radius).ceil().max(0.0) as usize + 1).min(length)
        };
        for y in span(y0, height) {
            for x in span(x0, width) {
                let (dx, dy) = ((x as f64 + 0.5 - x0) / radius, (y as f64 + 0.5 - y0) / radius);
                let (u, v) = (dx * cos + dy * sin, dy * cos - dx * sin);
                if outline.contains(u, v) {
                    let pixel = y * width + x;
                    view.owners[pixel] = owner;
                    // Darker towards the lower right, as if lit from the upper left.
                    let light = 1.0 - 0.25 * (dx + dy);
                    let painted = self.texture(u, v).map(|c| to_byte(c * light));
                    view.image.data[3 * pixel..3 * pixel + 3].copy_from_slice(&painted);
                }
            }
        }
    }

    /// Colour of a point of the object; it rotates and deforms with the object.
    fn texture(&self, u: f64, v: f64) -> Colour {
        let grain = self.noise.fractal(u * 3.0 + 9.0, v * 3.0 + 9.0);
        if self.striped {
            let stripe = (u * 3.0 + grain).rem_euclid(1.0);
            blend(self.colours, if stripe < 0.5 { 0.15 } else { 0.85 })
        } else {
            blend(self.colours, grain)
        }
    }
}

fn colour(random: &mut Random, low: f64, high: f64) -> Colour {
    std::array::from_fn(|_| random.between(low, high))
}

fn blend([a, b]: [Colour; 2], amount: f64) -> Colour {
    std::array::from_fn(|i| a[i] + (b[i] - a[i]) * amount)
}

fn to_byte(value: f64) -> u8 {
    (value + 0.5) as u8
}
