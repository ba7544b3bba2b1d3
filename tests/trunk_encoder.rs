//! An encoder whose trunk this program computes itself, on stand-ins: the hand-made network of
//! `tests/data/fused` with an encoder of Hiera's blocks (`tests/data/trunk`) runs whole on the CPU,
//! and in the pipeline as stem, blocks and neck.

use std::fs;

use cuda::cublaslt::{Choice, Choices, PdlKernels};
use kernels::gemm_shapes;
use predicates::str::contains;
use runtime::engine::EngineManifest;
use vos::bundle::Role;
use vos::precision::Precision;

use crate::support::{column, lowest_iou, require_onnxruntime};
use crate::trunk_bundle::bundle;
use crate::trunk_setting::{PARTS, Setting, WEIGHTS};

/// More than fill a bank of 16 pointers.
const FRAMES: usize = 20;

/// With engines of stem and neck, and the CPU's masks.
fn setting() -> Option<Setting> {
    let setting = Setting::new(2, FRAMES, |place| {
        bundle(place, true);
        Some(())
    })?;
    setting.run_on_cpu();
    setting.engines(&PARTS, Precision::Fp32);
    Some(setting)
}

impl Setting {
    /// The lowest IoU of any frame with the CPU's mask.
    fn against_cpu(&self, out: &str) -> f64 {
        let (expected, found) = (self.frames("cpu"), self.frames(out));
        assert_eq!(expected.len(), 2 * FRAMES);
        lowest_iou(&expected, &found)
    }

    /// Why the first row of a run that failed has no numbers.
    fn refusal(&self) -> String {
        self.gpu("refused").assert().code(1);
        column(&self.path("refused").join("sav_benchmark_summary.csv"), "reason").remove(0)
    }
}

#[test]
fn stem_trunk_and_neck_give_the_masks_of_the_whole() {
    let Some(setting) = setting() else { return };
    setting.gpu("alone").assert().success();
    let alone = setting.frames("alone");
    let table = setting.path("alone").join("sav_benchmark_summary.csv");
    assert_eq!(column(&table, "backend")[0], "tensorrt 8.6.1 fp32 per-fill-level trunk graph");
    let iou = setting.against_cpu("alone");
    // The weights are random: halves turn some pixels of masks that follow nothing.
    assert!(iou > 0.9, "{iou}");
    for (out, flags, seeds) in [
        // Lazy streams; one of them rushing ahead; any order.
        ("calls", &["--no-cuda-graphs"][..], &["77"][..]),
        ("throughput", &["--mode", "throughput", "--encode-ahead", "4"], &["0", "3", "77"]),
        (
            "objects",
            &["--mode", "throughput", "--objects-together", "2", "--object-streams"],
            &["3", "77"],
        ),
    ] {
        for seed in seeds {
            let mut command = setting.gpu(out);
            command.args(flags).env("FAKE_CUDA_SEED", seed).assert().success();
            assert!(setting.frames(out) == alone, "{out}, seed {seed}");
        }
    }
}

#[test]
fn a_steady_frame_has_one_graph_for_the_encoder_and_takes_no_memory() {
    let Some(setting) = setting() else { return };
    let log = setting.path("log");
    let mut command = setting.gpu("out");
    command.args(["--limit-objects", "1"]).env("FAKE_CUDA_LOG", &log).assert().success();
    let text = fs::read_to_string(&log).unwrap();
    let resets: Vec<usize> = text.match_indices("bank_reset 1\n").map(|(at, _)| at).collect();
    let (before, pass) = text.split_at(*resets.last().unwrap());
    let count = |log: &str, word: &str| log.lines().filter(|line| line.starts_with(word)).count();
    // Enqueued and recorded: six blocks, one of which attends over the whole map.
    assert_eq!(count(before, "hiera_layernorm"), 2 * 12);
    assert_eq!(count(before, "window_attention"), 2 * 5);
    assert_eq!(count(before, "attention_global_64_hopper"), 2);
    // Encoder, prompt or track, memory.
    assert_eq!((count(pass, "graph"), count(pass, "alloc")), (3 * FRAMES, 0));
    assert_eq!(
        count(pass, "hiera") + count(pass, "window_attention") + count(pass, "attention"),
        0
    );
}

