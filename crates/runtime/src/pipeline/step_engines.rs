/*!
The engines that track an object, with the parts that CUDA kernels compute in TensorRT's place.
*/

use std::sync::Arc;

use anyhow::Result;

use super::loaded_engine::LoadedEngine;
use super::part_weights::ShapeAndWeights;
use vos::bundle::{
    MaskDecoderPart, MemoryAttentionPart, MemoryEncoderShape, MemoryEncoderWeights,
    MemoryKeyProjShape, MemoryKeyProjWeights,
};
use vos::track_variant::TrackVariant;

/// The engines that track an object.
pub struct StepEngines {
    /// Points to the first mask.
    pub prompt: LoadedEngine,
    /// Only where objects are prompted with masks.
    pub mask_prompt: Option<LoadedEngine>,
    /// The track step.
    pub track: TrackEngines,
    /// Mask and features to a memory.
    pub memory: MemoryEncoderSource,
}

impl StepEngines {
    /// The same for other contexts, by `again` of each engine. CUDA kernels share their weights in
    /// host memory.
    ///
    /// # Errors
    /// Those of `again`.
    pub fn again(&self, again: impl Fn(&LoadedEngine) -> Result<LoadedEngine>) -> Result<Self> {
        Ok(Self {
            prompt: again(&self.prompt)?,
            mask_prompt: self.mask_prompt.as_ref().map(&again).transpose()?,
            track: match &self.track {
                TrackEngines::Padded(track) => TrackEngines::Padded(again(track)?),
                TrackEngines::PerFillLevel(track) => TrackEngines::PerFillLevel(again(track)?),
                TrackEngines::Segmented { keys, layers, decoder } => TrackEngines::Segmented {
                    keys: match keys {
                        KeyEngine::Engine(keys) => KeyEngine::Engine(again(keys)?),
                        KeyEngine::Kernel(shape, weights) => {
                            KeyEngine::Kernel(*shape, Arc::clone(weights))
                        }
                    },
                    layers: match layers {
                        LayerEngines::Engines(segments) => LayerEngines::Engines(
                            segments.iter().map(&again).collect::<Result<_>>()?,
                        ),
                        LayerEngines::Kernels(attention) => {
                            LayerEngines::Kernels(attention.clone())
                        }
                    },
                    decoder: decoder.clone(),
                },
            },
            memory: match &self.memory {
                MemoryEncoderSource::Engine(memory) => MemoryEncoderSource::Engine(again(memory)?),
                MemoryEncoderSource::Kernels(shape, weights) => {
                    MemoryEncoderSource::Kernels(*shape, Arc::clone(weights))
                }
            },
        })
    }
}

/// The memory encoder.
pub enum MemoryEncoderSource {
    /// The engine of `memory`.
    Engine(LoadedEngine),
    /// CUDA kernels.
    Kernels(MemoryEncoderShape, Arc<MemoryEncoderWeights>),
}

impl MemoryEncoderSource {
    /// The engine, where it is one.
    pub fn engine(&self) -> Option<&LoadedEngine> {
        match self {
            Self::Engine(loaded) => Some(loaded),
            Self::Kernels(..) => None,
        }
    }
}

/// The variants of the track step.
pub enum TrackEngines {
    /// One engine for a full-sized bank.
    Padded(LoadedEngine),
    /// One engine with a profile for each fill level.
    PerFillLevel(LoadedEngine),
    /// Split at its attentions.
    Segmented {
        /// The bank to keys.
        keys: KeyEngine,
        /// What lies between the attentions.
        layers: LayerEngines,
        /// The CUDA mask decoder after the last one, where that gives tokens.
        decoder: Option<ShapeAndWeights<MaskDecoderPart>>,
    },
}

/// What computes a bank's keys.
pub enum KeyEngine {
    /// The engine of `track_keys`.
    Engine(LoadedEngine),
    /// A CUDA kernel; its weights are in the trunk's file.
    Kernel(MemoryKeyProjShape, Arc<MemoryKeyProjWeights>),
}

/// What lies between the attentions.
pub enum LayerEngines {
    /// The segments in order.
    Engines(Vec<LoadedEngine>),
    /// CUDA kernels.
    Kernels(ShapeAndWeights<MemoryAttentionPart>),
}

impl TrackEngines {
    /// All of them.
    pub fn all(&self) -> Vec<&LoadedEngine> {
        match self {
            Self::Padded(track) | Self::PerFillLevel(track) => vec![track],
            Self::Segmented { keys, layers, .. } => {
                let keys = match keys {
                    KeyEngine::Engine(keys) => Some(keys),
                    KeyEngine::Kernel(..) => None,
                };
                let segments: &[LoadedEngine] = match layers {
                    LayerEngines::Engines(segments) => segments,
                    LayerEngines::Kernels(_) => &[],
                };
                keys.into_iter().chain(segments).collect()
            }
        }
    }

    /// A CUDA mask decoder follows them.
    pub fn has_cuda_decoder(&self) -> bool {
        matches!(self, Self::Segmented { decoder: Some(_), .. })
    }

    /// CUDA kernels compute what lies between the attentions.
    pub fn has_cuda_layers(&self) -> bool {
        matches!(self, Self::Segmented { layers: LayerEngines::Kernels(_), .. })
    }

    /// Their variant.
    pub fn variant(&self) -> TrackVariant {
        match self {
            Self::Padded(_) => TrackVariant::Padded,
            Self::PerFillLevel(_) => TrackVariant::PerFillLevel,
            Self::Segmented { .. } => TrackVariant::Segmented,
        }
    }
}
