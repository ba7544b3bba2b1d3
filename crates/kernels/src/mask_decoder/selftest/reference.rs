/*!
What a mask decoder computes, in float64 and in the order of its network
(`onnx/segexport/decoder.py`): nothing is folded, and a softmax over the image is one over all of
it. Weights and inputs have the values that the kernels are given.
*/

use rayon::prelude::*;

use super::drawn::Drawn;
use crate::selftest::f64_reference::{dot, gelu, layer_norm};
use vos::bundle::mask_decoder::{CHOICES, CROSS, HEADS, HIDDEN, LAYERS, MIDDLE, NARROW, WIDTH};

const NORM_EPSILON: f64 = 1e-5;
const UPSCALED_EPSILON: f64 = 1e-6;
/// Tokens in front of those of the masks: object score and IoU.
const BEFORE_MASKS: usize = 2;

/// Rows of numbers.
struct Matrix {
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    fn of(values: impl IntoIterator<Item = f64>, columns: usize) -> Self {
        Self { columns, values: values.into_iter().collect() }
    }

    fn from_floats(values: &[f32], columns: usize) -> Self {
        Self::of(values.iter().map(|value| f64::from(*value)), columns)
    }

    fn row(&self, at: usize) -> &[f64] {
        &self.values[at * self.columns..(at + 1) * self.columns]
    }

    fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    fn plus(&self, other: &Self) -> Self {
        Self::of(self.values.iter().zip(&other.values).map(|(a, b)| a + b), self.columns)
    }

    /// Each row from the row of the same number.
    fn map(&self, columns: usize, make: impl Fn(&[f64]) -> Vec<f64> + Send + Sync) -> Self {
        let values = self.values.par_chunks(self.columns).flat_map_iter(make);
        Self { columns, values: values.collect() }
    }

    fn transposed(&self) -> Self {
        let turned =
            (0..self.columns).flat_map(|column| (0..self.rows()).map(move |row| (row, column)));
        Self::of(turned.map(|(row, column)| self.row(row)[column]), self.rows())
    }
}

/// Rows out, columns in.
struct Linear {
    weight: Matrix,
    bias: Vec<f64>,
}

impl Linear {
    fn of(weight: Matrix, bias: &[f32]) -> Self {
        Self { weight, bias: bias.iter().map(|value| f64::from(*value)).collect() }
    }

    fn row(&self, x: &[f64]) -> Vec<f64> {
        self.bias
            .iter()
            .enumerate()
            .map(|(row, bias)| dot(self.weight.row(row), x) + bias)
            .collect()
    }

    fn rows(&self, x: &Matrix) -> Matrix {
        x.map(self.bias.len(), |row| self.row(row))
    }
}

struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
}

impl Attention {
    /// softmax(q kᵀ) v, head by head; the scale is in the queries' weight.
    fn attend(&self, queries: &Matrix, keys: &Matrix, values: &Matrix) -> Matrix {
        let q = self.query.rows(queries);
        let (k, v) = (self.key.rows(keys), self.value.rows(values));
        let depth = q.columns / HEADS;
        let attended = q.map(q.columns, |row| {
            let mut made = Vec::with_capacity(row.len());
            for head in 0..HEADS {
                let of_head = head * depth..(head + 1) * depth;
                let q = &row[of_head.clone()];
                let score = |at: usize| dot(q, &k.row(at)[of_head.clone()]);
                let scores: Vec<f64> = (0..k.rows()).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let (mut total, mut sums) = (0.0, vec![0.0; depth]);
                for (at, score) in scores.iter().enumerate() {
                    let weight = (score - most).exp();
                    total += weight;
                    for (sum, value) in sums.iter_mut().zip(&v.row(at)[of_head.clone()]) {
                        *sum += weight * value;
                    }
                }
                made.extend(sums.iter().map(|sum| sum / total));
            }
            made
        });
        self.out.rows(&attended)
    }
}

/// The last inner rows of what is read from the tokens.
pub struct Rows {
    pub score: Vec<f64>,
    pub iou: Vec<f64>,
    vectors: [Vec<f64>; CHOICES],
    pointers: [Vec<f64>; CHOICES],
}

/// What the answer is read from.
pub struct Decoded {
    pub rows: Rows,
    image: Matrix,
}

/// What is expected of the kernels.
pub struct Expected {
    pub score: f64,
    pub iou: f64,
    /// Of masks 1 to 3.
    pub ious: [f64; CHOICES],
    pub pointer: Vec<f64>,
    /// Pixels and their logits, as if the object were there.
    pub low: Vec<(usize, f64)>,
}

/// The network of a decoder.
struct Network<'d>(&'d Drawn);

