//! What reads damaged files without the program: commands in this process, and functions of the library.

use std::ffi::OsString;
use std::path::Path;

use host::UsageError;
use report::compare::runs::{MEASURED_FILE, Measured};
use runtime::engine::timing_cache::{self, Stack};
use segtrt::commands::config::{self, Start};
use segtrt::commands::{Command, Outcome};
use segtrt::experiment::Folder;
use segtrt::suite::Suite;
use segtrt::two_phase::{InferenceConfig, Metadata};
use vos::bundle::{Bundle, Trunk};
use vos::files::{Configuration, JournalReader, ResultStore, sha256_of_file};
use vos::logits::LogitsFile;
use vos::platform::Platforms;
use vos::predecode::PreparedClip;
use vos::prompt::{Prompt, PromptKind, PromptPolicy};
use vos::{dataset, files};

use super::cases::find;

/// A command in this process; its exit code.
pub fn command(words: Vec<OsString>) -> i32 {
    let words = std::iter::once("segtrt".into()).chain(words).collect();
    let Ok(Start::Run(cli)) = config::start(words) else { panic!("the case has a fault") };
    let in_process = matches!(
        cli.command,
        Command::Baseline(_)
            | Command::Collect(_)
            | Command::Compare(_)
            | Command::History(_)
            | Command::Inspect(_)
            | Command::Merge(_)
            | Command::Ncu(_)
            | Command::Nsys(_)
            | Command::Report(_)
            | Command::Submit(_)
            | Command::Trace(_)
    );
    assert!(in_process, "not in this process: {:?}", cli.command);
    match cli.command.run() {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::PartlyFailed) => 1,
        Ok(Outcome::Stopped) => 130,
        Ok(Outcome::Code(code)) => code.into(),
        Err(error) => {
            eprintln!("Error: {error:#}");
            if error.is::<UsageError>() { 2 } else { 1 }
        }
    }
}

fn full(error: anyhow::Error) -> String {
    format!("{error:#}")
}

pub fn clips(root: &Path) -> Result<(), String> {
    read_split(&root.join("split"), "sav_val")
}

pub fn davis_clips(root: &Path) -> Result<(), String> {
    read_split(&root.join("davis"), "val")
}

pub fn youtube_clips(root: &Path) -> Result<(), String> {
    read_split(&root.join("youtube"), "sav_val")
}

/// All that a bench takes from a split: frames, masks, prompts.
fn read_split(split: &Path, name: &str) -> Result<(), String> {
    let split = dataset::open(split, name).map_err(full)?;
    for video in split.videos().iter().take(50) {
        let clip = split.clip(video).map_err(|error| error.to_string())?;
        let size = clip.frame_size().map_err(|error| error.to_string())?;
        for index in 0..clip.frames.len() {
            clip.frame(index, size).map_err(|error| error.to_string())?;
        }
        for object in &clip.objects {
            for index in object.masks.keys() {
                let mask = object
                    .mask_of_size(*index, size.0, size.1)
                    .map_err(|error| error.to_string())?;
                for kind in [PromptKind::Points, PromptKind::Bbox] {
                    let _ = Prompt::from_mask(&mask, kind, PromptPolicy::Interior);
                }
            }
        }
    }
    Ok(())
}

/// With the hash of the damaged file, as if the exporter had written it.
pub fn weights(root: &Path) -> Result<(), String> {
    let mut bundle = Bundle::open(&root.join("trunk")).map_err(full)?;
    let trunk = bundle.manifest.trunk.as_mut().ok_or("manifest.toml has no [trunk]")?;
    trunk.sha256 = sha256_of_file(&bundle.dir.join(&trunk.file)).map_err(full)?.sha256;
    let last = trunk.blocks.count().saturating_sub(1);
    let weights =
        bundle.weights_of::<Trunk>().map_err(full)?.ok_or("manifest.toml has no [trunk]")?;
    weights.repvit_block(last).map_err(full).map(drop)
}

pub fn journal(root: &Path) -> Result<(), String> {
    let run = root.join("run");
    let read = JournalReader::open(&run).and_then(|mut reader| reader.each(|_, _| Ok(())));
    read.map_err(full)?;
    let resumed = root.join("out/resumed");
    std::fs::create_dir_all(&resumed).unwrap();
    std::fs::copy(run.join(files::JOURNAL), resumed.join(files::JOURNAL)).unwrap();
    ResultStore::resume(&resumed, Configuration::default()).map_err(full).map(drop)
}

pub fn logits(root: &Path) -> Result<(), String> {
    LogitsFile::read(&find(root, "run/logits/*")).map_err(full).map(drop)
}

pub fn frames(root: &Path) -> Result<(), String> {
    let clip = PreparedClip::open(&find(root, "frames/*")).map_err(|error| error.to_string())?;
    for index in 0..3 {
        clip.frame(index).map_err(full)?;
    }
    clip.verify().map_err(|error| error.to_string())
}

/// The stack of the timing cache that the corpus has.
pub const TIMING: Stack<'_> =
    Stack { tensorrt: "TensorRT 8.6.0", device: "H200", driver: "driver 580.95.05 with CUDA 13.0" };

pub fn timing(root: &Path) -> Result<(), String> {
    timing_cache::read(&root.join("x.timing"), TIMING).map(drop)
}

pub fn experiment(root: &Path) -> Result<(), String> {
    Folder::open(&find(root, "exp/*")).map_err(full).map(drop)
}

pub fn metadata(root: &Path) -> Result<(), String> {
    let metadata = Metadata::read(&root.join("prepared")).map_err(full)?;
    for video in metadata.video_ids.iter().take(50) {
        metadata.video(video).map_err(full)?;
    }
    Ok(())
}

pub fn inference(root: &Path) -> Result<(), String> {
    InferenceConfig::read(&root.join("prepared")).map_err(full).map(drop)
}

pub fn platforms(root: &Path) -> Result<(), String> {
    Platforms::open(Some(&root.join("platforms.toml"))).map_err(full).map(drop)
}

pub fn suite(root: &Path) -> Result<(), String> {
    Suite::find(root.join("suite.toml").to_str().unwrap()).map_err(full).map(drop)
}

pub fn measured(root: &Path) -> Result<(), String> {
    let read = Measured::read(&root.join("cmp")).map_err(full)?;
    read.ok_or(format!("{MEASURED_FILE} is not there")).map(drop)
}
