/*!
Kinds of cases, and what each needs.
*/

use clap::ValueEnum;

use super::{
    Bench, attention, bank, decoder, keys, mask, memory_encoder, nvjpeg, preprocess, products,
    trunk,
};
use kernels::Source;
use vos::platform::OLDEST_FUSED_SM;

/// Kinds of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Topic {
    /// Frames to the network's input.
    Preprocess,
    /// Logits to masks, and counts against a ground truth.
    Mask,
    /// The memory bank's frame counter and what follows from it.
    Bank,
    /// Attention of the track step and of encoders.
    Attention,
    /// The memory attention's keys.
    Keys,
    /// The mask decoder of the track step.
    Decoder,
    /// The memory encoder.
    MemoryEncoder,
    /// What a trunk's blocks need besides products.
    Trunk,
    /// nvJPEG's pixels.
    Nvjpeg,
    /// cuBLASLt's products, and this program's with an activation or a norm.
    Products,
    /// All blocks of a trunk one after the other.
    WholeTrunks,
}

impl Topic {
    /// Judges the cases; why there are none, where a library of the user's is missing.
    pub(super) fn judge(self, bench: &Bench) -> Result<(), String> {
        match self {
            Self::Preprocess => preprocess::judge(bench),
            Self::Mask => mask::judge(bench),
            Self::Bank => bank::judge(bench),
            Self::Attention => attention::judge(bench),
            Self::Keys => keys::judge(bench),
            Self::Decoder => decoder::judge(bench),
            Self::MemoryEncoder => memory_encoder::judge(bench),
            Self::Trunk => trunk::judge(bench),
            Self::Nvjpeg => return nvjpeg::judge(bench),
            Self::Products => return products::judge(bench),
            Self::WholeTrunks => return trunk::whole::judge(bench),
        }
        Ok(())
    }

    /// What it needs of the kernels' sources beside those that every run has.
    pub(super) fn sources(self) -> &'static [Source] {
        use Source::*;
        match self {
            Self::Preprocess | Self::Mask | Self::Bank | Self::Nvjpeg => &[],
            Self::Attention => &[AttentionHopper, Attention],
            Self::Keys => &[Keys],
            Self::Decoder => &[DecoderImage, DecoderTokens, DecoderMasks, DecoderHeads],
            Self::MemoryEncoder => &[MemoryBlocks, MemoryMask, MemoryJoin, Latents, LatentWindows],
            Self::Trunk => &[Windows, WindowsHopper, Trunk, TrunkHopper],
            Self::Products => &[
                NormsHopper96,
                NormsHopper112,
                NormsHopper144,
                NormsHopper384,
                NormsHopper448,
                NormsHopper576,
                ProductsHopperGelu128,
                ProductsHopperGelu192,
                ProductsHopperPlain,
                Windows,
                Trunk,
            ],
            Self::WholeTrunks => &[
                NormsHopper96,
                NormsHopper112,
                NormsHopper144,
                NormsHopper384,
                NormsHopper448,
                NormsHopper576,
                ProductsHopperGelu128,
                ProductsHopperGelu192,
                ProductsHopperPlain,
                AttentionHopper,
                Attention,
            ],
        }
    }

    /// Why this GPU has none of these kernels.
    pub(super) fn too_old(self, sm: u32) -> Option<String> {
        let needed = match self {
            Self::Attention | Self::Keys => "only the fused bank needs them",
            Self::Decoder => "only a track step whose mask decoder is ours needs them",
            Self::MemoryEncoder => "only a memory encoder that is ours needs them",
            Self::Trunk | Self::WholeTrunks => "only an encoder whose trunk is ours needs them",
            _ => return None,
        };
        (sm < OLDEST_FUSED_SM).then(|| {
            format!("its kernels need sm {OLDEST_FUSED_SM} (Ampere) or more, this GPU is sm {sm}; {needed}")
        })
    }

    /// Why nothing is left of it without cuBLASLt.
    pub(super) fn unwanted(self, bench: &Bench) -> Option<String> {
        let all = bench.without_cublaslt && self == Self::WholeTrunks;
        all.then(|| "cuBLASLt computes in all of them (--without-cublaslt)".to_owned())
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Preprocess => "preprocessing",
            Self::Mask => "masks",
            Self::Bank => "the memory bank",
            Self::Attention => "attention",
            Self::Keys => "the memory attention's keys",
            Self::Decoder => "the mask decoder",
            Self::MemoryEncoder => "the memory encoder",
            Self::Trunk => "trunk",
            Self::Nvjpeg => "nvJPEG's pixels",
            Self::Products => "cuBLASLt's products",
            Self::WholeTrunks => "whole trunks",
        }
    }
}