impl Network<'_> {
    fn matrix(&self, name: &str, columns: usize) -> Matrix {
        Matrix::from_floats(self.0.get(name), columns)
    }

    fn linear(&self, name: &str, columns: usize) -> Linear {
        Linear::of(self.matrix(name, columns), self.0.get(&format!("{name}_bias")))
    }

    /// One whose weight the file has turned: columns in, rows out.
    fn turned(&self, name: &str, columns_out: usize) -> Linear {
        let weight = self.matrix(name, columns_out).transposed();
        Linear::of(weight, self.0.get(&format!("{name}_bias")))
    }

    fn norm(&self, x: &[f64], name: &str, epsilon: f64) -> Vec<f64> {
        let [weight, bias] = ["weight", "bias"].map(|part| self.0.get(&format!("{name}.{part}")));
        layer_norm(x, weight, bias, epsilon)
    }

    fn normed(&self, x: &Matrix, name: &str) -> Matrix {
        x.map(x.columns, |row| self.norm(row, name, NORM_EPSILON))
    }

    /// Tokens attend to the image.
    fn read(&self, name: &str) -> Attention {
        let of = |part: &str| self.linear(&format!("{name}.{part}"), WIDTH);
        let values = self.matrix(&format!("{name}.values"), WIDTH);
        Attention {
            query: of("query"),
            key: of("key"),
            value: Linear::of(values, self.0.get(&format!("{name}.value_bias"))),
            out: self.turned(&format!("{name}.out"), WIDTH),
        }
    }

    /// The image attends to the tokens.
    fn write(&self, name: &str) -> Attention {
        let of = |part: &str| self.linear(&format!("{name}.{part}"), WIDTH);
        let out = self.linear(&format!("{name}.out"), CROSS);
        Attention { query: of("query"), key: of("key"), value: of("value"), out }
    }

    /// Tokens attend to each other.
    fn among(&self, name: &str) -> Attention {
        let [weight, bias] = ["weight", "bias"].map(|part| self.0.get(&format!("{name}.{part}")));
        let of = |at: usize| {
            let weight = &weight[at * WIDTH * WIDTH..(at + 1) * WIDTH * WIDTH];
            Linear::of(Matrix::from_floats(weight, WIDTH), &bias[at * WIDTH..(at + 1) * WIDTH])
        };
        let out = self.turned(&format!("{name}.out"), WIDTH);
        Attention { query: of(0), key: of(1), value: of(2), out }
    }

    fn decode(&self) -> Decoded {
        let drawn = self.0;
        let tokens = self.matrix("tokens", WIDTH);
        let positions = self.matrix("pe", WIDTH);
        let mut image =
            Matrix::of(drawn.image.iter().map(|value| f64::from(value.to_f32())), WIDTH);
        let mut queries = self.matrix("started", WIDTH);
        for layer in 0..LAYERS {
            let of = |part: &str| format!("layers.{layer}.{part}");
            if layer > 0 {
                let placed = queries.plus(&tokens);
                let attended = self.among(&of("self")).attend(&placed, &placed, &queries);
                queries = self.normed(&queries.plus(&attended), &of("self.norm"));
            }
            let placed = image.plus(&positions);
            let attended = self.read(&of("read")).attend(&queries.plus(&tokens), &placed, &image);
            queries = self.normed(&queries.plus(&attended), &of("read.norm"));
            let (up, down) = (self.linear(&of("up"), WIDTH), self.linear(&of("down"), HIDDEN));
            let hidden =
                up.rows(&queries).map(HIDDEN, |row| row.iter().map(|x| x.max(0.0)).collect());
            queries = self.normed(&queries.plus(&down.rows(&hidden)), &of("norm3"));
            let attended =
                self.write(&of("write")).attend(&placed, &queries.plus(&tokens), &queries);
            image = self.normed(&image.plus(&attended), &of("write.norm"));
        }
        let placed = image.plus(&positions);
        let attended = self.read("last").attend(&queries.plus(&tokens), &placed, &image);
        queries = self.normed(&queries.plus(&attended), "last.norm");
        Decoded { rows: self.inner(&queries), image }
    }

    /// Both inner layers of the MLPs behind the tokens.
    fn inner(&self, decoded: &Matrix) -> Rows {
        let layer = |at: usize, network: usize, x: &[f64]| -> Vec<f64> {
            let of = |name: &str, size: usize| {
                &self.0.get(&format!("heads.{name}"))[network * size..(network + 1) * size]
            };
            // Columns in, rows out.
            let weight = of(&format!("inner{at}"), WIDTH * WIDTH);
            let weight = Matrix::from_floats(weight, WIDTH).transposed();
            let linear = Linear::of(weight, of(&format!("inner{at}_bias"), WIDTH));
            linear.row(x).into_iter().map(|value| value.max(0.0)).collect()
        };
        let both = |network: usize, token: usize| {
            layer(1, network, &layer(0, network, decoded.row(token)))
        };
        // The first mask is not chosen from.
        let token = |choice: usize| BEFORE_MASKS + 1 + choice;
        Rows {
            score: both(0, 0),
            iou: both(1, 1),
            vectors: std::array::from_fn(|choice| both(2 + choice, token(choice))),
            pointers: std::array::from_fn(|choice| both(2 + CHOICES, token(choice))),
        }
    }

    fn expected(&self, decoded: &Decoded, tokens: impl Iterator<Item = usize>) -> Expected {
        let Decoded { rows, image } = decoded;
        // The bias is the last element of each row.
        let outer = |row: &[f32], x: &[f64]| -> f64 {
            let sum: f64 = row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum();
            sum + row.last().copied().map_or(0.0, f64::from)
        };
        let iou = self.0.get("heads.iou");
        let raw: Vec<f64> =
            iou.chunks(WIDTH + 1).skip(1).map(|row| outer(row, &rows.iou)).collect();
        // The first of equals.
        let mut choice = 0;
        for at in 1..CHOICES {
            if raw[at] > raw[choice] {
                choice = at;
            }
        }
        let of_vector = NARROW * (WIDTH + 1);
        let hyper = &self.0.get("heads.hyper")[choice * of_vector..(choice + 1) * of_vector];
        let hyper = hyper.chunks(WIDTH + 1);
        let vector: Vec<f64> = hyper.map(|row| outer(row, &rows.vectors[choice])).collect();
        let score = outer(self.0.get("heads.score"), &rows.score);
        let pointer = if score > 0.0 {
            let turned = self.matrix("heads.pointer", WIDTH).transposed();
            let mut row = rows.pointers[choice].clone();
            row.push(1.0);
            turned.values.chunks(WIDTH + 1).map(|weight| dot(weight, &row)).collect()
        } else {
            self.0.get("heads.no_pointer").iter().map(|value| f64::from(*value)).collect()
        };
        let iou_sigmoid = self.0.shape.iou_sigmoid;
        let ious =
            std::array::from_fn(
                |at| {
                    if iou_sigmoid { 1.0 / (1.0 + (-raw[at]).exp()) } else { raw[at] }
                },
            );
        let tokens: Vec<usize> = tokens.collect();
        let upscaling = Upscaling::of(self);
        let low = tokens.par_iter().flat_map_iter(|token| upscaling.pixels(*token, image, &vector));
        Expected { score, iou: ious[choice], ious, pointer, low: low.collect() }
    }
}

