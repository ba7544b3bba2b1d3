/*!
The recipe of an engine: graphs, typing and layers pinned to fp32, by precision and TensorRT
release.

| precision | strongly typed (11, RTX) | weakly typed (8.x, 10.x) |
|---|---|---|
| fp32 | fp32 graphs | fp32 graphs |
| fp16, best | fp16 graphs | fp16 graphs, else fp32 graphs, with layers pinned to fp32 |
| mixed | none: the types are the graphs' | fp16 graphs; all but the memory attention in fp32 throughout ([`computes_whole`]) |
| bf16 | none: there are no bf16 graphs | fp32 graphs with layers pinned to fp32 (10.x) |
*/

use crate::engine::fp32_pins::Fp32Pins;
use tensorrt::{Family, Version};
use vos::bundle::{Manifest, PartKind, Role};
use vos::platform::OLDEST_FUSED_SM;
use vos::precision::Precision;
use vos::track_variant::TrackVariant;

/// Channels of a frame's token and of a memory's that the attention kernels are made for.
const FRAME_WIDTH: usize = 256;
const MEMORY_WIDTH: usize = 64;

/// The settings of an engine's build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Precision of the bundle whose graphs are taken.
    pub graphs: &'static str,
    /// The ONNX file's types are kept.
    pub strongly_typed: bool,
    /// What is pinned to fp32.
    pub fp32_pins: Fp32Pins,
}

/// Ways to make an engine, best first; where the first one's bundle is missing the next is taken.
///
/// # Errors
/// A sentence for what this release cannot do; `strong` asks for strong typing where the release
/// leaves the choice.
pub fn recipes(
    precision: Precision,
    version: Version,
    strong: bool,
) -> Result<Vec<Recipe>, String> {
    let family = version.family();
    let only_strong = family.is_some_and(Family::is_strongly_typed_only);
    if strong && family == Some(Family::Trt8) {
        return Err(format!(
            "{version} has no strongly typed networks; leave --strongly-typed out"
        ));
    }
    let recipe = |graphs, fp32_pins| Recipe { graphs, strongly_typed: false, fp32_pins };
    let typed = |graphs| Recipe { graphs, strongly_typed: true, fp32_pins: Fp32Pins::None };
    match (precision, strong || only_strong) {
        (Precision::Fp32, true) => Ok(vec![typed("fp32")]),
        (Precision::Fp32, false) => Ok(vec![recipe("fp32", Fp32Pins::None)]),
        (Precision::Fp16 | Precision::Best, true) => Ok(vec![typed("fp16")]),
        (Precision::Fp16 | Precision::Best, false) => {
            Ok(vec![recipe("fp16", Fp32Pins::Pinned), recipe("fp32", Fp32Pins::Pinned)])
        }
        (Precision::Mixed, true) => Err(format!(
            "{version} takes its precisions from the graphs, and there are no mixed ones; use \
             --precision fp16"
        )),
        (Precision::Mixed, false) => Ok(vec![recipe("fp16", Fp32Pins::Pinned)]),
        (Precision::Bf16, true) => Err(format!(
            "{version} takes its precisions from the graphs, and there are no bf16 graphs; use \
             --precision fp16"
        )),
        (Precision::Bf16, false) if family == Some(Family::Trt8) => {
            Err(format!("{version} has no bf16; use --precision fp16, or TensorRT 10"))
        }
        (Precision::Bf16, false) => Ok(vec![recipe("fp32", Fp32Pins::Pinned)]),
    }
}

