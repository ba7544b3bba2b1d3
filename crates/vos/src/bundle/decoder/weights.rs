/*!
The weights of a mask decoder, read from their file and held against their names, types and shapes: what is handed on to a GPU's kernels,
which check nothing, has the size that they take.
*/

use std::path::Path;

use anyhow::{Context, Result};
use safetensors::tensor::Dtype;

use super::{
    CROSS, Decoder, DecoderShape, HIDDEN, LAYERS, MASKS, MIDDLE, NARROW, NETWORKS, ROWS, TOKENS,
    WIDTH,
};
use crate::bundle::tensors::{Contents, Tensor, check_size, read_file};

/// An opened file of weights.
#[derive(Clone, Debug)]
pub struct DecoderWeights(Contents);

impl DecoderWeights {
    /// Reads the file whole and checks it: it is the manifest's (size and sha256), and has every tensor in its shape and type, and no others.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged or another's; a tensor that is missing, too many, or of another type or shape.
    pub fn open(path: &Path, decoder: &Decoder) -> Result<Self> {
        let bytes = read_file(path, &decoder.sha256, "the weights of the mask decoder")?;
        check_size(path, &bytes, decoder.bytes)?;
        Self::read(bytes, decoder.shape()).with_context(|| format!("in {}", path.display()))
    }

    /// Of a whole file's bytes.
    ///
    /// # Errors
    /// As those of [`Self::open`] but for what concerns the manifest.
    pub fn read(bytes: Vec<u8>, shape: DecoderShape) -> Result<Self> {
        Contents::read(bytes, &Self::tensors(shape), "mask decoder").map(Self)
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

    /// All tensors of the file, with names, types and shapes (`[rows out, columns in]` unless it is said otherwise). Scales of queries
    /// are in the queries' weights.
    pub fn tensors(shape: DecoderShape) -> Vec<Tensor> {
        let mut all = Vec::new();
        let mut put = |name: &str, dtype: Dtype, shape: &[usize]| {
            all.push(Tensor { name: format!("decoder.{name}"), dtype, shape: shape.to_vec() });
        };
        let (half, float) = (Dtype::F16, Dtype::F32);
        put("pe", half, &[shape.tokens(), WIDTH]);
        put("tokens", float, &[TOKENS, WIDTH]);
        // Behind layer 0's self-attention, and its queries of the image folded: constants both.
        put("started", float, &[TOKENS, WIDTH]);
        put("first", half, &[ROWS, WIDTH]);
        for layer in 0..LAYERS {
            let name = |part: &str| format!("layers.{layer}.{part}");
            put_read(&mut put, &name("read"), layer > 0);
            put(&name("up"), half, &[HIDDEN, WIDTH]);
            put(&name("up_bias"), float, &[HIDDEN]);
            put(&name("down"), half, &[WIDTH, HIDDEN]);
            put(&name("down_bias"), float, &[WIDTH]);
            put_norm(&mut put, &name("norm3"), WIDTH);
            for part in ["key", "value", "query"] {
                put(&name(&format!("write.{part}")), half, &[CROSS, WIDTH]);
                put(&name(&format!("write.{part}_bias")), float, &[CROSS]);
            }
            put(&name("write.out"), half, &[WIDTH, CROSS]);
            put(&name("write.out_bias"), float, &[WIDTH]);
            put_norm(&mut put, &name("write.norm"), WIDTH);
        }
        // Queries, keys, values.
        put("layers.1.self.weight", half, &[3 * WIDTH, WIDTH]);
        put("layers.1.self.bias", float, &[3 * WIDTH]);
        // Columns in, rows out.
        put("layers.1.self.out", half, &[WIDTH, WIDTH]);
        put("layers.1.self.out_bias", float, &[WIDTH]);
        put_norm(&mut put, "layers.1.self.norm", WIDTH);
        put_read(&mut put, "last", true);
        for layer in ["inner0", "inner1"] {
            // Columns in, rows out.
            put(&format!("heads.{layer}"), float, &[NETWORKS, WIDTH, WIDTH]);
            put(&format!("heads.{layer}_bias"), float, &[NETWORKS, WIDTH]);
        }
        // The bias behind each row; of the pointer's, whose columns in come first, below all.
        put("heads.score", float, &[WIDTH + 1]);
        put("heads.iou", float, &[MASKS, WIDTH + 1]);
        put("heads.hyper", float, &[MASKS - 1, NARROW, WIDTH + 1]);
        put("heads.pointer", float, &[WIDTH + 1, WIDTH]);
        put("heads.no_pointer", float, &[WIDTH]);
        // A transposed convolution of 2 x 2: (dy, dx) first.
        put("masks.weight1", half, &[4, MIDDLE, WIDTH]);
        put("masks.bias1", float, &[MIDDLE]);
        put_norm(&mut put, "masks.norm", MIDDLE);
        put("masks.weight2", half, &[4, NARROW, MIDDLE]);
        put("masks.bias2", float, &[NARROW]);
        all
    }
}

fn put_norm(put: &mut impl FnMut(&str, Dtype, &[usize]), name: &str, columns: usize) {
    put(&format!("{name}.weight"), Dtype::F32, &[columns]);
    put(&format!("{name}.bias"), Dtype::F32, &[columns]);
}

/// Tokens attend to the image; `asks`: its queries are no constants.
fn put_read(put: &mut impl FnMut(&str, Dtype, &[usize]), name: &str, asks: bool) {
    let (half, float) = (Dtype::F16, Dtype::F32);
    put(&format!("{name}.values"), half, &[CROSS, WIDTH]);
    put(&format!("{name}.value_bias"), float, &[CROSS]);
    // Columns in, rows out.
    put(&format!("{name}.out"), half, &[CROSS, WIDTH]);
    put(&format!("{name}.out_bias"), float, &[WIDTH]);
    put_norm(put, &format!("{name}.norm"), WIDTH);
    if asks {
        put(&format!("{name}.query"), half, &[CROSS, WIDTH]);
        put(&format!("{name}.query_bias"), float, &[CROSS]);
        put(&format!("{name}.key"), half, &[CROSS, WIDTH]);
    }
}
