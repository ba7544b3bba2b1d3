//! The GPU's sensors through the real way, with a stand-in for NVML; what a bench writes of them
//! and of its verdict.

use std::path::{Path, PathBuf};
use std::time::Duration;

use vos::record::{FrameTime, FrameTimes, Judgement, Observed, StageTimes};
use vos::stage::Stage;
use vos::telemetry::{Options, Target, Telemetry, TelemetryError};
use vos::verdict::{Evidence, judge};

use crate::selftest::fakes::compile;
use crate::support::{bench, column, synth};

/// The GPU that the stand-in lets be watched.
const ADDRESS: &str = "00000000:1B:00.0";

/// A stand-in for NVML in a folder of its own.
struct FakeNvml {
    dir: tempfile::TempDir,
    library: PathBuf,
}

impl FakeNvml {
    /// Compiles it; none, said aloud, where there is no compiler.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libnvidia-ml.so.1");
        compile("CC", "cc", &["tests/data/gpu/fake_nvml.c", "-ldl"], &library)?;
        Some(Self { dir, library })
    }

    /// What its sensors say from now on.
    fn say(&self, conf: &str) {
        // As a whole: the sampling thread may read at any moment.
        let new = self.dir.path().join("new");
        std::fs::write(&new, conf).unwrap();
        std::fs::rename(new, self.dir.path().join("nvml.conf")).unwrap();
    }

    fn start(&self, address: Option<&str>, period: Duration) -> Result<Telemetry, TelemetryError> {
        let target = Target { ordinal: 1, pci_address: address.map(str::to_owned) };
        let nvml = Some(self.library.clone());
        Telemetry::start(&target, &Options { period, nvml, root: self.dir.path().to_owned() })
    }

    /// A pass that begins under `before` and ends under `after`, with no reading between.
    fn pass(&self, before: &str, after: &str) -> Observed {
        self.say(before);
        let telemetry = self.start(Some(ADDRESS), Duration::from_secs(3600)).unwrap();
        let mark = telemetry.mark();
        self.say(after);
        telemetry.since(mark)
    }
}

const CALM: &str = "power_mw 350000\nenergy_mj 5000000\nsm_mhz 1980\nmemory_mhz \
                    3201\ntemperature_c 51\nutilisation 97\nreasons 2\nmemory_used \
                    2147483648\nsm_max_mhz 1980\npower_limit_mw 700000\npersistence 1\nmig \
                    0\nmemory_total 150754820096\nbus_bits 6144\n";

fn steady_frames() -> Vec<FrameTimes> {
    let frame = |frame| FrameTimes {
        frame,
        time: FrameTime::Latency(3.0),
        stages: StageTimes::of([(Stage::Track, 3.0)]),
        ..FrameTimes::default()
    };
    (0..200).map(frame).collect()
}

fn judged(observed: &Observed) -> (Judgement, String) {
    let frames = steady_frames();
    let verdict = judge(&Evidence {
        frames: &frames,
        overlapping: false,
        batch: 1,
        on_gpu: true,
        observed: Some(observed),
    });
    (verdict.judgement, verdict.reason().unwrap_or_default())
}

#[test]
fn the_gpu_that_cuda_means_is_read_by_its_address_and_a_calm_pass_is_valid() {
    let Some(nvml) = FakeNvml::new() else { return };
    let processes = format!("process {} 1073741824\n", std::process::id());
    let after = CALM.replace("5000000", "5700000").replace("temperature_c 51", "temperature_c 58");
    let observed = nvml.pass(CALM, &format!("{after}{processes}"));
    assert_eq!(observed.energy_j, Some(700.0));
    assert_eq!(observed.power_max_w, Some(350.0));
    assert_eq!(
        (observed.sm_clock_min_mhz, observed.memory_clock_mhz),
        (Some(1980.0), Some(3201.0))
    );
    assert_eq!(
        (observed.temperature_max_c, observed.utilisation_percent),
        (Some(58.0), Some(97.0))
    );
    assert_eq!(
        (observed.process_memory_mib, observed.device_memory_mib),
        (Some(1024.0), Some(2048.0))
    );
    assert_eq!(observed.other_processes, Some(0));
    // A setting of the clocks is told of and is no throttling.
    assert_eq!(observed.limits.unwrap().text(), "clocks_setting");
    let (judgement, reason) = judged(&observed);
    assert_eq!(judgement, Judgement::Valid, "{reason}");

    let telemetry = nvml.start(Some(ADDRESS), Duration::from_secs(3600)).unwrap();
    let facts = telemetry.facts();
    assert_eq!((&facts["source"], &facts["driver"]), (&"NVML".into(), &"580.95.05".into()));
    assert_eq!((&facts["name"], &facts["power_limit_w"]), (&"NVIDIA H200".into(), &700.0.into()));
    assert_eq!((&facts["mig_mode"], &facts["persistence_mode"]), (&false.into(), &true.into()));
    assert_eq!(facts["memory_total_mib"], 143771.0);
    assert_eq!(facts["memory_bus_width_bits"], 6144);
    assert!(!facts.contains_key("ecc"), "what NVML does not know is not there: {facts:?}");
}

