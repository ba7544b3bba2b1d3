//! Files of predecoded frames: what is in them, what is done about damage, and what a bench makes
//! of them.

use std::fs;
use std::path::{Path, PathBuf};

use predicates::str::contains;

use crate::support::{bench, column, segtrt, synth};

const SUMMARY: &str = "sav_benchmark_summary.csv";

fn predecode(split: &Path, out: &Path, values: &str) -> assert_cmd::Command {
    let mut command = segtrt();
    command.args(["predecode", "--imgsz", "256", "--values", values, "--max-frames-in-mem", "3"]);
    command.arg("--split-dir").arg(split).arg("--out-dir").arg(out);
    command
}

/// (result, reason) of each clip.
fn rows(mut command: assert_cmd::Command, code: i32) -> Vec<(String, String)> {
    let output = command.arg("--json").assert().code(code).get_output().stdout.clone();
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output).unwrap();
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or("").to_owned();
    rows.iter().map(|row| (text(row, "result"), text(row, "reason"))).collect()
}

fn file(out: &Path, video: &str, values: &str) -> PathBuf {
    out.join(format!("{video}__256_stretch_{values}.frames"))
}

#[test]
fn bytes_give_the_same_masks_and_rows_that_cannot_be_confused() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 7);
    let masks = "masks/synth_000__obj000__edgetam_mini_points.json";
    let (plain, u8s, f16s) =
        (dir.path().join("plain"), dir.path().join("u8"), dir.path().join("f16"));
    bench(&split, &plain).arg("--save-masks").assert().success();
    let fidelity = &column(&plain.join(SUMMARY), "fidelity")[0];
    for (values, out) in [("u8", &u8s), ("f16", &f16s)] {
        let frames = dir.path().join(format!("frames_{values}"));
        assert_eq!(rows(predecode(&split, &frames, values), 0)[0].0, "written");
        let bytes = fs::metadata(file(&frames, "synth_000", values)).unwrap().len();
        let value = if values == "u8" { 1 } else { 2 };
        assert_eq!(bytes, 4096 + 7 * 3 * 256 * 256 * value + 32);
        bench(&split, out).args(["--save-masks", "--predecoded"]).arg(&frames).assert().success();
        let summary = out.join(SUMMARY);
        assert_eq!(column(&summary, "status"), ["ok"]);
        let expected = fidelity.replace("bicubic", &format!("bicubic-predecoded-{values}"));
        assert_ne!(expected, *fidelity);
        assert_eq!(column(&summary, "fidelity"), [expected]);
        for (name, there) in [("decode_ms", false), ("preprocess_ms", false), ("upload_ms", true)] {
            assert_eq!(!column(&summary, name)[0].is_empty(), there, "{name} with {values}");
        }
        let sidecar = fs::read_to_string(out.join("sidecar.json")).unwrap();
        let sidecar: serde_json::Value = serde_json::from_str(&sidecar).unwrap();
        assert_eq!(sidecar["configuration"]["predecoded"], values);
        let region = sidecar["timed_region"].as_str().unwrap();
        assert!(region.contains("segtrt predecode") && !region.contains("decode_ms"), "{region}");
    }
    assert_eq!(fs::read(plain.join(masks)).unwrap(), fs::read(u8s.join(masks)).unwrap());
    // Half precision rounds the input: the scores move, and the masks of a sound file stay near.
    let (exact, rounded) =
        (fs::read(plain.join(masks)).unwrap(), fs::read(f16s.join(masks)).unwrap());
    assert_ne!(exact, rounded, "the rounded frames were not used");

    let frames = dir.path().join("frames_u8");
    bench(&split, &plain)
        .args(["--resume", "--predecoded"])
        .arg(&frames)
        .assert()
        .code(1)
        .stderr(contains("predecoded was \"absent\" and is \"u8\""));
    // One side of a comparison must not have been spared the work of the other.
    let compared = segtrt()
        .args(["compare", "--split-dir"])
        .arg(&split)
        .arg("--runs")
        .arg(format!("plain={}", plain.display()))
        .arg(format!("ready={}", u8s.display()))
        .arg("--out-dir")
        .arg(dir.path().join("compared"))
        .output()
        .unwrap();
    let said = [compared.stdout, compared.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("takes predecoded u8 frames"), "{said}");
}

