use std::fs;
use std::path::{Path, PathBuf};

use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use crate::support::{column, golden, read_csv, segtrt};

const OLD_HEADER: &str = "video,object,model,run,imgsz,frames,fps,latency_ms,gpu_peak_alloc_MiB,\
    gpu_peak_reserved_MiB,cpu_peak_rss_MiB,nsight_report,setup_ms";

fn experiment(dir: &Path, name: &str, platform: &str, rows: &[&str]) -> PathBuf {
    let folder = dir.join(name);
    fs::create_dir_all(folder.join("profile_outputs")).unwrap();
    let config = format!(
        "Experiment Configuration\n========================\nTimestamp: 20251130_143022\nPlatform: \
         {platform}\nHostname: {platform}-1\nNsight: /opt/a:b\n"
    );
    fs::write(folder.join("experiment_config.txt"), config).unwrap();
    let table = format!("{OLD_HEADER}\r\n{}\r\n", rows.join("\r\n"));
    fs::write(folder.join("profile_outputs/profile_summary.csv"), table).unwrap();
    folder
}

const ROW: &str = "sav_000001,000,sam2_tiny_points,0,768,300,27.26,36.7,1558.7,1774.0,2419.0,,0.28";

#[test]
fn folders_of_the_predecessor_give_its_bytes_and_its_messages() {
    let dir = tempfile::tempdir().unwrap();
    let quoted = r#"sav_2,000,m,0,768,300,3.52,284.1,,,1.0,"/x/a,""b"".nsys-rep",0.97"#;
    let desktop = experiment(dir.path(), "d", "desktop", &[ROW, quoted]);
    let jetson = experiment(dir.path(), "j", "jetson", &[ROW]);
    let out = dir.path().join("new/folder/final.csv");
    let missing = dir.path().join("gone");
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let assert = segtrt()
        .arg("merge")
        .args([&desktop, &missing, &jetson, &empty])
        .arg("-o")
        .arg(&out)
        .assert()
        .code(1);
    let text = |path: &Path| path.display().to_string();
    let expected = [
        format!("Warning: Directory not found: {}", text(&missing)),
        format!("Warning: No profile_summary.csv in {}", text(&empty)),
        "Merging results from:".into(),
        format!("  - {}", text(&desktop)),
        "    Found 2 entries from desktop".into(),
        format!("  - {}", text(&jetson)),
        "    Found 1 entries from jetson".into(),
        String::new(),
        format!("Merged CSV written to: {}", text(&out)),
        "Total entries: 3".into(),
        String::new(),
        "Entries by platform:".into(),
        "  desktop: 2".into(),
        "  jetson: 1".into(),
        String::new(),
    ];
    assert_eq!(String::from_utf8(assert.get_output().stdout.clone()).unwrap(), expected.join("\n"));
    let merged = [
        format!("platform,hostname,timestamp,{OLD_HEADER}"),
        format!("desktop,desktop-1,20251130_143022,{ROW}"),
        format!("desktop,desktop-1,20251130_143022,{quoted}"),
        format!("jetson,jetson-1,20251130_143022,{ROW}"),
        String::new(),
    ];
    assert_eq!(fs::read_to_string(&out).unwrap(), merged.join("\r\n"));
}

#[test]
fn new_columns_come_last_and_old_rows_leave_them_empty() {
    let dir = tempfile::tempdir().unwrap();
    let old = experiment(dir.path(), "old", "jetson", &[ROW]);
    let new = dir.path().join("bench_out");
    fs::create_dir(&new).unwrap();
    fs::write(
        new.join("profile_summary.csv"),
        "video,object,model,run,imgsz,frames,fps,status,verdict_reason\r\n\
         v,000,edgetam_points,0,1024,9,466.1,ok,\"few: 9, too few\"\r\n",
    )
    .unwrap();
    let sidecar = r#"{"environment": {"hostname": "rack1", "processor": "AMD EPYC"}, "passes": [{"x": [1, 2]}]}"#;
    fs::write(new.join("sidecar.json"), sidecar).unwrap();
    let out = dir.path().join("final.csv");
    segtrt().arg("merge").args([&old, &new]).arg("-o").arg(&out).assert().success();
    let (header, rows) = read_csv(&out);
    assert_eq!(
        header.join(","),
        format!("platform,hostname,timestamp,{OLD_HEADER},status,verdict_reason")
    );
    assert_eq!(rows[0][16..], ["", ""]);
    assert_eq!(rows[1][..4], ["desktop", "rack1", "unknown", "v"]);
    assert_eq!(rows[1][10..16], ["", "", "", "", "", ""]);
    assert_eq!(rows[1][16..], ["ok", "few: 9, too few"]);

    // The other way round the new order is first, and nothing is lost either.
    segtrt().arg("merge").args([&new, &old]).arg("-o").arg(&out).assert().success();
    assert_eq!(column(&out, "setup_ms"), ["", "0.28"]);
    assert_eq!(column(&out, "status"), ["ok", ""]);
}

