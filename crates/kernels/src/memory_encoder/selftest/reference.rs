/*!
What a memory encoder computes, in float64 and in the order of its network
(`onnx/segexport/memory_encoder.py`, `perceiver.py`): nothing is folded, and a softmax is one over
all that it is of. Weights and inputs have the values that the kernels are given.
*/

use rayon::prelude::*;

use super::drawn::Drawn;
use crate::selftest::f64_reference::{dot, gelu, layer_norm};
use vos::bundle::memory_encoder::{
    BLOCKS, DEPTH, HIDDEN, LATENT_HIDDEN, LAYERS, SPREAD, STEPS, TAPS, WIDTH, WINDOWS,
};

const CHANNELS_EPSILON: f64 = 1e-6;
/// Rows and columns under a depthwise kernel, and how far it reaches.
const KERNEL: usize = SPREAD.isqrt();
const REACH: usize = KERNEL / 2;
/// How much larger the mask is than the logits.
const ENLARGED: usize = 4;

/// Pixels of several channels, row by row.
struct Image {
    side: usize,
    channels: usize,
    values: Vec<f64>,
}

impl Image {
    /// Each pixel by its row and column.
    fn of(side: usize, channels: usize, make: impl Fn(usize, usize) -> Vec<f64> + Sync) -> Self {
        let rows = (0..side).into_par_iter();
        let row = |y: usize| (0..side).flat_map(|x| make(y, x)).collect::<Vec<_>>();
        let values = rows.flat_map_iter(row).collect();
        Self { side, channels, values }
    }

    fn pixel(&self, y: usize, x: usize) -> &[f64] {
        &self.values[(y * self.side + x) * self.channels..][..self.channels]
    }
}

/// Rows out, columns in; what has no bias adds none.
struct Linear {
    weight: Vec<f64>,
    bias: Vec<f64>,
    columns: usize,
}

impl Linear {
    fn row(&self, x: &[f64]) -> Vec<f64> {
        let made = self.weight.chunks(self.columns).map(|row| dot(row, x));
        let bias = self.bias.iter().copied().chain(std::iter::repeat(0.0));
        made.zip(bias).map(|(made, bias)| made + bias).collect()
    }
}

fn plus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn activated(x: Vec<f64>) -> Vec<f64> {
    x.into_iter().map(gelu).collect()
}

/// softmax of the products of `query` with each key, times the values.
fn attend<'v>(query: &[f64], keys: &[&[f64]], values: impl Iterator<Item = &'v [f64]>) -> Vec<f64> {
    let scores: Vec<f64> = keys.iter().map(|key| dot(query, key)).collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut total, mut sums) = (0.0, vec![0.0; DEPTH]);
    for (score, value) in scores.iter().zip(values) {
        let weight = (score - most).exp();
        total += weight;
        sums.iter_mut().zip(value).for_each(|(sum, value)| *sum += weight * value);
    }
    sums.iter().map(|sum| sum / total).collect()
}

/// What a frame has beside what is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    pub low: &'a [f32],
    pub binary: bool,
    pub score: f32,
}

struct Network<'d>(&'d Drawn);

