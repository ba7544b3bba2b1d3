/*!
`segtrt build-engines` from the command line. Real engines are built with TensorRT for RTX, which
needs no GPU; a compiled stand-in plays TensorRT 8.6 where what matters is said before anything is
built.
*/

#[allow(dead_code)]
#[path = "../crates/tensorrt/tests/model.rs"]
mod model;

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use predicates::prelude::*;
use runtime::engine::{EngineManifest, PlanRecord, open_plan};
use tensorrt::{Library, Runtime};

use crate::support::{copy, segtrt, small_bundle};

/// A table with one made-up board for the small network.
pub fn table(dir: &Path, sm: u32) -> PathBuf {
    let path = dir.join("platforms.toml");
    let text = format!(
        "[small]\ntitle = \"a small board\"\nsm = {sm}\nmemory_mb = 4096\nunified = false\n\
         models = [\"edgetam_mini\", \"sam2.1_tiny\"]\nprecision = \"fp32\"\nimgsz = 256\nworkspace_mb = 64\n\
         track_variant = \"per-fill-level\"\nopt_level = 3\ndevice_names = [\"Small\"]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

pub fn build(dir: &Path, sm: u32) -> assert_cmd::Command {
    let mut command = segtrt();
    command.args(["build-engines", "--platform", "small", "--models", "edgetam_mini"]);
    command.arg("--platforms").arg(table(dir, sm)).arg("--out").arg(dir.join("engines"));
    command
}

/// Without the exact track, whose sixteen profiles take TensorRT for RTX more than a minute.
fn build_quick(dir: &Path, sm: u32) -> assert_cmd::Command {
    let mut command = build(dir, sm);
    command.args(["--graphs", "encoder,memory,prompt"]);
    command
}

/// The committed bundle where it may be damaged.
fn copied_bundle(dir: &Path) -> PathBuf {
    let bundle = dir.join("onnx/edgetam_mini_256_fp32");
    copy(&small_bundle(), &bundle);
    bundle
}

pub fn engine_dir(dir: &Path) -> PathBuf {
    dir.join("engines/small/edgetam_mini_256_fp32")
}

/// TensorRT for RTX, where it is installed.
pub fn rtx() -> Option<Library> {
    let library =
        runtime::tensorrt_library::open(None).ok().filter(|library| library.version().rtx);
    if library.is_none() {
        eprintln!("SKIPPED: no TensorRT for RTX; `make test` installs it from pip");
    }
    library
}

fn manifest(dir: &Path) -> EngineManifest {
    EngineManifest::read(&engine_dir(dir)).unwrap().unwrap()
}

/// A library that says it is 8.6 and has the parser's entry point, and nothing else.
pub fn stand_in(dir: &Path) -> Option<PathBuf> {
    let source = dir.join("fake.c");
    let body = "int getInferLibVersion(void) { return 8600; }\n\
                void *createInferRuntime_INTERNAL(void *l, int v) { return 0; }\n\
                void *createInferBuilder_INTERNAL(void *l, int v) { return 0; }\n\
                void *createNvOnnxParser_INTERNAL(void *n, void *l, int v) { return 0; }\n";
    std::fs::write(&source, body).unwrap();
    let folder = dir.join("fake");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["libnvinfer.so.8", "libnvonnxparser.so.8"] {
        let built = Process::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&folder.join(name), &source])
            .status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: no C compiler");
            return None;
        }
    }
    Some(folder)
}

#[test]
fn no_tensorrt_says_where_it_looked() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("nothing");
    std::fs::create_dir(&empty).unwrap();
    build(dir.path(), 86).arg("--tensorrt-lib").arg(&empty).assert().code(1).stderr(
        predicate::str::contains("no TensorRT library").and(predicate::str::contains("nothing")),
    );
}

