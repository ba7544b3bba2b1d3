/*!
The weights of a memory encoder, read from their file and held against their names, types and shapes: what is handed on to a GPU's kernels,
which check nothing, has the size that they take.
*/

use std::path::Path;

use anyhow::{Context, Result};
use safetensors::tensor::Dtype;

use super::{
    BLOCKS, DEPTH, HIDDEN, LATENT_HIDDEN, LATENTS, LAYERS, MemoryEncoder, MemoryShape, SPREAD,
    STEPS, TAPS, WIDTH, WINDOW_HALVES, WINDOW_NORMS,
};
use crate::bundle::tensors::{Contents, Tensor, check_size, read_file};

/// An opened file of weights.
#[derive(Clone, Debug)]
pub struct MemoryWeights(Contents);

impl MemoryWeights {
    /// Reads the file whole and checks it: it is the manifest's (size and sha256), and has every tensor in its shape and type, and no others.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged or another's; a tensor that is missing, too many, or of another type or shape.
    pub fn open(path: &Path, encoder: &MemoryEncoder) -> Result<Self> {
        let bytes = read_file(path, &encoder.sha256, "the weights of the memory encoder")?;
        check_size(path, &bytes, encoder.bytes)?;
        Self::read(bytes, encoder.shape()).with_context(|| format!("in {}", path.display()))
    }

    /// Of a whole file's bytes.
    ///
    /// # Errors
    /// As those of [`Self::open`] but for what concerns the manifest.
    pub fn read(bytes: Vec<u8>, shape: MemoryShape) -> Result<Self> {
        Contents::read(bytes, &Self::tensors(shape), "memory encoder").map(Self)
    }

    /// The whole file.
    pub fn file(&self) -> &[u8] {
        self.0.file()
    }

    /// A tensor's bytes, little-endian, row by row.
    ///
    /// # Errors
    /// There is no such tensor.
    pub fn get(&self, name: &str) -> Result<&[u8]> {
        self.0.get(name)
    }

    /// All tensors of the file, with names, types and shapes (`[rows out, columns in]`, of a convolution `[rows out, places, channels in]`,
    /// unless it is said otherwise). Scales of queries are in the queries' weights, those of layers in their last product's.
    pub fn tensors(shape: MemoryShape) -> Vec<Tensor> {
        let mut all = Vec::new();
        let mut put = |name: &str, dtype: Dtype, shape: &[usize]| {
            all.push(Tensor { name: name.to_owned(), dtype, shape: shape.to_vec() });
        };
        let (half, float) = (Dtype::F16, Dtype::F32);
        let [first, second, third, last] = STEPS;
        // Its one channel in has no axis.
        put("memory.mask.weight1", float, &[first, TAPS]);
        put("memory.mask.bias1", float, &[first]);
        put_norm(&mut put, "memory.mask.norm1", first);
        put("memory.mask.weight2", float, &[second, TAPS, first]);
        put("memory.mask.bias2", float, &[second]);
        put_norm(&mut put, "memory.mask.norm2", second);
        put("memory.widen.weight", half, &[third, TAPS, second]);
        put("memory.widen.bias", float, &[third]);
        put_norm(&mut put, "memory.widen.norm", third);
        put("memory.join.weight", half, &[last, TAPS, third]);
        put("memory.join.bias", float, &[last]);
        put_norm(&mut put, "memory.join.norm", last);
        put("memory.join.mask", half, &[WIDTH, last]);
        put("memory.join.feature", half, &[WIDTH, WIDTH]);
        // Of both products.
        put("memory.join.sum_bias", float, &[WIDTH]);
        for block in 0..BLOCKS {
            let name = |part: &str| format!("memory.blocks.{block}.{part}");
            // Places first: a channel has a kernel of its own.
            put(&name("spread"), float, &[SPREAD, WIDTH]);
            put(&name("spread_bias"), float, &[WIDTH]);
            put_norm(&mut put, &name("norm"), WIDTH);
            put(&name("up"), half, &[HIDDEN, WIDTH]);
            put(&name("up_bias"), float, &[HIDDEN]);
            put(&name("down"), half, &[WIDTH, HIDDEN]);
            put(&name("down_bias"), float, &[WIDTH]);
        }
        put("memory.out", half, &[DEPTH, WIDTH]);
        put("memory.out_bias", float, &[DEPTH]);
        // What is added where the object is not there.
        put("memory.absent", float, &[DEPTH]);
        if shape.latents {
            put_latents(&mut put, shape);
        }
        all
    }
}

fn put_norm(put: &mut impl FnMut(&str, Dtype, &[usize]), name: &str, columns: usize) {
    put(&format!("{name}.weight"), Dtype::F32, &[columns]);
    put(&format!("{name}.bias"), Dtype::F32, &[columns]);
}

fn put_latents(put: &mut impl FnMut(&str, Dtype, &[usize]), shape: MemoryShape) {
    let (half, float) = (Dtype::F16, Dtype::F32);
    put("latents.flat", float, &[LATENTS, DEPTH]);
    put("latents.map", float, &[LATENTS, DEPTH]);
    // Layer 0's queries of all tokens: constants.
    put("latents.first", half, &[LATENTS, DEPTH]);
    put("latents.positions", half, &[shape.tokens(), DEPTH]);
    for layer in 0..LAYERS {
        let name = |part: &str| format!("latents.layers.{layer}.{part}");
        // Of the memory.
        put_norm(put, &name("norm"), DEPTH);
        put(&name("kv"), half, &[2 * DEPTH, DEPTH]);
        put(&name("out"), half, &[DEPTH, DEPTH]);
        put_mlp(put, &name("ff"));
        put_norm(put, &name("self.norm"), DEPTH);
        put(&name("self.qkv"), half, &[3 * DEPTH, DEPTH]);
        put(&name("self.out"), half, &[DEPTH, DEPTH]);
        put_mlp(put, &name("self_ff"));
    }
    put_norm(put, "latents.layers.1.query.norm", DEPTH);
    put("latents.layers.1.query.weight", half, &[DEPTH, DEPTH]);
    put_norm(put, "latents.last", DEPTH);
    // Those of the windows' latents, one after the other: both layers' products; both layers' norms and the last one's.
    put("latents.windows.halves", half, &[LAYERS * WINDOW_HALVES]);
    put("latents.windows.floats", float, &[(LAYERS * WINDOW_NORMS + 1) * 2 * DEPTH]);
}

fn put_mlp(put: &mut impl FnMut(&str, Dtype, &[usize]), name: &str) {
    put_norm(put, &format!("{name}.norm"), DEPTH);
    put(&format!("{name}.up"), Dtype::F16, &[LATENT_HIDDEN, DEPTH]);
    put(&format!("{name}.down"), Dtype::F16, &[DEPTH, LATENT_HIDDEN]);
}
