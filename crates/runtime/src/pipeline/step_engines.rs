/*!
The engines that track an object, and the forms that they take: what TensorRT runs, and what this program's own kernels compute in its place.
*/

use std::sync::Arc;

use super::engines::Opened;
use super::part_weights::ShapeAndWeights;
use vos::bundle::{
    MaskDecoderPart, MemoryEncoderShape, MemoryEncoderWeights, MemoryKeyProjShape,
    MemoryKeyProjWeights,
};
use vos::track_variant::TrackVariant;

/// The engines that track an object.
pub struct StepEngines {
    /// Points to the first mask.
    pub prompt: Opened,
    /// Only where objects are prompted with masks.
    pub mask_prompt: Option<Opened>,
    /// The track step.
    pub track: TrackEngines,
    /// Mask and features to a memory.
    pub memory: MemoryMaker,
}

/// What makes memories.
pub enum MemoryMaker {
    /// The engine of `memory`.
    Engine(Opened),
    /// This program's own kernels.
    Kernels(MemoryEncoderShape, Arc<MemoryEncoderWeights>),
}

impl MemoryMaker {
    /// The engine, where it is one.
    pub fn engine(&self) -> Option<&Opened> {
        match self {
            Self::Engine(opened) => Some(opened),
            Self::Kernels(..) => None,
        }
    }
}

/// The forms of the track step.
pub enum TrackEngines {
    /// One engine for a full-sized bank.
    Padded(Opened),
    /// One engine with a profile for each fill level.
    PerFillLevel(Opened),
    /// Cut at its attentions.
    Segmented {
        /// The bank to keys.
        keys: BankKeys,
        /// The pieces in order.
        segments: Vec<Opened>,
        /// What stands behind the last one, where that gives tokens.
        decoder: Option<ShapeAndWeights<MaskDecoderPart>>,
    },
}

/// What makes a bank's keys.
pub enum BankKeys {
    /// The engine of `track_keys`.
    Engine(Opened),
    /// This program's own kernel, with the weights beside those of the encoder's trunk.
    Kernel(MemoryKeyProjShape, Arc<MemoryKeyProjWeights>),
}

impl TrackEngines {
    /// All of them.
    pub fn all(&self) -> Vec<&Opened> {
        match self {
            Self::Padded(track) | Self::PerFillLevel(track) => vec![track],
            Self::Segmented { keys: BankKeys::Engine(keys), segments, .. } => {
                [keys].into_iter().chain(segments).collect()
            }
            Self::Segmented { keys: BankKeys::Kernel(..), segments, .. } => {
                segments.iter().collect()
            }
        }
    }

    /// This program's own mask decoder stands behind them.
    pub fn has_cuda_decoder(&self) -> bool {
        matches!(self, Self::Segmented { decoder: Some(_), .. })
    }

    /// How they take a bank that is not full.
    pub fn variant(&self) -> TrackVariant {
        match self {
            Self::Padded(_) => TrackVariant::Padded,
            Self::PerFillLevel(_) => TrackVariant::PerFillLevel,
            Self::Segmented { .. } => TrackVariant::Segmented,
        }
    }
}