/// Encoder and track step have modules of attention of their own; this track step needs none.
#[test]
fn a_refused_module_of_the_track_steps_attention_changes_no_kernel_of_the_encoder() {
    let Some(setting) = setting() else { return };
    let log = setting.path("log");
    let run = |refused: &str| {
        let _ = fs::remove_file(&log);
        let mut command = setting.gpu("out");
        command.args(["--limit-objects", "1"]);
        command.env("FAKE_REFUSES", refused).env("FAKE_CUDA_LOG", &log);
        let told = command.assert().success().get_output().stderr.clone();
        let told = String::from_utf8_lossy(&told);
        assert!(!told.contains("for Hopper of the track step cannot"), "{told}");
        let warned = told.contains("for Hopper of the encoder cannot");
        (fs::read_to_string(&log).unwrap().contains("attention_global_64_hopper"), warned)
    };
    assert_eq!(run("attention_cross_hopper"), (true, false));
    assert_eq!(run("attention_global_96_hopper"), (false, true));
}

/// cuBLASLt clears a product's counter before it; a recording does so for all products at once.
#[test]
fn a_recording_clears_the_products_counters_once() {
    let Some(setting) = setting() else { return };
    let log = setting.path("log");
    let mut sizes = Vec::new();
    for (out, library, flags) in [
        ("plain", "", &[][..]),
        ("counted", "counts", &[]),
        ("calls", "counts", &["--no-cuda-graphs"]),
    ] {
        let _ = fs::remove_file(&log);
        let mut command = setting.gpu(out);
        command.env("FAKE_CUBLASLT_FAULT", library).env("FAKE_CUDA_LOG", &log);
        command.args(["--limit-objects", "1"]).args(flags).assert().success();
        let text = fs::read_to_string(&log).unwrap();
        let recorded = |line: &&str| line.starts_with("instantiate");
        sizes.push(text.lines().filter(recorded).map(str::to_owned).collect::<Vec<_>>());
    }
    // The encoder's recording has no more work in it than one of products without counters.
    assert!(!sizes[0].is_empty() && sizes[2].is_empty(), "{sizes:?}");
    assert_eq!(sizes[0], sizes[1]);
    assert!(setting.frames("counted") == setting.frames("calls"));
}

/// The comparison with the CPU must be able to fail.
#[test]
fn windows_that_weigh_all_keys_alike_are_found() {
    let Some(setting) = setting() else { return };
    setting.gpu("out").env("FAKE_FAULT", "windows_weigh_all_keys_alike").assert().success();
    let iou = setting.against_cpu("out");
    assert!(iou < 0.9, "{iou}");
}

#[test]
fn the_selftest_compares_stem_neck_and_all_of_it() {
    let Some(setting) = setting() else { return };
    let csv = setting.path("rows.csv");
    // The whole, which a clip would run, must not be taken for its parts.
    setting.engines(&[Role::Encoder, Role::EncoderCut0, Role::EncoderCut1], Precision::Fp32);
    let selftest = || {
        let mut command = setting.fakes.selftest(&setting.path("engines"));
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime()).arg("--no-clip");
        command.env("SEGTRT_CUBLASLT_LIB", setting.products);
        command.arg("--onnx-dir").arg(setting.path("onnx")).arg("--csv").arg(&csv);
        command
    };
    selftest().env("FAKE_FAULT", "windows_weigh_all_keys_alike").assert().code(1);
    let failed = column(&csv, "case").into_iter().zip(column(&csv, "verdict"));
    let failed = failed.filter(|(_, verdict)| verdict == "failed").map(|(case, _)| case);
    let failed: Vec<String> = failed.collect();
    assert!(
        !failed.is_empty() && failed.iter().all(|case| case.starts_with("joined")),
        "{failed:?}"
    );
    selftest().assert().success().stdout(contains(" 0 failed"));
    let rows = column(&csv, "case").into_iter().zip(column(&csv, "output"));
    let joined = rows.filter(|(case, _)| case.starts_with("joined")).map(|(_, output)| output);
    let mut joined: Vec<String> = joined.collect();
    joined.sort();
    assert_eq!(joined, ["feat", "hr0", "hr1"]);
    let outputs = column(&csv, "output");
    assert!(outputs.contains(&"y".to_owned()), "{outputs:?}");
}