#[test]
fn a_real_run_is_merged_by_either_table_and_told_in_json() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    fs::create_dir(&run).unwrap();
    for name in ["profile_summary.csv", "sav_benchmark_summary.csv"] {
        fs::write(run.join(name), golden(&format!("files/{name}.gz"))).unwrap();
    }
    let out = dir.path().join("final.csv");
    for (table, name) in [(None, "run"), (Some("sav_benchmark_summary"), "JandF")] {
        let mut command = segtrt();
        command.arg("merge").arg(&run).arg("-o").arg(&out).arg("--json");
        command.args(table.map(|table| format!("--table={table}")));
        let assert = command.assert().success();
        let document: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        let (header, rows) = read_csv(&out);
        assert!(header.iter().any(|column| column == name), "{header:?}");
        assert!(!rows.is_empty());
        assert_eq!(document["rows"], rows.len());
        assert_eq!(document["platforms"]["unknown"], rows.len());
        assert_eq!(document["columns"].as_array().unwrap().len(), header.len());
    }
    // All but the three new columns is what was there.
    let (_, before) = read_csv(&run.join("sav_benchmark_summary.csv"));
    let (_, after) = read_csv(&out);
    assert_eq!(after.iter().map(|row| row[3..].to_vec()).collect::<Vec<_>>(), before);
}

#[test]
fn repeated_torn_and_empty_tables_are_told_of_and_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let good = experiment(dir.path(), "good", "desktop", &[ROW]);
    // One step too high, as after a collect.
    segtrt()
        .arg("merge")
        .arg(dir.path())
        .arg("-o")
        .arg(dir.path().join("x.csv"))
        .assert()
        .code(1)
        .stderr(contains(format!("Merge the folders in it: segtrt merge {}", good.display())));
    let torn = experiment(dir.path(), "torn", "jetson", &[ROW, "sav_9,000,m"]);
    let empty = experiment(dir.path(), "empty", "jetson", &[]);
    let nothing = experiment(dir.path(), "nothing", "jetson", &[]);
    fs::write(nothing.join("profile_outputs/profile_summary.csv"), "").unwrap();
    let out = dir.path().join("final.csv");
    segtrt()
        .arg("merge")
        .args([&empty, &nothing, &good, &torn, &good])
        .arg("-o")
        .arg(&out)
        .assert()
        .success()
        .stdout(contains("Total entries: 4").and(contains("Found 0 entries from jetson")))
        .stderr(contains(
            "1 rows have another number of fields than the header (the first is row \
                          2: 3 instead of 13)",
        ))
        .stderr(contains("1 rows repeat").and(contains(
            "desktop desktop-1 20251130_143022 \
            sav_000001 000",
        )));
    assert_eq!(column(&out, "video"), ["sav_000001", "sav_000001", "sav_9", "sav_000001"]);
    assert_eq!(column(&out, "setup_ms")[2], "");

    let before = fs::read(&out).unwrap();
    let assert = segtrt().arg("merge").args([&empty, &nothing]).arg("-o").arg(&out).assert();
    assert.success().stdout(contains("No data to merge!"));
    assert_eq!(fs::read(&out).unwrap(), before, "no rows, no new file");
}

#[test]
fn a_damaged_table_costs_its_own_rows_and_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let good = experiment(dir.path(), "good", "desktop", &[ROW]);
    let bad = |name: &str, bytes: &[u8]| {
        let folder = experiment(dir.path(), name, "jetson", &[]);
        fs::write(folder.join("profile_outputs/profile_summary.csv"), bytes).unwrap();
        folder
    };
    let zeros = bad("zeros", &[0; 4096]);
    let other = bad("other", b"name,price\nfish,3\n");
    let out = dir.path().join("final.csv");
    let mut command = segtrt();
    command.arg("merge").args([&zeros, &good, &other]).arg("-o").arg(&out).arg("--json");
    let assert = command.assert().code(1);
    let said: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    assert_eq!((&said["rows"], said["left_out"].as_array().unwrap().len()), (&1.into(), 2));
    assert
        .stderr(contains(
            "zeros/profile_outputs/profile_summary.csv is not CSV: its first line \
                          contains zero bytes",
        ))
        .stderr(contains(
            "other/profile_outputs/profile_summary.csv is not a table of results: it \
                          has no column video, model; found name,price",
        ));
    assert_eq!(column(&out, "video"), ["sav_000001"]);
    assert_eq!(read_csv(&out).0.iter().filter(|name| *name == "price").count(), 0);

    let assert = segtrt().arg("merge").arg(&other).arg("-o").arg(dir.path().join("x.csv")).assert();
    assert.code(1).stderr(contains(
        "it has no column video, model; found name,price; repair the file and merge its folder \
             again. Measure first",
    ));
    assert!(!dir.path().join("x.csv").exists());
}

