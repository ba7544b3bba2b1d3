/*!
From the arguments of `jetson-benchmark` to a plan: what was typed, else the preset, else what an
earlier first phase wrote down, else the default.
*/

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::args::JetsonBenchmarkArgs;
use super::budget::networks;
use crate::commands::bench::{BenchArgs, Toggle};
use crate::commands::started_bench::{
    self, Chosen, StartedBenchArgs, check_started, parse_bench, tags_of, text,
};
use crate::environment::usual_decode_threads;
use crate::selftest::{self, Asked};
use crate::two_phase::{InferenceConfig, PresetValues};
use host::{UsageError, share};
use vos::bundle;
use vos::model_tag::ModelTag;
use vos::precision::Precision;
use vos::predecode::Values;
use vos::prompt::PromptKind;

/// The predecessor's defaults; these models where none is there.
const MODELS: &str = "sam2_base_points,edgetam_points";
const SPLIT_NAME: &str = "sav_val";
const IMGSZ: usize = 1024;
const WORKSPACE_MB: u64 = 256;
const MAX_FRAMES: u32 = 600;

/// Frames that the GPU's pipeline holds besides those that are being decoded: one in flight and one
/// waiting.
const FRAMES_BESIDE_DECODING: usize = 2;

/// Flags of bench that have a flag of their own here.
const OURS: [&str; 14] = [
    "--imgsz",
    "--precision",
    "--autocast",
    "--autocast-dtype",
    "--limit-videos",
    "--limit-objects",
    "--shuffle-videos",
    "--seed",
    "--save-overlays",
    "--engines",
    "--onnx-dir",
    "--device",
    "--predecoded",
    "--decode-threads",
];

/// What both phases do.
pub(super) struct Plan {
    /// The split, absolute.
    pub split_dir: PathBuf,
    /// Stem of its manifest.
    pub split_name: String,
    /// Model tags, each once.
    pub models: Vec<String>,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// Clips, 0 for all.
    pub limit_videos: usize,
    /// Objects of each clip, 0 for all.
    pub limit_objects: usize,
    /// Shuffle before limiting.
    pub shuffle: bool,
    /// Its seed.
    pub seed: Option<i64>,
    /// Cap of TensorRT's workspace, MiB.
    pub workspace_mb: u64,
    /// Most decoded frames in memory.
    pub max_frames: usize,
    /// What is stored of frames that are decoded in the first phase.
    pub predecode: Option<Values>,
    /// Where results go.
    pub out_dir: PathBuf,
    /// Where the files between the phases lie, absolute.
    pub preprocessed_dir: PathBuf,
    /// What runs the networks.
    pub chosen: Chosen,
    /// The bench's flags, but for model, clips, folder.
    pub bench: Vec<String>,
    /// All flags, as the predecessor's parser would name them.
    pub flags: Map<String, Value>,
}

impl Plan {
    /// Where predecoded frames go.
    pub fn frames_dir(&self, values: Values) -> PathBuf {
        self.preprocessed_dir.join(format!("frames_{}", values.name()))
    }

    /// The words of a bench of `models`.
    pub fn words(&self, models: &[String]) -> Vec<String> {
        let mut words = self.bench.clone();
        words.extend(["--models".to_owned(), models.join(",")]);
        words.extend(["--backend".to_owned(), self.chosen.name().to_owned()]);
        words
    }

    /// The networks of its models, each once.
    pub fn networks(&self) -> Vec<String> {
        networks(&self.models)
    }

    /// Precision of the engines; fp16, as every platform's, where none is typed.
    pub fn precision(&self) -> Result<Precision> {
        let typed = self.parsed()?.precision;
        let parsed = typed.and_then(|name| Precision::from_str(&name, true).ok());
        Ok(parsed.unwrap_or(Precision::Fp16))
    }

    /// Takes the models of networks out; how many.
    pub fn leave_out(&mut self, is_refused: impl Fn(&str) -> bool) -> usize {
        let before = self.models.len();
        self.models
            .retain(|tag| networks(std::slice::from_ref(tag)).iter().all(|it| !is_refused(it)));
        self.flags.insert("models".to_owned(), json!(self.models.join(",")));
        before - self.models.len()
    }

