//! Several GPUs of one host, on stand-ins for driver and TensorRT: a shard each, one run folder of all.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::contains;
use serde_json::Value;
use vos::bundle::Role;
use vos::precision::Precision;

use crate::profile::FAKE;
use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{column, processes_with, require_onnxruntime, script, segtrt, synth};

const ROLES: [Role; 5] =
    [Role::Encoder, Role::Prompt, Role::MaskPrompt, Role::TrackPadded, Role::Memory];

/// A machine with so many GPUs.
fn machine(fakes: &Fakes, gpus: &str) -> Command {
    let mut command = segtrt();
    command
        .env("LD_LIBRARY_PATH", fakes.dir())
        .env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime())
        .env("FAKE_CUDA_DEVICES", gpus)
        .env("NSYS_CMD", "/nowhere/nsys")
        .env_remove("CUDA_VISIBLE_DEVICES");
    command
}

pub(super) fn folder(parent: &Path) -> PathBuf {
    let mut entries = fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.to_string_lossy().contains("nsight_experiment_")).unwrap()
}

pub(super) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// What names a row, of all rows in order.
pub(super) fn keys(folder: &Path) -> Vec<String> {
    let table = folder.join("profile_summary.csv");
    let columns = ["video", "object", "model", "run"].map(|name| column(&table, name));
    (0..columns[0].len())
        .map(|row| columns.each_ref().map(|column| &*column[row]).join(" "))
        .collect()
}

/// Lets a resumed experiment find another nsys than it found at first.
fn change_nsys(experiment: &Path, nsys: &Path) {
    let file = experiment.join("experiment.json");
    let mut spec = json(&file);
    spec["nsys"] = if nsys.exists() { nsys.to_str().unwrap().into() } else { Value::Null };
    fs::write(file, spec.to_string()).unwrap();
}

