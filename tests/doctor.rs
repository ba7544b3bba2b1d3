//! `segtrt doctor` and `segtrt test-run`.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, is_match as matches};
use serde_json::Value;

use crate::selftest::fakes::{Fakes, cublaslt, shared};
#[cfg(target_os = "linux")]
use crate::support::killed_it_leaves_no_bench;
use crate::support::{column, require_onnxruntime, script, segtrt, small_bundle, synth};

/// A doctor that sees the tools in `path` only, and no driver and no TensorRT but those that are given to it.
fn doctor(path: &Path) -> Command {
    let mut command = segtrt();
    for name in ["NSYS_CMD", "SEGTRT_TENSORRT_LIB", "LD_LIBRARY_PATH", "VIRTUAL_ENV"] {
        command.env_remove(name);
    }
    command.env("PATH", path).env("ORT_DYLIB_PATH", require_onnxruntime());
    command.arg("doctor").arg("--onnx-dir").arg(small_bundle());
    command
}

/// The document, and the exit code.
fn look(command: &mut Command) -> (Value, Option<i32>) {
    let output = command.arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    (document, output.status.code())
}

/// The state of a line, and its words.
fn line(document: &Value, name: &str) -> (String, String) {
    let checks = document["checks"].as_array().unwrap();
    let named = |check: &&Value| check["name"].as_str().is_some_and(|own| own.starts_with(name));
    let check =
        checks.iter().find(named).unwrap_or_else(|| panic!("no line {name} in {document:#}"));
    let text = |key: &str| check[key].as_str().unwrap_or_default().to_owned();
    (text("state"), format!("{} → {}", text("found"), text("advice")))
}

#[test]
fn tools_are_found_on_the_path_or_said_to_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (document, code) = look(&mut doctor(dir.path()));
    assert_eq!(code, Some(0), "{document:#}");
    let (state, words) = line(&document, "nsys");
    // A machine may have one where installers put it.
    assert!(state == "ok" || words.contains("apt install nsight-systems-cli"), "{state} {words}");
    let (state, words) = line(&document, "ffmpeg");
    assert_eq!(state, "missing");
    assert!(words.contains("apt-get install ffmpeg"), "{words}");

    script(&dir.path().join("nsys"), "echo NVIDIA Nsight Systems version 2099.1.1.1-0v0");
    script(&dir.path().join("ffmpeg"), "echo ' V..... libx264   H.264'");
    let (document, _) = look(&mut doctor(dir.path()));
    let (state, words) = line(&document, "nsys");
    assert_eq!(state, "ok");
    assert!(words.starts_with("2099.1.1.1-0v0"), "{words}");
    assert_eq!(line(&document, "ffmpeg").0, "ok");
    script(&dir.path().join("ffmpeg"), "echo ' V..... mpeg4   MPEG-4'");
    let (document, _) = look(&mut doctor(dir.path()));
    assert_eq!(line(&document, "ffmpeg").0, "warning");
}

#[test]
fn the_cpu_counts_and_what_it_needs_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 1, 3);
    let (document, code) = look(doctor(dir.path()).arg("--split-dir").arg(&split));
    assert_eq!(code, Some(0), "{document:#}");
    assert_eq!((&document["can_run"], &document["cpu"]["can_run"]), (&true.into(), &true.into()));
    assert!(line(&document, "dataset").1.contains("2 videos"), "{document:#}");
    // A bench refuses this clip; it is not the first one.
    fs::remove_file(split.join("JPEGImages_24fps/synth_001/00001.jpg")).unwrap();
    let (document, _) = look(doctor(dir.path()).arg("--split-dir").arg(&split));
    let (state, words) = line(&document, "dataset");
    assert_eq!(state, "warning");
    for part in ["1 cannot be used", "synth_001", "frame 1 is missing"] {
        assert!(words.contains(part), "no {part:?} in {words}");
    }
    assert_eq!(line(&document, "ONNX Runtime").0, "ok");
    for name in [
        "machine",
        "memory",
        "disk",
        "CPU governor",
        "GPU",
        "bundle edgetam_mini_256_fp32",
        "engines",
    ] {
        line(&document, name);
    }

    let (document, code) = look(doctor(dir.path()).env("ORT_DYLIB_PATH", "/no/such.so"));
    assert_eq!(code, Some(1), "{document:#}");
    assert_eq!(line(&document, "ONNX Runtime").0, "missing");
    assert!(document["cpu"]["lacks"].as_array().unwrap().contains(&"ONNX Runtime".into()));
    let no_library = dir.path().join("libonnxruntime.so");
    fs::write(&no_library, "no library").unwrap();
    let (document, code) = look(doctor(dir.path()).env("ORT_DYLIB_PATH", &no_library));
    assert_eq!((code, line(&document, "ONNX Runtime").0.as_str()), (Some(1), "missing"));

    let (document, code) = look(doctor(dir.path()).args(["--split-dir", "/no/such/split"]));
    assert_eq!((code, line(&document, "dataset").0.as_str()), (Some(1), "missing"));
    let (document, code) = look(doctor(dir.path()).arg("--onnx-dir").arg(dir.path().join("none")));
    assert_eq!(code, Some(0), "another folder of bundles takes none away: {document:#}");
    doctor(dir.path())
        .assert()
        .success()
        .stdout(contains("a bench can run here (CPU: ready; GPU: "))
        .stdout(contains("→ "));
}

