//! Experiments on Slurm, with stand-ins for sbatch and squeue: submitted, lost tasks run again,
//! waiters that come and go.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;
use serde_json::Value;

use super::devices::{folder, json, keys};
use crate::support::{require_onnxruntime, script, segtrt, synth};

/// Puts the tasks into the queue, which is a file: job, task, script.
const SBATCH: &str = r#"
echo "$*" >> "$FAKE_SLURM/submitted"
for word; do
    case $word in --array=*) array=${word#--array=} ;; esac
    script=$word
done
[ -e "$FAKE_SLURM/refuse" ] && { echo "sbatch: error: invalid partition specified: p" >&2; exit 1; }
job=$(($(cat "$FAKE_SLURM/next" 2>/dev/null || echo 40) + 1))
echo $job > "$FAKE_SLURM/next"
for part in $(echo $array | tr , ' '); do
    for task in $(seq ${part%-*} ${part#*-}); do echo "$job $task $script" >> "$FAKE_SLURM/queue"; done
done
echo "$job;cluster"
"#;

/// Shows the queue, then runs the first task of it; one that is to be killed leaves nothing.
const SQUEUE: &str = r#"
if [ ! -s "$FAKE_SLURM/queue" ]; then
    echo "slurm_load_jobs error: Invalid job id specified" >&2
    exit 1
fi
while read job task script; do echo "${job}_$task|PENDING|Resources"; done < "$FAKE_SLURM/queue"
[ -e "$FAKE_SLURM/hold" ] && exit 0
read job task script < "$FAKE_SLURM/queue"
sed 1d "$FAKE_SLURM/queue" > "$FAKE_SLURM/rest"
mv "$FAKE_SLURM/rest" "$FAKE_SLURM/queue"
if [ -e "$FAKE_SLURM/kill_$task" ]; then rm "$FAKE_SLURM/kill_$task"; exit 0; fi
export SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$task SLURM_JOB_ID=$job SLURMD_NODENAME=node$task
sh "$script" > "${script%/*}/${job}_$task.log" 2>&1
exit 0
"#;

struct Cluster {
    dir: tempfile::TempDir,
    split: PathBuf,
}

impl Cluster {
    fn new(videos: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), videos, 1, 4);
        let cluster = Self { dir, split };
        script(&cluster.path("bin/sbatch"), SBATCH);
        script(&cluster.path("bin/squeue"), SQUEUE);
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn segtrt(&self) -> Command {
        require_onnxruntime();
        let mut command = segtrt();
        let path = std::env::var_os("PATH").unwrap();
        let folders = std::iter::once(self.path("bin")).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).unwrap());
        command.env("FAKE_SLURM", self.dir.path()).env("NSYS_CMD", "/nowhere/nsys");
        command
    }

    /// An experiment below the folder `out`.
    fn experiment(&self, out: &str, spread: &[&str]) -> Command {
        let mut command = self.segtrt();
        command.args(["experiment", "--models", "edgetam_mini_points", "--backend", "cpu"]);
        command.args(["--videos", "0", "--runs", "2", "--warmup", "0", "--poll-ms", "20"]);
        command.arg("--split-dir").arg(&self.split).arg("--out-dir").arg(self.path(out));
        command.args(spread).args(["--", "--threads", "1"]);
        command
    }

    fn resume(&self, folder: &Path) -> Command {
        let mut command = self.segtrt();
        command.args(["experiment", "--poll-ms", "20", "--resume"]).arg(folder);
        command
    }

    /// What sbatch was called with.
    fn submitted(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("submitted")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_task_that_is_killed_is_run_again_and_all_are_merged() {
    let cluster = Cluster::new(3);
    cluster.experiment("one", &[]).assert().success();
    let one = folder(&cluster.path("one")).join("profile_outputs");
    fs::write(cluster.path("kill_2"), "").unwrap();
    let words = ["--slurm", "--partition", "p", "--slurm-args", "--gres=gpu:1 --comment='a b'"];
    cluster
        .experiment("all", &words)
        .assert()
        .success()
        .stderr(contains("submitted: job 41, shards 1-3 of 3"))
        .stderr(contains("task 41_2 ended without a word"))
        .stderr(contains("submitted again: job 42, shards 2 of 3"))
        .stderr(contains("merged 3 rows of 3 shards"));
    let all = folder(&cluster.path("all"));
    assert_eq!(keys(&all.join("profile_outputs")), keys(&one));
    assert_eq!(keys(&one).len(), 6);
    let submitted = cluster.submitted();
    let [first, second] = submitted.as_slice() else { panic!("{submitted:?}") };
    assert!(
        first.contains("--gres=gpu:1 --comment=a b --partition=p --parsable --array=1-3 "),
        "{first}"
    );
    assert!(second.contains(" --array=2 "), "{second}");
    let sidecar = json(&all.join("profile_outputs/sidecar.json"));
    let nodes: Vec<_> = sidecar["environment"]["shards"].as_array().unwrap().iter().collect();
    assert_eq!(nodes[1]["environment"]["slurm_node"], "node2");
    assert_eq!(sidecar["configuration"]["shards"], 3);
    // All is done: nothing is submitted.
    cluster.resume(&all).assert().success();
    assert_eq!(cluster.submitted().len(), 2);
}

#[test]
fn a_task_that_is_given_up_costs_its_shard_until_somebody_goes_on() {
    let cluster = Cluster::new(2);
    fs::write(cluster.path("refuse"), "").unwrap();
    cluster
        .experiment("refused", &["--slurm"])
        .assert()
        .code(1)
        .stderr(contains("sbatch refused the job: sbatch: error: invalid partition specified: p"));
    fs::remove_file(cluster.path("refuse")).unwrap();
    fs::write(cluster.path("kill_1"), "").unwrap();
    cluster
        .experiment("all", &["--slurm", "--shards", "2", "--retries", "0"])
        .assert()
        .code(1)
        .stderr(contains("rows of shard 1 are missing"))
        .stderr(contains("shard 1 is given up"));
    let all = folder(&cluster.path("all"));
    assert_eq!(keys(&all.join("profile_outputs")).len(), 2);
    cluster.resume(&all).args(["--shard", "3/3"]).assert().code(2).stderr(contains("has 2 shards"));
    cluster.resume(&all).assert().success().stderr(contains("shards 1 of 2"));
    assert_eq!(keys(&all.join("profile_outputs")).len(), 4);

    // A journal that is damaged afterwards costs its shard; with its folder gone the shard is measured again.
    let shard = all.join("shards/2-of-2");
    let journal = shard.join("rows.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("\"summary\"", "\"sum", 1)).unwrap();
    let merged = all.join("profile_outputs/rows.jsonl");
    let text = fs::read_to_string(&merged).unwrap();
    fs::write(&merged, text.replacen("\"summary\"", "\"sum", 1)).unwrap();
    cluster
        .resume(&all)
        .assert()
        .code(1)
        .stderr(contains("profile_outputs/rows.jsonl: line 2 is damaged"))
        .stderr(contains("it is set aside as").and(contains("rows.previous.jsonl")))
        .stderr(contains("merged 1 rows of 1 shards"))
        .stderr(
            contains("error: shard 2 is left out: ").and(contains("2-of-2/rows.jsonl: line 2")),
        );
    fs::remove_dir_all(&shard).unwrap();
    cluster.resume(&all).assert().success().stderr(contains("merged 2 rows of 2 shards"));
}

#[test]
fn whoever_goes_on_picks_up_the_job_that_is_at_work() {
    let cluster = Cluster::new(2);
    cluster
        .experiment("all", &["--slurm", "--no-wait"])
        .assert()
        .success()
        .stderr(contains("wait and merge with: segtrt experiment --resume"));
    let all = folder(&cluster.path("all"));
    assert!(!all.join("profile_outputs/profile_summary.csv").exists());
    // A waiter that is stopped leaves the job alone.
    fs::write(cluster.path("hold"), "").unwrap();
    let told = cluster.resume(&all).args(["--no-wait", "--json"]).assert().success();
    let told: Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    assert_eq!((&told["job"], &told["submitted"]), (&"41".into(), &true.into()));
    assert_eq!((&told["array"], &told["array_size"]), (&"1-2".into(), &2.into()));
    let mut waiting = std::process::Command::new(env!("CARGO_BIN_EXE_segtrt"));
    waiting.args(["experiment", "--poll-ms", "20", "--resume"]).arg(&all);
    let told = cluster.path("told");
    waiting.stdout(Stdio::null()).stderr(fs::File::create(&told).unwrap());
    for (name, value) in
        cluster.segtrt().get_envs().filter_map(|(name, value)| Some((name, value?)))
    {
        waiting.env(name, value);
    }
    let mut waiting = waiting.spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while !fs::read_to_string(&told).unwrap().contains("0 of 2 tasks done, 2 pending (Resources)") {
        assert!(Instant::now() < patience, "{}", fs::read_to_string(&told).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = waiting.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    let told = fs::read_to_string(&told).unwrap();
    assert!(told.contains("going on with job 41") && told.contains("scancel 41"), "{told}");
    fs::remove_file(cluster.path("hold")).unwrap();
    cluster.resume(&all).assert().success().stderr(contains("going on with job 41"));
    assert_eq!(keys(&all.join("profile_outputs")).len(), 4);
    assert_eq!(cluster.submitted().len(), 1, "it was submitted twice");
}

#[test]
fn what_slurm_cannot_be_asked_for_is_said_before_anything_is_made() {
    let cluster = Cluster::new(1);
    let nothing = cluster.path("nothing");
    fs::create_dir_all(&nothing).unwrap();
    let mut command = cluster.experiment("out", &["--slurm"]);
    command.env("PATH", &nothing).assert().code(1).stderr(contains("apt-get install slurm-client"));
    for (words, why) in [
        (&["--slurm", "--devices", "0"][..], "cannot be used with"),
        (&["--slurm", "--shard", "1/2"], "cannot be used with"),
        (&["--shards", "2"], "--slurm"),
        (&["--slurm", "--shards", "0"], "invalid value"),
        (&["--slurm", "--slurm-args", "--array=1-9"], "--array=1-9 is set by segtrt experiment"),
        (&["--slurm", "--slurm-args", "--comment='a"], "a quotation mark is not closed"),
        (&["--slurm", "--shuffle-videos"], "needs a --seed"),
        (&["--dry-run"], "--dry-run is for experiments with --slurm"),
        (&["--no-wait"], "--no-wait is for experiments with --slurm"),
        (&["--slurm", "--backend", "auto"], "cannot be seen from here"),
    ] {
        cluster.experiment("out", words).assert().code(2).stderr(contains(why));
    }
    assert!(!cluster.path("out").exists());
    assert!(cluster.submitted().is_empty());
    // The script can be looked at without Slurm.
    let mut command = cluster.experiment("dry", &["--slurm", "--dry-run", "--shards", "5"]);
    let line = contains("sbatch ").and(contains("--array=1-5"));
    command.env("PATH", &nothing).assert().success().stdout(line);
    let odd = ["--slurm", "--dry-run", "--shards", "5"];
    let mut command = cluster.experiment("a $(touch pasted)", &odd);
    // Ready to be typed, whatever the folder is called.
    let line =
        contains(format!("experiment --resume '{}/", cluster.path("a $(touch pasted)").display()));
    command.env("PATH", &nothing).assert().success().stderr(line);
    let dry = folder(&cluster.path("dry"));
    let mut command = cluster.resume(&dry);
    let told = command.env("PATH", &nothing).args(["--dry-run", "--json"]).assert().success();
    let told: Value = serde_json::from_slice(&told.get_output().stdout).unwrap();
    assert_eq!((&told["array"], &told["array_size"]), (&"1-5".into(), &5.into()));
    assert_eq!((&told["submitted"], &told["job"]), (&false.into(), &Value::Null));
    assert_eq!(told["script"], dry.join("slurm/job.sh").to_str().unwrap());
    let line = told["command"].as_str().unwrap();
    assert!(line.starts_with("sbatch ") && line.contains("--array=1-5"), "{line}");
    let text = fs::read_to_string(dry.join("slurm/job.sh")).unwrap();
    assert!(text.contains("--shard \"$SLURM_ARRAY_TASK_ID/5\""), "{text}");
    // More shards than clips: the empty ones say so, and cost nothing.
    cluster.resume(&dry).assert().success().stderr(contains("merged 1 rows of 5 shards"));
}

#[test]
fn parts_that_are_begun_by_hand_are_runs_of_their_own() {
    let cluster = Cluster::new(2);
    for shard in ["1/2", "2/2"] {
        cluster.experiment(&shard.replace('/', "-"), &["--shard", shard]).assert().success();
    }
    let parts = ["1-2", "2-2"].map(|part| folder(&cluster.path(part)));
    let rows: Vec<String> =
        parts.iter().flat_map(|part| keys(&part.join("profile_outputs"))).collect();
    assert_eq!(rows.len(), 4);
    let again = cluster.resume(&parts[0]).args(["--shard", "1/2"]).assert().code(2);
    again.stderr(contains("has no shards"));
    cluster.resume(&parts[0]).assert().success();
    let settings = |part: &Path| {
        json(&part.join("profile_outputs/sidecar.json"))["configuration"]["shard"].clone()
    };
    assert_eq!(
        (settings(&parts[0])["part"].as_u64(), settings(&parts[1])["of"].as_u64()),
        (Some(1), Some(2))
    );
    let table = cluster.path("all.csv");
    segtrt()
        .arg("merge")
        .args(&parts)
        .arg("-o")
        .arg(&table)
        .assert()
        .success()
        .stdout(contains("Total entries: 4"));
}
