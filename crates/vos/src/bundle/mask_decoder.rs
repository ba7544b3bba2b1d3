/*!
The mask decoder of the track step, which this program computes itself.

TensorRT takes 0.3 to 0.42 ms of a frame for it on an H200, several times what its bytes and
products would take. In the track step its prompt tokens are constants, so a bundle may end its last
segment in front of the decoder (`y`, the tokens behind the memory attention) and hold the decoder's
weights in a file of its own, folded as far as constants go. `manifest.toml` describes it in its
table `[mask_decoder]`; `onnx/README.md` says what the tensors are.
*/

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use safetensors::tensor::Dtype;

use super::fused_part::{FusedPart, Plans, ReplacedEngine, WeightsFile, WeightsRecord};
use super::manifest::{Contract, Graph, Manifest};
use super::memory_attention::MemoryAttentionPart;
use super::ports::{has_shape, listed};
use super::role::Role;
use super::tensors::{Tensor, put_norm};

/// Who takes what it is given, in messages.
const TAKERS: &str = "the decoder's kernels";
/// Tokens beside the image's: object score, IoU, four masks, two of no point.
pub const TOKENS: usize = 8;
/// Columns of a token, and of an object pointer.
pub const WIDTH: usize = 256;
/// Columns inside of what attends between tokens and image.
pub const CROSS: usize = 128;
/// Heads of every attention.
pub const HEADS: usize = 8;
/// A head's row for each token: rows of what is folded.
pub const ROWS: usize = HEADS * TOKENS;
/// Columns of the hidden layers of the tokens' MLPs.
pub const HIDDEN: usize = 2048;
/// Layers that read and write the image; a last reading follows.
pub const LAYERS: usize = 2;
/// Masks that are decoded; tracking chooses among all but the first.
pub const MASKS: usize = 4;
/// Masks that tracking selects from: all but the first.
pub const CHOICES: usize = MASKS - 1;
/// Columns of the image upscaled once.
pub const MIDDLE: usize = WIDTH / 4;
/// Columns of the image upscaled twice, and of what multiplies them.
pub const NARROW: usize = WIDTH / 8;
/// Networks of which two inner layers lie one after the other: score, IoU, three masks' vectors,
/// the pointer.
pub const NETWORKS: usize = 6;
/// Fewest image tokens along a side that the kernels take, in steps of two.
const LEAST_GRID: usize = 4;

/// The manifest's table `[mask_decoder]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskDecoderPart {
    /// File of the weights beside the manifest, safetensors.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates for one object of one frame.
    #[serde(default)]
    pub flops: u64,
    /// Its sizes.
    #[serde(flatten)]
    pub shape: MaskDecoderShape,
}

/// The weights' file.
pub type MaskDecoderWeights = WeightsFile<MaskDecoderPart>;

/// Determines the launches of a mask decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskDecoderShape {
    /// Image tokens along a side: an even number, 4 at least.
    pub grid: usize,
    /// Whether a sigmoid follows the IoU head. The manifest's key is `probable`.
    #[serde(rename = "probable")]
    pub iou_sigmoid: bool,
}

impl MaskDecoderShape {
    /// That there are kernels for it.
    ///
    /// # Errors
    /// What they do not take.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.grid >= LEAST_GRID && self.grid.is_multiple_of(2),
            "the decoder's image has {} tokens a side, its kernels take even numbers from {LEAST_GRID} on",
            self.grid
        );
        Ok(())
    }

    /// Image tokens.
    pub fn tokens(&self) -> usize {
        self.grid * self.grid
    }

    /// Pixels along a side of the logits.
    pub fn low_size(&self) -> usize {
        4 * self.grid
    }
}

impl FusedPart for MaskDecoderPart {
    type Shape = MaskDecoderShape;

    const NAME: &'static str = "mask decoder";
    const TABLE: &'static str = "mask_decoder";
    const GRAPH: &'static str = "mask_decoder";
    const FILE: &'static str = "mask_decoder.safetensors";
    const LABEL: &'static str = "decoder";
    const REST: Option<Role> = Some(Role::TrackImage);

    fn engine(manifest: &Manifest) -> Option<ReplacedEngine> {
        let role = manifest.segments().last()?.role;
        let what = "the last segment with mask decoder";
        Some(ReplacedEngine { role, what, beside: Role::TrackImage })
    }

    fn of(manifest: &Manifest) -> Option<&Self> {
        manifest.mask_decoder.as_ref()
    }