#[test]
fn a_gpu_with_its_sensors_and_its_tensorrt_is_described() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut command = doctor(dir.path());
    command.env("LD_LIBRARY_PATH", fakes.dir()).arg("--tensorrt-lib").arg(fakes.dir());
    let (document, code) = look(&mut command);
    assert_eq!(code, Some(0), "{document:#}");
    let (_, gpu) = line(&document, "GPU 0");
    assert!(gpu.contains("sm 90") && gpu.contains("GiB memory free"), "{gpu}");
    let (state, tensorrt) = line(&document, "TensorRT");
    assert!(tensorrt.contains("TensorRT 8.6.1"), "{state} {tensorrt}");
    assert!(
        document["gpu"]["lacks"]
            .as_array()
            .unwrap()
            .contains(&"engines for this GPU and TensorRT".into())
    );
}

#[test]
fn a_library_that_crashes_costs_its_line_only() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("crash.c");
    fs::write(
        &source,
        "#include <stdlib.h>\n__attribute__((constructor)) static void die(void) { abort(); }\n",
    )
    .unwrap();
    let library = dir.path().join("libnvinfer.so.10");
    if crate::selftest::fakes::compile("CC", "cc", &[source.to_str().unwrap()], &library).is_none()
    {
        return;
    }
    let (document, code) = look(doctor(dir.path()).arg("--tensorrt-lib").arg(dir.path()));
    assert_eq!(code, Some(0), "{document:#}");
    let (state, words) = line(&document, "TensorRT");
    assert_eq!(state, "warning");
    assert!(words.contains("killed by signal 6"), "{words}");
}

#[test]
fn a_test_run_goes_through_every_step_and_shows_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = segtrt();
    command.env_remove("LD_LIBRARY_PATH").env("ORT_DYLIB_PATH", require_onnxruntime());
    let output = command.args(["test-run", "--json", "--out"]).arg(&out).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let steps: Vec<(&str, &str)> = document["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["name"].as_str().unwrap(), step["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(
        steps[..3],
        [("split", "passed"), ("bundle", "passed"), ("cpu", "passed")],
        "{said}"
    );
    let others: Vec<&str> = steps[3..].iter().map(|(name, _)| *name).collect();
    assert_eq!(others, ["kernels", "engines", "selftest", "gpu"]);
    assert!(document["seconds"].as_f64().unwrap() < 120.0, "{document:#}");
    assert!(document["speeds"].as_str().unwrap().starts_with("its speeds say nothing"));
    assert_eq!(column(&out.join("cpu/sav_benchmark_summary.csv"), "status"), ["ok", "ok"]);
    assert!(out.join("logs/03_cpu.log").is_file());
    // Again into the same folder: it is its own.
    let random = dir.path().join("edgetam_mini");
    crate::support::copy(&small_bundle(), &random);
    let manifest = fs::read_to_string(random.join("manifest.toml")).unwrap();
    let manifest = manifest.replace("source = \"checkpoint\"", "source = \"random\"\nseed = 0");
    fs::write(random.join("manifest.toml"), manifest).unwrap();
    let mut again = segtrt();
    again.env_remove("LD_LIBRARY_PATH").env("ORT_DYLIB_PATH", require_onnxruntime());
    again
        .args(["test-run", "--out"])
        .arg(&out)
        .arg("--bundle")
        .arg(&random)
        .assert()
        .success()
        .stdout(contains("sav_benchmark_summary.csv"))
        .stdout(contains("its speeds say nothing"))
        .stdout(contains("the network's weights are random"));
}

#[test]
#[cfg(target_os = "linux")]
fn the_step_at_hand_ends_when_the_test_run_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("segtrt"));
    command.args(["test-run", "--out"]).arg(dir.path().join("run"));
    killed_it_leaves_no_bench(&mut command, dir.path());
}

