//! The bench on a GPU, on stand-ins: TensorRT's engines run the committed network in ONNX Runtime,
//! on the addresses that the pipeline bound, when the driver's streams come to it; kernels are
//! emulated. So masks must equal the CPU's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::str::contains;
use report::compare::runs::RunFolder;
use vos::bundle::Role;
use vos::logits::LogitsFile;
use vos::precision::Precision;

use crate::selftest::fakes::{Engines, Fakes, shared};
use crate::support::{bench, column, require_onnxruntime, segtrt, synth};
use crate::teacher::shared::{logits_files, turn_over};

const SUMMARY: &str = "sav_benchmark_summary.csv";
pub const PADDED: [Role; 5] =
    [Role::Encoder, Role::Prompt, Role::MaskPrompt, Role::TrackPadded, Role::Memory];
const EXACT: [Role; 4] = [Role::Encoder, Role::Prompt, Role::Track, Role::Memory];

/// A folder for a test, with a split and engines in it.
pub struct Setting {
    dir: tempfile::TempDir,
    pub split: PathBuf,
    fakes: &'static Fakes,
}

impl Setting {
    /// None, said aloud, where there is no compiler.
    pub fn new(objects: usize, frames: usize, roles: &[Role]) -> Option<Self> {
        Self::of_clips(1, objects, frames, roles)
    }

    /// The same with several clips.
    pub fn of_clips(clips: usize, objects: usize, frames: usize, roles: &[Role]) -> Option<Self> {
        let fakes = shared()?;
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), clips, objects, frames);
        let setting = Self { dir, split, fakes };
        setting.engines(&roles.iter().map(|role| (*role, "ok")).collect::<Vec<_>>());
        Some(setting)
    }

    pub fn engines(&self, plans: &[(Role, &str)]) -> PathBuf {
        Engines::new(&self.path("engines")).write_live(Precision::Fp32, plans)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A bench on the stand-ins into the folder `out`.
    pub fn gpu(&self, out: &str) -> Command {
        self.fakes.bench(&self.path("engines"), &self.split, &self.path(out))
    }

    /// A sweep on the stand-ins into the folder `out`.
    pub fn sweep(&self, out: &str, axis: &str) -> Command {
        let mut command = segtrt();
        command.env("LD_LIBRARY_PATH", self.fakes.dir());
        command.env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime());
        command.args(["compare", "--models", "edgetam_mini_points", "--precision", "fp32"]);
        command.args(["--rounds", "1", "--bench-arg=--decode-threads=2", "--sweep", axis]);
        command.arg(format!("--bench-arg=--tensorrt-lib={}", self.fakes.dir().display()));
        command.arg("--engines").arg(self.path("engines")).arg("--split-dir").arg(&self.split);
        command.arg("--out-dir").arg(self.path(out));
        command
    }

    /// The same on the CPU.
    pub fn cpu(&self, out: &str) -> Command {
        let mut command = bench(&self.split, &self.path(out));
        command.arg("--save-masks");
        command
    }

    pub fn masks(&self, out: &str) -> Vec<(String, String)> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.path(out).join("masks"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        files.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
    }

    pub fn column(&self, out: &str, name: &str) -> Vec<String> {
        column(&self.path(out).join(SUMMARY), name)
    }
}

#[test]
fn masks_and_scores_equal_the_cpus_in_both_modes_and_with_both_banks() {
    // Lazy streams; encoder, upload, download or tracker rushing ahead; any order. The order of work
    // does not depend on the bank, so the second has the extremes only.
    let seeds = ["0", "77", "1", "2", "3", "4"];
    for (roles, seeds) in [(&PADDED[..], &seeds[..]), (&EXACT[..], &seeds[..2])] {
        let Some(setting) = Setting::new(1, 20, roles) else { return };
        setting.cpu("cpu").assert().success();
        let expected = setting.masks("cpu");
        for (out, flags) in [
            ("latency", &["--mode", "latency"][..]),
            ("calls", &["--no-cuda-graphs", "--host-wait", "block"]),
            ("throughput", &["--mode", "throughput", "--encode-ahead", "4"]),
        ] {
            for seed in seeds {
                let mut command = setting.gpu(out);
                command.args(flags).env("FAKE_CUDA_SEED", seed).assert().success();
                assert!(setting.masks(out) == expected, "{roles:?} {out}, seed {seed}");
            }
        }
    }
}