/// The graphs that an engine folder holds, in the order they are built: what takes longest to fail
/// comes first. The encoder is built in its parts where the bundle has any: in one piece
/// SAM2.1-large's took TensorRT 8.6.0 four minutes and more (`engines/README.md`). Parts with
/// attention between them need this program's kernels for it: where a GPU of compute capability
/// `sm` has none, the whole is built; and so it is where they do not compute in `precision`. Where
/// they compute stem and neck, too, none of these is built ([`encodes`]).
pub fn roles(variant: TrackVariant, bundle: &Manifest, sm: u32, precision: Precision) -> Vec<Role> {
    let mut roles: Vec<Role> = Vec::new();
    if !encodes(bundle, sm, precision) {
        roles.extend(bundle.encoder_parts().iter().map(|part| part.role));
        if roles.is_empty() || !serves_encoder(bundle, sm, precision) {
            roles = vec![Role::Encoder];
        }
    }
    roles.extend(Role::ENCODER_BATCHES.map(|(_, role)| role));
    roles.extend([Role::Prompt, Role::MaskPrompt]);
    match variant {
        TrackVariant::Padded => roles.push(Role::TrackPadded),
        TrackVariant::PerFillLevel => roles.push(Role::Track),
        TrackVariant::Segmented => {
            if !makes_keys(bundle, sm, precision) {
                roles.push(Role::TrackKeys);
            }
            if attends(bundle, sm, precision) {
                // Kernels alone lie between and behind the attentions.
            } else if decodes(bundle, sm, precision) {
                // This graph and the kernels after it replace the last segment.
                let mut segments = bundle.segments();
                segments.pop();
                roles.extend(segments.into_iter().map(|segment| segment.role));
                roles.push(Role::TrackImage);
            } else {
                roles.extend(Role::SEGMENTS);
            }
        }
    }
    if !makes_memories(bundle, sm, precision) {
        roles.push(Role::Memory);
    }
    roles
}

/// Custom CUDA kernels write the memories. Their weights are in the bundle; they compute in fp16
/// as its engines do.
pub fn makes_memories(bundle: &Manifest, sm: u32, precision: Precision) -> bool {
    bundle.memory_encoder.is_some() && serves_halves(bundle, sm, precision)
}

/// Custom CUDA kernels compute the whole encoder: those of a trunk, and its stem and neck.
pub fn encodes(bundle: &Manifest, sm: u32, precision: Precision) -> bool {
    let has = bundle.trunk.as_ref().is_some_and(|trunk| trunk.stem_and_neck().is_some());
    has && serves_halves(bundle, sm, precision)
}

/// Custom CUDA kernels decode the masks after a track step that is split at its attentions.
pub fn decodes(bundle: &Manifest, sm: u32, precision: Precision) -> bool {
    bundle.mask_decoder.is_some() && serves_halves(bundle, sm, precision)
}

/// Custom CUDA kernels compute what lies between the attentions of a track step that is split at
/// them, and the mask decoder behind it.
pub fn attends(bundle: &Manifest, sm: u32, precision: Precision) -> bool {
    bundle.memory_attention.is_some() && decodes(bundle, sm, precision)
}

/// Custom CUDA kernels compute this part among such engines.
pub fn computes(part: &PartKind, bundle: &Manifest, sm: u32, precision: Precision) -> bool {
    (part.record)(bundle).is_some() && serves_halves(bundle, sm, precision)
}

/// There are kernels that compute in fp16 as these engines do.
pub fn serves_halves(bundle: &Manifest, sm: u32, precision: Precision) -> bool {
    bundle.model.precision == "fp16" && sm >= OLDEST_FUSED_SM && precision == Precision::Fp16
}

/// A graph of `named` that custom CUDA kernels replace if these `roles` are built.
pub fn computed_by_kernels(named: &[Role], roles: &[Role], bundle: &Manifest) -> Option<Role> {
    let last = bundle.segments().last().map(|segment| segment.role);
    let cut = Role::SEGMENTS.into_iter().chain([Role::TrackImage]);
    // The whole track step is no other variant's.
    let none = !cut.clone().chain([Role::Track, Role::TrackPadded]).any(|it| roles.contains(&it));
    let taken = |role: &Role| match *role {
        Role::Memory => bundle.memory_encoder.is_some() && !roles.contains(role),
        role if cut.clone().any(|it| it == role) && bundle.memory_attention.is_some() && none => {
            true
        }
        role if role == Role::Encoder || role.is_encoder_part() => {
            let has = bundle.trunk.as_ref().is_some_and(|trunk| trunk.stem_and_neck().is_some());
            has && !roles.iter().any(|role| *role == Role::Encoder || role.is_encoder_part())
        }
        role => Some(role) == last && roles.contains(&Role::TrackImage) && !roles.contains(&role),
    };
    named.iter().copied().find(taken)
}

