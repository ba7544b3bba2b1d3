/*!
What a tired user types to `segtrt build-engines`, and what somebody's TensorRT lacks: each is told
before anything is built, or costs nothing but its own row.
*/

use std::path::Path;
use std::process::Command as Process;

use predicates::prelude::*;

use crate::build_engines::stand_in;
use crate::support::{segtrt, small_bundle};

/// TensorRT for RTX's directory, where it is installed.
fn rtx() -> Option<std::path::PathBuf> {
    let library =
        runtime::tensorrt_library::open(None).ok().filter(|library| library.version().rtx);
    if library.is_none() {
        eprintln!("SKIPPED: no TensorRT for RTX; `make test` installs it from pip");
    }
    Some(library?.path().parent()?.to_owned())
}

fn build(out: &Path) -> assert_cmd::Command {
    build_for("rtx3090", out)
}

fn build_for(platform: &str, out: &Path) -> assert_cmd::Command {
    build_from(&[&small_bundle()], platform, out)
}

fn build_from(bundles: &[&Path], platform: &str, out: &Path) -> assert_cmd::Command {
    let mut command = segtrt();
    command.args(["build-engines", "--platform", platform, "--models", "edgetam_mini"]);
    command.args(["--imgsz", "256", "--precision", "fp32", "--onnx-dir"]).args(bundles);
    command.arg("--out").arg(out);
    command
}

#[test]
fn caps_that_no_gpu_has_are_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    // 2^44 MiB are 2^64 bytes, which would be a cap of nothing.
    for cap in ["17592186044416", "99999999999999", "0"] {
        for flag in ["--workspace-mb", "--tactic-mb", "--memory-mb", "--sweep-workspace"] {
            build(dir.path())
                .args([flag, cap])
                .assert()
                .code(2)
                .stderr(predicate::str::contains("is not in 1..=16777216"));
        }
    }
    build(dir.path()).args(["--sweep-workspace", "64,0"]).assert().code(2);
}

/// Custom CUDA kernels compute the segmented track step's attention; an older GPU cannot load them.
#[test]
fn a_gpu_without_attention_kernels_is_refused_the_segmented_track_step() {
    let dir = tempfile::tempdir().unwrap();
    let Some(fakes) = crate::selftest::fakes::shared() else { return };
    let Some(tensorrt) = stand_in(dir.path()) else { return };
    let table = dir.path().join("table.toml");
    let row = "[old]\ntitle = \"Old\"\nsm = 75\nmemory_mb = 8192\nunified = false\n\
               models = [\"edgetam_mini\"]\nprecision = \"fp32\"\nimgsz = 256\nworkspace_mb = 64\n\
               track_variant = \"padded\"\nopt_level = 3\ndevice_names = [\"Old\"]\n";
    std::fs::write(&table, row).unwrap();
    let refused = |arguments: &[&str], says: &str| {
        let mut command = build_for("old", dir.path());
        command.arg("--platforms").arg(&table).arg("--tensorrt-lib").arg(&tensorrt);
        command.env("LD_LIBRARY_PATH", fakes.dir()).env("FAKE_CUDA_SM", "75").args(arguments);
        command.assert().code(2).stderr(predicate::str::contains(says.to_owned()));
    };
    refused(&["--track-variant", "segmented"], "attention kernels need sm 80 (Ampere) or more");
    refused(&["--track-variant", "segmented"], "use padded");
    for graph in ["track_keys", "track_seg1"] {
        let says =
            format!("--graphs {graph}: the segmented track step's attention kernels need sm 80");
        refused(&["--graphs", &format!("prompt,{graph}")], &says);
    }
}

/// bench tracks one object after the other: sixteen profiles more for each further object would be
/// built for nobody.
#[test]
fn the_exact_track_step_has_profiles_for_one_object_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let profiles = |variant: &str| {
        let mut command = build(dir.path());
        command.args(["--max-objects", "3", "--dry-run", "--track-variant", variant]);
        let output = command.assert().success().get_output().clone();
        let (table, said) = (output.stdout, output.stderr);
        (String::from_utf8(table).unwrap(), String::from_utf8(said).unwrap())
    };
    let (table, said) = profiles("per-fill-level");
    assert!(predicate::str::is_match(r"track +\S* +16 +").unwrap().eval(&table), "{table}");
    assert!(predicate::str::is_match(r"prompt +\S* +6 +").unwrap().eval(&table), "{table}");
    assert_eq!(said.matches("profiles for one object alone").count(), 1, "{said}");
    let (table, said) = profiles("padded");
    assert!(predicate::str::is_match(r"track_padded +\S* +3 +").unwrap().eval(&table), "{table}");
    assert!(!said.contains("one object alone"), "{said}");
}