#[test]
fn frames_that_are_encoded_together_have_the_masks_that_they_have_alone() {
    let roles: Vec<Role> = PADDED.into_iter().chain([Role::EncoderB2]).collect();
    // The last batch of 23 frames is half empty.
    let Some(setting) = Setting::new(2, 23, &roles) else { return };
    setting.cpu("cpu").assert().success();
    let expected = setting.masks("cpu");
    let log = setting.path("log");
    for seed in ["0", "1", "4", "77"] {
        let mut command = setting.gpu("out");
        command.args(["--mode", "throughput", "--encode-batch", "2", "--encode-ahead", "3"]);
        command.args(["--objects-together", "2", "--object-streams"]).env("FAKE_CUDA_LOG", &log);
        command.env("FAKE_CUDA_SEED", seed).assert().success();
        assert!(setting.masks("out") == expected, "seed {seed}");
    }
    // The backend's name says it to readers; a comparison takes it from the settings.
    assert!(setting.column("out", "backend")[0].ends_with("graph encode2"));
    let encode_batch = |out: &str| RunFolder::read(&setting.path(out)).unwrap().encode_batch();
    assert_eq!((encode_batch("out"), encode_batch("cpu")), (2, 1));
    let shares: f64 = setting.column("out", "encoder_ms")[0].parse().unwrap();
    assert!(shares > 0.0);
    // No frame has an encoder's run of its own.
    for name in ["enqueue_ms", "launches", "graph_launches"] {
        assert!(setting.column("out", name).iter().all(String::is_empty), "{name}");
    }
    // One object and whole batches, as calls.
    let mut command = setting.gpu("calls");
    command.args(["--mode", "throughput", "--encode-batch", "2", "--no-cuda-graphs"]);
    command.args(["--limit-objects", "1"]).assert().success();
    assert!(setting.masks("calls")[0] == expected[0]);
    // No frame may wait for the next in latency mode; and an encoder that was not built is not made up.
    let wrong = setting.gpu("out").args(["--encode-batch", "2"]).assert().code(2);
    wrong.stderr(contains("--mode throughput"));
    let mut command = setting.gpu("missing");
    command.args(["--mode", "throughput", "--encode-batch", "4"]).assert().code(1);
    assert!(setting.column("missing", "reason")[0].contains("--encoder-batches 4"));
}

#[test]
fn objects_together_have_the_masks_that_they_have_alone() {
    let Some(setting) = Setting::new(3, 12, &PADDED) else { return };
    let prompts = ["--models", "edgetam_mini_bbox,edgetam_mini_mask"];
    setting.cpu("cpu").args(prompts).assert().success();
    let expected = setting.masks("cpu");
    assert_eq!(expected.len(), 6);
    for (out, flags) in [
        ("one_stream", &["--objects-together", "3"][..]),
        ("two_and_one", &["--objects-together", "2", "--mode", "throughput"]),
        ("streams", &["--objects-together", "3", "--object-streams"]),
        ("all", &["--objects-together", "3", "--object-streams", "--mode", "throughput"]),
    ] {
        let mut command = setting.gpu(out);
        command.args(prompts).args(flags).env("FAKE_CUDA_SEED", "33").assert().success();
        assert!(setting.masks(out) == expected, "{out}");
    }
    // One pass, one speed.
    let fps = setting.column("all", "fps");
    assert!(fps[0] == fps[2] && fps[2] == fps[4], "{fps:?}");
}

