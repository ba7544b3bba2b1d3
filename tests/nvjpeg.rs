//! `--jpeg-decoder nvjpeg` on stand-ins. The stand-in for nvJPEG gives libjpeg-turbo's pixels, and
//! gives them as late as the real one may: so masks must equal those of `--jpeg-decoder turbo`,
//! whatever order the streams run in.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use cuda::Gpu;
use predicates::str::contains;
use segtrt::selftest::kernels::{Chosen, Topic, pictures, run};
use segtrt::selftest::{Repeats, report};
use serde_json::Value;
use vos::bundle::Role;
use vos::decode;
use vos::precision::Precision;

use crate::selftest::fakes::{Engines, Fakes, nvjpeg, shared};
use crate::support::{bench, column, require_onnxruntime, segtrt, synth};

const ROLES: [Role; 4] = [Role::Encoder, Role::Prompt, Role::TrackPadded, Role::Memory];

/// A split, engines, and the pixels that the stand-in for nvJPEG will give.
struct Setting {
    dir: tempfile::TempDir,
    split: PathBuf,
    fakes: &'static Fakes,
    nvjpeg: &'static Path,
}

impl Setting {
    /// None, said aloud, where there is no compiler.
    fn new(frames: usize) -> Option<Self> {
        let (fakes, nvjpeg) = (shared()?, nvjpeg()?);
        let dir = tempfile::tempdir().unwrap();
        let split = synth(dir.path(), 1, 1, frames);
        let plans = ROLES.map(|role| (role, "ok"));
        Engines::new(&dir.path().join("engines")).write_live(Precision::Fp32, &plans);
        let setting = Self { dir, split, fakes, nvjpeg };
        fs::create_dir(setting.path("pixels")).unwrap();
        for frame in setting.frames() {
            know(&setting.path("pixels"), &fs::read(frame).unwrap());
        }
        Some(setting)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn frames(&self) -> Vec<PathBuf> {
        let folder = self.split.join("JPEGImages_24fps/synth_000");
        let mut frames: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        frames.sort();
        frames
    }

    /// A bench on the stand-ins with this decoder into the folder `out`.
    fn gpu(&self, decoder: &str, out: &str) -> Command {
        let mut command = segtrt();
        command
            .env("LD_LIBRARY_PATH", self.fakes.dir())
            .env("FAKE_TENSORRT_ONNXRUNTIME", require_onnxruntime())
            .env("FAKE_NVJPEG_PIXELS", self.path("pixels"))
            .env("SEGTRT_NVJPEG_LIB", self.nvjpeg)
            .args(["bench", "--backend", "tensorrt", "--models", "edgetam_mini_points"])
            .args(["--save-masks", "--decode-threads", "2", "--jpeg-decoder", decoder]);
        command.arg("--engines").arg(self.path("engines"));
        command.arg("--tensorrt-lib").arg(self.fakes.dir());
        command.arg("--split-dir").arg(&self.split).arg("--out-dir").arg(self.path(out));
        command
    }

    fn masks(&self, out: &str) -> String {
        let mut files = fs::read_dir(self.path(out).join("masks")).unwrap();
        fs::read_to_string(files.next().unwrap().unwrap().path()).unwrap()
    }

    fn column(&self, out: &str, name: &str) -> String {
        column(&self.path(out).join("sav_benchmark_summary.csv"), name).remove(0)
    }

    fn sidecar(&self, out: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(out).join("sidecar.json")).unwrap()).unwrap()
    }

    /// A run that gives no numbers: its row's reason.
    fn fails(&self, command: &mut Command) -> String {
        command.assert().code(1);
        assert_eq!(self.column("bad", "status"), "failed");
        self.column("bad", "reason")
    }
}

/// Puts a file's pixels where the stand-in looks for them.
fn know(folder: &Path, jpeg: &[u8]) {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = jpeg.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    let image = decode::jpeg_bytes(Path::new("known.jpg"), jpeg).unwrap();
    fs::write(folder.join(format!("{hash:016x}")), image.data).unwrap();
}

