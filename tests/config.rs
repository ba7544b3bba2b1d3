//! Flags from a file, in the program itself.

use std::fs;
use std::path::Path;

use predicates::str::contains;

use crate::support::{column, require_onnxruntime, segtrt};

/// The documented example, with its folders below `dir`.
fn example(dir: &Path) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/experiment.toml");
    let text = fs::read_to_string(path).unwrap();
    assert_eq!(text.matches("\"demo/").count(), 3, "{text}");
    text.replace("\"demo/", &format!("\"{}/", dir.display()))
}

#[test]
fn the_documented_example_runs() {
    require_onnxruntime();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("experiment.toml");
    fs::write(&file, example(dir.path())).unwrap();
    segtrt().arg("--config").arg(&file).arg("synth").assert().success();
    let typed = ["--max-clip-frames", "3", "--models", "edgetam_mini_bbox", "--warmup_runs=0"];
    segtrt().arg("--config").arg(&file).arg("bench").args(typed).assert().success();
    let summary = dir.path().join("out/sav_benchmark_summary.csv");
    // One clip of two by the file, three frames and one model by what was typed.
    assert_eq!(column(&summary, "model"), ["edgetam_mini_bbox"; 2]);
    assert_eq!(column(&summary, "frames"), ["3", "3"]);
    assert!(dir.path().join("out/masks").is_dir());
}

#[test]
fn a_slip_in_the_file_is_wrong_usage_and_nothing_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("experiment.toml");
    let write = |text: &str| fs::write(&file, text).unwrap();
    let out = dir.path().join("split");
    let synth = || {
        let mut command = segtrt();
        command.arg("synth").arg("--out").arg(&out).arg("--config").arg(&file);
        command
    };
    write("[bench]\nsplit_dri = 'x'\n");
    synth().assert().code(2).stderr(contains("did you mean \"split-dir\"?"));
    // What only the parser knows to be wrong is told with the file's name.
    write("[synth]\nsize = '640'\n");
    synth()
        .assert()
        .code(2)
        .stderr(contains("write for example 640x360"))
        .stderr(contains("experiment.toml: --size=640"));
    segtrt()
        .args(["--config", "/nowhere/x.toml", "synth", "--out"])
        .arg(&out)
        .assert()
        .code(2)
        .stderr(contains("cannot read the configuration /nowhere/x.toml"));
    assert!(!out.exists());
    write("[synth]\nvideos = 1\nframes = 2\n");
    synth().arg("--print-config").assert().success().stdout(contains("frames = 2  # "));
    assert!(!out.exists(), "printing runs nothing");
    synth().assert().success();
    assert!(out.join("JPEGImages_24fps/synth_000/00001.jpg").exists());
}
