//! Plans made by hand: every verdict with its evidence, and what counts as a fallback.

use super::*;
use crate::engine::{BuildCost, Builder, ProfileShapes, Settings, layers};
use vos::bundle::manifest::{Axis, Family};
use vos::bundle::{Bundle, Role};

/// The manifest of the committed bundle with the sizes of EdgeTAM at 1024.
fn edgetam() -> Manifest {
    let mut bundle =
        Bundle::open("../../onnx/bundles/edgetam_mini_256_fp32".as_ref()).unwrap().manifest;
    bundle.contract.grid = 64;
    bundle.contract.memory_tokens = 512;
    (bundle.contract.memory_channels, bundle.contract.pointer_channels) = (64, 256);
    let track = bundle.graphs.iter_mut().find(|graph| graph.role == Role::Track).unwrap();
    let memories = track.inputs.iter_mut().find(|input| input.name == "mem").unwrap();
    memories.shape[2] = Axis::Fixed(512);
    bundle
}

fn sam(model: &str) -> Manifest {
    let mut bundle = edgetam();
    (bundle.model.family, bundle.model.name) = (Family::Sam21, model.into());
    bundle
}

fn plan(role: Role, precision: Precision, json: Option<&str>) -> PlanRecord {
    PlanRecord {
        role,
        file: "x.plan".into(),
        sha256: String::new(),
        bytes: 0,
        onnx_sha256: String::new(),
        made_by: Builder {
            tensorrt: "TensorRT 8.6.0".into(),
            sm: vec![90],
            device: None,
            driver_cuda: None,
            segtrt: String::new(),
        },
        settings: Settings::plain(precision),
        build: BuildCost::default(),
        layers: json.map(|json| layers::parse(json).unwrap()),
    }
}

const OPAQUE: &str = r#"{"Layers": [{"Name": "{ForeignNode[/memory/bank/Gather.../two_way/last/Add]}",
    "LayerType": "Myelin", "Outputs": [{"Name": "low", "Dimensions": [1,1,256,256], "Format/Datatype": "Float"}],
    "TacticValue": "0x0000000000000000"}]}"#;

/// One kernel with a score matrix of `keys` keys and 4096 queries around it.
fn kernel(name: &str, inputs: &str, outputs: &str) -> String {
    format!(
        r#"{{"Layers": [{{"Name": "{name}", "LayerType": "kgen", "TacticName": "{name}_0x1",
        "Inputs": [{{"Name": "a", "Dimensions": {inputs}, "Format/Datatype": "Half"}}],
        "Outputs": [{{"Name": "b", "Dimensions": {outputs}, "Format/Datatype": "Half"}}]}}]}}"#
    )
}

fn verdict(plan: &PlanRecord, bundle: &Manifest) -> (Verdict, String) {
    let Attention { verdict, evidence } = assess(plan, bundle).attention;
    (verdict, evidence)
}

#[test]
fn an_opaque_track_is_fused_where_its_memory_is_too_small_for_the_scores_and_else_unknown() {
    // 4096 queries, 7*512 + 16*4 = 3648 keys, 2 bytes: 29,884,416.
    let mut plan = plan(Role::Track, Precision::Fp16, Some(OPAQUE));
    for (context, expected) in [
        (Some(29_884_415), Verdict::Fused),
        (Some(29_884_416), Verdict::Unknown),
        (Some(202_000_000), Verdict::Unknown),
        (None, Verdict::Unknown),
    ] {
        plan.build.context_bytes = context;
        let (found, evidence) = verdict(&plan, &edgetam());
        assert_eq!(found, expected, "{evidence}");
        assert!(evidence.contains("its opaque layer"), "{evidence}");
        assert!(
            context.is_none() || evidence.contains("4096 queries x 3648 keys x 2 bytes"),
            "{evidence}"
        );
    }
    plan.settings.precision = Precision::Fp32;
    plan.build.context_bytes = Some(29_884_416);
    assert_eq!(
        verdict(&plan, &edgetam()).0,
        Verdict::Fused,
        "scores of 4 bytes are twice as large"
    );
}