#[test]
fn a_device_that_shares_the_hosts_memory_reads_frames_in_place() {
    let Some(setting) = Setting::new(1, 10, &PADDED) else { return };
    setting.cpu("cpu").assert().success();
    let log = setting.path("log");
    for mode in ["latency", "throughput"] {
        let mut command = setting.gpu(mode);
        command.args(["--mode", mode]).env("FAKE_CUDA_UNIFIED", "1").env("FAKE_CUDA_LOG", &log);
        command.assert().success();
        assert!(setting.masks(mode) == setting.masks("cpu"), "{mode}");
    }
    let frame = format!("h2d {}", 3 * 160 * 120);
    assert!(!fs::read_to_string(log).unwrap().lines().any(|line| line == frame));
}

#[test]
fn a_steady_frame_costs_one_wait_no_memory_and_only_graphs() {
    let Some(setting) = Setting::new(1, 30, &PADDED) else { return };
    let log = setting.path("log");
    let mut command = setting.gpu("out");
    command.args(["--profile-runs", "2"]).env("FAKE_CUDA_LOG", &log).assert().success();
    let log = fs::read_to_string(log).unwrap();
    // The bank is reset when it is made and before each pass: the warm-up and two recorded ones.
    let resets: Vec<usize> =
        log.match_indices("bank_reset 1\n").map(|(at, found)| at + found.len()).collect();
    assert_eq!(resets.len(), 4, "{log}");
    let warmup = counts(&log[resets[1]..resets[2]]);
    // Encoder, prompt, track, and the memory engine for each of its slots: recorded once, in the warm-up.
    assert_eq!(warmup["instantiate"], 3 + 7);
    for pass in [&log[resets[2]..resets[3]], &log[resets[3]..]] {
        let of = counts(pass);
        // Encoder, prompt or track, memory; pixels and a prompt to the device; results from it.
        assert_eq!((of["graph"], of["preprocess_bicubic_f32"], of["mask_words"]), (90, 30, 30));
        assert_eq!((of["h2d"], of["d2h"]), (31, 30), "{of:?}");
        for never in ["alloc", "host_alloc", "instantiate", "bank_inputs", "wait_stream"] {
            assert!(!of.contains_key(never), "{never}: {of:?}");
        }
        // One for each frame, and one before the next pass begins.
        assert!((30..=31).contains(&of["wait_event"]), "{of:?}");
    }
    for (name, expected) in [("mode", "latency"), ("device", "NVIDIA H200"), ("precision", "fp32")]
    {
        assert_eq!(setting.column("out", name), [expected]);
    }
    assert_eq!(setting.column("out", "backend"), ["tensorrt 8.6.1 fp32 padded graph"]);
    for name in [
        "upload_ms",
        "preprocess_ms",
        "encoder_ms",
        "prompt_ms",
        "track_ms",
        "memory_ms",
        "postprocess_ms",
        "download_ms",
        "latency_p99_ms",
        "gpu_peak_alloc_MiB",
        "gpu_peak_reserved_MiB",
        "encoder_roofline",
        "track_roofline",
    ] {
        let value = &setting.column("out", name)[0];
        assert!(value.parse::<f64>().is_ok_and(|number| number >= 0.0), "{name}: {value:?}");
    }
    // Preprocessing and mask; the bank's kernels inside the graphs, whose engines have none here.
    assert_eq!(setting.column("out", "launches"), ["4"]);
    assert_eq!(setting.column("out", "graph_launches"), ["3"]);
    let number = |name: &str| setting.column("out", name)[0].parse::<f64>().unwrap();
    for stage in ["upload", "encoder", "prompt", "track", "memory", "download"] {
        let [p50, p99] = ["p50", "p99"].map(|p| number(&format!("{stage}_{p}_ms")));
        assert!(0.0 <= p50 && p50 <= p99, "{stage}: {p50} {p99}");
    }
    assert!(0.0 < number("enqueue_ms") && number("enqueue_ms") < number("latency_max_ms"));
    assert!(0.0 < number("enqueue_p99_ms"));
    // A camera's frame does not wait for its predecessors, a file's does.
    assert!(number("end_to_end_p50_ms") > number("latency_p50_ms"));
    assert!(number("source_age_p50_ms") > 0.0);
}

