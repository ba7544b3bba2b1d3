/*!
`manifest.toml`: what an exported bundle of ONNX graphs is and what it was made from.

The exporter (`onnx/export.py`) writes it and everything else reads it, so that no
shape, colour constant or bank size is written down twice.
*/

use serde::{Deserialize, Serialize};

/// The manifest format that this program reads.
pub const FORMAT: u32 = 1;

/// The whole `manifest.toml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this layout, [`FORMAT`].
    pub format: u32,
    /// Which network, at which size and precision.
    pub model: Model,
    /// Where the weights came from.
    pub weights: Weights,
    /// Shapes and constants that the host side must keep to.
    pub contract: Contract,
    /// Exporter and library versions.
    pub export: Export,
    /// The graphs, one ONNX file each.
    #[serde(rename = "graph")]
    pub graphs: Vec<Graph>,
}

/// Which network the graphs hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    /// `edgetam`, `sam2.1_tiny`, …
    pub name: String,
    /// Rules that the tracker follows.
    pub family: Family,
    /// Side of the square network input, pixels.
    pub imgsz: usize,
    /// `fp32` or `fp16`.
    pub precision: String,
    /// Number of trained scalars.
    #[serde(default)]
    pub parameters: u64,
}

/// The two families of trackers (`export.md` §3.8 lists where they differ).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// SAM 2.1: pointers carry their age.
    #[serde(rename = "sam2.1")]
    Sam21,
    /// EdgeTAM: pointers carry no age; a perceiver shrinks each memory.
    #[serde(rename = "edgetam")]
    EdgeTam,
}

/// Where the weights came from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Weights {
    /// `checkpoint` or `random`.
    pub source: String,
    /// File name of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_file: Option<String>,
    /// SHA-256 of the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_sha256: Option<String>,
    /// Seed of random weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// File laid over random weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_file: Option<String>,
    /// SHA-256 of that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_sha256: Option<String>,
    /// How many tensors were taken from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_tensors: Option<u64>,
}

/// Shapes and constants of the graphs that the host side must keep to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contract {
    /// Side of the feature map, `imgsz / 16`.
    pub grid: usize,
    /// Side of the low-resolution logits, `4 * grid`.
    pub low_size: usize,
    /// Channels of the feature map.
    pub feature_channels: usize,
    /// Tokens of one memory frame.
    pub memory_tokens: usize,
    /// Channels of one memory token.
    pub memory_channels: usize,
    /// Channels of one object pointer.
    pub pointer_channels: usize,
    /// Memory frames that the track step attends to at most.
    pub max_memories: usize,
    /// Object pointers that the track step attends to at most.
    pub max_pointers: usize,
    /// Whether the track step takes the pointers' ages.
    pub pointer_times: bool,
    /// Mean of each RGB channel on the 0..1 scale.
    pub mean: [f32; 3],
    /// Standard deviation of each RGB channel on the 0..1 scale.
    pub std: [f32; 3],
}

/// Exporter and library versions; free keys beside the required ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    /// Name and version of the exporter.
    pub exporter: String,
    /// ONNX opset of the graphs.
    pub opset: u32,
    /// Versions of the libraries that shaped the graphs.
    #[serde(flatten)]
    pub versions: toml::Table,
}

/// What a graph does in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Image to features; once a frame, whatever the number of objects.
    Encoder,
    /// The same for two frames at once.
    EncoderB2,
    /// For four.
    EncoderB4,
    /// For eight.
    EncoderB8,
    /// For sixteen.
    EncoderB16,
    /// Points or a box on the conditioning frame to a mask.
    Prompt,
    /// A given mask on the conditioning frame to an object pointer.
    MaskPrompt,
    /// Memory attention and mask decoder, exact at every fill level.
    Track,
    /// The same with a full, masked bank.
    TrackPadded,
    /// The full bank to the keys of each layer's attention to it.
    TrackKeys,
    /// The track step up to its first attention; each further segment up to the next one.
    TrackSeg0,
    /// Segment 1 of the track step.
    TrackSeg1,
    /// Segment 2 of the track step.
    TrackSeg2,
    /// Segment 3 of the track step.
    TrackSeg3,
    /// Segment 4 of the track step.
    TrackSeg4,
    /// Segment 5 of the track step.
    TrackSeg5,
    /// Segment 6 of the track step.
    TrackSeg6,
    /// Segment 7 of the track step.
    TrackSeg7,
    /// Segment 8 of the track step.
    TrackSeg8,
    /// Mask and features to one memory frame.
    Memory,
}

