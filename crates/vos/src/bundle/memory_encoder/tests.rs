//! Memory encoders that do what the memory graph does, and each way in which one may not; files of
//! weights that are theirs, and others.

use std::path::Path;

use safetensors::tensor::Dtype;

use super::*;
use crate::bundle::manifest::{Axis, Graph};
use crate::bundle::tensors::tests::file;
use crate::bundle::{Bundle, tensors};

/// A bundle of 4 × 4 tokens with a memory encoder.
fn manifest() -> Manifest {
    let mut manifest = Bundle::open(Path::new("../../tests/data/fused")).unwrap().manifest;
    manifest.memory_encoder = Some(small());
    manifest
}

fn small() -> MemoryEncoderPart {
    let (file, sha256) = (MemoryEncoderPart::FILE.to_owned(), String::new());
    let (scale, offset) = (20.0, -10.0);
    let shape = MemoryEncoderShape { grid: 4, scale, offset, latents: false };
    MemoryEncoderPart { file, bytes: 0, sha256, flops: 1, shape }
}

fn memory(manifest: &mut Manifest) -> &mut Graph {
    manifest.graphs.iter_mut().find(|graph| graph.role == Role::Memory).unwrap()
}

/// One of 16 × 16 tokens, with latents.
fn with_latents() -> (MemoryEncoderPart, Manifest) {
    let mut manifest = manifest();
    (manifest.contract.grid, manifest.contract.memory_tokens) = (16, 512);
    let graph = memory(&mut manifest);
    graph.inputs[0].shape[2..].fill(Axis::Fixed(16));
    graph.inputs[1].shape[2..].fill(Axis::Fixed(64));
    graph.outputs[0].shape[1] = Axis::Fixed(512);
    let mut encoder = small();
    (encoder.shape.grid, encoder.shape.latents) = (16, true);
    (encoder, manifest)
}

#[test]
fn what_no_kernel_computes_is_refused() {
    small().check_against(&manifest()).unwrap();
    let (latents, whole) = with_latents();
    latents.check_against(&whole).unwrap();
    let refused = |change: &dyn Fn(&mut MemoryEncoderPart, &mut Manifest), said: &str| {
        let (mut encoder, mut manifest) = (small(), manifest());
        change(&mut encoder, &mut manifest);
        let error = format!("{:#}", encoder.check_against(&manifest).expect_err(said));
        assert!(error.contains(said), "{said:?} is not in {error:?}");
    };
    refused(
        &|e, _| e.file = "../engine.json".to_owned(),
        "said to be in '../engine.json', expected memory_encoder.safetensors",
    );
    refused(&|e, _| e.shape.grid = 8, "has 8 tokens a side, the contract's 4");
    for grid in [2, 5] {
        let said = format!("has {grid} tokens a side, its kernels take even numbers from 4 on");
        refused(&|e, m| (e.shape.grid, m.contract.grid) = (grid, grid), &said);
    }
    refused(
        &|e, _| e.shape.latents = true,
        "has 4 tokens a side, its latents' kernels take multiples of 16",
    );
    refused(
        &|e, _| e.shape.scale = f32::NAN,
        "NaN times itself plus -10, expected two finite numbers",
    );
    refused(&|e, _| e.shape.offset = f32::INFINITY, "20 times itself plus inf");
    refused(&|_, m| m.contract.feature_channels = 128, "128 and 64 channels");
    refused(&|_, m| m.contract.memory_channels = 256, "256 and 256 channels");
    refused(
        &|_, m| m.contract.memory_tokens = 512,
        "has 512 tokens, the memory encoder's kernels make 16 without latents",
    );
    refused(
        &|e, m| {
            (*e, *m) = with_latents();
            m.contract.memory_tokens = 256;
        },
        "has 256 tokens, the memory encoder's kernels make 512 latents",
    );
    refused(&|_, m| m.graphs.retain(|g| g.role != Role::Memory), "the memory graph is missing");
    for (at, name) in ["feat", "low", "score", "binar"].into_iter().enumerate() {
        let said = format!("there is no the memory graph's {name}, expected [1");
        refused(&|_, m| _ = memory(m).inputs.remove(at), &said);
    }
    refused(
        &|_, m| memory(m).inputs[1].shape[3] = Axis::Fixed(17),
        "memory graph's low is low f32[B,1,16,17], the memory encoder's kernels need [1, 1, 16, \
         16]",
    );
    refused(
        &|_, m| {
            let mut more = memory(m).inputs[3].clone();
            more.name = "more".to_owned();
            memory(m).inputs.push(more);
        },
        "takes feat, low, score, binar, more, the memory encoder's kernels feat",
    );
    refused(&|_, m| memory(m).outputs.clear(), "gives 0 tensors, the memory encoder's kernels mem");
    refused(
        &|_, m| memory(m).outputs[0].name = "tokens".to_owned(),
        "there is no the memory graph's mem",
    );
    refused(
        &|_, m| memory(m).outputs[0].shape[2] = Axis::Fixed(32),
        "mem is mem f32[B,16,32], the memory encoder's kernels need [1, 16, 64]",
    );
}