/// Two transposed convolutions whose stride is as wide as they are: a token becomes 2 × 2 pixels,
/// each of which becomes 2 × 2.
struct Upscaling<'d> {
    network: &'d Network<'d>,
    first: [Linear; 4],
    second: [Linear; 4],
}

impl<'d> Upscaling<'d> {
    fn of(network: &'d Network<'d>) -> Self {
        let part = |name: &str, bias: &str, rows: usize, columns: usize, at: usize| {
            let weight = &network.0.get(name)[at * rows * columns..(at + 1) * rows * columns];
            Linear::of(Matrix::from_floats(weight, columns), network.0.get(bias))
        };
        let first = |at| part("masks.weight1", "masks.bias1", MIDDLE, WIDTH, at);
        let second = |at| part("masks.weight2", "masks.bias2", NARROW, MIDDLE, at);
        Self { network, first: std::array::from_fn(first), second: std::array::from_fn(second) }
    }

    /// The 16 logits of a token, each with its place.
    fn pixels(&self, token: usize, image: &Matrix, vector: &[f64]) -> Vec<(usize, f64)> {
        let drawn = self.network.0;
        let grid = drawn.shape.grid;
        let (row, column) = (token / grid, token % grid);
        let mut pixels = Vec::with_capacity(16);
        for (at, first) in self.first.iter().enumerate() {
            let side = 2 * grid;
            let (y, x) = (2 * row + at / 2, 2 * column + at % 2);
            let fine =
                |channel: usize| f64::from(drawn.hr1[(channel * side + y) * side + x].to_f32());
            let made = first.row(image.row(token)).into_iter().enumerate();
            let made: Vec<f64> = made.map(|(channel, value)| value + fine(channel)).collect();
            let normed = self.network.norm(&made, "masks.norm", UPSCALED_EPSILON);
            let middle: Vec<f64> = normed.into_iter().map(gelu).collect();
            for (at, second) in self.second.iter().enumerate() {
                let side = 4 * grid;
                let (y, x) = (2 * y + at / 2, 2 * x + at % 2);
                let fine =
                    |channel: usize| f64::from(drawn.hr0[(channel * side + y) * side + x].to_f32());
                let made = second.row(&middle).into_iter().enumerate();
                let made: Vec<f64> =
                    made.map(|(channel, value)| gelu(value + fine(channel))).collect();
                pixels.push((y * side + x, dot(&made, vector)));
            }
        }
        pixels
    }
}

/// All but what is read from the last inner rows, whose outer layers may still change.
pub fn decode(drawn: &Drawn) -> Decoded {
    Network(drawn).decode()
}

/// The answer, with the logits of these tokens' pixels.
pub fn expected(drawn: &Drawn, decoded: &Decoded, tokens: impl Iterator<Item = usize>) -> Expected {
    Network(drawn).expected(decoded, tokens)
}
