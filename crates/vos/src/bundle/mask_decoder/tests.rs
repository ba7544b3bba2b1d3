//! Decoders that stand between a last segment and the answer, and each way in which one may not;
//! files of weights that are theirs, and others.

use std::path::Path;

use safetensors::tensor::Dtype;

use super::*;
use crate::bundle::manifest::{Axis, Tensor};
use crate::bundle::tensors::tests::file;
use crate::bundle::{Bundle, tensors};

/// A track step of 4 × 4 tokens, and what ends in front of its decoder.
fn manifest() -> Manifest {
    let mut manifest = Bundle::open(Path::new("../../tests/data/fused")).unwrap().manifest;
    let mut image =
        Graph { role: Role::TrackImage, ..graph(&mut manifest, Role::TrackSeg4).clone() };
    image.inputs.retain(|tensor| ["x", "o"].contains(&tensor.name.as_str()));
    let y = Tensor { name: "y".to_owned(), ..image.inputs[0].clone() };
    image.outputs = vec![y];
    manifest.graphs.push(image);
    manifest.mask_decoder = Some(small());
    manifest
}

fn small() -> MaskDecoderPart {
    let file = MaskDecoderPart::FILE.to_owned();
    let shape = MaskDecoderShape { grid: 4, iou_sigmoid: true };
    MaskDecoderPart { file, bytes: 0, sha256: String::new(), flops: 1, shape }
}

fn graph(manifest: &mut Manifest, role: Role) -> &mut Graph {
    manifest.graphs.iter_mut().find(|graph| graph.role == role).unwrap()
}

fn image(manifest: &mut Manifest) -> &mut Graph {
    graph(manifest, Role::TrackImage)
}

#[test]
fn what_no_kernel_computes_is_refused() {
    let whole = manifest();
    small().check_against(&whole).unwrap();
    let refused = |change: &dyn Fn(&mut MaskDecoderPart, &mut Manifest), said: &str| {
        let (mut decoder, mut manifest) = (small(), manifest());
        change(&mut decoder, &mut manifest);
        let error = format!("{:#}", decoder.check_against(&manifest).expect_err(said));
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    };
    refused(
        &|d, _| d.file = "../engine.json".to_owned(),
        "said to be in '../engine.json', expected mask_decoder.safetensors",
    );
    refused(&|d, _| d.shape.grid = 8, "has 8 tokens a side, the contract's 4");
    for grid in [2, 5] {
        let said = format!("has {grid} tokens a side, its kernels take even numbers from 4 on");
        refused(&|d, m| (d.shape.grid, m.contract.grid) = (grid, grid), &said);
    }
    refused(&|_, m| m.contract.pointer_channels = 128, "256 and 128 channels");
    refused(&|_, m| m.graphs.retain(|g| g.role != Role::TrackSeg0), "has no segments");
    refused(
        &|_, m| m.graphs.retain(|g| g.role != Role::TrackImage),
        "there is no track_image graph, which the decoder stands behind",
    );
    refused(
        &|_, m| image(m).outputs = image(m).inputs.clone(),
        "track_image graph gives x, o, expected y alone",
    );
    refused(&|_, m| image(m).outputs.clear(), "track_image graph gives nothing, expected y alone");
    refused(
        &|_, m| image(m).inputs[1].shape[2] = Axis::Fixed(32),
        "track_image graph takes o f32[B,16,32], which the track_seg4 graph that it stands for \
         does not",
    );
    refused(
        &|_, m| image(m).outputs[0].shape[1] = Axis::Fixed(17),
        "track_image graph's y is y f32[B,17,256], the decoder's kernels need [1, 16, 256]",
    );
    let of_encoder = |m: &mut Manifest, at: usize| {
        let encoder = m.graphs.iter_mut().find(|graph| graph.role == Role::Encoder);
        encoder.unwrap().outputs.remove(at)
    };
    refused(&|_, m| _ = of_encoder(m, 1), "there is no the encoder's hr0");
    refused(&|_, m| _ = of_encoder(m, 2), "there is no the encoder's hr1");
}