impl Network<'_> {
    fn linear(&self, weight: &str, bias: &str, columns: usize) -> Linear {
        let (weight, bias) = (self.0.doubles(weight), self.0.doubles(bias));
        Linear { weight, bias, columns }
    }

    /// A norm over channels.
    fn normed(&self, x: &[f64], name: &str) -> Vec<f64> {
        let [weight, bias] = ["weight", "bias"].map(|part| self.0.get(&format!("{name}.{part}")));
        layer_norm(x, weight, bias, CHANNELS_EPSILON)
    }

    /// The mask, four times as large as the logits.
    fn mask(&self, given: &Given) -> Image {
        let (side, shape) = (self.0.shape.low_size(), self.0.shape);
        let places = |at: usize| {
            let source = ((at as f64 + 0.5) / ENLARGED as f64 - 0.5).max(0.0);
            let first = source as usize;
            [(first, 1.0 - source.fract()), ((first + 1).min(side - 1), source.fract())]
        };
        Image::of(ENLARGED * side, 1, |y, x| {
            let mut high = 0.0;
            for (row, down) in places(y) {
                for (column, right) in places(x) {
                    high += down * right * f64::from(given.low[row * side + column]);
                }
            }
            let hard = f64::from(u8::from(high > 0.0));
            let mask = if given.binary { hard } else { 1.0 / (1.0 + (-high).exp()) };
            vec![mask * f64::from(shape.scale) + f64::from(shape.offset)]
        })
    }

    /// One of the mask's convolutions: 3 × 3, stride 2, zeros around; a norm and an gelu behind it.
    fn convolve(&self, image: &Image, [weight, bias, norm]: [&str; 3], out: usize) -> Image {
        let linear = self.linear(weight, bias, TAPS * image.channels);
        Image::of(image.side / 2, out, |y, x| {
            let mut under = vec![0.0; TAPS * image.channels];
            for (tap, under) in under.chunks_mut(image.channels).enumerate() {
                // One row and column of zeros are in front of the first.
                let (v, u) = (2 * y + tap / 3, 2 * x + tap % 3);
                if v > 0 && u > 0 && v <= image.side && u <= image.side {
                    under.copy_from_slice(image.pixel(v - 1, u - 1));
                }
            }
            activated(self.normed(&linear.row(&under), norm))
        })
    }

    /// Mask and features together, where they are asked for.
    fn joined(&self, given: &Given, wanted: &[bool]) -> Image {
        let [first, second, third, last] = STEPS;
        let name = |part: &str| format!("memory.{part}");
        let step = |image: &Image, weight: &str, bias: &str, norm: &str, out: usize| {
            self.convolve(image, [&name(weight), &name(bias), &name(norm)], out)
        };
        let mut mask = self.mask(given);
        mask = step(&mask, "mask.weight1", "mask.bias1", "mask.norm1", first);
        mask = step(&mask, "mask.weight2", "mask.bias2", "mask.norm2", second);
        mask = step(&mask, "widen.weight", "widen.bias", "widen.norm", third);
        mask = step(&mask, "join.weight", "join.bias", "join.norm", last);
        let of_mask = self.linear("memory.join.mask", "memory.join.sum_bias", last);
        let of_features = self.linear("memory.join.feature", "", WIDTH);
        let (grid, tokens) = (self.0.shape.grid, self.0.shape.tokens());
        Image::of(grid, WIDTH, |y, x| {
            let at = y * grid + x;
            if !wanted[at] {
                return vec![0.0; WIDTH];
            }
            let features = (0..WIDTH).map(|channel| self.0.feat[channel * tokens + at].to_f64());
            let features: Vec<f64> = features.collect();
            plus(&of_mask.row(mask.pixel(y, x)), &of_features.row(&features))
        })
    }

    /// A block: a depthwise convolution, a norm and an MLP.
    fn block(&self, image: &Image, block: usize, wanted: &[bool]) -> Image {
        let of = |part: &str| format!("memory.blocks.{block}.{part}");
        let (spread, bias) = (self.0.doubles(&of("spread")), self.0.doubles(&of("spread_bias")));
        let up = self.linear(&of("up"), &of("up_bias"), WIDTH);
        let down = self.linear(&of("down"), &of("down_bias"), HIDDEN);
        Image::of(image.side, WIDTH, |y, x| {
            if !wanted[y * image.side + x] {
                return vec![0.0; WIDTH];
            }
            let mut sums = bias.clone();
            for (tap, weight) in spread.chunks(WIDTH).enumerate() {
                let (v, u) = (y + tap / KERNEL, x + tap % KERNEL);
                let inside = |at: usize| (REACH..image.side + REACH).contains(&at);
                if inside(v) && inside(u) {
                    let from = image.pixel(v - REACH, u - REACH).iter().zip(weight);
                    sums.iter_mut().zip(from).for_each(|(sum, (x, weight))| *sum += x * weight);
                }
            }
            let hidden = activated(up.row(&self.normed(&sums, &of("norm"))));
            plus(image.pixel(y, x), &down.row(&hidden))
        })
    }

    /// The tokens in front of the latents; zeros where they are not asked for.
    fn tokens(&self, given: &Given, wanted: &[bool]) -> Vec<f64> {
        let grid = self.0.shape.grid;
        // What a block's tokens are made of, the last block's first.
        let mut needed = vec![wanted.to_vec()];
        for _ in 0..BLOCKS {
            needed.push(around(needed.last().unwrap_or(&Vec::new()), grid));
        }
        let mut image = self.joined(given, &needed[BLOCKS]);
        for block in 0..BLOCKS {
            image = self.block(&image, block, &needed[BLOCKS - 1 - block]);
        }
        let out = self.linear("memory.out", "memory.out_bias", WIDTH);
        let absent = self.0.doubles("memory.absent");
        let made = Image::of(grid, DEPTH, |y, x| {
            let made = out.row(image.pixel(y, x));
            if given.score <= 0.0 { plus(&made, &absent) } else { made }
        });
        made.values
    }

    /// Latents of all tokens, then those of a window each.
    fn latents(&self, tokens: &[f64]) -> Vec<f64> {
        let (mut flat, mut map) = (self.0.doubles("latents.flat"), self.0.doubles("latents.map"));
        for layer in 0..LAYERS {
            let layer = Layer::of(self, layer);
            flat = layer.all_tokens(&flat, tokens, &self.0.doubles("latents.positions"));
            map = layer.own_window(&map, tokens, self.0.shape.grid);
        }
        flat.extend(map);
        each(&flat, |_, latent| self.0.normed(latent, "latents.last"))
    }
}

