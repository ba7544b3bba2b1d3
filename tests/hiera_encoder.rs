//! SAM 2.1's encoder computed by kernels alone, on stand-ins: the hand-made network of
//! `tests/data/fused` with an encoder of Hiera's blocks and the weights of its stem and neck
//! (`tests/data/trunk`).
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command as Process;

use predicates::str::contains;
use runtime::engine::open_part;
use vos::bundle::Trunk;
use vos::precision::Precision;

use crate::support::{column, lowest_iou};
use crate::trunk_bundle::{ENCODER, Yard, bundle};
use crate::trunk_setting::{PARTS, Setting};

const FRAMES: usize = 3;

/// Writes the bundle; none, said aloud, where Python's onnx is not installed.
fn whole_bundle(place: &Path) -> Option<()> {
    bundle(place, true);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = Process::new(root.join(".venv/bin/python"));
    python.arg(root.join("tests/data/trunk/add_stem_neck.py")).arg(place);
    let Ok(output) = python.output() else {
        eprintln!("SKIPPED: no Python in .venv; `make test` installs it");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

fn setting() -> Option<Setting> {
    Setting::new(1, FRAMES, whole_bundle)
}

impl Setting {
    fn backend(&self, out: &str) -> String {
        column(&self.path(out).join("sav_benchmark_summary.csv"), "backend").remove(0)
    }
}

#[test]
fn kernels_alone_give_the_masks_of_the_whole() {
    let Some(setting) = setting() else { return };
    setting.run_on_cpu();
    setting.engines(&[], Precision::Fp16);
    let log = setting.path("log");
    setting.gpu("kernels").env("FAKE_CUDA_LOG", &log).assert().success();
    assert_eq!(setting.backend("kernels"), "tensorrt 8.6.1 fp16 per-fill-level encoder graph");
    let (kernels, expected) = (setting.frames("kernels"), setting.frames("cpu"));
    assert_eq!(expected.len(), FRAMES);
    let iou = lowest_iou(&expected, &kernels);
    assert!(iou > 0.9, "{iou}");
    let text = fs::read_to_string(&log).unwrap();
    let (before, pass) = text.rsplit_once("bank_reset 1\n").unwrap();
    assert!(before.contains("hiera_stem") && before.contains("hiera_layernorm"));
    assert!(before.lines().any(|line| line.starts_with("neck ")));
    let count = |word: &str| pass.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!((count("graph"), count("alloc"), count("hiera")), (3 * FRAMES, 0, 0));
    // Call by call, and frames encoded ahead, on streams that run in any order.
    let ahead: &[&str] = &["--mode", "throughput", "--encode-ahead", "2"];
    for (out, flags) in [("calls", &["--no-cuda-graphs"][..]), ("ahead", ahead)] {
        setting.gpu(out).args(flags).env("FAKE_CUDA_SEED", "3").assert().success();
        assert!(setting.frames(out) == kernels, "{out}");
    }
    // Engines that somebody built run in their place.
    setting.engines(&PARTS, Precision::Fp32);
    setting.gpu("engines").assert().success();
    assert_eq!(setting.backend("engines"), "tensorrt 8.6.1 fp32 per-fill-level trunk graph");
    let iou = lowest_iou(&setting.frames("engines"), &kernels);
    assert!(iou > 0.95, "{iou}");
}

/// A recording clears the products' counters once, in front of the stem.
#[test]
fn a_recording_of_all_kernels_clears_the_counters_once() {
    let Some(setting) = setting() else { return };
    setting.engines(&[], Precision::Fp16);
    let log = setting.path("log");
    let recorded = |out: &str, library: &str, flags: &[&str]| {
        let _ = fs::remove_file(&log);
        let mut command = setting.gpu(out);
        command.env("FAKE_CUBLASLT_FAULT", library).env("FAKE_CUDA_LOG", &log);
        command.args(flags).assert().success();
        let text = fs::read_to_string(&log).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("instantiate"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = recorded("plain", "", &[]);
    assert!(!plain.is_empty());
    assert_eq!(recorded("counted", "counts", &[]), plain);
    assert!(recorded("calls", "counts", &["--no-cuda-graphs"]).is_empty());
    assert!(setting.frames("counted") == setting.frames("calls"));
}

#[test]
fn a_missing_cublaslt_is_said() {
    let Some(setting) = setting() else { return };
    setting.engines(&[], Precision::Fp16);
    let mut command = setting.gpu("refused");
    command.env("SEGTRT_CUBLASLT_LIB", setting.path("none")).assert().code(1);
    let table = setting.path("refused").join("sav_benchmark_summary.csv");
    let reason = column(&table, "reason").remove(0);
    assert!(reason.contains("cuBLASLt"), "{reason}");
}

#[test]
fn no_engine_of_the_encoder_is_built_where_kernels_compute_all_of_it() {
    let Some(yard) = Yard::with(64, whole_bundle) else { return };
    yard.build(&[]).assert().success();
    let rows = yard.rows(&[]);
    assert!(!rows.iter().any(|row| row.starts_with("encoder_cut")), "{rows:?}");
    assert!(!rows.iter().any(|row| row.starts_with("encoder up")), "{rows:?}");
    assert_eq!(rows[0], "encoder_trunk up_to_date");
    let weights = open_part::<Trunk>(&yard.folder(), &yard.manifest()).unwrap();
    assert!(weights.stem_and_neck().is_ok());
    assert!(yard.manifest().stem_and_neck().is_some());
    let inspect = || yard.inspect(&yard.folder()).assert().success();
    inspect().stdout(contains("6 Hiera blocks with stem and neck, "));
    // Engines are built for whoever names them, and run then.
    yard.build(&ENCODER).assert().success();
    assert!(yard.manifest().stem_and_neck().is_none());
    inspect().stdout(contains("6 Hiera blocks, "));
    for plan in ["encoder_cut0.plan", "encoder_cut1.plan"] {
        fs::remove_file(yard.folder().join(plan)).unwrap();
    }
    yard.build(&[]).assert().success();
    assert!(yard.manifest().stem_and_neck().is_some());
}