    fn shape(&self) -> &MaskDecoderShape {
        &self.shape
    }

    fn record(&self) -> WeightsRecord<'_> {
        let Self { file, sha256, flops, .. } = self;
        let (graph, what, bytes) = (Self::GRAPH, Self::NAME, Some(self.bytes));
        WeightsRecord { graph, what, file, sha256, bytes, flops: *flops }
    }

    /// Shapes are `[rows out, columns in]` unless a comment says otherwise. Scales of queries are
    /// in the queries' weights.
    fn tensors(shape: &MaskDecoderShape) -> Vec<Tensor> {
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

    /// What lies in front of it was built or is computed by kernels, and no last segment that ends in
    /// the answer was built.
    fn replaces_plan(manifest: &Manifest, plans: &Plans<'_>) -> bool {
        let answered = manifest.segments().last().is_some_and(|last| (plans.has)(last.role));
        let tokens = (plans.has)(Role::TrackImage)
            || MemoryAttentionPart::of(manifest).is_some()
                && MemoryAttentionPart::replaces_plan(manifest, plans);
        tokens && !answered
    }

    /// That it is of the contract's sizes, and stands between `y` of [`Role::TrackImage`], which
    /// takes what the last segment takes of tokens, and the answer.
    ///
    /// # Errors
    /// What does not fit.
    fn check_against(&self, manifest: &Manifest) -> Result<()> {
        // It is written into engine folders and packs under this name.
        ensure!(
            self.file == Self::FILE,
            "the decoder's weights are said to be in '{}', expected {} beside the manifest",
            self.file,
            Self::FILE
        );
        let Contract { grid, feature_channels, pointer_channels, .. } = manifest.contract;
        ensure!(
            self.shape.grid == grid,
            "the decoder's image has {} tokens a side, the contract's {grid}",
            self.shape.grid
        );
        self.shape.check()?;
        ensure!(
            [feature_channels, pointer_channels] == [WIDTH; 2],
            "features and pointers have {feature_channels} and {pointer_channels} channels, the \
             decoder's kernels take {WIDTH}"
        );
        let segments = manifest.segments();
        let last = segments
            .last()
            .context("the track step has no segments, whose last one ends in the decoder")?;
        let image = manifest.graph(Role::TrackImage).with_context(|| {
            format!(
                "there is no {} graph, which the decoder stands behind",
                Role::TrackImage.name()
            )
        })?;
        let name = image.role.name();
        ensure!(
            gives_tokens(image),
            "the {name} graph gives {}, expected y alone where the decoder stands behind it",
            listed(&image.outputs)
        );
        for input in &image.inputs {
            ensure!(
                last.inputs.contains(input),
                "the {name} graph takes {input}, which the {} graph that it stands for does not",
                last.role.name()
            );
        }
        has_shape(
            image.outputs.first(),
            &[1, grid * grid, WIDTH],
            &format!("the {name} graph's y"),
            TAKERS,
        )?;
        let encoder = manifest.graph(Role::Encoder).context("the encoder graph is missing")?;
        let given = |name: &str| encoder.outputs.iter().find(|tensor| tensor.name == name);
        has_shape(given("hr0"), &[1, NARROW, 4 * grid, 4 * grid], "the encoder's hr0", TAKERS)?;
        has_shape(given("hr1"), &[1, MIDDLE, 2 * grid, 2 * grid], "the encoder's hr1", TAKERS)
    }
}

/// That the track step ends in the answer, with a decoder of this program's or without.
///
/// # Errors
/// Its last segment gives tokens, or there are tokens that nothing decodes.
pub(super) fn check_answers(manifest: &Manifest) -> Result<()> {
    let last = manifest.segments().pop().filter(|last| gives_tokens(last));
    ensure!(
        last.is_none(),
        "the {} graph ends in front of the mask decoder (its one output is y), expected the answer",
        last.map_or("", |last| last.role.name())
    );
    ensure!(
        manifest.mask_decoder.is_some() || manifest.graph(Role::TrackImage).is_none(),
        "the {} graph ends in front of the mask decoder, and there is no table [mask_decoder]",
        Role::TrackImage.name()
    );
    Ok(())
}

/// A graph in front of the decoder: segments give `q`, or the answer.
fn gives_tokens(segment: &Graph) -> bool {
    matches!(segment.outputs.as_slice(), [only] if only.name == "y")
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

#[cfg(test)]
mod tests;