/// The parts of the bundle's encoder can run on a GPU of this compute capability: there is no trunk
/// between them, or its kernels are for that GPU and for the types of the graphs. They compute a
/// trunk in fp16, so it is not for mixed engines: these compute their encoder in fp32
/// ([`computes_whole`]).
pub fn serves_encoder(bundle: &Manifest, sm: u32, precision: Precision) -> bool {
    let served = bundle.model.precision == "fp16" && sm >= OLDEST_FUSED_SM;
    bundle.trunk.is_none() || (served && precision != Precision::Mixed)
}

/// A custom CUDA kernel computes the keys of the memory attention: their weights lie in the file
/// of a trunk that is run.
pub fn makes_keys(bundle: &Manifest, sm: u32, precision: Precision) -> bool {
    let has = bundle.trunk.as_ref().is_some_and(|trunk| trunk.keys.is_some());
    has && serves_encoder(bundle, sm, precision)
}

/// A graph of mixed engines that computes in fp32 throughout, with TF32 matmuls: all but the memory
/// attention. That causes a hundredth of their error, and custom CUDA kernels accumulate it in
/// fp32. An encoder's parts compute in fp32, too; their ports are fp16, so their outputs are
/// rounded.
///
/// On an H200 with TensorRT 8.6.0 SAM2.1-tiny's masks come from a lowest IoU of 0.961 (mean 0.9947)
/// to 0.991 (0.9984) by it, and a frame from 4.9 to 6.3 ms. Either half of it, encoder or decoder
/// alone, gives 0.97.
pub fn computes_whole(precision: Precision, role: Role, bundle: &Manifest) -> bool {
    let last = Role::SEGMENTS.into_iter().rfind(|role| bundle.graph(*role).is_some());
    precision == Precision::Mixed
        && (role.is_encoder()
            || [Role::Prompt, Role::MaskPrompt, Role::Memory].contains(&role)
            || last == Some(role))
}

/// Whether a list of graphs names this one; who names the encoder means its parts too.
pub fn is_named(names: &[Role], role: Role) -> bool {
    names.contains(&role) || role.is_encoder_part() && names.contains(&Role::Encoder)
}

/// The form of the track step for a bundle: what was asked for, else the platform's.
///
/// A platform whose form is fused takes the padded one for bundles that this program's attention
/// kernels cannot serve: fp32 graphs, other widths than theirs, or a track step that was not cut;
/// and where there is no padded graph either, the exact one.
pub fn track_variant_for(
    asked: Option<TrackVariant>,
    usual: TrackVariant,
    bundle: &Manifest,
) -> TrackVariant {
    let contract = &bundle.contract;
    let widths = [contract.feature_channels, contract.memory_channels];
    let served = bundle.model.precision == "fp16"
        && bundle.graph(Role::TrackKeys).is_some()
        && widths == [FRAME_WIDTH, MEMORY_WIDTH];
    let there = |role| bundle.graph(role).is_some();
    let padded = match there(Role::TrackPadded) || !there(Role::Track) {
        true => TrackVariant::Padded,
        false => TrackVariant::PerFillLevel,
    };
    match (asked, usual) {
        (Some(variant), _) => variant,
        (None, TrackVariant::Segmented) if !served => padded,
        (None, TrackVariant::Padded) => padded,
        (None, usual) => usual,
    }
}

/// A graph of [`roles`] that not every bundle has: some take no masks as prompts, the fewer layers,
/// the fewer segments, encoders of several frames are written where they are asked for, and only
/// deep ones are cut.
pub fn is_optional(role: Role) -> bool {
    let other_encoder = role.is_encoder() && role != Role::Encoder;
    other_encoder || role == Role::MaskPrompt || Role::SEGMENTS[1..].contains(&role)
}

#[cfg(test)]
mod tests;
