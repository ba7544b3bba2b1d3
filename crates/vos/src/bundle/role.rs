/*!
Roles of graphs: the steps of a frame, and the parts of a cut step.
*/

use serde::{Deserialize, Serialize};

use crate::track_variant::TrackVariant;

/// The step that a graph computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Image to features; once a frame for any number of objects.
    Encoder,
    /// Image encoder for two frames at once.
    EncoderB2,
    /// Image encoder for four frames at once.
    EncoderB4,
    /// Image encoder for eight frames at once.
    EncoderB8,
    /// Image encoder for sixteen frames at once.
    EncoderB16,
    /// Part 0 of the encoder, from the image to the first cut.
    EncoderCut0,
    /// Part 1 of the encoder.
    EncoderCut1,
    /// Part 2 of the encoder.
    EncoderCut2,
    /// Part 3 of the encoder.
    EncoderCut3,
    /// Part 4 of the encoder.
    EncoderCut4,
    /// Part 5 of the encoder.
    EncoderCut5,
    /// Part 6 of the encoder.
    EncoderCut6,
    /// Part 7 of the encoder.
    EncoderCut7,
    /// Points or a box on the conditioning frame to a mask.
    Prompt,
    /// A given mask on the conditioning frame to an object pointer.
    MaskPrompt,
    /// Memory attention and mask decoder for any fill level of the bank.
    Track,
    /// Memory attention and mask decoder with a full, masked bank.
    TrackPadded,
    /// From the full bank to the keys of each attention layer.
    TrackKeys,
    /// Segment 0 of the track step, up to its first attention.
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
    /// The last segment up to the mask decoder, which custom CUDA kernels compute.
    TrackImage,
    /// Mask and features to one memory frame.
    Memory,
}

impl Role {
    /// The graph whose plan a folder has if the track step was built in this variant.
    pub fn of_variant(variant: TrackVariant) -> Self {
        match variant {
            TrackVariant::Padded => Self::TrackPadded,
            TrackVariant::PerFillLevel => Self::Track,
            // Not the graph of the keys, which a kernel may compute.
            TrackVariant::Segmented => Self::TrackSeg0,
        }
    }

    /// All roles.
    pub const ALL: [Self; 29] = [
        Self::Encoder,
        Self::EncoderB2,
        Self::EncoderB4,
        Self::EncoderB8,
        Self::EncoderB16,
        Self::EncoderCut0,
        Self::EncoderCut1,
        Self::EncoderCut2,
        Self::EncoderCut3,
        Self::EncoderCut4,
        Self::EncoderCut5,
        Self::EncoderCut6,
        Self::EncoderCut7,
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
        Self::TrackImage,
    ];

    /// The segments of a track step that is split at its attentions, in order, for at most four
    /// layers.
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

    /// The parts of a cut encoder, in order.
    pub const CUTS: [Self; 8] = [
        Self::EncoderCut0,
        Self::EncoderCut1,
        Self::EncoderCut2,
        Self::EncoderCut3,
        Self::EncoderCut4,
        Self::EncoderCut5,
        Self::EncoderCut6,
        Self::EncoderCut7,
    ];

    /// The encoders for several frames at once, each with its number of frames.
    pub const ENCODER_BATCHES: [(usize, Self); 4] =
        [(2, Self::EncoderB2), (4, Self::EncoderB4), (8, Self::EncoderB8), (16, Self::EncoderB16)];

    /// The encoder for this number of frames at once; `None` if there is none.
    pub fn encoder_of(frames: usize) -> Option<Self> {
        let single = [(1, Self::Encoder)].into_iter();
        single
            .chain(Self::ENCODER_BATCHES)
            .find(|(batch, _)| *batch == frames)
            .map(|(_, role)| role)
    }

    /// Whether it computes features from images, in whole or in part.
    pub fn is_encoder(self) -> bool {
        self == Self::Encoder
            || self.is_encoder_part()
            || Self::ENCODER_BATCHES.iter().any(|(_, role)| *role == self)
    }

    /// Whether it is one of [`Role::CUTS`].
    pub fn is_encoder_part(self) -> bool {
        Self::CUTS.contains(&self)
    }

    /// The role with this name.
    ///
    /// # Errors
    /// A sentence with all names.
    pub fn from_name(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|role| role.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("no graph has the name '{name}'; expected one of {known}")
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
            Role::EncoderCut0 => "encoder_cut0",
            Role::EncoderCut1 => "encoder_cut1",
            Role::EncoderCut2 => "encoder_cut2",
            Role::EncoderCut3 => "encoder_cut3",
            Role::EncoderCut4 => "encoder_cut4",
            Role::EncoderCut5 => "encoder_cut5",
            Role::EncoderCut6 => "encoder_cut6",
            Role::EncoderCut7 => "encoder_cut7",
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
            Role::TrackImage => "track_image",
        }
    }
}