impl Role {
    const ALL: [Self; 20] = [
        Self::Encoder,
        Self::EncoderB2,
        Self::EncoderB4,
        Self::EncoderB8,
        Self::EncoderB16,
        Self::Prompt,
        Self::MaskPrompt,
        Self::Track,
        Self::TrackPadded,
        Self::Memory,
        Self::TrackKeys,
        Self::TrackSeg0,
        Self::TrackSeg1,
        Self::TrackSeg2,
        Self::TrackSeg3,
        Self::TrackSeg4,
        Self::TrackSeg5,
        Self::TrackSeg6,
        Self::TrackSeg7,
        Self::TrackSeg8,
    ];

    /// The segments of a track step that is cut at its attentions, in order; as many as four layers have.
    pub const SEGMENTS: [Self; 9] = [
        Self::TrackSeg0,
        Self::TrackSeg1,
        Self::TrackSeg2,
        Self::TrackSeg3,
        Self::TrackSeg4,
        Self::TrackSeg5,
        Self::TrackSeg6,
        Self::TrackSeg7,
        Self::TrackSeg8,
    ];

    /// The encoders of several frames at once, with the number of frames.
    pub const ENCODER_BATCHES: [(usize, Self); 4] =
        [(2, Self::EncoderB2), (4, Self::EncoderB4), (8, Self::EncoderB8), (16, Self::EncoderB16)];

    /// The encoder of so many frames at once; none where no graph is written for that number.
    pub fn encoder_of(frames: usize) -> Option<Self> {
        let single = [(1, Self::Encoder)].into_iter();
        single
            .chain(Self::ENCODER_BATCHES)
            .find(|(batch, _)| *batch == frames)
            .map(|(_, role)| role)
    }

    /// Makes features of images, of one frame or of several.
    pub fn is_encoder(self) -> bool {
        self == Self::Encoder || Self::ENCODER_BATCHES.iter().any(|(_, role)| *role == self)
    }

    /// The role of that name.
    ///
    /// # Errors
    /// A sentence with the names that there are.
    pub fn from_name(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|role| role.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("no graph is called '{name}'; expected one of {known}")
        })
    }

    /// The name in manifests and messages.
    pub fn name(self) -> &'static str {
        match self {
            Role::Encoder => "encoder",
            Role::EncoderB2 => "encoder_b2",
            Role::EncoderB4 => "encoder_b4",
            Role::EncoderB8 => "encoder_b8",
            Role::EncoderB16 => "encoder_b16",
            Role::Prompt => "prompt",
            Role::MaskPrompt => "mask_prompt",
            Role::Track => "track",
            Role::TrackPadded => "track_padded",
            Role::Memory => "memory",
            Role::TrackKeys => "track_keys",
            Role::TrackSeg0 => "track_seg0",
            Role::TrackSeg1 => "track_seg1",
            Role::TrackSeg2 => "track_seg2",
            Role::TrackSeg3 => "track_seg3",
            Role::TrackSeg4 => "track_seg4",
            Role::TrackSeg5 => "track_seg5",
            Role::TrackSeg6 => "track_seg6",
            Role::TrackSeg7 => "track_seg7",
            Role::TrackSeg8 => "track_seg8",
        }
    }
}

/// One ONNX file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Graph {
    /// What it does.
    pub role: Role,
    /// File name beside the manifest.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// 2 × multiply-accumulates at batch 1, one object, full bank, one point.
    #[serde(default)]
    pub flops: u64,
    /// Inputs in graph order.
    #[serde(rename = "input", default)]
    pub inputs: Vec<Tensor>,
    /// Outputs in graph order.
    #[serde(rename = "output", default)]
    pub outputs: Vec<Tensor>,
}

/// One input or output of a graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tensor {
    /// Name in the graph.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents; symbolic axes are B objects, P points, F memories, N pointers.
    pub shape: Vec<Axis>,
}

/// Element types at the graphs' boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 32-bit integer.
    I32,
}

/// One extent of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Axis {
    /// Fixed.
    Fixed(usize),
    /// Free within its range, by name.
    Symbol(String),
}

impl Graph {
    /// The input called `name`.
    pub fn input(&self, name: &str) -> Option<&Tensor> {
        self.inputs.iter().find(|tensor| tensor.name == name)
    }
}

impl Manifest {
    /// The graph with this role.
    pub fn graph(&self, role: Role) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.role == role)
    }

    /// One phrase that says whose weights these are, for people and for the sidecar.
    pub fn weights_phrase(&self) -> String {
        let w = &self.weights;
        let base = match (w.source.as_str(), &w.checkpoint_file, w.seed) {
            ("checkpoint", Some(file), _) => format!("checkpoint {file}"),
            ("random", _, Some(seed)) => format!("random weights, seed {seed}"),
            (other, ..) => other.to_owned(),
        };
        match (&w.overlay_file, w.overlay_tensors) {
            (Some(file), Some(n)) => format!("{base}, {n} tensors from {file}"),
            (Some(file), None) => format!("{base}, overlaid with {file}"),
            _ => base,
        }
    }
}