    /// Decodes at most so many frames ahead, at least one.
    pub fn limit_decode_threads(&mut self, frames: u64) {
        let room = usize::try_from(frames).unwrap_or(usize::MAX);
        let room = room.saturating_sub(FRAMES_BESIDE_DECODING).max(1);
        let value = self.bench.iter().position(|word| word == "--decode-threads");
        if let Some(threads) = value.and_then(|at| self.bench.get_mut(at + 1))
            && threads.parse::<usize>().is_ok_and(|threads| threads > room)
        {
            eprintln!("memory: the frames that are decoded ahead are limited to {room}");
            *threads = room.to_string();
        }
    }

    /// What the bench understands.
    pub fn parsed(&self) -> Result<BenchArgs> {
        parse_bench(&self.words(&self.models))
    }
}

/// Resolves the arguments. `recorded` is what an earlier first phase wrote, where only the second
/// one runs.
pub(super) fn plan(args: &JetsonBenchmarkArgs, recorded: Option<&InferenceConfig>) -> Result<Plan> {
    check_started(&args.started, "jetson-benchmark", &OURS)?;
    if args.enable_cudnn_tuning {
        log::warn!(
            "--enable-cudnn-tuning does nothing here: this tool does not use cuDNN, and \
             cudnn_benchmark is False"
        );
    }
    let preset = args.preset.map_or_else(PresetValues::default, |preset| preset.values());
    let split_dir = std::path::absolute(&args.split_dir)?;
    let earlier = Earlier(recorded.map(|config| &config.args));
    earlier.agrees("split_dir", Some(json!(text(&split_dir)?)))?;
    earlier.agrees("split_name", args.split_name.as_ref().map(|name| json!(name)))?;
    earlier.agrees("imgsz", args.imgsz.or(preset.imgsz).map(|side| json!(side)))?;
    let limit_videos = args.limit_videos.or(preset.limit_videos);
    earlier.agrees("limit_videos", limit_videos.map(|limit| json!(limit)))?;
    let limit_objects = args.limit_objects.or(preset.limit_objects);
    earlier.agrees("limit_objects", limit_objects.map(|limit| json!(limit)))?;
    earlier.agrees("seed", args.shuffle.seed.map(|seed| json!(seed)))?;
    earlier.agrees("shuffle_videos", args.shuffle.shuffle_videos.then(|| json!(true)))?;

    let split_name = args.split_name.clone().or(earlier.text("split_name"));
    let split_name = split_name.unwrap_or_else(|| SPLIT_NAME.to_owned());
    let models =
        args.models.clone().or(preset.models.map(str::to_owned)).or(earlier.text("models"));
    let count = |name: &str| earlier.number(name).and_then(|n| usize::try_from(n).ok());
    let imgsz = args.imgsz.or(preset.imgsz).or(count("imgsz")).unwrap_or(IMGSZ);
    let models = match models {
        Some(models) => tags(&models),
        None => tags_there(&args.started, imgsz)?,
    };
    let limit_videos = limit_videos.or(count("limit_videos")).unwrap_or(0);
    let limit_objects = limit_objects.or(count("limit_objects")).unwrap_or(0);
    let seed = args.shuffle.seed.or(earlier.number("seed"));
    let shuffle = args.shuffle.shuffle_videos || earlier.is_true("shuffle_videos");
    let precision = args.precision.clone().or(earlier.text("autocast_dtype"));
    let workspace_mb = args.workspace_mb.or(preset.workspace_mb).unwrap_or(WORKSPACE_MB);
    let max_frames = args.max_frames_in_mem.or(preset.max_frames_in_mem).unwrap_or(MAX_FRAMES);
    let recorded_values = earlier.text("predecode");
    let recorded_values =
        Values::ALL.into_iter().find(|values| Some(values.name()) == recorded_values.as_deref());
    let predecode = args.predecode.or(recorded_values);
    let out_dir = args.out_dir.clone().unwrap_or_else(|| "jetson_benchmark_outputs".into());
    let overlays = if args.save_overlays == Toggle::On { "1" } else { "0" };

    let mut bench = args.started.bench.clone();
    let mut push = |name: &str, value: String| bench.extend([name.to_owned(), value]);
    push("--split-dir", text(&split_dir)?);
    push("--split-name", split_name.clone());
    push("--imgsz", imgsz.to_string());
    push("--limit-objects", limit_objects.to_string());
    push("--save-overlays", overlays.to_owned());
    push("--device", args.started.device.to_string());
    push("--engines", text(&args.started.engines)?);
    for dir in &args.started.onnx_dir {
        push("--onnx-dir", text(dir)?);
    }
    if let Some(precision) = &precision {
        push("--precision", precision.clone());
    }
    let mut asked = bench.clone();
    asked.extend(["--models".to_owned(), models.join(",")]);
    let chosen = started_bench::choose(args.started.backend, &parse_bench(&asked)?, true);
    if chosen.tensorrt {
        let room = (max_frames as usize).saturating_sub(FRAMES_BESIDE_DECODING).max(1);
        bench
            .extend(["--decode-threads".to_owned(), usual_decode_threads(1).min(room).to_string()]);
    }
    let flags = json!({
        "split_dir": text(&split_dir)?,
        "split_name": split_name,
        "models": models.join(","),
        "weights_dir": args.started.weights_dir.as_ref().map(|dir| dir.display().to_string()),
        "imgsz": imgsz,
        "limit_videos": limit_videos,
        "limit_objects": limit_objects,
        "shuffle_videos": shuffle,
        "seed": seed,
        "out_dir": text(&out_dir)?,
        "save_overlays": i32::from(args.save_overlays == Toggle::On),
        "workspace_mb": workspace_mb,
        "max_frames_in_mem": max_frames,
        "enable_cudnn_tuning": args.enable_cudnn_tuning,
        "preprocessed_dir": text(&args.preprocessed_dir)?,
        "skip_setup": args.skip_setup,
        "skip_inference": args.skip_inference,
        "autocast_dtype": precision,
        "memory_log_interval": args.memory_log_interval,
        "backend": chosen.name(),
        "predecode": predecode.map(Values::name),
        "segtrt": env!("CARGO_PKG_VERSION"),
    });
    let Value::Object(flags) = flags else { bail!("the flags are no object") };
    Ok(Plan {
        split_dir,
        split_name,
        models,
        imgsz,
        limit_videos,
        limit_objects,
        shuffle,
        seed,
        workspace_mb,
        max_frames: max_frames as usize,
        predecode,
        out_dir,
        preprocessed_dir: std::path::absolute(&args.preprocessed_dir)?,
        chosen,
        bench,
        flags,
    })
}