#[test]
fn a_manifest_may_have_a_memory_encoder() {
    let text = toml::to_string(&manifest()).unwrap();
    let open = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("manifest.toml"), text).unwrap();
        Bundle::open(dir.path()).map_err(|error| format!("{error:#}"))
    };
    let opened = open(&text).unwrap();
    assert_eq!(opened.manifest.memory_encoder, Some(small()));
    let said = open(&text.replace("\ngrid = 4\nscale", "\ngrid = 5\nscale")).unwrap_err();
    let expected = "table [memory_encoder] is unusable; export the model again";
    assert!(said.contains(expected), "{said}");
    // A bundle whose memory an engine makes has none.
    let fused = Bundle::open(Path::new("../../tests/data/fused")).unwrap();
    assert!(fused.weights_of::<MemoryEncoderPart>().unwrap().is_none());
    let said = format!("{:#}", opened.weights_of::<MemoryEncoderPart>().unwrap_err());
    assert!(said.contains("are missing; export the model again"), "{said}");
    assert!(said.contains("cannot read") && said.contains(MemoryEncoderPart::FILE), "{said}");
}

#[test]
fn tensors_are_found_by_name() {
    let shape = small().shape;
    assert_eq!((shape.tokens(), shape.memory_tokens(), shape.low_size()), (16, 16, 16));
    let latents = with_latents().0.shape;
    assert_eq!((latents.tokens(), latents.memory_tokens()), (256, 512));
    for shape in [shape, latents] {
        let tensors = MemoryEncoderPart::tensors(&shape);
        let weights = MemoryEncoderWeights::read(file(&tensors), &shape).unwrap();
        assert_eq!(weights.file().len(), file(&tensors).len());
        for (at, tensor) in tensors.iter().enumerate() {
            assert_eq!(weights.get(&tensor.name).unwrap(), vec![at as u8; tensor.bytes()]);
        }
        let find = |name: &str| tensors.iter().find(|tensor| tensor.name == name);
        assert_eq!(find("latents.flat").is_some(), shape.latents);
        let found = find("memory.join.weight").unwrap();
        assert_eq!((found.dtype, found.shape.as_slice()), (Dtype::F16, &[256, 9, 64][..]));
        let said = weights.get("memory.blocks.2.up").unwrap_err().to_string();
        assert_eq!(said, "the memory encoder has no tensor memory.blocks.2.up");
    }
    let tensors = MemoryEncoderPart::tensors(&latents);
    let elements = |name: &str| {
        tensors.iter().find(|tensor| tensor.name == name).map(tensors::Tensor::elements)
    };
    assert_eq!(elements("latents.windows.halves"), Some(155_648));
    assert_eq!(elements("latents.windows.floats"), Some(1408));
    assert_eq!(elements("latents.positions"), Some(256 * 64));
    assert!(elements("latents.layers.1.query.weight").is_some());
    assert!(elements("latents.layers.0.query.weight").is_none());
}

#[test]
fn another_file_is_refused_with_tensor_found_and_expected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    let open = |bytes: &[u8], more: u64| {
        std::fs::write(&path, bytes).unwrap();
        let sha256 = crate::files::sha256_of_file(&path).unwrap().sha256;
        let bytes = bytes.len() as u64 + more;
        let opened =
            MemoryEncoderWeights::open(&path, &MemoryEncoderPart { bytes, sha256, ..small() });
        opened.map_err(|error| format!("{error:#}"))
    };
    let tensors = MemoryEncoderPart::tensors(&small().shape);
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
        &|all| all.retain(|tensor| tensor.name != "memory.absent"),
        "the tensor memory.absent is missing, expected F32[64]",
    );
    refused(
        &|all| {
            let at = find(all, "memory.blocks.1.spread");
            all[at].dtype = Dtype::F16;
        },
        "the tensor memory.blocks.1.spread is F16[49, 256], expected F32[49, 256]",
    );
    refused(
        &|all| {
            let at = find(all, "memory.join.weight");
            all[at].shape = vec![256, 64, 9];
        },
        "the tensor memory.join.weight is F16[256, 64, 9], expected F16[256, 9, 64]",
    );
    // A file with latents, where the manifest says that there are none.
    let latents =
        MemoryEncoderPart::tensors(&MemoryEncoderShape { latents: true, ..small().shape });
    refused(
        &|all| all.clone_from(&latents),
        &format!("it has {} tensors, expected {}", latents.len(), tensors.len()),
    );
    let whole = file(&tensors);
    let size = format!("has {} bytes, expected {} of its manifest", whole.len(), whole.len() + 1);
    assert!(open(&whole, 1).unwrap_err().contains(&size));
    assert!(open(&whole[..whole.len() - 2], 0).unwrap_err().contains("not a safetensors file"));
    std::fs::write(&path, &whole).unwrap();
    let said = format!("{:#}", MemoryEncoderWeights::open(&path, &small()).unwrap_err());
    assert!(said.contains("is damaged or another file: found sha256"), "{said}");
}
