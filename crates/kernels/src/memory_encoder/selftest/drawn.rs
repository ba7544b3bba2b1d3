/*!
A memory encoder with weights that are drawn, as its file has them and as its network has them: what
the file folds is here unfolded too.
*/

use std::collections::BTreeMap;

use anyhow::Result;
use half::f16;
use safetensors::tensor::Dtype;

use crate::selftest::f64_reference::{dot, layer_norm};
use crate::selftest::weights_file;
use vos::bundle::memory_encoder::{DEPTH, LATENTS, LAYERS, WIDTH};
use vos::bundle::{FusedPart, MemoryEncoderPart, MemoryEncoderShape, MemoryEncoderWeights};
use vos::noise::Noise;

/// Of the latents' norms.
pub const LATENTS_EPSILON: f64 = 1e-5;
/// Logits have this deviation, and lie this far apart: upscaled ones are then exact as floats, and
/// lie on the same side of 0 in all sums.
const LOGITS: (f32, f32) = (6.0, 0.125);

/// Weights and inputs, as the kernels take them.
pub struct Drawn {
    pub shape: MemoryEncoderShape,
    /// The file's tensors, and those that it has folded, in the values that are stored.
    tensors: BTreeMap<String, Vec<f32>>,
    pub feat: Vec<f16>,
    pub low: Vec<f32>,
}

impl Drawn {
    pub fn new(shape: MemoryEncoderShape, seed: u64, name: &str) -> Self {
        let noise = |what: &str| Noise::new(seed, &format!("memory encoder {name} {what}"));
        let pixels = shape.low_size() * shape.low_size();
        let (deviation, apart) = LOGITS;
        let logit = |value: f32| (deviation * value / apart).round() * apart;
        let feat = noise("feat").normals(WIDTH * shape.tokens());
        let mut drawn = Self {
            shape,
            tensors: BTreeMap::new(),
            feat: feat.into_iter().map(f16::from_f32).collect(),
            low: noise("low").normals(pixels).into_iter().map(logit).collect(),
        };
        let mut put = |tensor: &str, columns: usize, dtype: Dtype, elements: usize| {
            let (scale, offset) = spread(tensor, columns);
            let values = noise(tensor).normals(elements).into_iter().enumerate();
            let values = values.map(|(at, value)| {
                // The queries are scaled, keys and values are not.
                let queries = tensor.ends_with("self.qkv") && at < DEPTH * DEPTH;
                let value = scale * if queries { QUERIES * value } else { value } + offset;
                if dtype == Dtype::F16 { f16::from_f32(value).to_f32() } else { value }
            });
            drawn.tensors.insert(tensor.to_owned(), values.collect());
        };
        for tensor in MemoryEncoderPart::tensors(&shape) {
            // Of a convolution all that a pixel is summed from; of a depthwise one its places,
            // which come first.
            let columns = match tensor.shape.as_slice() {
                [places, _] if tensor.name.ends_with("spread") => *places,
                [_, inner @ ..] => inner.iter().product(),
                [] => 1,
            };
            put(&tensor.name, columns, tensor.dtype, tensor.elements());
        }
        if shape.latents {
            // Layer 0's queries, which the file has folded.
            put("latents.layers.0.query.weight", DEPTH, Dtype::F16, DEPTH * DEPTH);
            put("latents.layers.0.query.norm.weight", 1, Dtype::F32, DEPTH);
            put("latents.layers.0.query.norm.bias", 1, Dtype::F32, DEPTH);
            for (name, values) in [
                ("first", drawn.first()),
                ("windows.halves", drawn.halves()),
                ("windows.floats", drawn.floats()),
            ] {
                drawn.tensors.insert(format!("latents.{name}"), values);
            }
        }
        drawn
    }

    /// The values of a tensor, row by row; none of one that there is not.
    pub fn get(&self, name: &str) -> &[f32] {
        self.tensors.get(name).map_or(&[], Vec::as_slice)
    }

    /// The same as float64.
    pub fn doubles(&self, name: &str) -> Vec<f64> {
        self.get(name).iter().map(|value| f64::from(*value)).collect()
    }

