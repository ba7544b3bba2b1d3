//! `segtrt profile`.

mod gpu;

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::contains;

use crate::support::{bench, column, nsys, require_onnxruntime, script, segtrt, synth};

const PROFILE: &str = "profile_summary.csv";

/// An nsys that runs what it is given and writes a file where it should; FAKE_NSYS makes it fail:
/// `dies` before the program does anything, `deaf` loses what the program says, `mute` writes no
/// report, `late` fails after it; `lame` has an importer that cannot run, `full` one that finds no
/// space (the words are those of nsys 2023.4.4). Its export of any report is FAKE_EXPORT.
pub const FAKE: &str = r#"
case "$1" in
    --version) echo 'NVIDIA Nsight Systems version 2099.1.1.1-0v0'; exit 0 ;;
    profile) ;;
    export) cp "$FAKE_EXPORT" "$9"; exit $? ;;
    *) exit 9 ;;
esac
shift
if [ "$1" = --help ]; then echo ' --cuda-graph-trace= --cpuctxsw='; exit 0; fi
echo "$*" >>"$FAKE_NSYS_LOG"
while :; do
    case "$1" in
        --output=*) out=${1#--output=} ;;
        -*) ;;
        *) break ;;
    esac
    shift
done
out=$(echo "$out" | sed -e 's/%p/4711/g' -e 's/%%/%/g')
echo 'Generating the report'
[ "$FAKE_NSYS" = dies ] && { echo 'no counters here' >&2; echo half >"$out"; exit 139; }
if [ "$FAKE_NSYS" = deaf ]; then "$@" >/dev/null; else "$@"; fi
if [ "$FAKE_NSYS" = lame ]; then
    left=${out%.nsys-rep}.qdstrm
    echo recorded >"$left"
    echo 'Importer error status: An unknown error occurred.' >&2
    echo 'Unable to retrieve the importer version: skipping importation of the QDSTRM file.' >&2
    printf 'Generated:\n    %s\n' "$left"
    exit 0
fi
if [ "$FAKE_NSYS" = full ]; then
    left=$(dirname "$FAKE_NSYS_LOG")/nsys-report-8708.qdstrm
    echo recorded >"$left"
    echo 'Importer error status: Importation failed.' >&2
    echo "Failed to create '${out%.nsys-rep}.qdstrm': No space left on device." >&2
    printf 'Generated:\n    %s\n' "$left"
    exit 0
fi
[ "$FAKE_NSYS" = mute ] || echo report >"$out"
[ "$FAKE_NSYS" = late ] && exit 1
exit 0
"#;

/// A split, a made-up nsys and a place for results.
struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    nsys: PathBuf,
}

impl Setting {
    fn new(objects: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, objects, 5);
        let nsys = script(&dir.path().join("bin/nsys"), FAKE);
        Self { dir, split, nsys }
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn reports(&self) -> PathBuf {
        self.out().join("nsight_reports")
    }