#[test]
fn the_same_pixels_give_the_same_masks_in_whatever_order_the_device_works() {
    let Some(setting) = Setting::new(14) else { return };
    setting.gpu("turbo", "turbo").assert().success();
    let expected = setting.masks("turbo");
    for (out, flags, seeds) in [
        ("latency", &["--mode", "latency"][..], &["0", "3", "77"][..]),
        ("calls", &["--no-cuda-graphs", "--host-wait", "block"], &["2", "77"]),
        (
            "throughput",
            &["--mode", "throughput", "--encode-ahead", "4"],
            &["0", "1", "2", "3", "4", "77"],
        ),
    ] {
        for seed in seeds {
            let mut command = setting.gpu("nvjpeg", out);
            command.args(flags).env("FAKE_CUDA_SEED", seed).assert().success();
            assert!(setting.masks(out) == expected, "{out}, seed {seed}");
        }
    }
    // A device that shares the host's memory has frames of its own then.
    let mut command = setting.gpu("nvjpeg", "unified");
    command.env("FAKE_CUDA_UNIFIED", "1").assert().success();
    assert!(setting.masks("unified") == expected);
    // Other pixels are other masks: it is nvJPEG's pixels that are looked at.
    let mut command = setting.gpu("nvjpeg", "bgr");
    command.env("FAKE_NVJPEG_FAULT", "bgr").assert().success();
    assert!(setting.masks("bgr") != expected);
}

#[test]
fn rows_and_sidecar_say_whose_pixels_they_are() {
    let Some(setting) = Setting::new(4) else { return };
    for decoder in ["turbo", "nvjpeg"] {
        setting.gpu(decoder, decoder).assert().success();
    }
    let fidelity = |out| setting.column(out, "fidelity");
    assert!(fidelity("turbo").contains("/pil13-bicubic/"), "{}", fidelity("turbo"));
    assert!(fidelity("nvjpeg").contains("/pil13-bicubic-nvjpeg/"), "{}", fidelity("nvjpeg"));
    let [turbo, ours] = ["turbo", "nvjpeg"].map(|out| setting.sidecar(out));
    assert_ne!(turbo["configuration_sha256"], ours["configuration_sha256"]);
    assert_eq!(ours["configuration"]["gpu"]["options"]["decoder"], "nvjpeg");
    assert!(turbo["configuration"]["gpu"]["options"].get("decoder").is_none());
    let told = |sidecar: &Value, of: &str| sidecar[of].to_string().contains("nvJPEG");
    assert!(told(&ours, "timed_region") && !told(&turbo, "timed_region"));
    let library = ours["environment"]["tensorrt"].to_string();
    assert!(library.contains("nvJPEG 12.4.1 (for CUDA 12)"), "{library}");
    for name in ["decode_ms", "upload_ms"] {
        let value = setting.column("nvjpeg", name);
        assert!(value.parse::<f64>().is_ok_and(|ms| ms >= 0.0), "{name}: {value:?}");
    }
    // Runs of the two are not one run.
    let mut command = setting.gpu("nvjpeg", "turbo");
    command.arg("--resume").assert().failure().stderr(contains("gpu"));
}

#[test]
fn a_steady_frame_asks_for_no_memory_and_waits_once() {
    let Some(setting) = Setting::new(30) else { return };
    let log = setting.path("log");
    let mut command = setting.gpu("nvjpeg", "out");
    command.args(["--profile-runs", "2"]).env("FAKE_CUDA_LOG", &log).assert().success();
    let log = fs::read_to_string(log).unwrap();
    let passes: Vec<usize> =
        log.match_indices("bank_reset 1\n").map(|(at, found)| at + found.len()).collect();
    for pass in [&log[passes[2]..passes[3]], &log[passes[3]..]] {
        let count = |word: &str| pass.lines().filter(|line| line.starts_with(word)).count();
        for never in ["alloc", "host_alloc", "wait_stream"] {
            assert_eq!(count(never), 0, "{never}: {pass}");
        }
        // One for each frame, and one before the next pass begins.
        assert!((30..=31).contains(&count("wait_event")), "{}", count("wait_event"));
        assert_eq!(count("preprocess_bicubic"), 30);
    }
    // The transfer's way is counted: where it waits, this test finds it.
    let again = setting.path("again");
    let mut command = setting.gpu("nvjpeg", "out");
    command.env("FAKE_CUDA_LOG", &again).env("FAKE_NVJPEG_FAULT", "waits").assert().success();
    assert!(fs::read_to_string(again).unwrap().matches("wait_stream").count() > 20);
}

