//! Which graphs are built, from which recipe, and what kernels compute in their place.

use super::*;
use vos::bundle::trunk::{NeckShape, StemShape, Trunk, fixtures::repvit};
use vos::bundle::{
    Bundle, Graph, MaskDecoderPart, MaskDecoderShape, MemoryAttentionPart, MemoryAttentionShape,
    MemoryKeyProjShape,
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
    assert_eq!(track_variant_for(None, TrackVariant::Segmented, &cut), TrackVariant::PerFillLevel);
    let mut whole = mini;
    whole.graphs.retain(|graph| graph.role != Role::TrackPadded);
    assert_eq!(
        track_variant_for(None, TrackVariant::Segmented, &whole),
        TrackVariant::PerFillLevel
    );
    assert_eq!(track_variant_for(None, TrackVariant::Padded, &whole), TrackVariant::PerFillLevel);
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
    assert!(recipes(Precision::Fp16, Version::from_raw(100_300), true).unwrap()[0].strongly_typed);
}

#[test]
fn no_engine_of_an_encoder_is_built_where_kernels_compute_all_of_it() {
    let mut bundle = Bundle::open("../../tests/data/fused".as_ref()).unwrap().manifest;
    bundle.model.precision = "fp16".to_owned();
    let (stem, neck) =
        (StemShape::Convolutions { middle: 8 }, NeckShape { hr0: 8, hr1: 16, feat: 64 });
    bundle.trunk = Some(Trunk { stem: Some(stem), neck: Some(neck), ..repvit() });
    let is_built = |sm, precision| {
        roles(TrackVariant::PerFillLevel, &bundle, sm, precision).contains(&Role::Encoder)
    };
    assert!(!is_built(80, Precision::Fp16) && is_built(75, Precision::Fp16));
    assert!(is_built(90, Precision::Mixed));
}
