//! The kinds of files: which one is damaged, what reads it, and what a refusal must name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::change::{Random, change};
use super::read;

/// What reads a kind of file.
#[derive(Clone, Copy)]
pub enum By {
    /// The command's own function, in this process.
    Command,
    /// A function of the library where the command starts other processes or takes seconds.
    Call(fn(&Path) -> Result<(), String>),
    /// The program, each time.
    Program,
}

/// A kind of file.
pub struct Case {
    pub name: &'static str,
    /// The file that is damaged, below the corpus; `*` stands for the first of its folder.
    pub file: &'static str,
    /// The command that reads it; `@` is the corpus. None: no command could, or it would write
    /// where the file says.
    pub args: &'static [&'static str],
    pub by: By,
    /// A refusal names one of these.
    pub named: &'static [&'static str],
}

const BENCH: &[&str] = &[
    "bench",
    "--models",
    "edgetam_mini_points",
    "--warmup-runs",
    "0",
    "--threads",
    "1",
    "--limit-videos",
    "1",
    "--split-dir",
    "@/split",
    "--out-dir",
    "@/out",
];
const BENCH_DAVIS: &[&str] = &[
    "bench",
    "--models",
    "edgetam_mini_points",
    "--warmup-runs",
    "0",
    "--threads",
    "1",
    "--split-name",
    "val",
    "--split-dir",
    "@/davis",
    "--out-dir",
    "@/out",
];
const BENCH_FRAMES: &[&str] = &[
    "bench",
    "--models",
    "edgetam_mini_points",
    "--warmup-runs",
    "0",
    "--threads",
    "1",
    "--limit-videos",
    "1",
    "--split-dir",
    "@/split",
    "--out-dir",
    "@/out",
    "--predecoded",
    "@/frames",
];
const BENCH_LIST: &[&str] = &[
    "bench",
    "--models",
    "edgetam_mini_points",
    "--warmup-runs",
    "0",
    "--threads",
    "1",
    "--split-dir",
    "@/split",
    "--out-dir",
    "@/out",
    "--video-list",
    "@/list.txt",
];
const BENCH_RESUME: &[&str] = &[
    "bench",
    "--models",
    "edgetam_mini_points",
    "--warmup-runs",
    "0",
    "--threads",
    "1",
    "--split-dir",
    "@/split",
    "--out-dir",
    "@/run",
    "--save-masks",
    "--save-logits",
    "--resume",
];
const COMPARE: &[&str] =
    &["compare", "--split-dir", "@/split", "--out-dir", "@/out", "--runs", "a=@/run", "b=@/run2"];
const REPORT: &[&str] = &["report", "@/run", "-o", "@/out/r.html"];
const BASELINE: &[&str] =
    &["baseline", "check", "base", "--from", "@/run", "--baselines", "@/baselines"];
const COLLECT: &[&str] =
    &["collect", "--ssh", "sh @/remote/ssh.sh", "host:/x", "--out", "@/collected"];
const HISTORY: &[&str] = &["history", "@/history.jsonl"];
const BENCH_YOUTUBE: &[&str] =
    &["bench", "--models", "edgetam_mini_points", "--split-dir", "@/youtube", "--out-dir", "@/out"];
const MERGE: &[&str] = &["merge", "@/run", "@/run2", "-o", "@/out/m.csv"];

/// A line may name a clip that is not there, or what is no name: that one is named then, and the
/// file is "the manifest".
const LISTED: &[&str] = &[
    "sav_val.txt",
    "val.txt",
    "JPEGImages_24fps",
    "Annotations_6fps",
    "480p",
    "correct the manifest",
];

macro_rules! case {
    ($name:literal, $file:literal, $args:expr, $by:expr) => {
        case!($name, $file, $args, $by, &[$file])
    };
    ($name:literal, $file:literal, $args:expr, $by:expr, $named:expr) => {
        Case { name: $name, file: $file, args: $args, by: $by, named: $named }
    };
}

