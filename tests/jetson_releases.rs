/*!
`build-engines --platform orin` over stand-ins for the TensorRT of JetPack 6 (10.3.0) and of JetPack
5 (8.5.2), on a stand-in for an Orin's driver: parsing, profiles, the workspace cap through the right
call, plans, manifest, plans of another release, memory that runs out. The stand-ins' vtables follow
the table of the releases; a call that a release lacks aborts.
*/
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use predicates::str::contains;
use runtime::engine::EngineManifest;
use serde_json::Value;
use vos::bundle::Role;

use crate::build_line;
use crate::selftest::fakes::compile;
use crate::support::{copy, segtrt, small_bundle};

/// Both releases: folder, sonames' number, family, minor release and version.
const RELEASES: [(&str, u32, &str); 2] =
    [("jetpack6", 10, "Trt10,3,100300"), ("jetpack5", 8, "Trt8,5,8502")];

/// A folder with a folder for each release; none, said aloud, where there is no compiler.
fn fakes() -> Option<&'static Path> {
    static MADE: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let one = |(name, major, release): (&str, u32, &str)| {
            let folder = dir.path().join(name);
            fs::create_dir(&folder).unwrap();
            let define = format!("-DFAKE_RELEASE={release}");
            let source = "tests/data/gpu/fake_builder8.cpp";
            let words = [
                "-std=c++17",
                "-pthread",
                &define,
                "-I",
                "crates/tensorrt/src/shim",
                source,
                "-ldl",
            ];
            compile("CXX", "c++", &words, &folder.join(format!("libnvinfer.so.{major}")))?;
            let parser = folder.join(format!("libnvonnxparser.so.{major}"));
            std::os::unix::fs::symlink(format!("libnvinfer.so.{major}"), parser).unwrap();
            Some(())
        };
        let made = std::thread::scope(|scope| {
            RELEASES.map(|release| scope.spawn(move || one(release))).map(|it| it.join().unwrap())
        });
        made.iter().all(Option::is_some).then_some(dir)
    });
    made.as_ref().map(tempfile::TempDir::path)
}

/// A board, and a segmented bundle of small graphs.
struct Board {
    dir: tempfile::TempDir,
    driver: &'static Path,
    releases: &'static Path,
}

impl Board {
    fn new() -> Option<Self> {
        let (driver, releases) = (build_line::fakes()?, fakes()?);
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("bundle");
        copy(Path::new("tests/data/fused"), &bundle);
        let manifest = fs::read_to_string(bundle.join("manifest.toml")).unwrap();
        let halves = manifest.replace("precision = \"fp32\"", "precision = \"fp16\"");
        fs::write(bundle.join("manifest.toml"), halves).unwrap();
        Some(Self { dir, driver, releases })
    }

    fn build(&self, release: &str, how: &str) -> assert_cmd::Command {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", self.driver).env("FAKE_BUILD", how);
        for (name, value) in [
            ("FAKE_CUDA_SM", "87"),
            ("FAKE_CUDA_NAME", "Orin (nvgpu)"),
            ("FAKE_CUDA_UNIFIED", "1"),
            ("FAKE_CUDA_MEMORY", "8589934592"),
            ("FAKE_BUILD_TELLS", "1"),
        ] {
            command.env(name, value);
        }
        command.args(["build-engines", "--platform", "orin", "--models", "edgetam_mini"]);
        command.args(["--imgsz", "64", "--json", "--onnx-dir"]).arg(self.dir.path().join("bundle"));
        command.arg("--out").arg(self.dir.path().join("engines"));
        command.arg("--build-log").arg(self.dir.path().join("logs"));
        command.arg("--tensorrt-lib").arg(self.releases.join(release));
        command
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join("engines/orin").join(name)
    }

    fn log(&self, graph: &str) -> String {
        let logs = self.dir.path().join("logs");
        fs::read_to_string(logs.join(format!("{graph}.log"))).unwrap_or_default()
    }
}

/// Graph, status and kind of failure of each row.
fn rows(assert: &assert_cmd::assert::Assert) -> Vec<(String, String, String)> {
    let rows: Vec<Value> = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or("").to_owned();
    rows.iter().map(|row| (text(row, "role"), text(row, "status"), text(row, "failure"))).collect()
}