#[test]
fn gpus_share_the_clips_and_leave_what_one_would_have_left() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 3, 2, 5);
    let engines = dir.path().join("engines");
    let plans: Vec<(Role, &str)> = ROLES.iter().map(|role| (*role, "ok")).collect();
    Engines::new(&engines).write_live(Precision::Fp32, &plans);
    let experiment = |gpus: &str, out: &str, spread: &[&str]| {
        let mut command = machine(fakes, gpus);
        command.args([
            "experiment",
            "--models",
            "edgetam_mini_points",
            "--runs",
            "2",
            "--warmup",
            "0",
        ]);
        command.arg("--split-dir").arg(&split).arg("--engines").arg(&engines);
        command.arg("--out-dir").arg(dir.path().join(out)).args(spread);
        command.args(["--", "--save-masks", "--tensorrt-lib"]).arg(fakes.dir());
        command
    };
    experiment("1", "one", &[]).assert().success();
    let one = folder(&dir.path().join("one")).join("profile_outputs");
    experiment("2", "two", &["--devices", "0,1"])
        .assert()
        .success()
        .stderr(contains("2 GPUs measure at the same time"))
        .stderr(contains("shard 2/2 on GPU 1 (NVIDIA H200): ended well"))
        .stderr(contains("merged 6 rows of 2 shards"));
    let two = folder(&dir.path().join("two"));
    let merged = two.join("profile_outputs");
    assert_eq!(keys(&merged), keys(&one));
    assert_eq!(keys(&merged).len(), 12);
    for table in ["profile_summary.csv", "sav_benchmark_summary.csv"] {
        let header = |folder: &Path| {
            fs::read_to_string(folder.join(table)).unwrap().lines().next().unwrap().to_owned()
        };
        assert_eq!(header(&merged), header(&one));
        assert_eq!(column(&merged.join(table), "J"), column(&one.join(table), "J"));
    }
    let masks = |folder: &Path| {
        let entries =
            fs::read_dir(folder.join("masks")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = entries.collect();
        files.sort();
        files.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    assert!(masks(&merged) == masks(&one) && masks(&one).len() == 6);

    // Each saw a GPU of its own, and the settings tell that another one was busy.
    let sidecar = json(&merged.join("sidecar.json"));
    assert_eq!(sidecar["passes"].as_array().unwrap().len(), 12);
    let settings = &sidecar["configuration"];
    assert_eq!(
        (&settings["shards"], &settings["other_devices_at_the_same_time"]),
        (&2.into(), &1.into())
    );
    assert_eq!(settings["videos"], json(&one.join("sidecar.json"))["configuration"]["videos"]);
    assert_eq!(settings["shard"], Value::Null);
    let shards = sidecar["environment"]["shards"].as_array().unwrap();
    let visible: Vec<&Value> =
        shards.iter().map(|shard| &shard["environment"]["cuda_visible_devices"]).collect();
    assert_eq!(visible, ["0", "1"]);
    assert_eq!(sidecar["environment"]["cuda_visible_devices"], Value::Null);

    // Reports are of the merged rows, taken on the first GPU alone; they survive a later merge.
    let nsys = script(&dir.path().join("bin/nsys"), FAKE);
    let profile = || {
        let mut command = machine(fakes, "2");
        command.env("NSYS_CMD", &nsys).env("FAKE_NSYS_LOG", dir.path().join("log"));
        command.args(["experiment", "--resume"]).arg(&two);
        command
    };
    let reports = || column(&merged.join("profile_summary.csv"), "nsight_report");
    assert_eq!(reports(), [""; 12]);
    change_nsys(&two, &nsys);
    profile().assert().success().stderr(contains("profiled passes: ended well"));
    assert!(reports().iter().all(|path| Path::new(path).is_file()), "{:?}", reports());
    profile().assert().success().stderr(contains("its report is there already"));
    change_nsys(&two, Path::new("/nowhere/nsys"));

    // A part is lost: only that is measured again, and the rest keeps its numbers.
    let rows = |folder: &Path| fs::read_to_string(folder.join("profile_summary.csv")).unwrap();
    let before = rows(&merged);
    let resume = || {
        let mut command = machine(fakes, "2");
        command.args(["experiment", "--resume"]).arg(&two);
        command
    };
    resume().assert().success();
    assert_eq!(rows(&merged), before, "what was there was measured again");
    let lost = two.join("shards/2-of-2");
    fs::remove_dir_all(&lost).unwrap();
    fs::write(&lost, "in the way").unwrap();
    resume().assert().code(1).stderr(contains("rows of shard 2 are missing"));
    assert_eq!(rows(&merged), before, "rows of a shard that failed were lost");
    fs::remove_file(&lost).unwrap();
    resume().assert().success();
    assert_eq!(keys(&merged), keys(&one));
    let same = rows(&merged).lines().filter(|line| before.contains(line)).count();
    assert!((2..13).contains(&same), "{same} lines are as they were");
}

#[test]
fn a_login_node_without_a_gpu_plans_for_nodes_that_have_one() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 4);
    let engines = dir.path().join("engines");
    let plans: Vec<(Role, &str)> = ROLES.iter().map(|role| (*role, "ok")).collect();
    Engines::new(&engines).write_live(Precision::Fp32, &plans);
    let plan = |platform: &[&str]| {
        let mut command = machine(fakes, "0");
        command.args(["experiment", "--models", "edgetam_mini_points", "--backend", "tensorrt"]);
        command.args(["--runs", "1", "--slurm", "--dry-run", "--shards", "1"]);
        command.arg("--split-dir").arg(&split).arg("--engines").arg(&engines);
        command.arg("--out-dir").arg(dir.path().join("out"));
        command.args(["--", "--tensorrt-lib"]).arg(fakes.dir()).args(platform);
        command
    };
    plan(&[]).assert().code(1).stderr(contains("no GPU can be used"));
    plan(&["--platform", "orin"]).assert().failure();
    plan(&["--platform", "h200"]).assert().success();
    let planned = folder(&dir.path().join("out"));
    let bench = json(&planned.join("experiment.json"))["bench"].to_string();
    assert!(bench.contains("h200") && !bench.contains("elsewhere"), "{bench}");
    // A node's task, as the script calls it.
    let task = |gpus: &str| {
        let mut command = machine(fakes, gpus);
        command.args(["experiment", "--shard", "1/1", "--resume"]).arg(&planned);
        command
    };
    task("0").assert().code(1).stderr(contains("no GPU can be used"));
    task("1").assert().success();
    let rows = planned.join("shards/1-of-1/profile_summary.csv");
    assert_eq!(column(&rows, "device"), ["NVIDIA H200"]);
}