/// All kinds; each mutant is of the next one.
pub const CASES: &[Case] = &[
    case!("frame", "split/JPEGImages_24fps/synth_000/00001.jpg", BENCH, By::Call(read::clips)),
    case!(
        "first frame",
        "split/JPEGImages_24fps/synth_000/00000.jpg",
        BENCH,
        By::Call(read::clips)
    ),
    case!("mask", "split/Annotations_6fps/synth_000/000/00000.png", BENCH, By::Call(read::clips)),
    case!(
        "DAVIS mask",
        "davis/Annotations/480p/synth_000/00000.png",
        BENCH_DAVIS,
        By::Call(read::davis_clips)
    ),
    case!(
        "YouTube-VOS mask",
        "youtube/Annotations/003234408d/00010.png",
        BENCH_YOUTUBE,
        By::Call(read::youtube_clips)
    ),
    case!(
        "YouTube-VOS objects",
        "youtube/meta.json",
        BENCH_YOUTUBE,
        By::Call(read::youtube_clips),
        &["meta.json", "JPEGImages", "not the plain name", "not UTF-8"]
    ),
    case!("SA-V list", "split/sav_val.txt", BENCH, By::Call(read::clips), LISTED),
    case!(
        "DAVIS list",
        "davis/ImageSets/2017/val.txt",
        BENCH_DAVIS,
        By::Call(read::davis_clips),
        LISTED
    ),
    case!(
        "bundle",
        "bundle/manifest.toml",
        &["inspect", "@/bundle"],
        By::Command,
        &["manifest.toml", ".onnx"]
    ),
    case!(
        "cut bundle",
        "fused/manifest.toml",
        &["inspect", "@/fused"],
        By::Command,
        &["manifest.toml", ".onnx", "keys.safetensors"]
    ),
    case!(
        "trunk",
        "trunk/manifest.toml",
        &["inspect", "@/trunk"],
        By::Call(read::weights),
        &["manifest.toml", ".onnx", "encoder_trunk.safetensors"]
    ),
    case!(
        "weights",
        "trunk/encoder_trunk.safetensors",
        &["inspect", "@/trunk"],
        By::Call(read::weights),
        &["encoder_trunk.safetensors", ".onnx"]
    ),
    case!("ONNX", "onnx/graph.onnx", &["inspect", "@/onnx/graph.onnx"], By::Command),
    case!("small ONNX", "onnx/small.onnx", &["inspect", "@/onnx/small.onnx"], By::Command),
    case!(
        "targets",
        "targets.toml",
        &["report", "@/run", "--targets", "@/targets.toml", "-o", "@/out/r.html"],
        By::Command
    ),
    case!("report's summary", "run/sav_benchmark_summary.csv", REPORT, By::Command),
    case!(
        "compare's summary",
        "run/sav_benchmark_summary.csv",
        COMPARE,
        By::Command,
        &["sav_benchmark_summary.csv", "/run", "a:", "b:", "side"]
    ),
    case!("report's sidecar", "run/sidecar.json", REPORT, By::Command),
    case!(
        "compare's sidecar",
        "run2/sidecar.json",
        COMPARE,
        By::Command,
        &["sidecar.json", "/run2", "a:", "b:", "side"]
    ),
    case!(
        "baseline's sidecar",
        "run/sidecar.json",
        BASELINE,
        By::Command,
        &["sidecar.json", "profile_summary.csv", "run"]
    ),
    case!(
        "baseline's rows",
        "run/profile_summary.csv",
        BASELINE,
        By::Command,
        &["profile_summary.csv", "sidecar.json", "run"]
    ),
    case!("merge's rows", "run/profile_summary.csv", MERGE, By::Command),
    case!("merge's sidecar", "run/sidecar.json", MERGE, By::Command),
    case!("experiment's account", "run2/experiment_config.txt", MERGE, By::Command),
    case!(
        "baseline",
        "baselines/base.json",
        BASELINE,
        By::Command,
        &["base.json", "baseline base", "run"]
    ),
    case!("history", "history.jsonl", HISTORY, By::Command),
    case!(
        "results",
        "results.tar",
        &["submit", "@/results.tar"],
        By::Command,
        &["results.tar", "FAILED"]
    ),
    case!(
        "results' summary",
        "results/bench/sav_benchmark_summary.csv",
        &["submit", "@/results"],
        By::Command
    ),
    case!("journal", "run/rows.jsonl", &[], By::Call(read::journal)),
    case!("masks", "run/masks/*", COMPARE, By::Command, &["/masks/", "side", "a:", "b:"]),
    case!("logits", "run/logits/*", &[], By::Call(read::logits), &[".npy"]),
    case!(
        "predecoded frames",
        "frames/*",
        BENCH_FRAMES,
        By::Call(read::frames),
        &[".rgb", "synth_000"]
    ),
    case!("plan", "engines/track.plan", &["inspect", "@/engines/track.plan"], By::Command),
    case!(
        "engine folder",
        "engines/engine.json",
        &["inspect", "@/engines"],
        By::Command,
        &["engine.json", ".plan"]
    ),
    case!("timing cache", "x.timing", &[], By::Call(read::timing)),
    case!("nsys export", "profile/x.sqlite", &["nsys", "@/profile/x.sqlite"], By::Command),
    case!("ncu page", "ncu.csv", &["ncu", "@/ncu.csv"], By::Command),
    case!("trace of a run", "run/sidecar.json", &["trace", "@/run", "-o", "@/t.json"], By::Command),
    case!(
        "nsys summary",
        "profile.json",
        &["report", "@/run", "--nsys", "@/profile.json", "-o", "@/out/r.html"],
        By::Command
    ),
    case!(
        "comparison",
        "cmp/comparison.json",
        &["report", "@/cmp/comparison.json", "@/run", "-o", "@/out/r.html"],
        By::Command
    ),
    case!(
        "sweep",
        "swept/sweep.json",
        &["report", "@/swept/sweep.json", "@/run", "-o", "@/out/r.html"],
        By::Command
    ),
    case!("experiment", "exp/*/experiment.json", &[], By::Call(read::experiment)),
    case!("two phases", "prepared/metadata.json", &[], By::Call(read::metadata)),
    case!("second phase", "prepared/inference_config.json", &[], By::Call(read::inference)),
    case!(
        "platforms",
        "platforms.toml",
        &[
            "pack",
            "--platform",
            "orin",
            "--platforms",
            "@/platforms.toml",
            "--models",
            "edgetam_mini",
            "--imgsz",
            "256",
            "--precision",
            "fp32",
            "--out",
            "@/p.tar"
        ],
        By::Call(read::platforms),
        &["platforms.toml", "orin"]
    ),
    case!("suite", "suite.toml", &[], By::Call(read::suite)),
    case!("listing", "remote/listing.bin", COLLECT, By::Command, &["host:"]),
    case!("stream", "remote/stream.bin", COLLECT, By::Command, &["host:"]),
    case!("collected", "collected/collected.json", COLLECT, By::Command),
    case!("compare's account", "cmp/measured.json", &[], By::Call(read::measured)),
    case!(
        "configuration",
        "config.toml",
        &["bench", "--split-dir", "@/split", "--config", "@/config.toml", "--print-config"],
        By::Program
    ),
];