#[test]
fn the_bound_is_that_of_the_largest_profile() {
    let mut plan = plan(Role::Track, Precision::Fp16, Some(OPAQUE));
    let profile = |objects, frames, pointers| ProfileShapes {
        label: String::new(),
        shapes: vec![
            ("mem".into(), vec![objects, frames, 512, 64]),
            ("ptrs".into(), vec![objects, pointers, 256]),
        ],
    };
    plan.settings.profiles = vec![profile(1, 1, 1), profile(2, 2, 3)];
    // 2 objects, 2*512 + 3*4 = 1036 keys: 16,973,824 bytes.
    plan.build.context_bytes = Some(16_973_823);
    let (found, evidence) = verdict(&plan, &edgetam());
    assert!(
        found == Verdict::Fused
            && evidence.contains("2 objects x 1 head x 4096 queries x 1036 keys"),
        "{evidence}"
    );
    plan.build.context_bytes = Some(16_973_824);
    assert_eq!(verdict(&plan, &edgetam()).0, Verdict::Unknown);
}

#[test]
fn kernels_that_say_what_they_are_decide_and_small_attentions_do_not() {
    let of = |json: &str| verdict(&plan(Role::Track, Precision::Fp16, Some(json)), &edgetam());
    let (found, evidence) = of(&kernel("_gemm_mha_v2_myl0_7", "[1,256,3648]", "[1,4096,64]"));
    assert!(found == Verdict::Fused && evidence.contains("_gemm_mha_v2_myl0_7"), "{evidence}");
    let (found, evidence) =
        of(&kernel("__myl_MaxSubExpSumDiv_myl0_7", "[1,4096,3648]", "[1,4096,3648]"));
    assert!(found == Verdict::NotFused && evidence.contains("1 layer"), "{evidence}");
    // The decoder's attention between 9 tokens and the features: neither a proof nor a fault.
    for small in [
        kernel("_gemm_mha_v2_myl0_9", "[8,16,9]", "[8,4096,16]"),
        kernel("__myl_MaxSubExpSumDiv_myl0_9", "[8,4096,9]", "[8,4096,9]"),
    ] {
        let (found, evidence) = of(&small);
        assert!(found == Verdict::Unknown && evidence.contains("no layer says"), "{evidence}");
    }
}

#[test]
fn one_softmax_of_that_size_outweighs_fused_kernels_elsewhere() {
    let mut plan = plan(
        Role::Track,
        Precision::Fp16,
        Some(&kernel("_gemm_mha_v2_1", "[1,256,3648]", "[1,4096,64]")),
    );
    let split =
        layers::parse(&kernel("__myl_SubExpSum_2", "[1,4096,3648]", "[1,4096,3648]")).unwrap();
    plan.layers.as_mut().unwrap().extend(split);
    assert_eq!(verdict(&plan, &edgetam()).0, Verdict::NotFused);
}

#[test]
fn encoders_are_judged_where_they_attend() {
    let encoder = |context| {
        let mut plan = plan(Role::Encoder, Precision::Fp16, Some(OPAQUE));
        plan.build.context_bytes = Some(context);
        plan
    };
    assert_eq!(verdict(&encoder(1), &edgetam()).0, Verdict::NotJudged);
    // 4 heads of 4096 x 4096 scores of 2 bytes: 128 MiB; 8 heads: 256 MiB.
    for (model, matrix) in [("sam2.1_tiny", 128 << 20), ("sam2.1_large", 256 << 20)] {
        assert_eq!(verdict(&encoder(matrix - 1), &sam(model)).0, Verdict::Fused, "{model}");
        assert_eq!(verdict(&encoder(matrix), &sam(model)).0, Verdict::Unknown, "{model}");
    }
    assert_eq!(
        verdict(&plan(Role::Memory, Precision::Fp16, None), &edgetam()).0,
        Verdict::NotJudged
    );
    let (found, evidence) = verdict(&plan(Role::Prompt, Precision::Fp16, None), &edgetam());
    assert!(found == Verdict::Unknown && evidence.contains("not opened"), "{evidence}");
}