#[test]
fn throttling_another_process_and_a_falling_clock_make_a_row_invalid() {
    let Some(nvml) = FakeNvml::new() else { return };
    // Software power cap (4) and hardware thermal slowdown (0x40).
    let (judgement, reason) = judged(&nvml.pass(CALM, &CALM.replace("reasons 2", "reasons 68")));
    assert_eq!(judgement, Judgement::Invalid);
    assert!(
        reason.starts_with("throttled: ") && reason.contains("(power_cap+thermal_hw)"),
        "{reason}"
    );

    let crowded = format!("{CALM}process {} 5\nprocess 4000000 7\n", std::process::id());
    let (judgement, reason) = judged(&nvml.pass(CALM, &crowded));
    assert_eq!(judgement, Judgement::Invalid);
    assert!(reason.starts_with("other_process: 1 other"), "{reason}");

    nvml.say(CALM);
    let telemetry = nvml.start(Some(ADDRESS), Duration::from_millis(5)).unwrap();
    let mark = telemetry.mark();
    std::thread::sleep(Duration::from_millis(100));
    nvml.say(&CALM.replace("sm_mhz 1980", "sm_mhz 1410"));
    let (judgement, reason) = judged(&telemetry.since(mark));
    assert_eq!(judgement, Judgement::Invalid);
    assert!(reason.contains("between 1410 and 1980 MHz"), "{reason}");
}

#[test]
fn a_sensor_that_the_board_lacks_is_an_empty_number_and_nothing_more() {
    let Some(nvml) = FakeNvml::new() else { return };
    let observed = nvml.pass("sm_mhz 1200\n", "sm_mhz 1200\n");
    let expected = Observed {
        seconds: observed.seconds,
        readings: 1,
        sm_clock_min_mhz: Some(1200.0),
        sm_clock_mean_mhz: Some(1200.0),
        sm_clock_max_mhz: Some(1200.0),
        ..Observed::default()
    };
    assert_eq!(observed, expected);
}

#[test]
fn without_a_library_or_the_gpu_a_sentence_says_so() {
    let missing = Options { nvml: Some("/no/such/libnvidia-ml.so.1".into()), ..no_jetson() };
    let error = Telemetry::start(&Target::default(), &missing).err().unwrap().to_string();
    assert!(error.contains("NVML does not open") && error.contains("nvidia-smi"), "{error}");

    let Some(nvml) = FakeNvml::new() else { return };
    let unknown = nvml.start(Some("00000000:FF:00.0"), Duration::from_secs(1));
    let error = unknown.err().unwrap().to_string();
    assert!(error.contains("does not show GPU 00000000:FF:00.0"), "{error}");
    // Without an address the ordinal is NVML's.
    nvml.say(CALM);
    let telemetry = nvml.start(None, Duration::from_secs(3600)).unwrap();
    assert_eq!(telemetry.facts()["name"], "NVIDIA H200");
}

fn no_jetson() -> Options {
    Options { root: Path::new("/no/such/root").to_owned(), ..Options::default() }
}

#[test]
fn a_bench_on_the_cpu_judges_its_rows_and_leaves_the_sensors_empty() {
    let dir = tempfile::tempdir().unwrap();
    let split = synth(dir.path(), 1, 1, 42);
    let out = dir.path().join("out");
    let run = |limit: &str| {
        let assert = bench(&split, &out).args(["--max-clip-frames", limit]).assert().success();
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    };
    let said = run("0");
    for table in ["sav_benchmark_summary.csv", "profile_summary.csv"] {
        let table = out.join(table);
        let one = |name: &str| column(&table, name).remove(0);
        // 24 steady frames are enough to judge by; how steady they were is this machine's business.
        let (verdict, reason) = (one("verdict"), one("verdict_reason"));
        assert!(verdict == "VALID" || verdict == "INVALID", "{verdict}: {reason}");
        assert!(reason.contains("p99_of_few: the 99th percentile of 24 frames"), "{reason}");
        assert_eq!(verdict == "INVALID", said.contains("1 of 1 row is INVALID"), "{said}");
        let residue: f64 = one("residue_ms").parse().unwrap();
        assert!((0.0..1.0).contains(&residue), "{residue}");
        for name in ["gpu_ms", "power_w", "energy_j_per_frame", "throttle", "gpu_util"] {
            assert_eq!(one(name), "", "{name}");
        }
        assert_eq!(one("latency_p999_ms"), "");
    }
    let sidecar: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("sidecar.json")).unwrap()).unwrap();
    let pass = &sidecar["passes"][0];
    assert!(pass["verdict"]["judgement"].is_string() && pass["observed"].is_null(), "{pass}");

    let said = run("30");
    assert_eq!(column(&out.join("sav_benchmark_summary.csv"), "verdict"), ["-"]);
    assert!(said.contains("1 of 1 row is too short to judge"), "{said}");
}
