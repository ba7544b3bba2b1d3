/*!
Processes that build one plan after another, on stand-ins for the driver and for TensorRT 8.6: what
is kept from plan to plan, what is not, and what a failure costs. The stand-in writes into each plan
which process built it.
*/
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use predicates::prelude::*;
use runtime::engine::{EngineManifest, PlanRecord};
use serde_json::Value;
use vos::bundle::Role;

use crate::selftest::fakes::compile;
use crate::support::segtrt;

/// libcuda.so, libnvinfer.so.8 and its parser; none, said aloud, where there is no compiler.
pub(crate) fn fakes() -> Option<&'static Path> {
    static MADE: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let cuda = ["-Wl,-soname,libcuda.so", "tests/data/gpu/fake_driver.c", "-lpthread", "-ldl"];
        compile("CC", "cc", &cuda, &dir.path().join("libcuda.so"))?;
        let source = "tests/data/gpu/fake_builder8.cpp";
        let tensorrt = ["-std=c++17", "-pthread", "-I", "crates/tensorrt/src/shim", source, "-ldl"];
        compile("CXX", "c++", &tensorrt, &dir.path().join("libnvinfer.so.8"))?;
        let parser = dir.path().join("libnvonnxparser.so.8");
        std::os::unix::fs::symlink("libnvinfer.so.8", parser).unwrap();
        Some(dir)
    });
    made.as_ref().map(tempfile::TempDir::path)
}

/// A folder to build in, and the stand-ins.
pub(crate) struct Yard {
    dir: tempfile::TempDir,
    fakes: &'static Path,
}

/// Encoder, prompt and memory, one after another.
const GRAPHS: &str = "encoder,prompt,memory";