/// How often each word begins a line.
fn counts(log: &str) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for word in log.lines().filter_map(|line| line.split(' ').next()) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

#[test]
fn logits_are_exchanged_between_mask_and_memory() {
    const FRAMES: usize = 10;
    let Some(setting) = Setting::new(2, FRAMES, &PADDED) else { return };
    setting.cpu("teacher").arg("--save-logits").assert().success();
    // A past that never was: what of it is read, when, and by whom, shows in the masks of later frames.
    turn_over(&setting.path("teacher"), 4);
    let teacher = setting.path("teacher").display().to_string();
    setting.cpu("cpu").args(["--teacher", &teacher]).assert().success();
    let (free, taught) = (setting.masks("teacher"), setting.masks("cpu"));
    assert!(free.iter().zip(&taught).all(|(free, taught)| free != taught), "it does show");
    let log = setting.path("log");
    for (flags, seeds) in [
        (&[][..], &["0", "3", "77"][..]),
        (&["--no-cuda-graphs", "--host-wait", "block"], &["3", "77"]),
        (&["--objects-together", "2"], &["2", "33"]),
        (&["--objects-together", "2", "--object-streams"], &["4", "77"]),
    ] {
        for seed in seeds {
            let mut command = setting.gpu("taught");
            command.args(flags).args(["--teacher", &teacher]).env("FAKE_CUDA_SEED", seed);
            command.env("FAKE_CUDA_LOG", &log).assert().success();
            assert!(setting.masks("taught") == taught, "{flags:?}, seed {seed}");
        }
        let mut command = setting.gpu("saved");
        command.args(flags).arg("--save-logits").env("FAKE_CUDA_SEED", "77").assert().success();
        assert!(setting.masks("saved") == free, "{flags:?}: saving changes nothing");
        let files = logits_files(&setting.path("saved"));
        assert_eq!(files.len(), 2);
        for (ours, theirs) in files.iter().zip(logits_files(&setting.path("teacher"))) {
            let [ours, theirs] = [ours, &theirs].map(|path| LogitsFile::read(path).unwrap());
            for t in (0..FRAMES).filter(|t| *t != 4) {
                let pairs = ours.frame(t).unwrap().iter().zip(theirs.frame(t).unwrap());
                let apart = pairs.map(|(a, b)| (a.to_f32() - b.to_f32()).abs()).fold(0.0, f32::max);
                assert!(apart < 0.01, "{flags:?}, frame {t}: {apart}");
            }
        }
    }
    assert_eq!(setting.column("taught", "verdict"), ["INVALID", "INVALID"]);
    let said = setting.column("saved", "verdict_reason");
    assert!(said.iter().all(|said| said.contains("not a measurement of speed")), "{said:?}");
    // The teacher's logits of every recorded frame, and of no other, go to the device.
    let uploads = fs::read_to_string(log).unwrap();
    let uploads = uploads.lines().filter(|line| *line == format!("h2d {}", 4 * 64 * 64)).count();
    assert_eq!(uploads, (3 + 2 + 2 + 2) * 2 * FRAMES);
}

