/*!
Pillow's antialiased bicubic resize of 8-bit RGB, bit for bit.

SAM 2 was trained and is evaluated on pixels of `PIL.Image.resize`; another library's bicubic
differs by a few levels, which is enough to flip mask pixels. The arithmetic follows
`src/libImaging/Resample.c`: f64 weights with a = -0.5, widened when shrinking, normalised,
converted to 22-bit fixed point, applied along one axis, rounded to bytes, then along the other. An
axis whose size stays is skipped. The bytes depend on the order of the axes: see [`columns_first`].
*/

/// The resize's name in rows and files. Before Pillow 13 rows were always first, so the name has
/// the version.
pub const NAME: &str = "pil13-bicubic";

/// 8 bits of result and 2 of headroom leave this many for the fraction.
const PRECISION_BITS: u32 = 32 - 8 - 2;
const HALF: i32 = 1 << (PRECISION_BITS - 1);
/// Bicubic needs two pixels on either side.
const SUPPORT: f64 = 2.0;

/// Weights of one axis: for each output position a run of input positions.
#[derive(Clone, Debug, PartialEq)]
struct Axis {
    taps: Vec<Tap>,
    weights: Vec<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Tap {
    /// First input position.
    first: usize,
    /// Index of its first weight.
    start: usize,
    /// Number of its weights.
    count: usize,
}

/// First input position and fixed-point weights of each output position of one axis, for resizing
/// elsewhere. An axis that keeps its length has one weight of one, which is the same as skipping
/// it.
pub fn taps(from: usize, to: usize) -> Vec<(usize, Vec<i32>)> {
    if from == to {
        return (0..to).map(|position| (position, vec![1 << PRECISION_BITS])).collect();
    }
    let axis = Axis::new(from, to);
    axis.taps.iter().map(|&tap| (tap.first, axis.weights(tap).to_vec())).collect()
}

/// Whether Pillow 13 resizes along the columns first: if the height shrinks by more than twice as
/// much as the width (by anything, if the width grows). Before Pillow 13 rows were always first.
/// Sizes are (width, height).
pub fn columns_first(from: (usize, usize), to: (usize, usize)) -> bool {
    // Images of 2^62 pixels a side do not exist, so no difference overflows.
    let shrinks = |from: usize, to: usize| from as i64 - to as i64;
    let (width, height) = (shrinks(from.0, to.0), shrinks(from.1, to.1));
    height > 0 && height > 2 * width
}

/// Resizes images of one size to another.
#[derive(Clone, Debug)]
pub struct Resizer {
    from: (usize, usize),
    to: (usize, usize),
    horizontal: Option<Axis>,
    vertical: Option<Axis>,
    columns_first: bool,
    /// The image between the passes.
    between: Vec<u8>,
    sums: Vec<i32>,
}

impl Resizer {
    /// `from` and `to` are (width, height), each at least 1.
    pub fn new(from: (usize, usize), to: (usize, usize)) -> Self {
        let axis = |from: usize, to: usize| (from != to).then(|| Axis::new(from, to));
        let (horizontal, vertical) = (axis(from.0, to.0), axis(from.1, to.1));
        let columns_first = columns_first(from, to);
        Self {
            from,
            to,
            horizontal,
            vertical,
            columns_first,
            between: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Resizes interleaved RGB into `out`, which gets `3 * width * height` bytes.
    ///
    /// # Panics
    /// `data` does not have `3 * width * height` bytes.
    pub fn run(&mut self, data: &[u8], out: &mut Vec<u8>) {
        let (from, to) = (self.from, self.to);
        assert_eq!(data.len(), 3 * from.0 * from.1, "image of the wrong size");
        out.resize(3 * to.0 * to.1, 0);
        let (between, sums) = (&mut self.between, &mut self.sums);
        match (&self.horizontal, &self.vertical) {
            (None, None) => out.copy_from_slice(data),
            (Some(x), None) => x.along_rows(data, 3 * from.0, out),
            (None, Some(y)) => y.along_columns(data, 3 * to.0, sums, out),
            (Some(x), Some(y)) if self.columns_first => {
                between.resize(3 * from.0 * to.1, 0);
                y.along_columns(data, 3 * from.0, sums, between);
                x.along_rows(between, 3 * from.0, out);
            }
            (Some(x), Some(y)) => {
                between.resize(3 * to.0 * from.1, 0);
                x.along_rows(data, 3 * from.0, between);
                y.along_columns(between, 3 * to.0, sums, out);
            }
        }
    }
}

impl Axis {
    fn new(from: usize, to: usize) -> Self {
        let scale = from as f64 / to as f64;
        let widen = scale.max(1.0);
        let support = SUPPORT * widen;
        let (mut taps, mut weights) = (Vec::with_capacity(to), Vec::new());
        let mut exact = Vec::new();
        for position in 0..to {
            let center = (position as f64 + 0.5) * scale;
            let first = (center - support + 0.5).max(0.0) as usize;
            let end = ((center + support + 0.5) as usize).min(from);
            exact.clear();
            exact.extend((first..end).map(|x| cubic((x as f64 - center + 0.5) * (1.0 / widen))));
            let mut sum = 0.0;
            for weight in &exact {
                sum += weight;
            }
            taps.push(Tap { first, start: weights.len(), count: exact.len() });
            weights.extend(
                exact
                    .iter()
                    .map(|&weight| fixed_point(if sum == 0.0 { weight } else { weight / sum })),
            );
        }
        Self { taps, weights }
    }

    fn weights(&self, tap: Tap) -> &[i32] {
        &self.weights[tap.start..tap.start + tap.count]
    }

    /// `stride`: bytes of a line of `data`.
    fn along_rows(&self, data: &[u8], stride: usize, out: &mut [u8]) {
        let lines = data.chunks_exact(stride);
        for (line, out) in lines.zip(out.chunks_exact_mut(3 * self.taps.len())) {
            self.along_row(line, out);
        }
    }

    fn along_row(&self, line: &[u8], out: &mut [u8]) {
        for (pixel, &tap) in out.chunks_exact_mut(3).zip(&self.taps) {
            let mut sums = [HALF; 3];
            let sources = line[3 * tap.first..].chunks_exact(3);
            for (source, weight) in sources.zip(self.weights(tap)) {
                for (sum, &byte) in sums.iter_mut().zip(source) {
                    *sum += i32::from(byte) * weight;
                }
            }
            for (byte, sum) in pixel.iter_mut().zip(sums) {
                *byte = to_byte(sum);
            }
        }
    }

    /// `stride`: bytes of a line of `rows` and of `out`.
    fn along_columns(&self, rows: &[u8], stride: usize, sums: &mut Vec<i32>, out: &mut [u8]) {
        sums.resize(stride, 0);
        for (line, &tap) in out.chunks_exact_mut(stride).zip(&self.taps) {
            sums.fill(HALF);
            for (source, &weight) in
                rows[tap.first * stride..].chunks_exact(stride).zip(self.weights(tap))
            {
                for (sum, &byte) in sums.iter_mut().zip(source) {
                    *sum += i32::from(byte) * weight;
                }
            }
            for (byte, &sum) in line.iter_mut().zip(sums.iter()) {
                *byte = to_byte(sum);
            }
        }
    }
}

/// Keys' cubic convolution kernel with a = -0.5.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

/// Rounded half away from zero.
fn fixed_point(weight: f64) -> i32 {
    let scaled = weight * f64::from(1 << PRECISION_BITS);
    (if weight < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
}

fn to_byte(sum: i32) -> u8 {
    (sum >> PRECISION_BITS).clamp(0, 255) as u8
}