#[test]
fn what_is_whole_is_kept_and_what_is_not_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 1, 5);
    let out = dir.path().join("frames");
    let again = || rows(predecode(&split, &out, "u8"), 0);
    assert!(again().iter().all(|(result, _)| result == "written"));
    assert!(again().iter().all(|(result, _)| result == "up to date"));

    let path = file(&out, "synth_000", "u8");
    let whole = fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[4096 + 70_000] ^= 1;
    for (bytes, why) in [
        (damaged, "checksum"),
        (whole[..whole.len() - 1].to_vec(), "by its header"),
        (whole[..100].to_vec(), "less than its header"),
        (b"<html>".repeat(2000), "does not begin"),
        (Vec::new(), "less than its header"),
    ] {
        fs::write(&path, bytes).unwrap();
        let rows = again();
        assert_eq!((rows[0].0.as_str(), rows[1].0.as_str()), ("written", "up to date"));
        assert!(rows[0].1.contains(why), "{why}: {}", rows[0].1);
        assert_eq!(fs::read(&path).unwrap(), whole, "the same frames give the same bytes");
    }
    let frames = split.join("JPEGImages_24fps/synth_000");
    fs::copy(frames.join("00001.jpg"), frames.join("00002.jpg")).unwrap();
    assert!(again()[0].1.contains("have changed"));
    let (result, reason) = &rows(
        {
            let mut command = predecode(&split, &out, "u8");
            command.arg("--force");
            command
        },
        0,
    )[1];
    assert_eq!((result.as_str(), reason.as_str()), ("written", ""));

    fs::write(frames.join("00003.jpg"), b"\xff\xd8 no frame").unwrap();
    let found = rows(predecode(&split, &out, "u8"), 1);
    assert_eq!((found[0].0.as_str(), found[1].0.as_str()), ("failed", "up to date"));
    assert!(found[0].1.contains("00003.jpg"), "{}", found[0].1);
    assert!(!found[0].1.contains("space left"), "the disk is not to blame: {}", found[0].1);
    let left = fs::read_dir(&out).unwrap().count();
    assert_eq!(left, 2, "the failed file left nothing behind, and the old one stays");
}

#[test]
fn a_bench_uses_no_file_that_it_should_not() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 3, 1, 4);
    let (frames, out) = (dir.path().join("frames"), dir.path().join("out"));
    rows(predecode(&split, &frames, "u8"), 0);
    let path = file(&frames, "synth_000", "u8");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096 + 9] ^= 4;
    fs::write(&path, bytes).unwrap();
    fs::remove_file(file(&frames, "synth_001", "u8")).unwrap();
    let run = |frames: &Path| {
        let mut command = bench(&split, &out);
        command.arg("--predecoded").arg(frames);
        command
    };
    run(&frames).assert().code(1);
    let reasons = column(&out.join(SUMMARY), "reason");
    assert!(reasons[0].starts_with("predecoded_damaged: "), "{}", reasons[0]);
    assert!(reasons[1].starts_with("predecoded_missing: "), "{}", reasons[1]);
    assert!(reasons[1].contains("segtrt predecode --split-dir SPLIT --imgsz 256"));
    assert_eq!(column(&out.join(SUMMARY), "status"), ["failed", "failed", "ok"]);

    // The frames of another clip under this one's name.
    fs::copy(file(&frames, "synth_002", "u8"), &path).unwrap();
    run(&frames).assert().code(1);
    let reason = &column(&out.join(SUMMARY), "reason")[0];
    assert!(reason.starts_with("predecoded_stale: "), "{reason}");

    run(&dir.path().join("nowhere")).assert().code(2).stderr(contains("segtrt predecode"));
    run(&split).assert().code(2).stderr(contains("has no predecoded frames"));
    fs::write(frames.join("x__256_stretch_f16.frames"), "").unwrap();
    run(&frames).assert().code(2).stderr(contains("a folder for each"));
    predecode(&split, &frames, "u8")
        .args(["--imgsz", "100"])
        .assert()
        .code(2)
        .stderr(contains("expected a multiple of 32"));
    let list = dir.path().join("list.txt");
    fs::write(&list, "synth_002\n\nsynth_009\n").unwrap();
    bench(&split, &out)
        .arg("--video-list")
        .arg(&list)
        .assert()
        .code(2)
        .stderr(contains("\"synth_009\" is not a clip"));
}
