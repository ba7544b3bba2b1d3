//! The self-test: without a GPU, and on stand-ins for driver and TensorRT from end to end.

mod door;
pub mod fakes;

use cuda::{Gpu, GpuError};
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use segtrt::selftest::reference::{load, run_graph};
use segtrt::selftest::tensor::Tensor;
use vos::bundle::{Bundle, Role};
use vos::precision::Precision;

use crate::support::{column, onnxruntime, read_csv, segtrt, small_bundle};
use fakes::{Engines, compile, shared};

#[test]
fn help_has_every_flag_and_an_example() {
    let output = segtrt().args(["selftest", "-h"]).env("COLUMNS", "100").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[test]
fn wrong_values_are_usage_errors() {
    for (flag, value) in [("--precision", "int8"), ("--max-error", "-1"), ("--runs", "-1")] {
        segtrt().args(["selftest", &format!("{flag}={value}")]).assert().code(2);
    }
}

#[test]
fn without_a_driver_one_sentence_says_what_to_install() {
    if !matches!(Gpu::open(0), Err(GpuError::NoDriver)) {
        eprintln!("SKIPPED: this machine has a CUDA driver");
        return;
    }
    segtrt().arg("selftest").assert().code(1).stdout("").stderr(
        "Error: no GPU can be used: the CUDA driver libcuda.so.1 was not found; install the NVIDIA driver \
         (JetPack on a Jetson), or start the container with --gpus all\n",
    );
}

#[test]
fn a_driver_without_a_device_or_without_its_functions_is_no_panic() {
    let Some(fakes) = shared() else { return };
    let mut command = fakes.selftest("engines".as_ref());
    command
        .env("FAKE_CUDA_DEVICES", "0")
        .assert()
        .code(1)
        .stderr(contains("shows no device 0 (CUDA_ERROR_NO_DEVICE").and(contains("nvidia-smi")));
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.c");
    std::fs::write(&empty, "int cuInit(unsigned flags) { return (int)flags; }").unwrap();
    compile("CC", "cc", &[empty.to_str().unwrap()], &dir.path().join("libcuda.so")).unwrap();
    let sentence = "Error: the CUDA driver has no cuDriverGetVersion; install a driver for CUDA \
                    11.4 or newer\n";
    let mut command = segtrt();
    command.arg("selftest").env("LD_LIBRARY_PATH", dir.path()).assert().code(1).stderr(sentence);
}

#[test]
fn the_reference_runs_a_graph_on_named_tensors_and_names_what_is_missing() {
    let bundle = Bundle::open(&small_bundle()).unwrap();
    let graph = bundle.manifest.graph(Role::Encoder).unwrap();
    let mut session = load(onnxruntime(), &bundle.dir.join(&graph.file), 1).unwrap();
    let image = |value: f32| {
        // What the graph does not declare is left out.
        let more = Tensor::whole("labels", &[1], vec![1]);
        [more, Tensor::real("image", &[1, 3, 256, 256], vec![value; 3 * 256 * 256])]
    };
    let outputs = run_graph(&mut session, &image(0.5)).unwrap();
    let shapes: Vec<(&str, &[i64])> =
        outputs.iter().map(|tensor| (tensor.name.as_str(), tensor.shape.as_slice())).collect();
    let expected: [(&str, &[i64]); 3] =
        [("feat", &[1, 48, 16, 16]), ("hr0", &[1, 6, 64, 64]), ("hr1", &[1, 12, 32, 32])];
    assert_eq!(shapes, expected);
    assert_eq!(run_graph(&mut session, &image(0.5)).unwrap(), outputs);
    assert_ne!(run_graph(&mut session, &image(-0.5)).unwrap(), outputs);

    let error = run_graph(&mut session, &[]).unwrap_err().to_string();
    assert_eq!(error, "input 'image' is missing");
    let error = run_graph(&mut session, &[Tensor::whole("image", &[1], vec![1])]).unwrap_err();
    assert!(error.to_string().starts_with("input 'image' is f32"), "{error}");
    let error = load(onnxruntime(), "no/such.onnx".as_ref(), 1).unwrap_err().to_string();
    assert_eq!(error, "ONNX Runtime cannot load no/such.onnx");
}

#[test]
fn layers_are_timed_one_by_one_where_asked_for() {
    let Some(fakes) = shared() else { return };
    let root = tempfile::tempdir().unwrap();
    Engines::new(root.path()).write(Precision::Fp32, &[(Role::Memory, "ok")]);
    let csv = root.path().join("layers.csv");
    let mut command = fakes.selftest(root.path());
    command.args(["--runs", "3"]).arg("--layers").arg(&csv).assert().success();
    // Two cases of one plan, two layers each, however many outputs there are.
    assert_eq!(column(&csv, "layer"), ["both"; 4]);
    assert_eq!(column(&csv, "position"), ["0", "1", "0", "1"]);
    let times: Vec<f64> = column(&csv, "median_ms").iter().map(|t| t.parse().unwrap()).collect();
    let shares: Vec<f64> = column(&csv, "share").iter().map(|t| t.parse().unwrap()).collect();
    assert_eq!((times[1], times[3]), (8.0, 8.0));
    // The stand-in counts its runs: the median of three is the second's.
    assert!(times[0] > 1.0 && times[0].fract() == 0.0, "{times:?}");
    assert!((shares[0] - times[0] / (times[0] + 8.0)).abs() < 1e-4, "{shares:?}");
}

#[test]
fn engines_that_agree_pass_in_every_profile_and_are_timed() {
    let Some(fakes) = shared() else { return };
    let root = tempfile::tempdir().unwrap();
    let engines = Engines::new(root.path());
    let steps = [Role::Prompt, Role::MaskPrompt, Role::Track, Role::TrackPadded, Role::Memory];
    engines.write(Precision::Fp32, &steps.map(|role| (role, "ok")));
    engines.write(Precision::Fp16, &[(Role::Encoder, "ok")]);
    let (csv, json) = (root.path().join("rows.csv"), root.path().join("report.json"));
    let mut command = fakes.selftest(root.path());
    command.arg("--csv").arg(&csv).arg("--json").arg(&json);
    command.assert().success().stdout(contains("109 of 109 rows passed, 0 failed"));

    let (header, rows) = read_csv(&csv);
    let expected = "platform,model,imgsz,precision,role,profile,case,seed,output,elements,relative_error,max_abs_error,error_limit,mask_iou,non_finite,unwritten,runs,enqueue_median_ms,enqueue_p5_ms,enqueue_p95_ms,graph_median_ms,graph_p5_ms,graph_p95_ms,graph_problem,context_bytes,engine_bytes,verdict,reason,engines,plan";
    assert_eq!(header.join(","), expected);
    // Encoder: 3 outputs. Prompts: a click and a box with 5 outputs, a mask with 4. Track: 16 fill
    // levels; padded: full and filling. Memory: of a tracked and of a prompted frame.
    assert_eq!(rows.len(), 3 + 2 * 5 + 4 + 16 * 5 + 2 * 5 + 2);
    assert!(column(&csv, "verdict").iter().all(|verdict| verdict == "passed"));
    for name in ["enqueue_median_ms", "graph_median_ms", "enqueue_p95_ms", "relative_error"] {
        assert!(column(&csv, name).iter().all(|value| value.parse::<f64>().unwrap() >= 0.0));
    }
    assert!(column(&csv, "context_bytes").iter().all(|bytes| bytes == "4096"));
    assert!(column(&csv, "engine_bytes").iter().all(|bytes| bytes.parse::<u64>().unwrap() > 100));
    let errors: Vec<f64> =
        column(&csv, "relative_error").iter().map(|e| e.parse().unwrap()).collect();
    // Halves are near the fp32 reference, not equal to it; the fp32 stand-in replays the reference itself.
    assert!(errors[..3].iter().all(|error| (1e-6..1e-3).contains(error)), "{errors:?}");
    assert!(errors[3..].iter().all(|error| *error == 0.0), "{errors:?}");
    let cases = column(&csv, "case");
    assert!(cases.contains(&"1 object, 7 memories, 16 pointers".to_owned()), "{cases:?}");

    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["opened"]["tensorrt"], "TensorRT 8.6.1");
    assert_eq!(report["opened"]["sm"], 90);
    assert_eq!(report["rows"].as_array().unwrap().len(), 109);
}