    fn flags(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// `segtrt profile FLAGS -- bench … MORE`.
    fn profile(&self, fake: &str, flags: &[&str], more: &[&str]) -> Command {
        require_onnxruntime();
        let mut command = segtrt();
        for name in
            ["NSYS_TRACE", "NSYS_SAMPLE", "NSYS_BACKTRACE", "NSYS_OUTPUT_DIR", "NSYS_OUTPUT_NAME"]
        {
            command.env_remove(name);
        }
        command.env("NSYS_CMD", &self.nsys).env("FAKE_NSYS", fake);
        command.env("FAKE_NSYS_LOG", self.dir.path().join("log"));
        command.arg("profile").args(flags).args(["--", "bench", "--models", "edgetam_mini_points"]);
        command.args(["--warmup-runs", "0", "--threads", "1", "--split_dir"]).arg(&self.split);
        command.arg("--out-dir").arg(self.out()).args(more);
        command
    }
}

fn name(object: &str, run: usize) -> String {
    format!("synth_000_obj{object}_edgetam_mini_points_run{run}.nsys-rep")
}

/// The value of every row in some columns.
fn columns(path: &Path, names: &[&str]) -> Vec<Vec<String>> {
    names.iter().map(|name| column(path, name)).collect()
}

#[test]
fn json_is_one_document_of_the_bench_and_its_reports() {
    let setting = Setting::new(1);
    let output = setting.profile("", &["--json", "--gpu-metrics", "0"], &[]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let report = setting.reports().join(name("000", 0)).display().to_string();
    assert_eq!(document["reports"][0]["report"], report);
    assert_eq!(document["bench"]["models"][0]["model"], "edgetam_mini_points");
    assert!(setting.flags().contains("--gpu-metrics-device=0"), "{}", setting.flags());
    let failed = setting.profile("mute", &["--json"], &[]).output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    let document: serde_json::Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert!(
        document["reports"][0]["error"].is_string() && document["reports"][0]["report"].is_null()
    );
}

#[test]
fn every_pass_has_a_report_exactly_where_its_row_says() {
    let setting = Setting::new(2);
    setting
        .profile("", &[], &["--profile-runs", "2"])
        .assert()
        .success()
        .stdout(contains("4 of 4 reports in"))
        .stderr(contains("nsys 2099.1.1.1-0v0"))
        .stderr(contains("[4/4] edgetam_mini_points synth_000 001 run 1:"));
    let rows = setting.out().join(PROFILE);
    let expected: Vec<String> = [("000", 0), ("000", 1), ("001", 0), ("001", 1)]
        .iter()
        .map(|(object, run)| setting.reports().join(name(object, *run)).display().to_string())
        .collect();
    assert_eq!(column(&rows, "nsight_report"), expected);
    assert!(expected.iter().all(|report| Path::new(report).is_file()));
    assert_eq!(fs::read_dir(setting.reports()).unwrap().count(), 4);

    let flags = setting.flags();
    let lines: Vec<&str> = flags.lines().collect();
    assert_eq!(lines.len(), 4, "one nsys a pass: {flags}");
    for flag in [
        "--trace=cuda,cudnn,cublas,nvtx,osrt",
        "--sample=none",
        "--backtrace=none",
        "--force-overwrite=true",
        "--cuda-memory-usage=true",
        "--cuda-graph-trace=node",
        "--cpuctxsw=none",
        " bench-worker",
    ] {
        assert!(lines.iter().all(|line| line.contains(flag)), "{flag} in {flags}");
    }
    assert!(!flags.contains("--export"), "{flags}");
}

#[test]
fn rows_are_of_the_unprofiled_run_and_stay_as_they_were() {
    let setting = Setting::new(2);
    bench(&setting.split, &setting.out()).assert().success();
    let rows = setting.out().join(PROFILE);
    let timed = ["video", "object", "fps", "latency_ms", "setup_ms", "latency_p50_ms"];
    let before = columns(&rows, &timed);
    assert!(column(&rows, "nsight_report").iter().all(String::is_empty));
    setting
        .profile("", &["--no-timed-run", "--trace", "nvtx", "--export-sqlite"], &[])
        .assert()
        .success()
        .stderr(contains("fps under nsys"));
    assert_eq!(columns(&rows, &timed), before, "a profiled pass got into the rows");
    assert!(column(&rows, "nsight_report").iter().all(|report| Path::new(report).is_file()));
    let flags = setting.flags();
    assert!(flags.contains("--trace=nvtx ") && flags.contains("--export=sqlite"), "{flags}");
    assert!(!flags.contains("--cuda-memory-usage"), "{flags}");

    // A resumed bench has the names still; a resumed profile records nothing again.
    bench(&setting.split, &setting.out()).arg("--resume").assert().success();
    assert!(column(&rows, "nsight_report").iter().all(|report| Path::new(report).is_file()));
    let recorded = setting.flags().lines().count();
    setting
        .profile("", &[], &["--resume"])
        .assert()
        .success()
        .stderr(contains("its report is there already").count(2));
    assert_eq!(setting.flags().lines().count(), recorded);
    assert_eq!(columns(&rows, &timed), before);
}

#[test]
fn without_rows_reports_are_recorded_and_no_row_is_made_up() {
    let setting = Setting::new(1);
    setting.profile("", &["--no-timed-run"], &[]).assert().success();
    assert!(setting.reports().join(name("000", 0)).is_file());
    assert!(!setting.out().join(PROFILE).exists());
}

#[test]
fn a_program_that_fails_under_nsys_is_no_success_and_leaves_no_report() {
    for (fake, said) in [
        ("dies", "the profiled program without a result"),
        ("deaf", "ended without a result, but nsys 2099.1.1.1-0v0 reported success"),
        ("mute", "wrote no"),
        ("late", "after the pass"),
    ] {
        let setting = Setting::new(1);
        setting
            .profile(fake, &[], &[])
            .assert()
            .code(1)
            .stdout(contains("0 of 1 reports"))
            .stderr(contains("run 0: FAILED:"))
            .stderr(contains(said));
        let rows = setting.out().join(PROFILE);
        assert_eq!(column(&rows, "nsight_report"), [""], "{fake}");
        assert_eq!(column(&rows, "status"), ["ok"], "{fake}: the timed run is kept");
        assert!(!setting.reports().join(name("000", 0)).exists(), "{fake}");
        let aside =
            setting.reports().join("synth_000_obj000_edgetam_mini_points_run0.failed.nsys-rep");
        assert_eq!(aside.exists(), fake != "mute", "{fake}");
    }
}

#[test]
fn an_importer_that_cannot_run_ends_the_profiling_at_the_first_object() {
    let setting = Setting::new(3);
    let importer = setting.dir.path().join("host-linux-x64/QdstrmImporter");
    fs::create_dir(importer.parent().unwrap()).unwrap();
    fs::write(&importer, "").unwrap();
    let importer = importer.canonicalize().unwrap();
    let recording = setting.reports().join(name("000", 0)).with_extension("qdstrm");
    let said = setting.profile("lame", &["--json"], &[]).output().unwrap();
    let err = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(1), "{err}");
    for part in [
        "[1/3] edgetam_mini_points synth_000 000 run 0: FAILED: nsys 2099.1.1.1-0v0 cannot make \
         reports here",
        "Unable to retrieve the importer version: skipping importation of the QDSTRM file.",
        &format!("ldd {} | grep 'not found'", importer.display()),
        &format!("{} -i {}", importer.display(), recording.display()),
        "2 more were not recorded",
    ] {
        assert!(err.contains(part), "no {part:?} in {err}");
    }
    assert_eq!(setting.flags().lines().count(), 1, "one try: {}", setting.flags());
    let document: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let reports = document["reports"].as_array().unwrap();
    assert_eq!(reports.len(), 3, "each object is told of: {document}");
    for (at, report) in reports.iter().enumerate() {
        let error = report["error"].as_str().unwrap();
        assert_eq!(error.starts_with("not recorded: nsys 2099"), at > 0, "{error}");
        assert!(report["report"].is_null() && error.contains("cannot make reports"), "{error}");
    }
    let rows = setting.out().join(PROFILE);
    assert_eq!(column(&rows, "status"), ["ok"; 3], "the timed rows are kept");
    assert_eq!(column(&rows, "nsight_report"), [""; 3]);

    // With reports that were made before, and one that is gone: those stay named.
    setting.profile("", &[], &["--resume"]).assert().success();
    fs::remove_file(setting.reports().join(name("000", 0))).unwrap();
    setting
        .profile("lame", &[], &["--resume"])
        .assert()
        .code(1)
        .stdout(contains("2 of 3 reports"))
        .stderr(contains("its report is there already").count(2));
    let named: Vec<bool> = column(&rows, "nsight_report").iter().map(String::is_empty).collect();
    assert_eq!(named, [true, false, false]);
}

#[test]
fn an_importer_that_fails_on_one_recording_is_tried_with_the_next() {
    let setting = Setting::new(2);
    setting
        .profile("full", &[], &[])
        .assert()
        .code(1)
        .stdout(contains("0 of 2 reports"))
        .stderr(contains("No space left on device").count(2))
        .stderr(contains("nsys-report-8708.qdstrm"));
    assert_eq!(setting.flags().lines().count(), 2);
}

#[test]
fn an_object_that_cannot_be_measured_is_not_profiled_and_the_others_are() {
    let setting = Setting::new(2);
    for mask in
        fs::read_dir(setting.split.join("Annotations_6fps/synth_000/000")).unwrap().flatten()
    {
        fs::write(mask.path(), "no picture").unwrap();
    }
    setting
        .profile("", &[], &[])
        .assert()
        .code(1)
        .stderr(contains("not profiled: 1 row without numbers"))
        .stdout(contains("1 of 1 reports"));
    let reports = column(&setting.out().join(PROFILE), "nsight_report");
    assert!(reports[0].is_empty() && reports[1].ends_with(&name("001", 0)), "{reports:?}");
}

#[test]
fn folder_and_name_of_the_reports_can_be_chosen_as_before() {
    let setting = Setting::new(1);
    let elsewhere = setting.dir.path().join("100% mine");
    setting
        .profile("", &[], &[])
        .env("NSYS_OUTPUT_DIR", &elsewhere)
        .env("NSYS_OUTPUT_NAME", "sam_profile_%p")
        .env("NSYS_TRACE", "nvtx")
        .assert()
        .success();
    let expected = elsewhere.join(format!("sam_profile_4711_{}", name("000", 0)));
    assert!(expected.is_file());
    let named = column(&setting.out().join(PROFILE), "nsight_report");
    assert_eq!(named, [expected.display().to_string()]);
    assert!(setting.flags().contains("--trace=nvtx "));
}

#[test]
fn without_nsys_nothing_is_timed_and_it_says_what_to_install() {
    let setting = Setting::new(1);
    setting
        .profile("", &[], &[])
        .env_remove("NSYS_CMD")
        .env("PATH", setting.dir.path())
        .assert()
        .code(1)
        .stderr(contains("Nsight Systems (nsys) was not found"))
        .stderr(contains("apt install nsight-systems-cli"));
    assert!(!setting.out().exists());
    segtrt()
        .args(["profile", "--", "synth", "--out", "x"])
        .assert()
        .code(2)
        .stderr(contains("only a bench"));
    segtrt()
        .args(["profile", "--", "bench", "--no-such-flag"])
        .assert()
        .code(2)
        .stderr(contains("--no-such-flag"));
    segtrt().arg("profile").assert().code(2);
}

#[test]
fn a_real_nsys_records_each_pass_of_each_object() {
    let Some(real) = nsys() else { return };
    let setting = Setting::new(2);
    setting
        .profile("", &["--trace", "nvtx", "--export-sqlite"], &[])
        .env("NSYS_CMD", real)
        .assert()
        .success();
    let reports = column(&setting.out().join(PROFILE), "nsight_report");
    assert_eq!(reports.len(), 2);
    for report in &reports {
        assert!(Path::new(report).is_file(), "{report}");
        let trace = report::nsys::read(&Path::new(report).with_extension("sqlite")).unwrap();
        let count =
            |name: &str| trace.ranges.iter().filter(|range| trace.text(range.name) == name).count();
        // This object alone, this pass alone.
        assert_eq!([count("segtrt:pipeline"), count("segtrt:prompt")], [5, 1], "{report}");
    }
    segtrt()
        .arg("nsys")
        .arg(setting.reports())
        .assert()
        .success()
        .stdout(contains("fastest configuration on the CPU: synth_000_obj00"));
}

#[test]
fn a_profiled_pass_leaves_nothing_but_its_report() {
    let setting = Setting::new(1);
    let saving = ["--save-masks", "--save-logits"];
    setting.profile("", &["--no-timed-run"], &saving).assert().success();
    let left = fs::read_dir(setting.out()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["nsight_reports"]);
}