#[test]
fn without_any_table_or_with_one_as_output_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    segtrt()
        .args(["merge", "/no/such/dir", "-o"])
        .arg(dir.path().join("x.csv"))
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains(
            "Error: /no/such/dir does not exist; expected a run folder with profile_summary.csv, \
             or a CSV file. Measure first: segtrt bench --split-dir DIR --out-dir OUT",
        ));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    segtrt().arg("merge").assert().code(2);
    segtrt().args(["merge", "x", "--table", "rows"]).assert().code(2);

    let good = experiment(dir.path(), "good", "desktop", &[ROW]);
    let own = good.join("profile_outputs/profile_summary.csv");
    let before = fs::read(&own).unwrap();
    let assert = segtrt().arg("merge").arg(&good).arg("-o").arg(&own).assert();
    assert.code(2).stderr(contains("is one of the tables to merge"));
    assert_eq!(fs::read(&own).unwrap(), before);
}

#[test]
fn a_table_and_a_platform_can_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let good = experiment(dir.path(), "good", "desktop", &[ROW]);
    let own = good.join("profile_outputs/profile_summary.csv");
    // A run without a word of its machine, as the predecessor's without its script.
    let bare = experiment(dir.path(), "bare", "jetson", &[ROW]);
    fs::remove_file(bare.join("experiment_config.txt")).unwrap();
    let merged = dir.path().join("a=b.csv");
    let out = dir.path().join("final.csv");
    let labelled = format!("Orin 2={}", bare.display());
    segtrt().arg("merge").arg(&own).arg(&labelled).arg("-o").arg(&merged).assert().success();
    assert_eq!(column(&merged, "platform"), ["desktop", "Orin 2"]);
    assert_eq!(column(&merged, "hostname"), ["desktop-1", "unknown"]);
    // A merged table keeps its platforms; a path may hold the sign.
    segtrt().arg("merge").arg(&merged).arg("-o").arg(&out).assert().success();
    assert_eq!(column(&out, "platform"), ["desktop", "Orin 2"]);
    // The user's word goes before the folder's, as in a report, and behind the rows' own.
    let labels = [format!("one={}", own.display()), format!("two={}", merged.display())];
    segtrt().arg("merge").args(&labels).arg("-o").arg(&out).assert().success();
    assert_eq!(column(&out, "platform"), ["one", "desktop", "Orin 2"]);
    // What gives nothing costs the exit code, and nothing else.
    let gone = dir.path().join("gone.csv");
    segtrt()
        .arg("merge")
        .args([&gone, Path::new("/dev/null"), &own])
        .arg("-o")
        .arg(&out)
        .assert()
        .code(1)
        .stdout(contains(format!("Warning: Directory not found: {}", gone.display())))
        .stdout(contains("Warning: Neither a folder nor a file: /dev/null"))
        .stdout(contains("Total entries: 1"));
}

#[test]
fn the_file_is_there_before_the_first_word_and_can_be_printed() {
    let dir = tempfile::tempdir().unwrap();
    let good = experiment(dir.path(), "good", "desktop", &[ROW]);
    let out = dir.path().join("final.csv");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("segtrt"));
    command.arg("merge").arg(&good).arg("-o").arg(&out).stdout(writer);
    assert_eq!(command.output().unwrap().status.code(), Some(141));
    assert_eq!(column(&out, "video"), ["sav_000001"]);

    let whole = fs::read(&out).unwrap();
    let printed = segtrt().arg("merge").arg(&good).args(["-o", "/dev/stdout"]).output().unwrap();
    assert!(printed.stdout == whole, "{}", String::from_utf8_lossy(&printed.stdout));
    assert!(String::from_utf8_lossy(&printed.stderr).contains("Total entries: 1"));
    // Into a file, too, behind what is there.
    let into = dir.path().join("into.csv");
    fs::write(&into, "# before\n").unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("segtrt"));
    command.arg("merge").arg(&good).args(["-o", "/dev/stdout"]);
    command.stdout(fs::File::options().append(true).open(&into).unwrap());
    assert!(command.output().unwrap().status.success());
    assert_eq!(fs::read(&into).unwrap(), [b"# before\n", whole.as_slice()].concat());
}

/// A table from elsewhere is named as whoever made it liked.
#[test]
fn names_command_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let evil = "e\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m";
    let good = experiment(dir.path(), evil, evil, &[ROW, ROW]);
    let out = dir.path().join("final.csv");
    for command in ["merge", "report"] {
        let output = segtrt().arg(command).arg(&good).arg("-o").arg(&out).output().unwrap();
        let said =
            [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
        assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
        assert!(said.contains(r"e\u001b]0;owned\u0007\u001b[2J\u009b31m"), "{said:?}");
    }
}
