/*!
The mask decoder of the track step, which this program computes itself.

TensorRT takes 0.3 to 0.42 ms of a frame for it on an H200, several times what its bytes and products would take. In the track step its prompt
tokens are constants, so a bundle may end its last segment in front of the decoder (`y`, the tokens behind the memory attention) and hold the
decoder's weights in a file of its own, folded as far as constants go. `manifest.toml` describes it in its table `[decoder]`;
`onnx/README.md` says what the tensors are.
*/

mod weights;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::manifest::{Contract, Graph, Manifest};
use super::ports::{has_shape, listed};
use super::role::Role;
pub use weights::DecoderWeights;

/// The file's name, as the exporter writes it.
pub const FILE: &str = "track_decoder.safetensors";
/// What its weights are called among a track step's graphs.
pub const GRAPH: &str = "track_decoder";
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
/// Columns of the image upscaled once.
pub const MIDDLE: usize = WIDTH / 4;
/// Columns of the image upscaled twice, and of what multiplies them.
pub const NARROW: usize = WIDTH / 8;
/// Networks of which two inner layers lie one after the other: score, IoU, three masks' vectors, the pointer.
pub const NETWORKS: usize = 6;
/// Fewest image tokens along a side that the kernels take, in steps of two.
const LEAST_GRID: usize = 4;

/// The manifest's table `[decoder]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decoder {
    /// File of the weights beside the manifest, safetensors.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates for one object of one frame.
    #[serde(default)]
    pub flops: u64,
    /// Image tokens along a side.
    pub grid: usize,
    /// The predicted IoUs are sigmoids of what the network gives.
    pub probable: bool,
}

/// What tells one decoder's launches from another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderShape {
    /// Image tokens along a side: an even number, 4 at least.
    pub grid: usize,
    /// The predicted IoUs are sigmoids of what the network gives.
    pub probable: bool,
}

impl DecoderShape {
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

impl Decoder {
    /// What its launches depend on.
    pub fn shape(&self) -> DecoderShape {
        DecoderShape { grid: self.grid, probable: self.probable }
    }

    /// That it is of the contract's sizes, and stands between `y` of [`Role::TrackImage`], which takes what the last segment takes of tokens,
    /// and the answer.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, manifest: &Manifest) -> Result<()> {
        // It is written into engine folders and packs under this name.
        ensure!(
            self.file == FILE,
            "the decoder's weights are said to be in '{}', expected {FILE} beside the manifest",
            self.file
        );
        let Contract { grid, feature_channels, pointer_channels, .. } = manifest.contract;
        ensure!(
            self.grid == grid,
            "the decoder's image has {} tokens a side, the contract's {grid}",
            self.grid
        );
        self.shape().check()?;
        ensure!(
            [feature_channels, pointer_channels] == [WIDTH; 2],
            "features and pointers have {feature_channels} and {pointer_channels} channels, the decoder's kernels take {WIDTH}"
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
        manifest.decoder.is_some() || manifest.graph(Role::TrackImage).is_none(),
        "the {} graph ends in front of the mask decoder, and there is no table [decoder]",
        Role::TrackImage.name()
    );
    Ok(())
}

/// A graph in front of the decoder: segments give `q`, or the answer.
fn gives_tokens(segment: &Graph) -> bool {
    matches!(segment.outputs.as_slice(), [only] if only.name == "y")
}

#[cfg(test)]
mod tests;