impl Yard {
    pub(crate) fn new() -> Option<Self> {
        let fakes = fakes()?;
        let dir = tempfile::tempdir().unwrap();
        let text = "[small]\ntitle = \"a small board\"\nsm = 90\nmemory_mb = 4096\nunified = \
                    false\nmodels = [\"edgetam_mini\"]\nprecision = \"fp32\"\nimgsz = \
                    256\nworkspace_mb = 64\ntrack_variant = \"per-fill-level\"\nopt_level = \
                    3\ndevice_names = [\"Small\"]\n";
        std::fs::write(dir.path().join("platforms.toml"), text).unwrap();
        Some(Self { dir, fakes })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn arguments(&self, graphs: &str) -> Vec<String> {
        let path = |name: &str| self.path(name).display().to_string();
        let mut arguments: Vec<String> =
            ["build-engines", "--platform", "small", "--models", "edgetam_mini", "--json"]
                .map(str::to_owned)
                .into();
        for (flag, value) in [
            ("--graphs", graphs.to_owned()),
            ("--platforms", path("platforms.toml")),
            ("--out", path("engines")),
            ("--build-log", path("logs")),
            ("--tensorrt-lib", self.fakes.display().to_string()),
        ] {
            arguments.extend([flag.to_owned(), value]);
        }
        arguments
    }

    /// `how` is for the stand-in: what graph fails in what way.
    pub(crate) fn build(&self, graphs: &str, how: &str) -> assert_cmd::Command {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", self.fakes).env("FAKE_BUILD", how);
        command.args(self.arguments(graphs));
        command
    }

    /// The same, to be stopped.
    fn start(&self, how: &str, environment: &[(&str, &str)]) -> Child {
        Process::new(assert_cmd::cargo::cargo_bin("segtrt"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("LD_LIBRARY_PATH", self.fakes)
            .env("FAKE_BUILD", how)
            .envs(environment.iter().copied())
            .args(self.arguments(GRAPHS))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.path("engines/small/edgetam_mini_256_fp32")
    }

    /// The process that built a plan, and which of its plans it was.
    fn maker(&self, graph: &str) -> (u32, u32) {
        let text = std::fs::read_to_string(self.folder().join(format!("{graph}.plan"))).unwrap();
        let rest = text.strip_prefix(&format!("plan of {graph} by process ")).unwrap();
        let (process, number) = rest.split_once(", number ").unwrap();
        (process.parse().unwrap(), number.strip_suffix(" of it").unwrap().parse().unwrap())
    }

    fn log(&self, graph: &str) -> String {
        let name = format!("logs/edgetam_mini_256_fp32_{graph}.log");
        std::fs::read_to_string(self.path(&name)).unwrap_or_default()
    }

    fn record(&self, role: Role) -> PlanRecord {
        EngineManifest::read(&self.folder()).unwrap().unwrap().plan(role).unwrap().clone()
    }

    /// Waits until the slow graph is being built.
    fn wait_for(&self, graph: &str) {
        wait(&format!("{graph} is being built"), || {
            self.log(graph).contains(&format!("building {graph}"))
        });
    }
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "not after half a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn rows(assert: &assert_cmd::assert::Assert) -> Vec<(String, String, Option<String>)> {
    let rows: Vec<Value> = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().map(str::to_owned);
    rows.iter()
        .map(|row| (text(row, "role").unwrap(), text(row, "status").unwrap(), text(row, "failure")))
        .collect()
}

fn statuses(assert: &assert_cmd::assert::Assert) -> Vec<String> {
    rows(assert).into_iter().map(|(_, status, _)| status).collect()
}

fn is_alive(process: u32) -> bool {
    // A zombie has ended; only who started it can take it away.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn one_process_builds_all_and_each_plans_account_is_its_own() {
    let Some(yard) = Yard::new() else { return };
    let assert = yard.build(GRAPHS, "").assert().success();
    assert_eq!(statuses(&assert), ["built"; 3]);
    let (process, first) = yard.maker("encoder");
    assert_eq!(
        (first, yard.maker("prompt"), yard.maker("memory")),
        (1, (process, 2), (process, 3))
    );
    // The kernels are loaded once, although each plan has a builder of its own, and no log has
    // another graph's lines.
    for (graph, lines) in [("encoder", 3), ("prompt", 2), ("memory", 2)] {
        let log = yard.log(graph);
        assert_eq!(log.lines().count(), lines, "{log}");
        assert_eq!(log.contains("kernels loaded"), graph == "encoder", "{log}");
        assert_eq!(log.matches(graph).count(), 2, "{log}");
    }
    let cost = |role| yard.record(role).build;
    let (encoder, memory) = (cost(Role::Encoder), cost(Role::Memory));
    assert_eq!(encoder.peak_device_bytes, Some(4 << 20));
    assert_eq!(memory.peak_device_bytes, Some(1 << 20));
    assert!(encoder.peak_host_bytes.unwrap() > 256 << 20);
    // None where the kernel does not let a process reset its peak: no number is better than an
    // earlier plan's.
    assert!(memory.peak_host_bytes.is_none_or(|peak| peak < 200 << 20), "{memory:?}");
    assert!(!is_alive(process));
}

/// A first build takes minutes, which nobody should have to find out: what is to be built and why
/// it takes long is said first, then each plan by its number.
#[test]
fn a_build_says_what_it_will_do_and_how_far_it_is() {
    let Some(yard) = Yard::new() else { return };
    let said = |how: &[&str]| {
        let output = yard.build(GRAPHS, "").args(how).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let first = said(&[]);
    let mut rest = first.as_str();
    for line in [
        "\nto build: 3 of 3 plans: edgetam_mini_256_fp32 encoder, prompt, memory\n",
        "there is no timing cache ",
        ", so TensorRT times every layer, which can take minutes a plan",
        "\n[1/3] edgetam_mini_256_fp32 encoder: building\n",
        "\n[2/3] edgetam_mini_256_fp32 prompt: building\n",
        "\n[3/3] edgetam_mini_256_fp32 memory: building\n",
    ] {
        let Some((_, behind)) = rest.split_once(line.trim_start_matches('\n')) else {
            panic!("no {line:?} in its place: {first}");
        };
        rest = behind;
    }
    assert!(!said(&[]).contains("to build"), "all are up to date");
    let cache = yard.path("a.timing");
    std::fs::write(&cache, "of an earlier build").unwrap();
    let again = said(&["--force", "--timing-cache", cache.to_str().unwrap()]);
    assert!(
        again.contains("to build: 3 of 3") && !again.contains("there is no timing cache"),
        "{again}"
    );
    let elsewhere = yard.path("not/there/a.timing");
    let kept = said(&["--force", "--timing-cache", elsewhere.to_str().unwrap()]);
    assert!(!kept.contains("not kept") && elsewhere.parent().unwrap().is_dir(), "{kept}");
    std::fs::remove_file(yard.folder().join("prompt.plan")).unwrap();
    let one = said(&[]);
    assert!(one.contains("to build: 1 of 3 plans: edgetam_mini_256_fp32 prompt\n"), "{one}");
    assert!(one.contains("[1/1] edgetam_mini_256_fp32 prompt: building"), "{one}");
}

#[test]
fn a_process_that_dies_costs_its_plan_and_a_fresh_one_goes_on() {
    let Some(yard) = Yard::new() else { return };
    let assert = yard.build(GRAPHS, "prompt:kill").env("RUST_LOG", "runtime=info").assert().code(1);
    let assert = assert.stderr(predicate::str::contains("signal 9"));
    // In the encoder's process it could be the encoder's fault; once more, and no oftener.
    let assert = assert.stderr(predicate::str::contains("once more in a fresh process").count(1));
    let failed = |kind: &str| Some(kind.to_owned());
    assert_eq!(
        rows(&assert),
        [
            ("encoder".to_owned(), "built".to_owned(), None),
            ("prompt".to_owned(), "failed".to_owned(), failed("died")),
            ("memory".to_owned(), "built".to_owned(), None),
        ]
    );
    assert_ne!(yard.maker("memory").0, yard.maker("encoder").0);
    assert_eq!(yard.maker("memory").1, 1);
}

#[test]
fn a_failure_that_is_owed_to_earlier_builds_is_none() {
    let Some(yard) = Yard::new() else { return };
    for how in ["later-oom", "later-workspace", "later-kill"] {
        let mut command = yard.build(GRAPHS, &format!("memory:{how}"));
        let assert = command.arg("--force").assert().success();
        assert_eq!(statuses(&assert), ["built"; 3], "{how}");
        assert.stderr(predicate::str::contains("memory: built at the second try"));
        assert_ne!(yard.maker("memory").0, yard.maker("encoder").0, "{how}");
    }
}

#[test]
fn what_leaves_a_process_sound_keeps_it() {
    let Some(yard) = Yard::new() else { return };
    let assert = yard.build(GRAPHS, "prompt:parse").assert().code(1);
    assert_eq!(rows(&assert)[1].2.as_deref(), Some("graph"));
    assert_eq!(yard.maker("memory"), (yard.maker("encoder").0, 2));

    // The same words of two graphs are the reason of both; the process that had nothing before stays.
    let mut command =
        yard.build("prompt,mask_prompt,memory", "prompt:workspace,mask_prompt:workspace");
    let assert = command.arg("--force").assert().code(1);
    for row in &rows(&assert)[..2] {
        assert_eq!(row.2.as_deref(), Some("workspace_too_small"), "{row:?}");
    }
    assert_eq!(yard.maker("memory").1, 1);

    // A lack of memory does not, in a process that is fresh either.
    let mut command = yard.build(GRAPHS, "encoder:oom");
    command.arg("--force").env("RUST_LOG", "runtime=debug").assert().code(1).stderr(
        predicate::str::contains("a building process ends: it failed")
            .and(predicate::str::contains("once more").not()),
    );
}

#[test]
fn a_plan_that_gets_no_execution_context_is_no_plan() {
    let Some(yard) = Yard::new() else { return };
    let assert = yard.build("prompt,memory", "prompt:unusable").assert().code(1);
    assert_eq!(rows(&assert)[0].2.as_deref(), Some("unusable"));
    let advice = "build it with another --opt-level";
    let error = "TensorRT cannot run its own plan of edgetam_mini_256_fp32 prompt";
    assert.stderr(predicate::str::contains(error).and(predicate::str::contains(advice)));
    assert!(!yard.folder().join("prompt.plan").exists() && yard.maker("memory").1 == 1);
}

#[test]
fn several_jobs_have_a_process_each() {
    let Some(yard) = Yard::new() else { return };
    let graphs = "encoder,prompt,mask_prompt,memory";
    let assert = yard.build(graphs, "").args(["--jobs", "2"]).assert().success();
    assert_eq!(statuses(&assert), ["built"; 4]);
    let makers: BTreeSet<u32> = graphs.split(',').map(|graph| yard.maker(graph).0).collect();
    assert!((1..=2).contains(&makers.len()), "{makers:?}");
    // The encoder takes its process longest: all others are not its own.
    assert_eq!(yard.maker("encoder").1, 1);
}

#[test]
fn a_stop_ends_the_process_in_the_middle_of_its_second_plan() {
    let Some(yard) = Yard::new() else { return };
    let mut program = yard.start("prompt:slow", &[]);
    yard.wait_for("prompt");
    let killed = Process::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(program.wait().unwrap().code(), Some(130));
    assert!(!is_alive(yard.maker("encoder").0));
    let left: Vec<String> = std::fs::read_dir(yard.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(left.iter().all(|name| !name.ends_with(".partial")), "{left:?}");
    let manifest = EngineManifest::read(&yard.folder()).unwrap().unwrap();
    assert_eq!(manifest.plans.len(), 1);
    assert_eq!(manifest.plans[0].role, Role::Encoder);
}

#[test]
fn a_process_whose_parent_is_killed_ends_in_the_middle_of_its_second_plan() {
    let Some(yard) = Yard::new() else { return };
    let mut program = yard.start("prompt:slow", &[("FAKE_EXIT", "waits")]);
    yard.wait_for("prompt");
    let process = yard.maker("encoder").0;
    assert!(is_alive(process));
    program.kill().unwrap();
    program.wait().unwrap();
    // Although TensorRT's destructors wait: they are not asked.
    wait("the orphan is gone", || !is_alive(process));
}

/// The parent would wait for an answer that it could not read, and the child for its next plan.
#[test]
fn what_a_library_prints_while_a_process_answers_does_not_hold_up_the_next_plan() {
    let Some(yard) = Yard::new() else { return };
    let mut command = yard.build(GRAPHS, "encoder:noise,prompt:noise,memory:noise");
    let assert = command.timeout(Duration::from_secs(60)).assert().success();
    assert_eq!(statuses(&assert), ["built"; 3]);
    assert_eq!(yard.maker("memory"), (yard.maker("encoder").0, 3));
    assert.stderr(predicate::str::contains("the worker printed: noise"));
}

/// Each cap of a sweep has processes of its own: what an earlier cap left in memory is in no later row.
#[test]
fn a_sweep_begins_each_cap_in_a_fresh_process() {
    let Some(yard) = Yard::new() else { return };
    let mut command = yard.build("prompt,memory", "");
    let assert = command.args(["--sweep-workspace", "64,32"]).assert().success();
    assert_eq!(statuses(&assert), ["built"; 4]);
    let plan = |cap: u32| {
        let folder = format!("engines/sweep/workspace-{cap}-mib/small/edgetam_mini_256_fp32");
        std::fs::read_to_string(yard.path(&folder).join("memory.plan")).unwrap()
    };
    let process = |plan: &str| plan.split([' ', ',']).nth(5).map(str::to_owned);
    assert!(plan(64).ends_with("number 2 of it") && plan(32).ends_with("number 2 of it"));
    assert_ne!(process(&plan(64)), process(&plan(32)));
}