/// The flags that an earlier first phase wrote down.
struct Earlier<'a>(Option<&'a Map<String, Value>>);

impl Earlier<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0?.get(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.as_str().map(str::to_owned)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_i64()
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool) == Some(true)
    }

    /// A flag that decides what was scanned must not be another one now.
    fn agrees(&self, name: &str, typed: Option<Value>) -> Result<()> {
        let (Some(there), Some(now)) = (self.get(name), typed) else { return Ok(()) };
        // The predecessor wrote the split's folder as it was typed.
        let absolute =
            |value: &Value| value.as_str().and_then(|text| std::path::absolute(text).ok());
        if *there == now || (name == "split_dir" && absolute(there) == absolute(&now)) {
            return Ok(());
        }
        let flag = name.replace('_', "-");
        bail!(UsageError(format!(
            "--{flag} is {now}, and the first phase ran with {there}; leave it out, or run the \
             first phase again (without --skip-setup)"
        )))
    }
}

/// The published models with a bundle or engines of this size, prompted with a click; without any,
/// the predecessor's.
fn tags_there(started: &StartedBenchArgs, imgsz: usize) -> Result<Vec<String>> {
    let bundles = bundle::list(&share::bundle_roots(&started.onnx_dir))?;
    let asked = Asked { imgsz: Some(imgsz), ..Asked::default() };
    // A folder of engines that is missing or damaged is named where it is needed.
    let engines = selftest::find(&started.engines, &asked).unwrap_or_default();
    let is_there = |text: &String| {
        let Some(tag) = ModelTag::parse(text, PromptKind::Points) else { return false };
        let bundles = bundles.iter().map(|bundle| &bundle.manifest.model);
        let engines = engines.iter().map(|folder| &folder.manifest.bundle.model);
        tag.prompt == PromptKind::Points
            && bundles
                .chain(engines)
                .any(|model| (&model.name, model.imgsz) == (&tag.network, imgsz))
    };
    let there: Vec<String> = ModelTag::all().into_iter().filter(is_there).collect();
    Ok(if there.is_empty() { tags(MODELS) } else { there })
}

/// The entries of `--models`, each once: a model has one process and one folder.
fn tags(models: &str) -> Vec<String> {
    let mut tags = Vec::new();
    for tag in tags_of(models) {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}
