//! The tar itself: what is in it, that it is the same every time, and what is refused.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

use super::board::{pack, table};
use crate::support::{segtrt, small_bundle, synth};

/// Path in the pack → permissions and bytes.
fn files(tar: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut archive = ::tar::Archive::new(std::fs::File::open(tar).unwrap());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let header = entry.header();
        assert_eq!(
            (header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()),
            (0, 0, 0)
        );
        let mode = header.mode().unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name.strip_prefix("segtrt-pack-testboard/").unwrap().to_owned(), (mode, bytes))
    });
    entries.collect()
}

fn text(files: &BTreeMap<String, (u32, Vec<u8>)>, name: &str) -> String {
    String::from_utf8(files[name].1.clone()).unwrap()
}

#[test]
fn a_pack_holds_what_the_board_needs_and_is_the_same_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let tar = dir.path().join("p.tar");
    pack(dir.path(), &tar)
        .assert()
        .success()
        .stdout(contains("13 files").and(contains("sh segtrt-pack-testboard/run.sh")));
    let found = files(&tar);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let graphs = [
        "encoder",
        "encoder_b2",
        "manifest.toml",
        "mask_prompt",
        "memory",
        "prompt",
        "track",
        "track_padded",
    ];
    let mut expected =
        vec!["README.txt", "SHA256SUMS"].into_iter().map(str::to_owned).collect::<Vec<_>>();
    expected.extend(graphs.map(|g| match g.contains('.') {
        true => format!("onnx/edgetam_mini_256_fp32/{g}"),
        false => format!("onnx/edgetam_mini_256_fp32/{g}.onnx"),
    }));
    expected.extend(["platforms.toml", "run.sh", "settings.sh"].map(str::to_owned));
    assert_eq!(names, expected);
    assert_eq!((found["run.sh"].0, found["settings.sh"].0), (0o755, 0o644));
    assert_eq!(
        found["onnx/edgetam_mini_256_fp32/track.onnx"].1,
        std::fs::read(small_bundle().join("track.onnx")).unwrap()
    );
    assert!(text(&found, "platforms.toml").starts_with("[testboard]"));
    assert_eq!(text(&found, "SHA256SUMS").lines().count(), found.len() - 1);
    let readme = text(&found, "README.txt");
    for words in [
        "edgetam_mini at 256x256 in fp32",
        "checkpoint edgetam_mini.safetensors",
        "JetPack",
        "sh run.sh --workspace-mb 128",
    ] {
        assert!(readme.contains(words), "{words} in {readme}");
    }
    assert!(readme.lines().all(|line| line.len() <= 200));
    let again = dir.path().join("again.tar");
    pack(dir.path(), &again).assert().success();
    assert_eq!(std::fs::read(&tar).unwrap(), std::fs::read(&again).unwrap());
}

#[test]
fn a_program_and_clips_go_along_where_they_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    std::fs::create_dir_all(split.join("benchmark_outputs")).unwrap();
    std::fs::write(split.join("benchmark_outputs/old.csv"), "rows").unwrap();
    let program = dir.path().join("segtrt-aarch64");
    std::fs::write(&program, "elf").unwrap();
    let tar = dir.path().join("p.tar");
    pack(dir.path(), &tar)
        .arg("--binary")
        .arg(&program)
        .arg("--with-clips")
        .arg(&split)
        .assert()
        .success();
    let found = files(&tar);
    assert_eq!(found["segtrt"], (0o755, b"elf".to_vec()));
    let foreign = dir.path().join("segtrt-x86_64");
    std::fs::write(&foreign, b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0").unwrap();
    pack(dir.path(), &dir.path().join("q.tar"))
        .arg("--binary")
        .arg(&foreign)
        .assert()
        .code(1)
        .stderr(contains("found a program for x86-64, expected one for aarch64"));
    let clips: Vec<_> = found.keys().filter(|name| name.starts_with("clips/")).collect();
    assert!(clips.iter().any(|name| name.ends_with(".jpg")), "{clips:?}");
    assert!(!clips.iter().any(|name| name.contains("old.csv")), "{clips:?}");
    assert!(text(&found, "README.txt").contains("clips/          the clips to measure on"));
    for (flag, path, words) in [
        ("--binary", "nothing", "expected a segtrt built for the board"),
        ("--with-clips", "nothing", "does not exist"),
    ] {
        let path = dir.path().join(path);
        pack(dir.path(), &dir.path().join("q.tar"))
            .arg(flag)
            .arg(path)
            .assert()
            .code(1)
            .stderr(contains(words));
    }
}

#[test]
fn missing_bundles_are_all_named_with_the_command_that_makes_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("p.tar");
    pack(dir.path(), &out)
        .args(["--models", "edgetam_mini,edgetam,sam2_tiny"])
        .assert()
        .code(1)
        .stderr(
            contains("segtrt fetch edgetam --imgsz 256 --precision fp32")
                .and(contains("segtrt fetch sam2.1_tiny --imgsz 256 --precision fp32"))
                .and(contains("or name the models to pack with --models")),
        );
    // Graphs in fp32 serve half precision where TensorRT is weakly typed.
    pack(dir.path(), &out)
        .args(["--precision", "fp16"])
        .assert()
        .success()
        .stderr(contains("has no fp16 graphs"));
    pack(dir.path(), &out)
        .assert()
        .code(1)
        .stderr(contains("exists; choose another --out").and(contains("--force")));
    pack(dir.path(), &out).arg("--force").assert().success();
}