/// An experiment on two GPUs, signalled once both shards are at work -> its exit code, what it
/// told, the shards' processes; none where there are no stand-ins.
#[cfg(target_os = "linux")]
fn signalled(signal: &str) -> Option<(Option<i32>, String, impl Fn() -> Vec<String>)> {
    let fakes = shared()?;
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 2, 1, 40);
    let engines = dir.path().join("engines");
    let plans: Vec<(Role, &str)> = ROLES.iter().map(|role| (*role, "ok")).collect();
    Engines::new(&engines).write_live(Precision::Fp32, &plans);
    let mut running = std::process::Command::new(env!("CARGO_BIN_EXE_segtrt"));
    for (name, value) in machine(fakes, "2").get_envs() {
        match value {
            Some(value) => running.env(name, value),
            None => running.env_remove(name),
        };
    }
    running.args([
        "experiment",
        "--models",
        "edgetam_mini_points",
        "--runs",
        "500",
        "--warmup",
        "0",
    ]);
    running.args(["--devices", "0,1", "--split-dir"]).arg(&split).arg("--engines").arg(&engines);
    running
        .arg("--out-dir")
        .arg(dir.path().join("out"))
        .args(["--", "--tensorrt-lib"])
        .arg(fakes.dir());
    let told = dir.path().join("told");
    running.stdout(std::process::Stdio::null()).stderr(fs::File::create(&told).unwrap());
    let mut running = running.spawn().unwrap();
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let out = dir.path().join("out");
    // The parent is not among them: it names the folder above only.
    while fs::read_dir(&out).map_or(0, Iterator::count) == 0
        || processes_with(&folder_of_shards(&out)).len() < 2
    {
        let told = fs::read_to_string(&told).unwrap();
        assert!(std::time::Instant::now() < patience, "{told}");
        assert!(running.try_wait().unwrap().is_none(), "{told}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let id = running.id().to_string();
    assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
    let code = running.wait().unwrap().code();
    let (told, shards) = (fs::read_to_string(&told).unwrap(), folder_of_shards(&out));
    Some((code, told, move || {
        let _kept = &dir;
        processes_with(&shards)
    }))
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_stops_the_experiment_stops_all_gpus() {
    let Some((code, told, shards)) = signalled("-TERM") else { return };
    assert_eq!(code, Some(130));
    assert!(told.contains("stopping all shards"), "{told}");
    assert_eq!(shards(), [""; 0]);
}

/// Killed where it cannot say goodbye, it leaves no GPU measuring on.
#[cfg(target_os = "linux")]
#[test]
fn an_experiment_that_is_killed_takes_its_shards_along() {
    let Some((code, _, shards)) = signalled("-KILL") else { return };
    assert_eq!(code, None);
    let begin = std::time::Instant::now();
    while !shards().is_empty() {
        assert!(begin.elapsed().as_secs() < 20, "{:?}", shards());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Part of what only the shards' own command lines hold.
#[cfg(target_os = "linux")]
fn folder_of_shards(out: &Path) -> PathBuf {
    folder(out).join("shards")
}

#[test]
fn gpus_that_are_not_there_are_refused_before_anything_is_made() {
    let Some(fakes) = shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 3);
    let refused = |gpus: &str, words: &[&str], why: &str| {
        let mut command = machine(fakes, gpus);
        command.args(["experiment", "--models", "edgetam_mini_points", "--split-dir"]).arg(&split);
        command.arg("--out-dir").arg(&split);
        command.args(words).assert().code(2).stderr(contains(why));
        assert!(!fs::read_dir(&split).unwrap().any(|entry| {
            entry.unwrap().file_name().to_string_lossy().starts_with("nsight_experiment_")
        }));
    };
    refused("2", &["--devices", "0,4"], "there is no GPU 4: the CUDA driver shows 2");
    refused("2", &["--devices", "1,1"], "names GPU 1 twice");
    refused("0", &["--devices", "0,1"], "--devices 0,1: no GPU can be used");
    refused("2", &["--devices", "0,x"], "invalid value");
    refused("2", &["--devices", "0,1", "--device", "1"], "cannot be used with");
    refused("2", &["--devices", "0,1", "--backend", "cpu"], "would run on the CPU");
    refused("2", &["--devices", "0,1", "--shuffle-videos"], "needs a --seed");
    refused("2", &["--shard", "3/2"], "no part 3 of 2");
    let mut command = segtrt();
    command.args([
        "experiment",
        "--devices",
        "0,1",
        "--models",
        "edgetam_mini_points",
        "--split-dir",
    ]);
    command.arg(&split);
    if !Path::new("/dev/nvidiactl").exists() {
        command.assert().code(2).stderr(contains("--devices 0,1: no GPU can be used"));
    }
}