#[test]
fn a_cap_that_is_named_twice_is_swept_once() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let output = build(dir.path())
        .args(["--sweep-workspace", "64,32,64", "--graphs", "encoder", "--json"])
        .assert()
        .success();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.get_output().stdout).unwrap();
    let caps: Vec<_> = rows.iter().map(|row| row["workspace_mib"].as_u64().unwrap()).collect();
    assert_eq!(caps, [64, 32]);
}

#[test]
fn fused_attention_is_required_only_of_graphs_that_have_one() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let only = |graph: &str| {
        let mut command = build(dir.path());
        command.args(["--require-fused-attention", "--graphs", graph]);
        command.assert()
    };
    let plan = dir.path().join("rtx3090/edgetam_mini_256_fp32/encoder.plan");
    only("encoder").success();
    assert!(plan.is_file(), "EdgeTAM's encoder is convolutional: there is nothing to be fused");
    if cuda::Gpu::open(0).is_ok() {
        eprintln!("SKIPPED in part: with a GPU the layers of the track step are known");
        return;
    }
    only("track_padded")
        .code(1)
        .stderr(predicate::str::contains("its attention is not seen to be fused"))
        .stderr(predicate::str::contains("build without --require-fused-attention"));
    assert!(!plan.with_file_name("track_padded.plan").exists());
}

/// The folder above the package is what `pip show` prints, and what people copy.
#[test]
fn a_named_site_packages_is_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let Some(fake) = stand_in(dir.path()) else { return };
    let site = dir.path().join("site-packages");
    std::fs::create_dir(&site).unwrap();
    std::fs::rename(&fake, site.join("tensorrt_libs")).unwrap();
    let library = runtime::tensorrt_library::open(Some(&site)).unwrap();
    assert_eq!(library.version().to_string(), "TensorRT 8.6.0");
}

#[test]
#[cfg(target_os = "linux")]
fn a_parser_without_cudnn_asks_for_cudnn_and_not_for_the_parser() {
    let dir = tempfile::tempdir().unwrap();
    let Some(fake) = stand_in(dir.path()) else { return };
    // A release that never was, so that no machine has it.
    let source = dir.path().join("cudnn.c");
    std::fs::write(&source, "int cudnnGetVersion(void) { return 8900; }\n").unwrap();
    let cudnn = dir.path().join("libcudnn.so.0");
    let cc = |arguments: &[&str], output: &Path, inputs: &[&Path]| {
        let mut command = Process::new("cc");
        command.args(["-shared", "-fPIC"]).args(arguments).arg("-o").arg(output).args(inputs);
        assert!(command.status().unwrap().success());
    };
    cc(&["-Wl,-soname,libcudnn.so.0"], &cudnn, &[&source]);
    let (parser, library) = (fake.join("libnvonnxparser.so.8"), fake.join("libnvinfer.so.8"));
    let own = dir.path().join("fake.c");
    cc(&["-Wl,--no-as-needed"], &parser, &[&own, &cudnn]);
    std::fs::rename(&cudnn, dir.path().join("away")).unwrap();
    let told = |words: &str| {
        build(dir.path())
            .arg("--tensorrt-lib")
            .arg(&fake)
            .assert()
            .code(1)
            .stderr(predicate::str::contains(words))
            .stderr(predicate::str::contains("sudo apt install libcudnn8"))
            .stderr(predicate::str::contains("libnvonnxparsers").not());
    };
    told("its ONNX parser libnvonnxparser.so, but not libcudnn.so.0");
    std::fs::rename(dir.path().join("away"), &cudnn).unwrap();
    cc(&["-Wl,--no-as-needed"], &library, &[&own, &cudnn]);
    std::fs::remove_file(&cudnn).unwrap();
    told("libnvinfer.so.8 as TensorRT: libcudnn.so.0: cannot open shared object file");
}