#[test]
fn a_document_without_a_file_has_standard_output_for_itself() {
    let Some(fakes) = shared() else { return };
    let root = tempfile::tempdir().unwrap();
    Engines::new(root.path()).write(Precision::Fp32, &[(Role::Memory, "ok")]);
    let output = fakes.selftest(root.path()).arg("--json").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["rows"].as_array().unwrap().len(), 2);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("2 of 2 rows passed, 0 failed"), "{said}");
}

#[test]
fn what_is_wrong_fails_alone_and_says_why() {
    let Some(fakes) = shared() else { return };
    let root = tempfile::tempdir().unwrap();
    let engines = Engines::new(root.path());
    engines.write(
        Precision::Fp32,
        &[
            (Role::Encoder, "ok"),
            (Role::MaskPrompt, "crash"),
            (Role::Memory, "wrong"),
            (Role::Prompt, "unstable"),
        ],
    );
    engines.write(Precision::Fp16, &[(Role::Encoder, "nan"), (Role::MaskPrompt, "unwritten")]);
    engines.write(Precision::Best, &[(Role::Encoder, "ok")]);
    let broken = root.path().join("h200/edgetam_mini_256_best/encoder.plan");
    std::fs::write(&broken, std::fs::read_to_string(&broken).unwrap().replace("4096", "4097"))
        .unwrap();
    let csv = root.path().join("rows.csv");
    let mut command = fakes.selftest(root.path());
    let output = command.arg("--csv").arg(&csv).output().unwrap();
    assert_eq!(output.status.code(), Some(1));

    let columns =
        ["precision", "role", "output", "verdict", "case", "reason"].map(|c| column(&csv, c));
    let rows: Vec<[&str; 6]> =
        (0..columns[0].len()).map(|at| std::array::from_fn(|c| columns[c][at].as_str())).collect();
    let of = |precision: &str, role: &str| -> Vec<[&str; 4]> {
        let of: Vec<_> = rows.iter().filter(|row| row[..2] == [precision, role]).collect();
        assert!(!of.is_empty(), "no row of {precision} {role}");
        of.into_iter().map(|row| [row[2], row[3], row[4], row[5]]).collect()
    };
    // A crash costs its own case; the plans before and after it have their rows.
    assert!(of("fp32", "encoder").iter().all(|row| row[1] == "passed"));
    let crash = of("fp32", "mask_prompt");
    assert_eq!(crash.len(), 1);
    assert!(crash[0][3].contains("killed by signal 11"), "{crash:?}");
    // Zeros: all of the reference's norm is missing.
    let memory = of("fp32", "memory");
    assert!(memory.iter().all(|row| row[3].contains("error 1.00e0 is above 1e-3")), "{memory:?}");
    let prompt = of("fp32", "prompt");
    assert!(prompt.iter().any(|row| row[3].contains("replayed as a CUDA graph")), "{prompt:?}");
    assert!(of("fp16", "encoder").iter().all(|row| row[3].contains("1 of") && row[1] == "failed"));
    assert!(of("fp16", "mask_prompt").iter().any(|row| row[3].contains("never written")));
    assert!(of("best", "encoder")[0][3].contains("its sha256 is not that of its manifest"));

    let screen = String::from_utf8(output.stdout).unwrap();
    assert!(screen.contains("FAILED edgetam_mini_256_fp32 mask_prompt"), "{screen}");
}

