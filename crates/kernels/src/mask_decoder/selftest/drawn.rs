/*!
A mask decoder with weights that are drawn, as its file has them and as its network has them: what
the file folds is here unfolded too.
*/

use std::collections::BTreeMap;

use anyhow::Result;
use half::f16;
use safetensors::tensor::Dtype;

use super::reference::Rows;
use crate::selftest::weights_file;
use vos::bundle::mask_decoder::{CROSS, HEADS, MASKS, MIDDLE, NARROW, TOKENS, WIDTH};
use vos::bundle::{FusedPart, MaskDecoderPart, MaskDecoderShape, MaskDecoderWeights};
use vos::noise::Noise;

/// Columns of a head between tokens and image.
const DEPTH: usize = CROSS / HEADS;
/// What the network gives for the IoU of the mask that is to be chosen, and for those of the
/// others.
const CHOSEN: f64 = 1.5;
const OTHERS: f64 = 0.5;
/// What it gives for the score of an object that is there; less that of one that is not.
const SCORE: f64 = 2.0;

/// Weights and inputs, as the kernels take them.
#[derive(Clone)]
pub struct Drawn {
    pub shape: MaskDecoderShape,
    /// The file's tensors, and those that it has folded or left out, in the values that are stored;
    /// without the `decoder.` in front.
    tensors: BTreeMap<String, Vec<f32>>,
    pub image: Vec<f16>,
    pub hr0: Vec<f16>,
    pub hr1: Vec<f16>,
}

impl Drawn {
    pub fn new(shape: MaskDecoderShape, seed: u64, name: &str) -> Self {
        let halves = |what: &str, count: usize| -> Vec<f16> {
            let values = Noise::new(seed, &format!("decoder {name} {what}")).normals(count);
            values.into_iter().map(f16::from_f32).collect()
        };
        let tokens = shape.tokens();
        let mut drawn = Self {
            shape,
            tensors: BTreeMap::new(),
            image: halves("image", tokens * WIDTH),
            hr0: halves("hr0", NARROW * 16 * tokens),
            hr1: halves("hr1", MIDDLE * 4 * tokens),
        };
        let mut put = |tensor: &str, columns: usize, dtype: Dtype, elements: usize| {
            let mut noise = Noise::new(seed, &format!("decoder {name} {tensor}"));
            let (scale, offset) = spread(tensor, columns);
            let values = noise.normals(elements).into_iter().enumerate().map(|(at, value)| {
                // The self-attention's queries are scaled, its keys and values are not.
                let queries = tensor == "layers.1.self.weight" && at < WIDTH * WIDTH;
                let value = if queries { 0.3 * value } else { value };
                let value = scale * value + offset;
                if dtype == Dtype::F16 { f16::from_f32(value).to_f32() } else { value }
            });
            drawn.tensors.insert(tensor.to_owned(), values.collect());
        };
        for tensor in MaskDecoderPart::tensors(&shape) {
            let name = tensor.name.trim_start_matches("decoder.");
            // The bias of an outer layer is a row or a column of it.
            let columns = match tensor.shape.as_slice() {
                [.., last] if tensor.shape.len() > 1 => *last,
                _ => WIDTH,
            };
            put(name, columns, tensor.dtype, tensor.elements());
        }
        // Layer 0's queries and keys, which the file has folded, and the biases of keys, which it
        // has not: they change no softmax.
        let first = "layers.0.read";
        put(&format!("{first}.query"), WIDTH, Dtype::F16, CROSS * WIDTH);
        put(&format!("{first}.query_bias"), WIDTH, Dtype::F32, CROSS);
        put(&format!("{first}.key"), WIDTH, Dtype::F16, CROSS * WIDTH);
        for read in [first, "layers.1.read", "last"] {
            put(&format!("{read}.key_bias"), WIDTH, Dtype::F32, CROSS);
        }
        let folded = drawn.folded();
        drawn.tensors.insert("first".to_owned(), folded);
        drawn
    }

    /// The values of a tensor, row by row; none of one that there is not.
    pub fn get(&self, name: &str) -> &[f32] {
        self.tensors.get(name).map_or(&[], Vec::as_slice)
    }

