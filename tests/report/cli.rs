//! Arguments, exit codes, files.

use std::path::Path;

use predicates::str::contains;

use super::{gpu_rows, predecessor_table, run_folder};
use crate::support::segtrt;

#[test]
fn help_is_complete() {
    let output = segtrt().args(["report", "-h"]).env("COLUMNS", "100").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}

#[test]
fn plots_are_files_in_two_forms_under_the_predecessors_names() {
    let dir = tempfile::tempdir().unwrap();
    let table = predecessor_table(dir.path(), "old.csv", 1.0);
    let plots = dir.path().join("figures");
    segtrt()
        .arg("report")
        .arg(&table)
        .arg("--plots")
        .arg(&plots)
        .arg("-o")
        .arg(dir.path().join("r.html"))
        .assert()
        .success();
    for name in ["fps_vs_jandf", "gpu_vs_cpu", "memory_peaks"] {
        let svg = std::fs::read_to_string(plots.join(format!("{name}.svg"))).unwrap();
        assert!(
            svg.starts_with("<?xml") && svg.contains("<desc") && svg.matches("http").count() == 1,
            "{svg}"
        );
        let decoder = png::Decoder::new(std::io::BufReader::new(
            std::fs::File::open(plots.join(format!("{name}.png"))).unwrap(),
        ));
        let mut image = decoder.read_info().unwrap();
        let mut pixels = vec![0; image.output_buffer_size().unwrap()];
        let info = image.next_frame(&mut pixels).unwrap();
        assert_eq!(info.width, 2040);
        let colours: std::collections::HashSet<&[u8]> =
            pixels.chunks(info.color_type.samples()).collect();
        assert!(colours.len() > 20, "{name}.png has {} colours", colours.len());
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_folder(dir.path(), "clip", 60);
    let page = |name: &str| {
        let path = dir.path().join(name);
        segtrt()
            .arg("report")
            .arg(&run)
            .arg("-o")
            .arg(&path)
            .env("SOURCE_DATE_EPOCH", "1795219200")
            .assert()
            .success();
        std::fs::read_to_string(path).unwrap()
    };
    let first = page("a.html");
    assert_eq!(first, page("b.html"));
    assert!(first.contains("2026-11-21 00:00 UTC"));
}

#[test]
fn json_alone_writes_no_page() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_folder(dir.path(), "clip", 60);
    let output =
        segtrt().current_dir(dir.path()).args(["report", "--json"]).arg(&run).output().unwrap();
    assert!(output.status.success() && !dir.path().join("report.html").exists());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let group = &report["groups"][0];
    assert_eq!(group["stats"]["fps"]["mean"], 41.5);
    assert_eq!(
        (group["counts"]["invalid"].as_u64(), group["frames"]["frames"].as_u64()),
        (Some(1), Some(59))
    );
    assert!(group["stats"].get("gpu_peak_alloc_MiB").is_none());
    assert_eq!(report["rows"][2]["reason"], "jpeg: frame 3 is cut short");
}

#[test]
fn a_check_ends_with_one_where_a_target_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let rows = gpu_rows().join("edgetam_fp16_latency.csv");
    let targets = dir.path().join("targets.toml");
    let check = |limit: &str| {
        std::fs::write(
            &targets,
            format!("[[target]]\nname = \"speed\"\nmetric = \"fps\"\n{limit}\n"),
        )
        .unwrap();
        let mut command = segtrt();
        command
            .arg("report")
            .arg(&rows)
            .args(["--check", "--targets"])
            .arg(&targets)
            .arg("-o")
            .arg(dir.path().join("r.html"));
        command.assert()
    };
    check("at_least = 400")
        .success()
        .stdout(contains("targets: 1 passed, 0 failed, 0 not measured"));
    check("at_least = 500").code(1).stderr(contains("targets: 1 missed (of 1)"));
    check("at_least = 400\nmodels = [\"sam2*\"]").code(1).stderr(contains("none was measured"));
    check("at_least = 400\n[[target]]\nname = \"t\"\nmetric = \"latency_p999_ms\"\nbelow = 9")
        .success();
    check(
        "at_least = 400\n[[target]]\nname = \"t\"\nmetric = \"latency_p999_ms\"\nbelow = \
           9\nrequired = true",
    )
    .code(1)
    .stderr(contains("1 required and not measured"));
    check("at_least = 1\nbelow = 3")
        .code(2)
        .stderr(contains("has 2 limits; expected exactly one of below"));
    check("at_least = 1\n[[target]]\nname = \"t\"\nmetric = \"fsp\"\nbelow = 9")
        .code(2)
        .stderr(contains("targets.toml: target \"t\" asks for \"fsp\", a metric that no table has"))
        .stderr(contains("known are the tables' own columns"));
}

#[test]
fn printed_targets_are_a_file_that_works() {
    let dir = tempfile::tempdir().unwrap();
    let output = segtrt().args(["report", "--print-targets"]).output().unwrap();
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, output.stdout).unwrap();
    segtrt()
        .arg("report")
        .arg(gpu_rows().join("edgetam_fp16_latency.csv"))
        .arg("--targets")
        .arg(&file)
        .arg("-o")
        .arg(dir.path().join("r.html"))
        .assert()
        .success()
        .stdout(contains("targets: 8 passed, 2 failed, 1 not measured"));
}

#[test]
fn bad_input_is_named_and_the_rest_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_folder(dir.path(), "clip", 60);
    let page = dir.path().join("r.html");
    let bad = dir.path().join("bad.csv");
    std::fs::write(&bad, "a,b\n1,2\n").unwrap();
    segtrt()
        .arg("report")
        .args([run.as_path(), bad.as_path(), Path::new("/no/such")])
        .arg("-o")
        .arg(&page)
        .assert()
        .code(1)
        .stderr(contains(
            "bad.csv is not a table of results: it has no column video, model, fps; found a,b",
        ))
        .stderr(contains("/no/such does not exist; expected a run folder"));
    let text = std::fs::read_to_string(page).unwrap();
    assert!(
        text.contains("Some files could not be read")
            && text.contains("bad.csv is not a table")
            && text.contains("41.5")
    );
    segtrt()
        .arg("report")
        .arg(&bad)
        .assert()
        .code(1)
        .stderr(contains("there is nothing to report on"));
    segtrt().arg("report").assert().code(2);
    segtrt()
        .arg("report")
        .arg(&run)
        .args(["--targets", "/no/such.toml"])
        .assert()
        .code(2)
        .stderr(contains("--targets default"));
    segtrt()
        .arg("report")
        .arg(&run)
        .arg("-o")
        .arg("/proc/r.html")
        .assert()
        .code(1)
        .stderr(contains("cannot write /proc/r.html"));
}