/// Less memory than a score matrix, no softmax, an attention kernel of TensorRT's for its windows:
/// none of it is a proof.
#[test]
fn an_encoder_that_is_cut_at_its_attentions_is_not_judged() {
    let mut bundle = sam("sam2.1_tiny");
    let whole = bundle.graph(Role::Encoder).unwrap().clone();
    let cut = |bundle: &mut Manifest, role| {
        bundle.graphs.push(vos::bundle::Graph { role, ..whole.clone() });
    };
    cut(&mut bundle, Role::EncoderCut0);
    cut(&mut bundle, Role::EncoderCut1);
    let window = kernel("_gemm_mha_v2_myl0_7", "[64,4,4096]", "[64,49,64]");
    let judged = |bundle: &Manifest, role| {
        [OPAQUE, &window].map(|layers| {
            let mut plan = plan(role, Precision::Fp16, Some(layers));
            plan.build.context_bytes = Some(1);
            verdict(&plan, bundle)
        })
    };
    let [opaque, _] = judged(&bundle, Role::EncoderCut1);
    assert_eq!(opaque.0, Verdict::Fused);
    bundle.trunk = Some(vos::bundle::trunk::fixtures::small());
    for role in [Role::EncoderCut0, Role::EncoderCut1] {
        for (found, evidence) in judged(&bundle, role) {
            assert!(found == Verdict::NotJudged && evidence.contains("own kernel"), "{evidence}");
        }
    }
    assert_eq!(judged(&bundle, Role::Encoder)[0].0, Verdict::Fused);
}

const MIXED: &str = r#"{"Layers": [
    {"Name": "/conv", "LayerType": "CaskConvolution", "Outputs": [{"Format/Datatype": "Row major linear FP16 format"}]},
    {"Name": "/norm/Mean + /norm/Sub", "LayerType": "Reduce", "Outputs": [{"Format/Datatype": "Row major linear FP32"}]},
    {"Name": "/head/Gemm", "LayerType": "CaskGemmConvolution", "Outputs": [{"Format/Datatype": "Row major linear FP32"}]},
    {"Name": "Reformatting CopyNode for Input Tensor 0 to /conv", "LayerType": "Reformat",
     "Outputs": [{"Format/Datatype": "Row major linear FP32"}]},
    {"Name": "/range", "LayerType": "ElementWise", "Outputs": [{"Format/Datatype": "Row major linear INT32 format"}]},
    {"Name": "{ForeignNode[/q.../out]}", "LayerType": "Myelin", "Outputs": [{"Format/Datatype": "Row major linear FP32"}]}
]}"#;

#[test]
fn only_unpinned_arithmetic_in_fp32_fell_back() {
    let mut plan = plan(Role::Memory, Precision::Fp16, Some(MIXED));
    plan.build.pinned_layers = Some(vec!["/norm/Sub".into()]);
    let report = assess(&plan, &edgetam());
    assert_eq!(report.fp32_layers, ["/norm/Mean + /norm/Sub", "/head/Gemm"]);
    let fallback = report.fallback.as_ref().unwrap();
    assert_eq!(
        (&fallback.layers[..], fallback.of, fallback.pinned),
        (&["/head/Gemm".to_owned()][..], 3, 1)
    );
    assert!((fallback.fraction() - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(report.by_class["opaque"], 1);
    assert_eq!(
        report.to_string(),
        "6 layers: 1 fp16, 2 fp32, 1 integer, 1 moving, 1 opaque\n\
         fp32 in a fp16 plan: 1 of 3 layers (33.3 %) without being pinned, 1 pinned; such as /head/Gemm\n\
         attention: not judged (its attention is too small to matter)"
    );
}

#[test]
fn nothing_falls_back_where_types_are_the_graphs_or_fp32_was_asked_for() {
    let mut strong = plan(Role::Memory, Precision::Fp16, Some(MIXED));
    strong.settings.strongly_typed = true;
    for plan in [
        strong,
        plan(Role::Memory, Precision::Fp32, Some(MIXED)),
        plan(Role::Memory, Precision::Fp16, Some(OPAQUE)),
    ] {
        assert!(assess(&plan, &edgetam()).fallback.is_none());
    }
    let unopened = assess(&plan(Role::Track, Precision::Fp16, None), &edgetam()).to_string();
    assert!(unopened.starts_with("layers: not known"), "{unopened}");
}