/// Rows of `DEPTH` columns, each from the row of the same number.
fn each(rows: &[f64], make: impl Fn(usize, &[f64]) -> Vec<f64> + Sync + Send) -> Vec<f64> {
    rows.par_chunks(DEPTH).enumerate().flat_map_iter(|(at, row)| make(at, row)).collect()
}

/// A layer of the perceiver.
struct Layer<'d> {
    drawn: &'d Drawn,
    name: String,
    q: Linear,
    k: Linear,
    v: Linear,
    out: Linear,
    ff: [Linear; 2],
    own: [Linear; 3],
    own_out: Linear,
    self_ff: [Linear; 2],
}

impl<'d> Layer<'d> {
    fn of(network: &Network<'d>, layer: usize) -> Self {
        let name = format!("latents.layers.{layer}");
        let linear =
            |part: &str, columns: usize| network.linear(&format!("{name}.{part}"), "", columns);
        // Rows of several in one.
        let part = |whole: &str, at: usize| {
            let Linear { weight, .. } = linear(whole, DEPTH);
            let weight = weight[at * DEPTH * DEPTH..(at + 1) * DEPTH * DEPTH].to_vec();
            Linear { weight, bias: Vec::new(), columns: DEPTH }
        };
        let mlp = |name: &str| {
            let (up, down) = (format!("{name}.up"), format!("{name}.down"));
            [linear(&up, DEPTH), linear(&down, LATENT_HIDDEN)]
        };
        Self {
            drawn: network.0,
            q: linear("query.weight", DEPTH),
            k: part("kv", 0),
            v: part("kv", 1),
            out: linear("out", DEPTH),
            ff: mlp("ff"),
            own: [0, 1, 2].map(|at| part("self.qkv", at)),
            own_out: linear("self.out", DEPTH),
            self_ff: mlp("self_ff"),
            name,
        }
    }

    fn normed(&self, x: &[f64], norm: &str) -> Vec<f64> {
        self.drawn.normed(x, &format!("{}.{norm}", self.name))
    }