    /// Rows 8 h + j of what the image's scores are made with: a head of a token's query times the
    /// keys' weight.
    fn folded(&self) -> Vec<f32> {
        let (started, tokens) = (self.get("started"), self.get("tokens"));
        let [query, bias, key] =
            ["query", "query_bias", "key"].map(|part| self.get(&format!("layers.0.read.{part}")));
        let mut folded = Vec::with_capacity(HEADS * TOKENS * WIDTH);
        for row in 0..HEADS * TOKENS {
            let (head, token) = (row / TOKENS, row % TOKENS);
            let mut sums = vec![0.0; WIDTH];
            for inner in head * DEPTH..(head + 1) * DEPTH {
                let weight = &query[inner * WIDTH..][..WIDTH];
                let mut q = f64::from(bias[inner]);
                for (at, weight) in weight.iter().enumerate() {
                    let place = token * WIDTH + at;
                    q +=
                        f64::from(*weight) * (f64::from(started[place]) + f64::from(tokens[place]));
                }
                for (sum, key) in sums.iter_mut().zip(&key[inner * WIDTH..]) {
                    *sum += q * f64::from(*key);
                }
            }
            folded.extend(sums.into_iter().map(|sum| f16::from_f64(sum).to_f32()));
        }
        folded
    }

    /// Lets mask `chosen` of 1 to 3 have the best IoU by far, or (none) all three the same, which
    /// the first of them then wins; and the object be there or not.
    pub fn settle(&mut self, rows: &Rows, chosen: Option<usize>, there: bool) {
        if let Some(iou) = self.tensors.get_mut("heads.iou") {
            if chosen.is_none() {
                for mask in 2..MASKS {
                    iou.copy_within(WIDTH + 1..2 * (WIDTH + 1), mask * (WIDTH + 1));
                }
            }
            for (mask, row) in iou.chunks_mut(WIDTH + 1).enumerate() {
                let is_best = chosen.is_none_or(|chosen| chosen == mask);
                // The others differ, so that none of them passes as another.
                let wanted = if is_best { CHOSEN } else { OTHERS - 0.1 * mask as f64 };
                // The first mask is none of those to choose from, however good it is.
                shift(row, &rows.iou, if mask == 0 { 2.0 * CHOSEN } else { wanted });
            }
        }
        if let Some(score) = self.tensors.get_mut("heads.score") {
            shift(score, &rows.score, if there { SCORE } else { -SCORE });
        }
    }

    /// The file of weights, read as a bundle's.
    pub fn weights(&self) -> Result<MaskDecoderWeights> {
        weights_file(&self.shape, |name| self.get(name.trim_start_matches("decoder.")))
    }
}

/// Shifts a row's bias, its last element, so that the row gives `wanted`.
fn shift(row: &mut [f32], inner: &[f64], wanted: f64) {
    if let Some((bias, weight)) = row.split_last_mut() {
        let product: f64 = weight.iter().zip(inner).map(|(w, x)| f64::from(*w) * x).sum();
        *bias = (wanted - product) as f32;
    }
}

/// How far a tensor's elements spread, and around what: products then give about what they take,
/// and scores have a deviation of about 3, so that what is attended to is not the mean of
/// everything.
fn spread(tensor: &str, columns: usize) -> (f32, f32) {
    let last = tensor.rsplit('.').next().unwrap_or(tensor);
    let of_product = |gain: f32| (gain / (columns as f32).sqrt(), 0.0);
    match last {
        "weight" if tensor.contains("norm") => (0.1, 1.0),
        "tokens" => (0.5, 0.0),
        "started" | "no_pointer" => (1.0, 0.0),
        "pe" => (0.7, 0.0),
        "query" => of_product(0.5),
        "up" | "inner0" | "inner1" | "weight2" => of_product(1.4),
        "weight" | "values" | "out" | "down" | "key" | "value" | "score" | "iou" | "hyper"
        | "pointer" | "weight1" => of_product(1.0),
        _ => (0.2, 0.0),
    }
}