#[test]
fn what_is_asked_for_at_the_wrong_place_is_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    let (split, out) = (synth(dir.path(), 1, 1, 3), dir.path().join("out"));
    let wrong = |flags: &[&str], said: &str| {
        let mut command = bench(&split, &out);
        command
            .args(["--jpeg-decoder", "nvjpeg"])
            .args(flags)
            .assert()
            .code(2)
            .stderr(contains(said));
    };
    wrong(&[], "--jpeg-decoder nvjpeg needs --backend tensorrt");
    wrong(&["--predecoded", "cache"], "--jpeg-decoder nvjpeg with --predecoded");
    wrong(
        &["--predecoded", "cache", "--backend", "tensorrt"],
        "--jpeg-decoder nvjpeg with --predecoded",
    );
    bench(&split, &out)
        .args(["--jpeg-decoder", "pillow"])
        .assert()
        .code(2)
        .stderr(contains("turbo"));
    assert!(!out.exists());
    bench(&split, &out).args(["--jpeg-decoder", "turbo"]).assert().success();
}

#[test]
fn a_library_that_is_missing_or_of_no_use_is_said_with_what_to_do() {
    let Some(setting) = Setting::new(3) else { return };
    let nowhere = setting.path("nowhere");
    fs::create_dir(&nowhere).unwrap();
    let reason = setting.fails(setting.gpu("nvjpeg", "bad").env("SEGTRT_NVJPEG_LIB", &nowhere));
    assert!(reason.contains("no nvJPEG (libnvjpeg.so) found; looked in"), "{reason}");
    assert!(reason.contains("nowhere") && reason.contains("SEGTRT_NVJPEG_LIB"), "{reason}");
    fs::write(nowhere.join("libnvjpeg.so.12"), "no library").unwrap();
    let reason = setting.fails(setting.gpu("nvjpeg", "bad").env("SEGTRT_NVJPEG_LIB", &nowhere));
    assert!(reason.contains("libnvjpeg.so.12 cannot be used as nvJPEG"), "{reason}");
    assert!(reason.contains("--jpeg-decoder turbo"), "{reason}");
    // JetPack's library for video has the same name and nothing of this one.
    let other = setting.fakes.dir().join("libcuda.so");
    let reason = setting.fails(setting.gpu("nvjpeg", "bad").env("SEGTRT_NVJPEG_LIB", other));
    assert!(reason.contains("it has no nvjpegGetProperty"), "{reason}");
    let reason = setting.fails(setting.gpu("nvjpeg", "bad").env("FAKE_NVJPEG_FAULT", "new"));
    assert!(reason.contains("made for CUDA 99, the driver knows CUDA 13"), "{reason}");
    let reason = setting.fails(setting.gpu("nvjpeg", "bad").env("FAKE_NVJPEG_FAULT", "refuses"));
    assert!(
        reason.contains("create a handle on this GPU: NVJPEG_STATUS_ARCH_MISMATCH"),
        "{reason}"
    );
    assert!(reason.contains("use --jpeg-decoder turbo, or name another nvJPEG"), "{reason}");
    // Found by the loader alone, without a name.
    let path = std::env::join_paths([setting.fakes.dir(), setting.nvjpeg]).unwrap();
    let mut command = setting.gpu("nvjpeg", "found");
    command.env_remove("SEGTRT_NVJPEG_LIB").env("LD_LIBRARY_PATH", path).assert().success();
    assert_eq!(setting.column("found", "status"), "ok");
}

#[test]
fn a_frame_that_nvjpeg_cannot_have_costs_its_clip_and_is_named() {
    let Some(setting) = Setting::new(4) else { return };
    let frame = setting.frames()[2].clone();
    let name = frame.file_name().unwrap().to_string_lossy().into_owned();
    let good = fs::read(&frame).unwrap();
    let run = |bytes: &[u8], fault: &str| {
        fs::write(&frame, bytes).unwrap();
        setting.fails(setting.gpu("nvjpeg", "bad").env("FAKE_NVJPEG_FAULT", fault))
    };
    let start = good.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[start + at] = value;
        bytes
    };
    let cut = good.len() / 2;
    // What is wrong, what is said of it, what helps.
    let cases = [
        (with(4, 12), "12 bits a sample", "--jpeg-decoder turbo does not either"),
        (with(1, 0xC9), "arithmetic", "--jpeg-decoder turbo does not either"),
        (with(6, 1), "all frames of a clip must have one size", ""),
        (good[..cut].to_vec(), "ends before its end-of-image marker", "re-export"),
        (b"\x89PNG\r\n\x1a\n".to_vec(), "FF D8", ""),
    ];
    for (bytes, said, helps) in cases {
        let reason = run(&bytes, "");
        assert!(reason.contains(&name), "{reason}");
        assert!(reason.contains(said) && reason.contains(helps), "{reason}");
    }
    // What nvJPEG itself refuses: a kind that it does not know, and damage that the header does not show.
    let mut unknown = good.clone();
    unknown.push(0);
    let reason = run(&unknown, "");
    assert!(
        reason.contains("NVJPEG_STATUS_JPEG_NOT_SUPPORTED; use --jpeg-decoder turbo"),
        "{reason}"
    );
    let reason = run(&good, "damaged");
    assert!(reason.contains("NVJPEG_STATUS_BAD_JPEG; use --jpeg-decoder turbo"), "{reason}");
    // The good file is good.
    setting.gpu("nvjpeg", "good").assert().success();
}