    fn query(&self, latent: &[f64]) -> Vec<f64> {
        self.q.row(&self.normed(latent, "query.norm"))
    }

    fn with_mlp(&self, x: &[f64], [up, down]: &[Linear; 2], norm: &str) -> Vec<f64> {
        plus(x, &down.row(&activated(up.row(&self.normed(x, norm)))))
    }

    /// Latents attend to all tokens, then to each other.
    fn all_tokens(&self, latents: &[f64], tokens: &[f64], positions: &[f64]) -> Vec<f64> {
        let placed = |linear: &Linear| {
            each(tokens, |at, token| {
                plus(&linear.row(&self.normed(token, "norm")), &positions[at * DEPTH..])
            })
        };
        let (keys, values) = (placed(&self.k), placed(&self.v));
        let keys: Vec<&[f64]> = keys.chunks(DEPTH).collect();
        let mixed = each(latents, |_, latent| {
            let read = attend(&self.query(latent), &keys, values.chunks(DEPTH));
            self.with_mlp(&plus(latent, &self.out.row(&read)), &self.ff, "ff.norm")
        });
        let [q, k, v] = &self.own;
        let of = |linear: &Linear| {
            each(&mixed, |_, latent| linear.row(&self.normed(latent, "self.norm")))
        };
        let (queries, keys, values) = (of(q), of(k), of(v));
        let keys: Vec<&[f64]> = keys.chunks(DEPTH).collect();
        each(&mixed, |at, latent| {
            let read = attend(&queries[at * DEPTH..][..DEPTH], &keys, values.chunks(DEPTH));
            self.with_mlp(&plus(latent, &self.own_out.row(&read)), &self.self_ff, "self_ff.norm")
        })
    }

    /// Latents attend to their own window, then to themselves.
    fn own_window(&self, latents: &[f64], tokens: &[f64], grid: usize) -> Vec<f64> {
        let window = grid / WINDOWS;
        each(latents, |at, latent| {
            let (top, left) = (at / WINDOWS * window, at % WINDOWS * window);
            let places =
                (0..window * window).map(|n| (top + n / window) * grid + left + n % window);
            let normed = places.map(|place| self.normed(&tokens[place * DEPTH..][..DEPTH], "norm"));
            let normed: Vec<Vec<f64>> = normed.collect();
            let of = |linear: &Linear| -> Vec<Vec<f64>> {
                normed.iter().map(|token| linear.row(token)).collect()
            };
            let (keys, values) = (of(&self.k), of(&self.v));
            let keys: Vec<&[f64]> = keys.iter().map(Vec::as_slice).collect();
            let read = attend(&self.query(latent), &keys, values.iter().map(Vec::as_slice));
            let x = self.with_mlp(&plus(latent, &self.out.row(&read)), &self.ff, "ff.norm");
            // A softmax over one is 1.
            let value = self.own[2].row(&self.normed(&x, "self.norm"));
            self.with_mlp(&plus(&x, &self.own_out.row(&value)), &self.self_ff, "self_ff.norm")
        })
    }
}

/// Tokens, and those that a depthwise convolution reads for them.
fn around(tokens: &[bool], grid: usize) -> Vec<bool> {
    let near = |at: usize| at.saturating_sub(REACH)..(at + REACH + 1).min(grid);
    let mut made = vec![false; tokens.len()];
    for at in (0..tokens.len()).filter(|at| tokens[*at]) {
        for y in near(at / grid) {
            made[y * grid..][near(at % grid)].fill(true);
        }
    }
    made
}

/// A frame's memory, row by row; of one without latents those tokens that are asked for, and zeros.
pub fn memory(drawn: &Drawn, given: &Given, wanted: &[bool]) -> Vec<f64> {
    let network = Network(drawn);
    let tokens = network.tokens(given, wanted);
    if drawn.shape.latents { network.latents(&tokens) } else { tokens }
}