const WORKSPACE: &str = "pool 0 set to 268435456";

#[test]
fn jetpack_6_builds_all_plans_of_an_orin_and_keeps_them_when_memory_runs_out() {
    let Some(board) = Board::new() else { return };
    let assert = board.build("jetpack6", "memory:oom").assert().code(1);
    for (graph, status, failure) in rows(&assert) {
        let expected = if graph == "memory" { ("failed", "out_of_memory") } else { ("built", "") };
        assert_eq!((status.as_str(), failure.as_str()), expected, "{graph}");
    }
    let assert = board.build("jetpack6", "").assert().success();
    let built = rows(&assert).into_iter().filter(|(_, status, _)| status == "built");
    assert_eq!(built.map(|(graph, ..)| graph).collect::<Vec<_>>(), ["memory"]);

    let manifest = EngineManifest::read(&board.folder("edgetam_mini_64_fp16")).unwrap().unwrap();
    assert_eq!(manifest.platform, "orin");
    let roles: Vec<&str> = manifest.plans.iter().map(|plan| plan.role.name()).collect();
    for role in ["encoder", "prompt", "track_keys", "track_seg0", "track_seg4", "memory"] {
        assert!(roles.contains(&role), "{role} of {roles:?}");
    }
    for plan in &manifest.plans {
        let maker = &plan.made_by;
        assert_eq!((maker.tensorrt.as_str(), &maker.sm[..]), ("TensorRT 10.3.0", &[87][..]));
        assert_eq!(maker.device.as_deref(), Some("Orin (nvgpu)"));
        assert_eq!(plan.settings.workspace_bytes, 256 << 20);
        assert_eq!(plan.build.context_bytes, Some(4096));
        let log = board.log(&format!("edgetam_mini_64_fp16_{}", plan.role.name()));
        assert!(log.contains(WORKSPACE) && log.contains("level 3 set to 1"), "{log}");
    }
    let prompt = manifest.plan(Role::Prompt).unwrap();
    assert_eq!(prompt.settings.profiles.len(), 2);

    // A damaged plan, and plans of another release.
    fs::write(board.folder("edgetam_mini_64_fp16").join("memory.plan"), "no plan").unwrap();
    for (release, expected) in [("jetpack6", 1), ("jetpack5", manifest.plans.len())] {
        let assert = board.build(release, "").arg("--dry-run").assert().success();
        let planned: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        let whys: Vec<String> = planned["plans"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|plan| plan["role"] != "keys" && plan["build"] == true)
            .map(|plan| plan["why"].to_string())
            .collect();
        assert_eq!(whys.len(), expected, "{whys:?}");
        let words = if release == "jetpack6" { "damaged: 7 bytes" } else { "10.3.0" };
        assert!(whys.iter().any(|why| why.contains(words)), "{whys:?}");
        assert_eq!(planned["estimate"]["measured"], false);
    }
}

#[test]
fn jetpack_5_parses_no_layer_normalization_and_says_what_does() {
    let Some(board) = Board::new() else { return };
    // The graphs of a real exporter; those of the other test normalise nothing.
    let mut build = board.build("jetpack5", "");
    build.args(["--imgsz", "256", "--precision", "fp32", "--onnx-dir"]).arg(small_bundle());
    let assert = build.assert().code(1);
    let rows = rows(&assert);
    let built: Vec<&str> =
        rows.iter().filter(|row| row.1 == "built").map(|row| row.0.as_str()).collect();
    assert!(built.contains(&"encoder") && !built.contains(&"memory"), "{rows:?}");
    assert!(rows.iter().all(|row| row.1 == "built" || row.2 == "graph"), "{rows:?}");
    assert.stderr(contains("the parser of TensorRT 8.5 (JetPack 5) has no LayerNormalization"));
    // 8.5 has a cap, but no optimization levels.
    let log = board.log("edgetam_mini_256_fp32_encoder");
    assert!(log.contains(WORKSPACE) && !log.contains("level"), "{log}");
    let manifest = EngineManifest::read(&board.folder("edgetam_mini_256_fp32")).unwrap().unwrap();
    assert_eq!(manifest.plan(Role::Encoder).unwrap().made_by.tensorrt, "TensorRT 8.5.2");
}