/// A half-precision copy of the committed bundle, as far as manifests tell.
fn half_precision(dir: &Path, checkpoint: &str) {
    std::fs::create_dir_all(dir).unwrap();
    for entry in std::fs::read_dir(small_bundle()).unwrap().flatten() {
        std::fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
    }
    let manifest = std::fs::read_to_string(dir.join("manifest.toml")).unwrap();
    let manifest = manifest
        .replacen("\"fp32\"", "\"fp16\"", 1)
        .replace("edgetam_mini.safetensors", checkpoint);
    std::fs::write(dir.join("manifest.toml"), manifest).unwrap();
}

#[test]
fn both_precisions_go_along_where_they_are_the_same_network() {
    let dir = tempfile::tempdir().unwrap();
    let half = dir.path().join("half");
    let out = dir.path().join("p.tar");
    for (checkpoint, folders) in [("edgetam_mini.safetensors", 2), ("other.safetensors", 1)] {
        half_precision(&half, checkpoint);
        let assert = pack(dir.path(), &out)
            .args(["--precision", "fp16", "--force", "--onnx-dir"])
            .args([&small_bundle(), &half])
            .assert()
            .success();
        let manifests = files(&out).into_keys().filter(|name| name.ends_with("manifest.toml"));
        let manifests: Vec<_> = manifests.collect();
        assert_eq!(manifests.len(), folders, "{manifests:?}");
        assert_eq!(manifests[0], "onnx/edgetam_mini_256_fp16/manifest.toml");
        let told = contains("edgetam_mini.safetensors there, checkpoint other.safetensors here");
        match folders {
            1 => assert.stderr(told),
            _ => assert.stderr(told.not()),
        };
    }
}

#[test]
fn wrong_usage_and_unfit_tables_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("p.tar");
    let wrong = |arguments: &[&str]| {
        let mut command = segtrt();
        command.arg("pack").args(arguments).arg("--out").arg(&out);
        command.assert()
    };
    wrong(&["--platform", "toaster"])
        .code(2)
        .stderr(contains("unknown platform; known: ").and(contains("orin-nano")));
    wrong(&["--platform", "orin", "--models", "yolo"])
        .code(2)
        .stderr(contains("--models yolo: no such model"));
    wrong(&["--platform", "orin", "--precision", "int8"])
        .code(2)
        .stderr(contains("invalid value 'int8'"));
    let rows = table(dir.path(), "").to_str().unwrap().to_owned();
    let row = std::fs::read_to_string(&rows).unwrap();
    let bundle = small_bundle();
    let common = ["--platforms", rows.as_str(), "--onnx-dir", bundle.to_str().unwrap()];
    std::fs::write(&rows, row.replace("[testboard]", "[\"../x\"]")).unwrap();
    wrong(&[&["--platform", "../x"], &common[..]].concat())
        .code(1)
        .stderr(contains("letters, digits"));
    assert!(!out.exists());
}

#[test]
fn an_altered_graph_is_refused_while_packing_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("bundle");
    std::fs::create_dir(&bundle).unwrap();
    for entry in std::fs::read_dir(small_bundle()).unwrap().flatten() {
        std::fs::copy(entry.path(), bundle.join(entry.file_name())).unwrap();
    }
    let mut bytes = std::fs::read(bundle.join("memory.onnx")).unwrap();
    bytes[100] ^= 1;
    std::fs::write(bundle.join("memory.onnx"), bytes).unwrap();
    let out = dir.path().join("p.tar");
    let mut command = segtrt();
    command.args(["pack", "--platform", "testboard", "--platforms"]).arg(table(dir.path(), ""));
    command.arg("--onnx-dir").arg(&bundle).arg("--out").arg(&out);
    command
        .assert()
        .code(1)
        .stderr(contains("memory.onnx is not the graph of its manifest: sha256 found"));
    assert!(!out.exists());
}

/// A limit on the size of files stands in for a full disk: writing fails in the middle of the tar.
#[test]
fn a_disk_without_space_leaves_no_half_pack() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("p.tar");
    let whole = pack(dir.path(), &out);
    let arguments: Vec<_> = whole.get_args().map(ToOwned::to_owned).collect();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\""]);
    let output = command.arg(whole.get_program()).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot write") && error.contains("has space left"), "{error}");
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["mine.toml"]);
}

#[test]
fn bundles_are_looked_for_where_the_variable_says_as_in_build_engines() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("no bundles");
    std::fs::create_dir(&empty).unwrap();
    let with = |bundles: &Path| {
        let mut command = segtrt();
        command.args(["pack", "--platform", "orin", "--models", "edgetam_mini", "--imgsz", "256"]);
        command.args(["--precision", "fp32", "--out"]).arg(dir.path().join("p.tar"));
        command.env("SEGTRT_ONNX_DIR", bundles).assert()
    };
    with(&empty).code(1).stderr(contains("no bundles, found no bundle"));
    with(&small_bundle()).success();
}