/// Up to the engines, which the stand-in for TensorRT has no parser for.
#[test]
fn a_test_run_builds_its_engines_in_haste() {
    let Some(fakes) = Fakes::copied() else { return };
    // Without them the kernels fail at once, and take no minutes.
    fs::remove_file(fakes.dir().join("libkernels.so")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut command = segtrt();
    command.env("LD_LIBRARY_PATH", fakes.dir()).env("ORT_DYLIB_PATH", require_onnxruntime());
    command.args(["test-run", "--out"]).arg(dir.path().join("run"));
    command
        .arg("--tensorrt-lib")
        .arg(fakes.dir())
        .assert()
        .code(1)
        .stderr(contains("FAILED   kernels"))
        .stderr(matches(r"FAILED   engines .* --opt-level 0 --jobs [1-6] .*parser").unwrap())
        .stderr(contains("skipped  gpu"))
        .stdout(contains("its speeds say nothing"));
}

#[test]
fn a_test_run_says_which_step_failed() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("edgetam_mini");
    fs::create_dir(&bundle).unwrap();
    for entry in fs::read_dir(small_bundle()).unwrap().flatten() {
        fs::copy(entry.path(), bundle.join(entry.file_name())).unwrap();
    }
    fs::write(bundle.join("track.onnx"), "cut").unwrap();
    let mut command = segtrt();
    command
        .env_remove("LD_LIBRARY_PATH")
        .args(["test-run", "--out"])
        .arg(dir.path().join("run"))
        .arg("--bundle")
        .arg(&bundle)
        .assert()
        .code(1)
        .stderr(contains("FAILED   bundle"))
        .stderr(contains("track.onnx is not the graph of its manifest"))
        .stderr(contains("skipped  cpu"))
        .stdout(contains("1 failed"));
    let mut command = segtrt();
    command
        .args(["test-run", "--bundle", "/no/bundle", "--out"])
        .arg(dir.path().join("other"))
        .assert()
        .code(2)
        .stderr(contains("/no/bundle").and(contains("--bundle DIR")));
    assert!(!dir.path().join("other").exists(), "nothing is made where nothing can be tested");

    // What is in the way of the split is not overwritten, and the step says so.
    let taken = dir.path().join("taken");
    fs::create_dir_all(taken.join("split")).unwrap();
    fs::write(taken.join("split/mine.txt"), "mine").unwrap();
    let mut command = segtrt();
    command
        .env_remove("LD_LIBRARY_PATH")
        .args(["test-run", "--out"])
        .arg(&taken)
        .assert()
        .code(1)
        .stderr(contains("FAILED   split"));
    assert_eq!(fs::read_to_string(taken.join("split/mine.txt")).unwrap(), "mine");
}

/// A `.venv` in a folder above may be anybody's: its libraries are opened only where nobody else
/// can have put them there.
#[test]
fn libraries_of_an_environment_that_others_may_write_to_are_left_out_and_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("a/b");
    fs::create_dir_all(&here).unwrap();
    let packages = dir.path().join(".venv/lib/python3.11/site-packages");
    let capi = packages.join("onnxruntime/capi");
    for (folder, library) in [
        (&capi, "libonnxruntime.so.1"),
        (&packages.join("tensorrt_libs"), "libnvinfer.so.10"),
        (&packages.join("nvidia/cu13/lib"), "libcublasLt.so.13"),
    ] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(library), "no library").unwrap();
    }
    let venv = dir.path().join(".venv");
    let said = |mode: u32| {
        fs::set_permissions(&venv, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = doctor(dir.path());
        // Not a folder that is never there: libraries make caches in it.
        let home = dir.path().join("home");
        command.current_dir(&here).env_remove("ORT_DYLIB_PATH").env("HOME", home);
        look(&mut command).0
    };
    let document = said(0o777);
    let left_out = format!("left out: everybody may write to {}", venv.display());
    assert!(line(&document, "TensorRT").1.contains(&left_out), "{document:#}");
    assert!(line(&document, "cuBLASLt").1.contains(&left_out), "{document:#}");
    // The caller's own is opened, as far as it can be.
    let document = said(0o755);
    assert!(!document.to_string().contains("left out"), "{document:#}");
    assert!(
        line(&document, "ONNX Runtime").1.contains(&capi.display().to_string()),
        "{document:#}"
    );
}

#[test]
fn the_doctor_tells_whether_cublaslt_is_there() {
    let Some(library) = cublaslt() else { return };
    let line = |library: &Path| {
        let mut command = segtrt();
        command.env_remove("LD_LIBRARY_PATH").env("SEGTRT_CUBLASLT_LIB", library);
        let output = command.args(["doctor", "--json"]).output();
        let document: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let checks = document["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["name"] == "cuBLASLt").unwrap();
        (found["state"].as_str().unwrap().to_owned(), found.to_string())
    };
    let (state, words) = line(library);
    let version = "cuBLASLt 13.1.2 (for CUDA 13)";
    let told = words.contains(version) && words.contains("has a Hiera trunk");
    assert!(state == "ok" && told, "{words}");
    let (state, words) = line(Path::new("/no/such/libcublasLt.so"));
    assert!(state == "warning" && words.contains("/no/such/libcublasLt.so"), "{words}");
}