#[test]
fn wrong_arguments_are_usage_errors_that_name_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    segtrt().args(["build-engines", "--platform", "orinn"]).assert().code(2).stderr(
        predicate::str::contains("--platform orinn")
            .and(predicate::str::contains("orin-nano, orin-nx, rtx3090")),
    );
    build(dir.path(), 86).args(["--precision", "fp8"]).assert().code(2);
    build(dir.path(), 86).args(["--opt-level", "6"]).assert().code(2);
    build(dir.path(), 86).args(["--workspace-mb", "0"]).assert().code(2);
    let Some(_) = rtx() else { return };
    build(dir.path(), 86)
        .args(["--models", "sam3"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--models sam3: no such model"));
    build(dir.path(), 86)
        .args(["--precision", "bf16"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("there are no bf16 graphs"));
}

#[test]
fn a_board_that_builds_for_itself_only_is_offered_a_pack() {
    let dir = tempfile::tempdir().unwrap();
    let Some(fake) = stand_in(dir.path()) else { return };
    if cuda::Gpu::open(0).is_ok() {
        eprintln!("SKIPPED: this machine has a GPU");
        return;
    }
    build(dir.path(), 87)
        .arg("--tensorrt-lib")
        .arg(&fake)
        .assert()
        .code(1)
        .stderr(predicate::str::contains("TensorRT 8.6.0 builds on the GPU that will run the plan"))
        .stderr(predicate::str::contains("segtrt pack --platform small"));
    segtrt()
        .args(["build-engines", "--tensorrt-lib"])
        .arg(&fake)
        .assert()
        .code(2)
        .stderr(predicate::str::contains("or name the target: --platform NAME"));
    let Some(_) = rtx() else { return };
    segtrt()
        .args(["build-engines", "--platform", "orin"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("does not build for Jetson AGX Orin (sm_87)"))
        .stderr(predicate::str::contains("segtrt pack --platform orin"));
}

#[test]
fn several_plans_at_a_time_give_the_same_folder_and_rows_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let roles = |jobs: &str| -> Vec<String> {
        let mut command = build_quick(dir.path(), 86);
        let output = command.args(["--force", "--json", "--jobs", jobs]).assert().success();
        let rows: Vec<serde_json::Value> =
            serde_json::from_slice(&output.get_output().stdout).unwrap();
        assert!(rows.iter().all(|row| row["status"] == "built"), "{rows:?}");
        rows.iter().map(|row| row["role"].as_str().unwrap().to_owned()).collect()
    };
    let one = roles("1");
    assert_eq!(one.len(), 3);
    assert_eq!(roles("3"), one);
    let manifest = manifest(dir.path());
    assert_eq!(manifest.plans.len(), 3);
    for plan in &manifest.plans {
        let bytes = std::fs::read(engine_dir(dir.path()).join(&plan.file)).unwrap();
        assert_eq!(bytes.len() as u64, plan.bytes, "{:?}", plan.role);
    }
    build_quick(dir.path(), 86)
        .args(["--jobs", "0"])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("from 1 to 64"));
}

#[test]
fn engines_are_built_ahead_kept_while_they_are_true_and_rebuilt_when_they_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let Some(library) = rtx() else { return };
    let statuses = |command: &mut assert_cmd::Command| -> Vec<(String, String)> {
        let output = command.arg("--json").assert().success().get_output().stdout.clone();
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&output).unwrap();
        let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap().to_owned();
        rows.iter().map(|row| (text(row, "role"), text(row, "status"))).collect()
    };
    build(dir, 86)
        .arg("--dry-run")
        .assert()
        .success()
        .stdout(predicate::str::is_match(r"track +\S* +16 +").unwrap())
        .stdout(predicate::str::contains("build: not built yet"));
    assert!(!engine_dir(dir).exists(), "a dry run makes nothing");

    let first = statuses(&mut build_quick(dir, 86));
    let roles: Vec<&str> = first.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["encoder", "memory", "prompt"]);
    assert!(first.iter().all(|(_, status)| status == "built"), "{first:?}");
    let built = manifest(dir);
    assert_eq!(built.plans.len(), 3);
    let prompt = built.plans.iter().find(|plan| plan.file == "prompt.plan").unwrap();
    assert_eq!(prompt.settings.profiles.len(), 2);
    assert_eq!((prompt.made_by.sm.as_slice(), prompt.layers.as_ref()), (&[86][..], None));
    assert_eq!(prompt.settings.workspace_bytes, 64 << 20);
    assert!(prompt.build.peak_host_bytes.unwrap() > 1 << 20);

    let again = statuses(&mut build_quick(dir, 86));
    assert!(again.iter().all(|(_, status)| status == "up_to_date"), "{again:?}");

    // One flipped bit is found, and only that plan is built again.
    let path = engine_dir(dir).join("memory.plan");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    refused(&library, dir, 86, "it is damaged");
    std::fs::write(&path, &bytes[..1000]).unwrap();
    refused(&library, dir, 86, "it is damaged: 1000 bytes found");
    let healed = statuses(&mut build_quick(dir, 86));
    let rebuilt: Vec<&str> = healed
        .iter()
        .filter(|(_, status)| status == "built")
        .map(|(role, _)| role.as_str())
        .collect();
    assert_eq!(rebuilt, ["memory"]);

    // Another cap or another GPU is another plan.
    build_quick(dir, 86)
        .args(["--dry-run", "--workspace-mb", "32"])
        .assert()
        .success()
        .stdout(predicate::str::contains("its workspace cap is 64 MiB, asked for is 32 MiB"));
    refused(&library, dir, 89, "it was built for sm_86, this is sm_89");
    let other = PlanRecord {
        made_by: runtime::engine::Builder {
            tensorrt: "TensorRT 8.5.2".to_owned(),
            ..prompt.made_by.clone()
        },
        ..manifest(dir).plan(vos::bundle::Role::Memory).unwrap().clone()
    };
    let mut manifest = manifest(dir);
    manifest.set(other);
    manifest.write(&engine_dir(dir)).unwrap();
    let version = library.version();
    refused(&library, dir, 86, &format!("it was built by TensorRT 8.5.2, this is {version}"));
}

