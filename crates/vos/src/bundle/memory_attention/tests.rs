//! Memory attentions that kernels compute, and those that they do not.

use std::path::Path;

use super::*;
use crate::bundle::{Bundle, Graph, MaskDecoderPart, MaskDecoderShape};

fn small() -> MemoryAttentionPart {
    let file = MemoryAttentionPart::FILE.to_owned();
    let shape = MemoryAttentionShape { grid: 4, layers: 2 };
    MemoryAttentionPart { file, bytes: 0, sha256: String::new(), flops: 1, shape }
}

/// A track step of 4 × 4 tokens with two layers.
fn manifest() -> Manifest {
    let mut manifest = Bundle::open(Path::new("../../tests/data/fused")).unwrap().manifest;
    manifest.mask_decoder = Some(MaskDecoderPart {
        file: MaskDecoderPart::FILE.to_owned(),
        bytes: 0,
        sha256: String::new(),
        flops: 1,
        shape: MaskDecoderShape { grid: 4, iou_sigmoid: true },
    });
    manifest.memory_attention = Some(small());
    manifest
}

#[test]
fn what_no_kernel_computes_is_refused() {
    small().check_against(&manifest()).unwrap();
    let refused = |change: &dyn Fn(&mut MemoryAttentionPart, &mut Manifest), said: &str| {
        let (mut part, mut manifest) = (small(), manifest());
        change(&mut part, &mut manifest);
        let error = format!("{:#}", part.check_against(&manifest).expect_err(said));
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    };
    refused(&|p, _| p.file = "../x".to_owned(), "said to be in '../x', expected memory_attention.");
    refused(&|p, _| p.shape.grid = 8, "has 8 tokens a side, the contract's 4");
    for grid in [2, 5] {
        let said = format!("has {grid} tokens a side, its kernels take even numbers from 4 on");
        refused(&|p, m| (p.shape.grid, m.contract.grid) = (grid, grid), &said);
    }
    refused(&|p, _| p.shape.layers = 5, "has 5 layers, its kernels take 1 to 4");
    refused(&|p, _| p.shape.layers = 3, "has 5 segments, a memory attention of 3 layers has 7");
    refused(&|_, m| m.contract.memory_channels = 32, "have 256 and 32 channels");
    refused(&|_, m| m.mask_decoder = None, "there is no table [mask_decoder]");
    let of_encoder = |graph: &&mut Graph| graph.role == Role::Encoder;
    refused(
        &|_, m| m.graphs.iter_mut().find(of_encoder).unwrap().outputs.clear(),
        "there is no the encoder's feat",
    );
}

#[test]
fn kernels_run_where_they_were_chosen_and_no_segment_was_built() {
    let manifest = manifest();
    let replaces = |built: &[Role], memory_attention: bool| {
        let has = |role: Role| built.contains(&role);
        let plans = Plans { has: &has, halves: true, memory_attention };
        (
            MemoryAttentionPart::replaces_plan(&manifest, &plans),
            MaskDecoderPart::replaces_plan(&manifest, &plans),
        )
    };
    assert_eq!(replaces(&[Role::TrackPadded], true), (true, true));
    assert_eq!(replaces(&[Role::TrackPadded], false), (false, false));
    assert_eq!(replaces(&[Role::TrackSeg0, Role::TrackImage], true), (false, true));
    assert_eq!(replaces(&[Role::TrackSeg4], true), (false, false));
}

#[test]
fn the_file_has_each_layers_tensors() {
    let tensors = MemoryAttentionPart::tensors(&small().shape);
    assert_eq!(tensors.len(), 2 + 2 * (2 * 5 + 3 * 2) + 2);
    let names: std::collections::BTreeSet<&str> =
        tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names.len(), tensors.len());
    let of = |name: &str| tensors.iter().find(|tensor| tensor.name == name).unwrap();
    assert_eq!(of("attention.layers.1.down").shape, [256, 2048]);
    assert_eq!(of("attention.norm.bias").dtype, Dtype::F32);
}