/// Set for the process below, so that `--ignored` by hand does not try it on a real GPU.
const MARK: &str = "SEGTRT_TEST_FAKE_NVJPEG";

#[test]
fn the_selftest_compares_the_pixels_and_says_where_it_cannot() {
    let (Some(fakes), Some(nvjpeg)) = (shared(), nvjpeg()) else { return };
    let dir = tempfile::tempdir().unwrap();
    for picture in pictures().unwrap() {
        know(dir.path(), &picture.file);
    }
    let test = |fault: &str, library: &Path| {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["nvjpeg::inside", "--exact", "--ignored", "--nocapture"])
            .env("LD_LIBRARY_PATH", fakes.dir())
            .env("SEGTRT_NVJPEG_LIB", library)
            .env("FAKE_NVJPEG_PIXELS", dir.path())
            .env("FAKE_NVJPEG_FAULT", fault)
            .env(MARK, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        let rows = |verdict: &str| {
            said.lines().filter(|line| line.contains("nvjpeg ") && line.contains(verdict)).count()
        };
        ([rows(" passed"), rows(" failed")], said.clone().into_owned())
    };
    let (counts, said) = test("", nvjpeg);
    assert_eq!(counts, [6, 0], "{said}");
    for (fault, expected, told) in [
        // Of grey nothing can be mixed up, and of waiting there are no pixels.
        ("bgr", [2, 4], "grey levels off libjpeg-turbo's"),
        // Device memory that is given back waits for the device.
        ("grows", [0, 6], "it asked for memory"),
        ("waits", [5, 1], "the host came back from the device's half only when"),
        ("refuses", [0, 1], "NVJPEG_STATUS_ARCH_MISMATCH"),
    ] {
        let (counts, said) = test(fault, nvjpeg);
        assert_eq!(counts, expected, "{fault}: {said}");
        assert!(said.contains(told), "{fault}: {said}");
    }
    let nothing = dir.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    let (counts, said) = test("", &nothing);
    assert_eq!(counts, [0, 0]);
    assert!(said.contains("SKIPPED nvJPEG's pixels: no nvJPEG (libnvjpeg.so) found"), "{said}");
}

#[test]
#[ignore = "started by the test above"]
fn inside() {
    if std::env::var_os(MARK).is_none() {
        eprintln!(
            "SKIPPED: the_selftest_compares_the_pixels_and_says_where_it_cannot starts this one"
        );
        return;
    }
    let repeats = Repeats { warmup: 0, runs: 1, layer_runs: 0 };
    let topics = &[Topic::named("nvjpeg").unwrap()];
    let chosen = Chosen { topics, max_elements: None, without_cublaslt: false };
    let report = run(&Gpu::open(0).unwrap(), repeats, 1, chosen, &mut |_, _| ());
    println!("{}", report::render_kernels(&report));
}

#[test]
fn the_doctor_tells_whether_it_is_there() {
    let Some(nvjpeg) = nvjpeg() else { return };
    let line = |library: &Path, fault: &str| {
        let mut command = segtrt();
        command.env_remove("LD_LIBRARY_PATH").env("SEGTRT_NVJPEG_LIB", library);
        let output = command.env("FAKE_NVJPEG_FAULT", fault).args(["doctor", "--json"]).output();
        let document: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let checks = document["checks"].as_array().unwrap();
        let found = checks.iter().find(|check| check["name"] == "nvJPEG").unwrap();
        (found["state"].as_str().unwrap().to_owned(), found.to_string())
    };
    let (state, words) = line(nvjpeg, "");
    assert!(state == "ok" && words.contains("nvJPEG 12.4.1 (for CUDA 12)"), "{words}");
    let (state, words) = line(Path::new("/no/such/libnvjpeg.so"), "");
    assert!(state == "warning" && words.contains("/no/such/libnvjpeg.so"), "{words}");
}