/// Opening the memory plan must fail with these words and the command that helps, before TensorRT
/// sees the plan.
fn refused(library: &Library, dir: &Path, sm: u32, words: &str) {
    let runtime = Runtime::new(library);
    // TensorRT for RTX makes no runtime without a driver; the refusal must not need one.
    let Ok(runtime) = runtime else {
        let why = freshness(dir, sm, &library.version().to_string());
        assert!(why.contains(words), "{why}");
        return;
    };
    let manifest = manifest(dir);
    let role = vos::bundle::Role::Memory;
    let error = open_plan(&runtime, sm, &engine_dir(dir), &manifest, role).err().unwrap();
    let text = format!("{error:#}");
    assert!(text.contains("memory.plan cannot be used") && text.contains(words), "{text}");
    assert!(text.contains("segtrt build-engines --platform small --models edgetam_mini"), "{text}");
}

fn freshness(dir: &Path, sm: u32, tensorrt: &str) -> String {
    use runtime::engine::freshness::{Wanted, damaged, differs};
    let manifest = manifest(dir);
    let record = manifest.plan(vos::bundle::Role::Memory).unwrap();
    let wanted = Wanted { onnx_sha256: None, tensorrt, sm, settings: None };
    differs(record, &wanted).or_else(|| damaged(record, &engine_dir(dir))).unwrap()
}

#[test]
fn a_graph_that_is_not_its_manifests_costs_its_own_row_only() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let bundle = copied_bundle(dir.path());
    let memory = bundle.join("memory.onnx");
    let mut bytes = std::fs::read(&memory).unwrap();
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&memory, bytes).unwrap();
    let assert =
        build_quick(dir.path(), 86).arg("--onnx-dir").arg(dir.path().join("onnx")).assert();
    let assert =
        assert.code(1).stderr(predicate::str::contains("is not the graph of its manifest"));
    let table = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert_eq!(table.matches("FAILED").count(), 1, "{table}");
    assert_eq!(manifest(dir.path()).plans.len(), 2);
}

/// The parser names node and operator, the file tells the opset, and the row says what to export instead.
#[test]
fn a_graph_that_tensorrt_cannot_parse_is_told_by_node_operator_and_opset() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let bundle = copied_bundle(dir.path());
    let odd = model::unknown_operator();
    std::fs::write(bundle.join("memory.onnx"), &odd).unwrap();
    let hash = vos::files::sha256_of_file(&bundle.join("memory.onnx")).unwrap().sha256;
    let manifest = std::fs::read_to_string(bundle.join("manifest.toml")).unwrap();
    let mut graphs: Vec<String> = manifest.split("[[graph]]").map(str::to_owned).collect();
    for graph in graphs.iter_mut().filter(|graph| graph.contains("role = \"memory\"")) {
        let line = graph.lines().find(|line| line.starts_with("sha256")).unwrap().to_owned();
        *graph = graph.replace(&line, &format!("sha256 = \"{hash}\""));
    }
    std::fs::write(bundle.join("manifest.toml"), graphs.join("[[graph]]")).unwrap();
    build(dir.path(), 86)
        .args(["--graphs", "memory", "--onnx-dir"])
        .arg(&bundle)
        .assert()
        .code(1)
        .stderr(predicate::str::contains("memory.onnx (opset 17): "))
        .stderr(predicate::str::contains("'/odd' (Frobnicate)"))
        .stderr(predicate::str::contains(
            "export the graph again with this version's onnx/export.py",
        ));
}

#[test]
fn models_without_a_bundle_are_left_out_of_a_platforms_list_and_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let table = table(dir.path(), 86);
    let from_list = |command: &mut assert_cmd::Command| {
        command.args(["build-engines", "--platform", "small", "--dry-run", "--platforms"]);
        command.arg(&table).arg("--out").arg(dir.path().join("engines"));
    };
    let mut command = segtrt();
    from_list(&mut command);
    command
        .assert()
        .success()
        .stderr(predicate::str::contains("left out: no bundle of sam2.1_tiny"));
    let mut command = segtrt();
    from_list(&mut command);
    command
        .args(["--models", "sam2_tiny"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("no bundle of sam2.1_tiny"));
    build(dir.path(), 86)
        .args(["--track-variant", "segmented"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("--segments"));
}

/// Ctrl-C while a plan is being built: what was built stays, nothing half-written does.
#[test]
#[cfg(unix)]
fn an_interrupted_build_leaves_no_half_plan() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_) = rtx() else { return };
    let program = assert_cmd::cargo::cargo_bin("segtrt");
    let mut child = Process::new(program)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build-engines", "--platform", "small", "--models", "edgetam_mini"])
        .args(["--graphs", "encoder,memory,prompt", "--platforms"])
        .arg(table(dir.path(), 86))
        .arg("--out")
        .arg(dir.path().join("engines"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let folder = engine_dir(dir.path());
    let deadline = Instant::now() + Duration::from_secs(120);
    while !folder.join("encoder.plan").exists() {
        assert!(Instant::now() < deadline, "no plan after two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = Process::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{status}");
    let left: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(left.iter().all(|name| !name.ends_with(".partial")), "{left:?}");
    let manifest = manifest(dir.path());
    assert!(!manifest.plans.is_empty() && manifest.plans.len() < 3, "{left:?}");
    for plan in &manifest.plans {
        assert_eq!(runtime::engine::freshness::damaged(plan, &folder), None);
    }
}