#[test]
fn a_manifest_has_a_decoder_where_its_segments_need_one() {
    let text = toml::to_string(&manifest()).unwrap();
    let open = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("manifest.toml"), text).unwrap();
        Bundle::open(dir.path()).map_err(|error| format!("{error:#}"))
    };
    let opened = open(&text).unwrap();
    assert_eq!(opened.manifest.mask_decoder, Some(small()));
    let missing = open(&toml::to_string(&Manifest { mask_decoder: None, ..manifest() }).unwrap());
    let said = missing.unwrap_err();
    assert!(said.contains("track_image graph ends in front of the mask decoder, and"), "{said}");
    // With a decoder or without, the segments end in the answer.
    let mut unanswered = manifest();
    graph(&mut unanswered, Role::TrackSeg4).outputs = image(&mut unanswered).outputs.clone();
    let said = open(&toml::to_string(&unanswered).unwrap()).unwrap_err();
    assert!(said.contains("track_seg4 graph ends in front of the mask decoder (its"), "{said}");
    let said = open(&text.replace("\ngrid = 4\nprobable", "\ngrid = 5\nprobable")).unwrap_err();
    assert!(said.contains("table [mask_decoder] is unusable; export the model again"), "{said}");
    // An older export names table and file otherwise.
    let older = text.replace("[mask_decoder]", "[decoder]");
    let said =
        open(&older.replace(MaskDecoderPart::FILE, "track_decoder.safetensors")).unwrap_err();
    assert!(said.contains("table [mask_decoder] is unusable; export the model again"), "{said}");
    assert!(said.contains("'track_decoder.safetensors', expected mask_decoder.saf"), "{said}");
    // A bundle whose last segment answers has none.
    let fused = Bundle::open(Path::new("../../tests/data/fused")).unwrap();
    assert!(fused.weights_of::<MaskDecoderPart>().unwrap().is_none());
    let said = format!("{:#}", opened.weights_of::<MaskDecoderPart>().err().unwrap());
    assert!(said.contains("are missing; export the model again"), "{said}");
    assert!(said.contains("cannot read") && said.contains(MaskDecoderPart::FILE), "{said}");
}

#[test]
fn tensors_are_found_by_name() {
    let shape = small().shape;
    assert_eq!((shape.tokens(), shape.low_size()), (16, 16));
    let tensors = MaskDecoderPart::tensors(&shape);
    let weights = MaskDecoderWeights::read(file(&tensors), &shape).unwrap();
    assert_eq!(weights.file().len(), file(&tensors).len());
    for (at, tensor) in tensors.iter().enumerate() {
        assert_eq!(weights.get(&tensor.name).unwrap(), vec![at as u8; tensor.bytes()]);
    }
    let find = |name: &str| tensors.iter().find(|tensor| tensor.name == name);
    assert!(find("decoder.layers.0.read.query").is_none());
    let found = find("decoder.layers.1.read.query").unwrap();
    assert_eq!((found.dtype, found.shape.as_slice()), (Dtype::F16, &[CROSS, WIDTH][..]));
    let said = weights.get("decoder.layers.2.up").unwrap_err().to_string();
    assert_eq!(said, "the mask decoder has no tensor decoder.layers.2.up");
}

#[test]
fn another_file_is_refused_with_tensor_found_and_expected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    let open = |bytes: &[u8], more: u64| {
        std::fs::write(&path, bytes).unwrap();
        let sha256 = crate::files::sha256_of_file(&path).unwrap().sha256;
        let bytes = bytes.len() as u64 + more;
        let opened = MaskDecoderWeights::open(&path, &MaskDecoderPart { bytes, sha256, ..small() });
        opened.map_err(|error| format!("{error:#}"))
    };
    let tensors = MaskDecoderPart::tensors(&small().shape);
    open(&file(&tensors), 0).unwrap();
    let refused = |change: &dyn Fn(&mut Vec<tensors::Tensor>), said: &str| {
        let mut changed = tensors.clone();
        change(&mut changed);
        let error = open(&file(&changed), 0).unwrap_err();
        assert!(error.contains(said) && error.contains("w.safetensors"), "{said:?}: {error:?}");
    };
    let find = |all: &mut Vec<tensors::Tensor>, name: &str| {
        all.iter().position(|tensor| tensor.name == name).unwrap()
    };
    refused(
        &|all| all.retain(|tensor| tensor.name != "decoder.last.key"),
        "the tensor decoder.last.key is missing, expected F16[128, 256]",
    );
    refused(
        &|all| {
            let at = find(all, "decoder.tokens");
            all[at].dtype = Dtype::F16;
        },
        "the tensor decoder.tokens is F16[8, 256], expected F32[8, 256]",
    );
    refused(
        &|all| {
            let at = find(all, "decoder.pe");
            all[at].shape[0] = 4096;
        },
        "the tensor decoder.pe is F16[4096, 256], expected F16[16, 256]",
    );
    refused(
        &|all| {
            let mut more = all[0].clone();
            more.name = "decoder.more".to_owned();
            all.push(more);
        },
        "tensors, expected",
    );
    let whole = file(&tensors);
    let size = format!("has {} bytes, expected {} of its manifest", whole.len(), whole.len() + 1);
    assert!(open(&whole, 1).unwrap_err().contains(&size));
    assert!(open(&whole[..whole.len() - 2], 0).unwrap_err().contains("not a safetensors file"));
    std::fs::write(&path, &whole).unwrap();
    let said = format!("{:#}", MaskDecoderWeights::open(&path, &small()).err().unwrap());
    assert!(said.contains("is damaged or another file: found sha256"), "{said}");
}