#[test]
fn overlapping_frames_have_ages_and_no_latencies() {
    let Some(setting) = Setting::new(1, 12, &PADDED) else { return };
    setting.gpu("out").args(["--mode", "throughput"]).assert().success();
    assert_eq!(setting.column("out", "mode"), ["throughput"]);
    for empty in ["latency_p50_ms", "enqueue_ms", "enqueue_p99_ms"] {
        assert_eq!(setting.column("out", empty), [""], "{empty}");
    }
    assert_eq!(setting.column("out", "launches"), ["4"]);
    // Without graphs nobody knows what TensorRT launches.
    setting.gpu("calls").args(["--no-cuda-graphs"]).assert().success();
    assert_eq!(setting.column("calls", "launches"), [""]);
    assert_eq!(setting.column("calls", "graph_launches"), ["0"]);
    let number = |name: &str| setting.column("out", name)[0].parse::<f64>().unwrap();
    assert!(number("fps") > 0.0);
    let (age, with_decode) = (number("source_age_p50_ms"), number("source_age_with_decode_p50_ms"));
    assert!(0.0 < age && age <= with_decode, "{age} {with_decode}");
    assert!(age <= number("source_age_p95_ms"));
}

#[test]
fn hundreds_of_frames_run_in_the_memory_of_a_few() {
    let Some(setting) = Setting::new(1, 20, &PADDED) else { return };
    let peaks = ["1", "30"].map(|repeats| {
        let log = setting.path("log");
        let mut command = setting.gpu("out");
        command.args(["--mode", "throughput", "--repeat-clip", repeats]).env("FAKE_CUDA_LOG", &log);
        command.assert().success();
        let log = fs::read_to_string(log).unwrap();
        let taken = log.lines().filter(|line| line.contains("alloc")).count();
        let of = |name: &str| setting.column("out", name)[0].parse::<f64>().unwrap();
        (taken, of("gpu_peak_alloc_MiB"), of("cpu_peak_rss_MiB"), of("frames"))
    });
    let [few, many] = peaks;
    assert_eq!((few.3, many.3), (20.0, 600.0));
    // The second log has both runs' blocks.
    assert_eq!((many.0, many.1), (2 * few.0, few.1));
    assert!(many.2 < few.2 + 8.0, "{} MiB after 20 frames, {} after 600", few.2, many.2);
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let Some(setting) = Setting::new(1, 4, &PADDED) else { return };
    let fails = |more: &[&str], said: &str| {
        let output = setting.gpu("out").args(more).output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(said), "{said:?} is not in {text}");
    };
    fails(&["--models", "edgetam_points"], "segtrt build-engines --platform auto --models edgetam");
    fails(&["--precision", "fp16"], "--precision fp16 --out");
    fails(&["--engines", "/nowhere"], "/nowhere");
    fails(&["--device", "3"], "shows no device 3");
    // An engine that is missing, and one of another release, cost the model's rows.
    setting.engines(&[(Role::Encoder, "ok"), (Role::Prompt, "ok"), (Role::TrackPadded, "ok")]);
    fails(&[], "has no memory engine; build it with: segtrt build-engines --platform h200");
    let dir = setting.engines(&PADDED.map(|role| (role, "ok")));
    let manifest = fs::read_to_string(dir.join("engine.json")).unwrap();
    fs::write(dir.join("engine.json"), manifest.replace("TensorRT 8.6.1", "TensorRT 8.5.3"))
        .unwrap();
    fails(&[], "it was built by TensorRT 8.5.3, this is TensorRT 8.6.1");
    fs::write(dir.join("engine.json"), manifest.replace("90", "87")).unwrap();
    fails(&[], "runs on NVIDIA H200 (sm 90)");
    // A NaN is the row's failure, as on the CPU.
    setting
        .engines(&PADDED.map(|role| (role, if role == Role::TrackPadded { "nan" } else { "ok" })));
    fails(&[], "non_finite: frame 1 of the clip gave objectness NaN");
    // Without recording the frames' work can still be enqueued.
    setting.engines(&PADDED.map(|role| (role, "ok")));
    setting.gpu("out").env("FAKE_CUDA_GRAPHS", "0").assert().failure();
    setting.gpu("out").arg("--no-cuda-graphs").env("FAKE_CUDA_GRAPHS", "0").assert().success();
    let mut command = setting.gpu("out");
    command.env("FAKE_CUDA_MEMORY", "500000").assert().failure().stderr(contains("OUT_OF_MEMORY"));
}
