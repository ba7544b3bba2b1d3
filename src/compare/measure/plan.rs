/*!
The plan of a comparison's measurements, resolved.
*/

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use vos::files::Configuration;

/// A resolved comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where everything goes.
    pub out_dir: PathBuf,
    /// The models in order.
    pub models: Vec<ModelWork>,
    /// The sides in order; the first one is the subject.
    pub sides: Vec<SidePlan>,
    /// What masks are compared with.
    pub reference: ReferencePlan,
    /// The clips.
    pub clips: Clips,
    /// Rounds of each side.
    pub rounds: usize,
    /// After the rounds of a model each side is run once more with the reference's logits in its
    /// memories.
    pub teacher_forced: bool,
    /// PyTorch processes end after each round instead of waiting for their next turn.
    pub restart: bool,
    /// Seconds without a frame after which a side is taken to hang, where that was typed; 0: never.
    pub stall_limit_s: Option<u64>,
    /// Seconds that a PyTorch process may build, compile and warm up, where that was typed; 0: for
    /// ever.
    pub ready_limit_s: Option<u64>,
}

/// What masks are compared with.
#[derive(Clone, Debug)]
pub enum ReferencePlan {
    /// The side of that name.
    Side(String),
    /// One round of this, in addition to the sides.
    Run(SidePlan),
    /// A folder that is there already.
    Folder(PathBuf),
}

/// One model.
#[derive(Clone, Debug)]
pub struct ModelWork {
    /// Model tag.
    pub tag: String,
    /// Side of the network input, pixels; none: whatever `bench` takes.
    pub imgsz: Option<usize>,
    /// The bundle whose weights PyTorch is to take, or why there is none.
    pub bundle: Result<PathBuf, String>,
}

/// One side.
#[derive(Clone, Debug)]
pub struct SidePlan {
    /// Its name in tables and folders.
    pub name: String,
    /// `fp32`, `fp16` or `bf16`.
    pub precision: String,
    /// Side of the network input, pixels, where it is another than the model's.
    pub imgsz: Option<usize>,
    /// What runs it.
    pub kind: SideKind,
}

/// What runs a side.
#[derive(Clone, Debug)]
pub enum SideKind {
    /// `segtrt bench` with these further arguments.
    Bench(Vec<String>),
    /// The PyTorch runner.
    Runner {
        /// The interpreter.
        python: PathBuf,
        /// Its script.
        script: PathBuf,
        /// `eager`, `compile` or `vos_optimized`.
        mode: String,
        /// `cuda` or `cpu`.
        device: String,
        /// Further arguments.
        args: Vec<String>,
    },
}

/// Which clips and how much of them; the same for all sides.
#[derive(Clone, Debug)]
pub struct Clips {
    /// Root of the split.
    pub split_dir: PathBuf,
    /// Stem of its manifest.
    pub split_name: String,
    /// Clips, 0 for all.
    pub limit_videos: usize,
    /// Objects of each clip, 0 for all.
    pub limit_objects: usize,
    /// Frames of each clip, 0 for all.
    pub max_clip_frames: usize,
    /// Passes before the recorded one.
    pub warmup_runs: usize,
}

impl Clips {
    /// The flags that `bench` and the PyTorch runner share.
    pub fn flags(&self) -> Vec<String> {
        let number = |flag: &str, value: usize| [flag.to_owned(), value.to_string()];
        let mut flags = vec!["--split-dir".to_owned(), self.split_dir.display().to_string()];
        flags.extend(["--split-name".to_owned(), self.split_name.clone()]);
        flags.extend(number("--limit-videos", self.limit_videos));
        flags.extend(number("--limit-objects", self.limit_objects));
        flags.extend(number("--max-clip-frames", self.max_clip_frames));
        flags
    }
}

impl Plan {
    /// What must be the same for a comparison to go on in the same folder. Sides, models and rounds
    /// may be added.
    pub fn configuration(&self) -> Configuration {
        let clips = &self.clips;
        Configuration::default()
            .with("split_name", clips.split_name.as_str())
            .with("limit_videos", clips.limit_videos)
            .with("limit_objects", clips.limit_objects)
            .with("max_clip_frames", clips.max_clip_frames)
            .with("warmup_runs", clips.warmup_runs)
    }

    /// The same of each side.
    pub fn side_settings(&self) -> BTreeMap<String, Configuration> {
        let reference = match &self.reference {
            ReferencePlan::Run(side) => Some(side),
            ReferencePlan::Side(_) | ReferencePlan::Folder(_) => None,
        };
        let settings = |side: &SidePlan| {
            let with = Configuration::default().with("precision", side.precision.as_str());
            let with = match &side.kind {
                SideKind::Bench(args) => with.with("bench", json!(args)),
                SideKind::Runner { mode, device, args, .. } => with
                    .with("mode", mode.as_str())
                    .with("device", device.as_str())
                    .with("args", json!(args)),
            };
            let size = |model: &ModelWork| side.imgsz.or(model.imgsz);
            let sizes: serde_json::Map<_, _> =
                self.models.iter().map(|model| (model.tag.clone(), json!(size(model)))).collect();
            (side.name.clone(), with.with("imgsz", sizes))
        };
        self.sides.iter().chain(reference).map(settings).collect()
    }
}