#[test]
fn weights_that_are_missing_or_damaged_and_no_library_are_refused_with_what_to_type() {
    let Some(setting) = setting() else { return };
    let path = setting.engines(&PARTS, Precision::Fp32).join(WEIGHTS);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, &bytes).unwrap();
    let reason = setting.refusal();
    assert!(reason.contains(WEIGHTS) && reason.contains("sha256"), "{reason}");
    assert!(reason.contains("segtrt build-engines"), "{reason}");
    fs::remove_file(&path).unwrap();
    let reason = setting.refusal();
    assert!(reason.contains("cannot read") && reason.contains(WEIGHTS), "{reason}");

    setting.engines(&PARTS, Precision::Fp32);
    let mut command = setting.gpu("refused");
    command.env("SEGTRT_CUBLASLT_LIB", setting.path("none")).assert().code(1);
    let reasons = column(&setting.path("refused").join("sav_benchmark_summary.csv"), "reason");
    assert!(reasons[0].contains("SEGTRT_CUBLASLT_LIB"), "{}", reasons[0]);
}

/// An engine folder that holds the whole encoder, too, was asked for it.
/// The stand-in's second algorithm is made to be wrong: whoever takes it is seen.
#[test]
fn kept_algorithms_are_taken_where_library_and_gpu_are_theirs() {
    let Some(setting) = setting() else { return };
    let dir = setting.path("engines").read_dir().unwrap().next().unwrap().unwrap().path();
    let dir = dir.read_dir().unwrap().next().unwrap().unwrap().path();
    let mut manifest = EngineManifest::read(&dir).unwrap().unwrap();
    let shapes = gemm_shapes(manifest.trunk().unwrap().blocks.hiera().unwrap());
    // A kernel of an earlier program, which is missing here: its matmuls are cuBLASLt's.
    let missing = Some("gemm_bias_gelu_192_by_2".to_owned());
    let choice = |shape| Choice { shape, algorithm: 1, of: 2, kernel: missing.clone() };
    let masks = |out: &str| {
        let log = setting.path(&format!("{out}.log"));
        let mut command = setting.gpu(out);
        command.env("FAKE_CUBLASLT_FAULT", "second").env("FAKE_CUDA_LOG", &log);
        let done = command.assert().success();
        let told = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        let warned = told.contains("autotuned with other kernels than this version has");
        let early = fs::read_to_string(&log).unwrap().contains("hiera_layernorm_hopper");
        (setting.frames(out), [early, warned])
    };
    let (right, warned) = masks("first");
    assert_eq!(warned, [false; 2]);
    for (out, library, device, taken) in [
        ("kept", "cuBLASLt 13.1.2 (for CUDA 13)", "NVIDIA H200", true),
        ("older", "cuBLASLt 12.9.1 (for CUDA 12)", "NVIDIA H200", false),
        ("elsewhere", "cuBLASLt 13.1.2 (for CUDA 13)", "another", false),
    ] {
        manifest.products = Some(Choices {
            library: library.to_owned(),
            device: device.to_owned(),
            us: [2.0, 1.0],
            products: shapes.iter().copied().map(choice).collect(),
            pdl: PdlKernels { norms: true, ..PdlKernels::default() },
            kernels: Vec::new(),
            separate: Vec::new(),
        });
        manifest.write(&dir).unwrap();
        let (found, early_and_warned) = masks(out);
        assert_eq!((found != right, early_and_warned), (taken, [taken; 2]), "{out}");
    }
}

#[test]
fn the_whole_is_taken_where_it_was_built() {
    let Some(setting) = setting() else { return };
    let log = setting.path("log");
    let dir =
        setting.engines(&[Role::Encoder, Role::EncoderCut0, Role::EncoderCut1], Precision::Fp32);
    fs::remove_file(dir.join(WEIGHTS)).unwrap();
    setting.gpu("whole").env("FAKE_CUDA_LOG", &log).assert().success();
    assert!(setting.against_cpu("whole") == 1.0);
    assert!(!fs::read_to_string(&log).unwrap().contains("hiera"));
}
