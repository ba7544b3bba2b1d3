//! Plans and engine folders made by hand, and libraries that stand in for TensorRT.

use std::path::{Path, PathBuf};
use std::process::Command;

use runtime::engine::{
    BuildCost, Builder, EngineManifest, PlanRecord, ProfileShapes, Settings, layers, manifest,
};
use vos::bundle::{Bundle, Role};
use vos::files::sha256_of_file;
use vos::precision::Precision;

use crate::support::small_bundle;

/// A file that begins as plans of TensorRT 8.6.0 do, with the right length in its header.
pub fn plan_bytes(length: usize) -> Vec<u8> {
    let mut bytes = b"ftrt\0\0\0\0".to_vec();
    bytes.extend(2_u64.to_le_bytes());
    bytes.extend((length as u64).to_le_bytes());
    bytes.extend([8, 6, 0, 12]);
    bytes.resize(length, 0x5a);
    bytes
}

const LAYERS: &str = r#"{"Layers": [
    {"Name": "/memory/layers.0/norm/Mean", "LayerType": "Reduce", "Outputs": [{"Format/Datatype": "Row major linear FP32"}]},
    {"Name": "/memory/layers.0/k_self", "LayerType": "CaskGemmConvolution",
     "Outputs": [{"Format/Datatype": "Row major linear FP16 format"}], "TacticName": "sm80_xmma_gemm_f16f16_f16f16_f16_nn"},
    {"Name": "/memory/layers.0/Softmax", "LayerType": "SoftMaxV2",
     "Inputs": [{"Dimensions": [1,256,960], "Format/Datatype": "Row major linear FP16 format"}],
     "Outputs": [{"Dimensions": [1,256,960], "Format/Datatype": "Row major linear FP16 format"}]}
]}"#;

/// An engine folder with one track plan, built from the committed bundle; returns the plan's file.
pub fn engine_folder(dir: &Path) -> PathBuf {
    let plan = dir.join("track.plan");
    std::fs::write(&plan, plan_bytes(5000)).unwrap();
    let hash = sha256_of_file(&plan).unwrap();
    let record = PlanRecord {
        role: Role::Track,
        file: "track.plan".into(),
        sha256: hash.sha256,
        bytes: hash.bytes,
        onnx_sha256: "ab".repeat(32),
        made_by: Builder {
            tensorrt: "TensorRT 8.6.0".into(),
            sm: vec![90],
            device: Some("NVIDIA H200".into()),
            driver_cuda: Some("13.0".into()),
            segtrt: "0.1.0".into(),
        },
        settings: Settings {
            precision: Precision::Fp16,
            strongly_typed: false,
            fp32_pins: runtime::engine::fp32_pins::Fp32Pins::None,
            fp32_layers: Vec::new(),
            graphs: "fp32".to_owned(),
            opt_level: Some(3),
            timing_runs: None,
            workspace_bytes: 256 << 20,
            tactic_bytes: None,
            memory_bytes: Some(4 << 30),
            library_tactics: false,
            ampere_plus: false,
            targets: vec![],
            profiles: vec![ProfileShapes {
                label: "1 object, 7 memories, 16 pointers".into(),
                shapes: vec![("mem".into(), vec![1, 7, 128, 16]), ("ptrs".into(), vec![1, 16, 48])],
            }],
        },
        build: BuildCost {
            seconds: 37.25,
            warm_cache: true,
            context_bytes: Some(3 << 20),
            pinned_layers: Some(vec!["/memory/layers.0/norm/Mean".into()]),
            ..BuildCost::default()
        },
        layers: Some(layers::parse(LAYERS).unwrap()),
    };
    EngineManifest {
        format: manifest::FORMAT,
        platform: "h200".into(),
        precision: Precision::Fp16,
        bundle: Bundle::open(&small_bundle()).unwrap().manifest,
        plans: vec![record],
        products: None,
        attention_kernels: false,
        sources: manifest::Sources::default(),
        dir: None,
    }
    .write(dir)
    .unwrap();
    plan
}

/// A library compiled from C or C++ as `dir/libnvinfer.so.8`; false without a compiler.
pub fn library(dir: &Path, compiler: &str, source: &Path) -> bool {
    std::fs::create_dir_all(dir).unwrap();
    let standard = if compiler == "c++" { "-std=c++17" } else { "-std=c11" };
    let built = Command::new(compiler)
        .args([standard, "-shared", "-fPIC", "-o"])
        .args([&dir.join("libnvinfer.so.8"), source])
        .output();
    let Ok(built) = built else {
        eprintln!("SKIPPED: no {compiler}");
        return false;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    true
}