    /// A row with this norm of the latents.
    pub fn normed(&self, x: &[f64], name: &str) -> Vec<f64> {
        let [weight, bias] = ["weight", "bias"].map(|part| self.get(&format!("{name}.{part}")));
        layer_norm(x, weight, bias, LATENTS_EPSILON)
    }

    /// What layer 0's latents ask all tokens with.
    fn first(&self) -> Vec<f32> {
        let (flat, query) =
            (self.doubles("latents.flat"), self.doubles("latents.layers.0.query.weight"));
        let mut made = Vec::with_capacity(LATENTS * DEPTH);
        for latent in flat.chunks(DEPTH) {
            let normed = self.normed(latent, "latents.layers.0.query.norm");
            made.extend(query.chunks(DEPTH).map(|row| halved(dot(row, &normed))));
        }
        made
    }

    /// What the windows' latents are multiplied with: their attention and the one to themselves as
    /// products of two weights each, and MLPs.
    fn halves(&self) -> Vec<f32> {
        let mut made = Vec::new();
        for layer in 0..LAYERS {
            let of = |part: &str| self.doubles(&format!("latents.layers.{layer}.{part}"));
            let (kv, qkv) = (of("kv"), of("self.qkv"));
            let (key, value) = kv.split_at(DEPTH * DEPTH);
            let plain = |part: &str| self.get(&format!("latents.layers.{layer}.{part}")).to_vec();
            made.extend(product(&turned(key), &of("query.weight")));
            made.extend(product(&of("out"), value));
            made.extend(plain("ff.up"));
            made.extend(plain("ff.down"));
            made.extend(product(&of("self.out"), &qkv[2 * DEPTH * DEPTH..]));
            made.extend(plain("self_ff.up"));
            made.extend(plain("self_ff.down"));
        }
        made
    }

    /// Their norms.
    fn floats(&self) -> Vec<f32> {
        let of_layer = |layer: usize| {
            let names = ["norm", "query.norm", "ff.norm", "self.norm", "self_ff.norm"];
            names.map(|name| format!("latents.layers.{layer}.{name}"))
        };
        let names = (0..LAYERS).flat_map(of_layer).chain(["latents.last".to_owned()]);
        let both = names.flat_map(|name| ["weight", "bias"].map(|part| format!("{name}.{part}")));
        both.flat_map(|name| self.get(&name).to_vec()).collect()
    }

    /// The file of weights, read as a bundle's.
    pub fn weights(&self) -> Result<MemoryEncoderWeights> {
        weights_file(&self.shape, |name| self.get(name))
    }
}

fn halved(value: f64) -> f32 {
    f16::from_f64(value).to_f32()
}

fn turned(square: &[f64]) -> Vec<f64> {
    (0..DEPTH * DEPTH).map(|at| square[at % DEPTH * DEPTH + at / DEPTH]).collect()
}

/// One square of weights times another, as it is stored.
fn product(left: &[f64], right: &[f64]) -> Vec<f32> {
    let right = turned(right);
    let rows = left.chunks(DEPTH);
    rows.flat_map(|row| right.chunks(DEPTH).map(|column| halved(dot(row, column)))).collect()
}

/// Less than what keys and values spread, so that scores have a deviation of about 3: what is
/// attended to is not the mean of everything.
const QUERIES: f32 = 0.35;

/// How far a tensor's elements spread, and around what: products then give about what they take.
fn spread(tensor: &str, columns: usize) -> (f32, f32) {
    let last = tensor.rsplit('.').next().unwrap_or(tensor);
    let of_product = |gain: f32| (gain / (columns as f32).sqrt(), 0.0);
    match last {
        "weight" if tensor.contains("norm") || tensor.contains("last") => (0.1, 1.0),
        "weight" if tensor.contains("query") => of_product(QUERIES),
        // What is behind an gelu is about half as large as what is in front of it.
        "weight" | "weight1" | "weight2" | "mask" | "up" | "down" => of_product(1.4),
        "feature" | "spread" | "out" | "kv" | "qkv" => of_product(1.0),
        "flat" | "map" | "absent" => (1.0, 0.0),
        "positions" => (0.5, 0.0),
        _ => (0.2, 0.0),
    }
}