/// Kinds that take the program seconds, or that the library reads with a process of its own: now and then.
const SELDOM: &[Case] = &[
    case!("plan alone", "plan/alone.plan", &["inspect", "@/plan/alone.plan"], By::Program),
    case!("resumed journal", "run/rows.jsonl", BENCH_RESUME, By::Program, &["rows.jsonl", "run"]),
    case!(
        "list of clips",
        "list.txt",
        BENCH_LIST,
        By::Program,
        &["list.txt", "JPEGImages_24fps", "Annotations_6fps"]
    ),
];
/// One mutant in so many is of a seldom kind.
const SELDOM_EVERY: u64 = 150;

/// The kind of a mutant.
pub fn of(n: u64) -> &'static Case {
    let seldom = (n / SELDOM_EVERY) as usize % SELDOM.len();
    match n % SELDOM_EVERY {
        0 => &SELDOM[seldom],
        _ => &CASES[n as usize % CASES.len()],
    }
}

/// The bytes of a mutant.
pub fn mutant(bytes: &[u8], seed: u64, n: u64) -> Vec<u8> {
    change(bytes, &mut Random((seed << 32) ^ n))
}

/// A path below `root` in which `*` stands for the first entry.
pub fn find(root: &Path, path: &str) -> PathBuf {
    path.split('/').fold(root.to_owned(), |folder, part| match part {
        "*" => {
            let entries = std::fs::read_dir(&folder).unwrap();
            entries.map(|entry| entry.unwrap().path()).min().unwrap()
        }
        name => folder.join(name),
    })
}

/// The command line of a case.
pub fn words(case: &Case, root: &Path) -> Vec<OsString> {
    let root = root.display().to_string();
    case.args.iter().map(|word| word.replace('@', &root).into()).collect()
}