#[test]
fn an_engine_that_cannot_be_recorded_is_still_tested() {
    let Some(fakes) = shared() else { return };
    let root = tempfile::tempdir().unwrap();
    Engines::new(root.path()).write(Precision::Fp32, &[(Role::Encoder, "ok")]);
    let csv = root.path().join("rows.csv");
    let mut command = fakes.selftest(root.path());
    command.env("FAKE_CUDA_GRAPHS", "0").arg("--csv").arg(&csv).assert().success();
    assert!(column(&csv, "graph_median_ms").iter().all(String::is_empty));
    assert!(column(&csv, "graph_problem")[0].contains("STREAM_CAPTURE_UNSUPPORTED"));
}

#[test]
fn without_a_reference_outputs_run_and_nothing_is_claimed() {
    let Some(fakes) = shared() else { return };
    let root = tempfile::tempdir().unwrap();
    let dir = Engines::new(root.path()).write(Precision::Fp32, &[(Role::Encoder, "ok")]);
    let mut command = fakes.selftest(&dir);
    let said = "3 outputs have no reference (--no-reference)\n0 of 3 rows passed, 0 failed";
    command.arg("--no-reference").assert().success().stdout(contains(said));
    // A bundle that is not there is no reason to pass.
    let mut command = fakes.selftest(&dir);
    command.arg("--onnx-dir").arg(root.path()).assert().code(1).stdout(contains("--no-reference"));
    // Engines of another GPU are left out, and asked for by name refused.
    let mut command = fakes.selftest(&dir);
    command.args(["--models", "edgetam"]).assert().code(1).stderr(contains("is asked for"));
}

/// Engines that are right one by one say nothing of the whole.
#[test]
fn a_clip_through_all_engines_has_the_masks_of_the_cpu_or_the_test_fails() {
    let Some(fakes) = shared() else { return };
    let tested = |memory: &str| {
        let root = tempfile::tempdir().unwrap();
        let plans = [Role::Encoder, Role::Prompt, Role::MaskPrompt, Role::TrackPadded];
        let mut plans = plans.map(|role| (role, "ok")).to_vec();
        plans.push((Role::Memory, memory));
        Engines::new(root.path()).write_live(Precision::Fp32, &plans);
        let json = root.path().join("report.json");
        let mut command = fakes.selftest(root.path());
        command.env("FAKE_TENSORRT_ONNXRUNTIME", crate::support::require_onnxruntime());
        let output = command.arg("--json").arg(&json).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let report: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        (output.status.code(), said, report["clips"][0].clone())
    };
    let (code, said, clip) = tested("ok");
    assert_eq!((code, clip["verdict"].as_str()), (Some(0), Some("passed")), "{said}");
    assert!(clip["mean_iou"].as_f64().unwrap() > 0.99 && clip["masks"] == 6, "{clip}");
    let told = "clip on h200 edgetam_mini 256 fp32: passed: IoU with the CPU's masks";
    assert!(said.contains(told), "{said}");
    let (code, said, clip) = tested("crash");
    assert_eq!((code, clip["verdict"].as_str()), (Some(1), Some("failed")), "{said}");
    assert!(
        clip["mean_iou"].is_null() && said.contains("fp32: failed: on the engines: "),
        "{said}"
    );
}
