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
/// `sm` has none, the whole is built; and so it is where they do not compute in `precision`.
pub fn roles(variant: TrackVariant, bundle: &Manifest, sm: u32, precision: Precision) -> Vec<Role> {
    let mut roles: Vec<Role> = bundle.encoder_parts().iter().map(|part| part.role).collect();
    if roles.is_empty() || !serves_encoder(bundle, sm, precision) {
        roles.clear();
        roles.push(Role::Encoder);
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
fn serves_halves(bundle: &Manifest, sm: u32, precision: Precision) -> bool {
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
mod tests {
    use super::*;
    use vos::bundle::{
        Bundle, Graph, MaskDecoderPart, MaskDecoderShape, MemoryAttentionPart,
        MemoryAttentionShape, MemoryKeyProjShape,
    };

    #[test]
    fn a_bundle_that_the_kernels_cannot_serve_gets_the_padded_bank() {
        let of = |folder: &str| Bundle::open(folder.as_ref()).unwrap().manifest;
        let (mini, mut cut) =
            (of("../../onnx/bundles/edgetam_mini_256_fp32"), of("../../tests/data/fused"));
        assert_eq!(track_variant_for(None, TrackVariant::Segmented, &mini), TrackVariant::Padded);
        assert_eq!(
            track_variant_for(Some(TrackVariant::PerFillLevel), TrackVariant::Segmented, &mini),
            TrackVariant::PerFillLevel
        );
        assert_eq!(
            track_variant_for(None, TrackVariant::PerFillLevel, &mini),
            TrackVariant::PerFillLevel
        );
        cut.model.precision = "fp16".into();
        assert_eq!(track_variant_for(None, TrackVariant::Segmented, &cut), TrackVariant::Segmented);
        assert_eq!(track_variant_for(None, TrackVariant::Padded, &cut), TrackVariant::PerFillLevel);
        cut.contract.memory_channels = 32;
        assert_eq!(
            track_variant_for(None, TrackVariant::Segmented, &cut),
            TrackVariant::PerFillLevel
        );
        let mut whole = mini;
        whole.graphs.retain(|graph| graph.role != Role::TrackPadded);
        assert_eq!(
            track_variant_for(None, TrackVariant::Segmented, &whole),
            TrackVariant::PerFillLevel
        );
        assert_eq!(
            track_variant_for(None, TrackVariant::Padded, &whole),
            TrackVariant::PerFillLevel
        );
        assert_eq!(
            track_variant_for(Some(TrackVariant::Padded), TrackVariant::Segmented, &whole),
            TrackVariant::Padded
        );
    }

    #[test]
    fn a_cut_encoder_is_built_in_its_parts_and_halves_or_floats_go_for_all_of_them() {
        let mut bundle = Bundle::open("../../tests/data/fused".as_ref()).unwrap().manifest;
        let encoders = |bundle: &Manifest| -> Vec<&str> {
            let there = roles(TrackVariant::PerFillLevel, bundle, 90, Precision::Fp16).into_iter();
            let there = there.filter(|role| bundle.graph(*role).is_some() && role.is_encoder());
            there.map(Role::name).collect()
        };
        assert_eq!(encoders(&bundle), ["encoder"]);
        let whole = bundle.graph(Role::Encoder).unwrap().clone();
        for role in [Role::EncoderCut0, Role::EncoderCut1, Role::EncoderB2] {
            bundle.graphs.push(Graph { role, ..whole.clone() });
        }
        assert_eq!(encoders(&bundle), ["encoder_cut0", "encoder_cut1", "encoder_b2"]);
        assert!(computes_whole(Precision::Mixed, Role::EncoderCut1, &bundle));
        assert!(!computes_whole(Precision::Fp16, Role::EncoderCut1, &bundle));
        // Asked for by the whole's name, which is not built.
        assert!(is_named(&[Role::Encoder], Role::EncoderCut1));
        assert!(is_named(&[Role::EncoderCut1], Role::EncoderCut1));
        assert!(!is_named(&[Role::EncoderCut1], Role::EncoderCut0));
        assert!(!is_named(&[Role::EncoderCut0], Role::Encoder));
        assert!(!is_named(&[Role::Encoder], Role::EncoderB2));
    }

    #[test]
    fn a_trunk_is_for_halves_and_for_gpus_that_have_its_kernels() {
        let mut bundle = Bundle::open("../../tests/data/fused".as_ref()).unwrap().manifest;
        bundle.model.precision = "fp16".to_owned();
        let serves = |bundle: &Manifest, sm, precision| serves_encoder(bundle, sm, precision);
        assert!(serves(&bundle, 75, Precision::Mixed), "its parts are TensorRT's alone");
        bundle.trunk = Some(vos::bundle::trunk::fixtures::small());
        assert!(serves(&bundle, 80, Precision::Fp16) && serves(&bundle, 90, Precision::Best));
        assert!(!serves(&bundle, 75, Precision::Fp16));
        assert!(!serves(&bundle, 90, Precision::Mixed), "its encoder would not be fp32");
        let has_keys = |bundle: &Manifest, precision| {
            roles(TrackVariant::Segmented, bundle, 90, precision).contains(&Role::TrackKeys)
        };
        assert!(has_keys(&bundle, Precision::Fp16));
        let trunk = bundle.trunk.as_mut().unwrap();
        trunk.keys = Some(MemoryKeyProjShape {
            layers: 2,
            memories: 7,
            tokens: 16,
            pointers: 16,
            pointer_times: true,
        });
        assert!(!has_keys(&bundle, Precision::Fp16), "a kernel makes them");
        assert!(has_keys(&bundle, Precision::Mixed), "whose engines have no trunk");
        bundle.model.precision = "fp32".to_owned();
        assert!(!serves(&bundle, 90, Precision::Fp16));
    }

    #[test]
    fn what_ends_in_front_of_the_kernels_decoder_stands_for_the_last_segment_where_they_serve() {
        let mut bundle = Bundle::open("../../tests/data/fused".as_ref()).unwrap().manifest;
        let (file, sha256) = (String::new(), String::new());
        let shape = MaskDecoderShape { grid: 4, iou_sigmoid: true };
        bundle.mask_decoder = Some(MaskDecoderPart { file, bytes: 0, sha256, flops: 1, shape });
        let taken = |bundle: &Manifest, sm, precision| {
            let roles = roles(TrackVariant::Segmented, bundle, sm, precision);
            let there = |role| roles.contains(&role);
            let segments = Role::SEGMENTS.into_iter().filter(|role| bundle.graph(*role).is_some());
            (segments.filter(|role| there(*role)).count(), there(Role::TrackImage))
        };
        assert_eq!(taken(&bundle, 90, Precision::Fp16), (5, false), "these graphs are not halves");
        bundle.model.precision = "fp16".to_owned();
        for (sm, precision, expected) in [
            (80, Precision::Fp16, (4, true)),
            (75, Precision::Fp16, (5, false)),
            (90, Precision::Mixed, (5, false)),
        ] {
            assert_eq!(taken(&bundle, sm, precision), expected, "{sm} {precision}");
        }
        bundle.mask_decoder = None;
        assert_eq!(taken(&bundle, 90, Precision::Fp16), (5, false));
    }

    #[test]
    fn no_segment_is_built_where_kernels_compute_all_of_them() {
        let mut bundle = Bundle::open("../../tests/data/fused".as_ref()).unwrap().manifest;
        let shape = MemoryAttentionShape { grid: 4, layers: 2 };
        let (file, sha256) = (String::new(), String::new());
        bundle.memory_attention = Some(MemoryAttentionPart {
            file: file.clone(),
            bytes: 0,
            sha256: sha256.clone(),
            flops: 1,
            shape,
        });
        let cut = |bundle: &Manifest, sm, precision| {
            let roles = roles(TrackVariant::Segmented, bundle, sm, precision);
            let there = |role: &Role| Role::SEGMENTS.contains(role) || *role == Role::TrackImage;
            (roles.iter().filter(|role| there(role)).count(), roles)
        };
        bundle.model.precision = "fp16".to_owned();
        assert_eq!(cut(&bundle, 90, Precision::Fp16).0, 9, "nothing decodes");
        let shape = MaskDecoderShape { grid: 4, iou_sigmoid: true };
        bundle.mask_decoder = Some(MaskDecoderPart { file, bytes: 0, sha256, flops: 1, shape });
        let (count, built) = cut(&bundle, 80, Precision::Fp16);
        assert_eq!(count, 0);
        assert!(built.contains(&Role::TrackKeys), "no kernel makes them here");
        let named = [Role::Encoder, Role::TrackSeg2];
        assert_eq!(computed_by_kernels(&named, &built, &bundle), Some(Role::TrackSeg2));
        for (sm, precision) in [(75, Precision::Fp16), (90, Precision::Mixed)] {
            let (count, built) = cut(&bundle, sm, precision);
            assert_eq!(count, 9);
            assert_eq!(computed_by_kernels(&named, &built, &bundle), None);
        }
    }

    #[test]
    fn mixed_engines_keep_halves_for_the_memory_attention_alone() {
        let cut = Bundle::open("../../tests/data/fused".as_ref()).unwrap().manifest;
        let whole = |precision| {
            let chosen = roles(TrackVariant::Segmented, &cut, 90, precision).into_iter();
            let there = chosen.filter(|role| cut.graph(*role).is_some());
            there.filter(|role| computes_whole(precision, *role, &cut)).map(Role::name).collect()
        };
        let names: Vec<&str> = whole(Precision::Mixed);
        assert_eq!(names, ["encoder", "prompt", "track_seg4", "memory"]);
        let none: Vec<&str> = whole(Precision::Fp16);
        assert!(none.is_empty());
    }

    #[test]
    fn each_release_gets_what_it_can_do() {
        let of = |precision, raw| recipes(precision, Version::from_raw(raw), false);
        let eight = of(Precision::Fp16, 8600).unwrap();
        assert_eq!((eight[0].graphs, eight[0].fp32_pins), ("fp16", Fp32Pins::Pinned));
        assert_eq!((eight[1].graphs, eight[1].fp32_pins), ("fp32", Fp32Pins::Pinned));
        assert!(!eight[0].strongly_typed);
        let eleven = of(Precision::Fp16, 110_400).unwrap();
        assert_eq!((eleven.len(), eleven[0].graphs, eleven[0].strongly_typed), (1, "fp16", true));
        assert_eq!(of(Precision::Mixed, 8600).unwrap().len(), 1);
        assert!(of(Precision::Mixed, 110_400).unwrap_err().contains("there are no mixed ones"));
        assert!(of(Precision::Bf16, 8600).unwrap_err().contains("has no bf16"));
        assert!(of(Precision::Bf16, 110_400).unwrap_err().contains("no bf16 graphs"));
        assert_eq!(of(Precision::Bf16, 100_300).unwrap()[0].graphs, "fp32");
        assert!(recipes(Precision::Fp32, Version::from_raw(8600), true).is_err());
        assert!(
            recipes(Precision::Fp16, Version::from_raw(100_300), true).unwrap()[0].strongly_typed
        );
    }
}
