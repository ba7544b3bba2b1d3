/*!
`segtrt demo`: a synthetic clip, `track` and `bench` on it with the demonstration network, a report,
and which file to open.
*/

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::Outcome;
use crate::commands::headings::{MODEL, OUTPUT};
use crate::test_run::{Outcome as StepOutcome, Runner, measured};
use crate::track::job::{MASKS, OVERLAY, Summary};
use host::ctrl_c;
use vos::dataset;
use vos::overlay::{FILM, FIRST_FRAME};
use vos::prompt::{ObjectPrompt, Prompt, PromptKind, PromptPolicy};
use vos::synth::SPLIT_NAME;

/// Flags of `segtrt demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt demo --out demo\n\nThe network edgetam_mini was trained \
                        on synthetic shapes: it shows that all works here, and no accuracy. The \
                        speeds are of this machine. Each step is a command of segtrt with its own \
                        log in OUT/logs. An earlier demo in the folder is replaced.")]
pub struct DemoArgs {
    /// Folder of all files.
    #[arg(long, help_heading = OUTPUT, default_value = "demo", value_name = "DIR")]
    pub out: PathBuf,
    /// Folder of bundles, or one bundle, with edgetam_mini [default: as bench].
    #[arg(long, help_heading = MODEL, value_name = "DIR")]
    pub onnx_dir: Option<PathBuf>,
    /// Shared library of ONNX Runtime, or its folder.
    #[arg(long, help_heading = MODEL)]
    pub ort_lib: Option<PathBuf>,
    /// Frames of each clip; tests take fewer.
    #[arg(long, hide = true, default_value_t = 48)]
    pub frames: usize,
    /// Print one JSON document at the end.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Clips, and objects of each.
const CLIPS: usize = 2;
const OBJECTS: usize = 2;
/// The options of the clips, which the network was tested on (docs/results/training.md).
const SYNTH: [&str; 10] = [
    "synth",
    "--videos",
    "2",
    "--objects",
    "2",
    "--size",
    "640x360",
    "--seed",
    "7",
    "--mask-stride=1",
];
/// The network.
const MODEL_NAME: &str = "edgetam_mini";

/// Runs the steps.
///
/// # Errors
/// The folder cannot be written to.
pub fn run(args: DemoArgs) -> Result<Outcome> {
    let mut runner = Runner::new(&args.out)?;
    ctrl_c::end_with_repeat(&format!("The steps' files are in {}.", args.out.display()), &[]);
    let ran = steps(&mut runner, &args);
    let seconds: f64 = runner.results.iter().map(|step| step.seconds).sum();
    let failed =
        runner.results.iter().any(|step| matches!(step.outcome, StepOutcome::Failed(_))) || !ran;
    let files = files(&args.out);
    if args.json {
        println!("{:#}", json!({"steps": runner.results, "seconds": seconds, "files": files}));
    } else if !failed {
        print(&args.out, &files, seconds);
    }
    Ok(if failed { Outcome::PartlyFailed } else { Outcome::Done })
}

fn steps(runner: &mut Runner, args: &DemoArgs) -> bool {
    let split = args.out.join("split");
    let mut words = with(&SYNTH, "--out", &split);
    words.push(format!("--frames={}", args.frames).into());
    let made = runner.command("clips", words, || {
        Ok(format!("{CLIPS} synthetic clips, {OBJECTS} objects each: {}", split.display()))
    });
    if !made {
        return false;
    }
    let clicks = match clicks(&split) {
        Ok(clicks) => clicks,
        Err(error) => return runner.look("clicks", || Err(error)),
    };
    let out = args.out.join("track");
    let mut words = with(&["track", "--json", "--show-fps", "--model", MODEL_NAME], "--out", &out);
    words.extend(clicks);
    words.extend(model_words(args));
    let tracked = runner.command("track", words, || {
        let log = args.out.join("logs/02_track.log");
        told(&log)
    });
    let bench = args.out.join("out");
    let mut words = with(&["bench", "--save-overlays"], "--out-dir", &bench);
    words.extend(["--models".into(), format!("{MODEL_NAME}_points").into()]);
    words.extend(["--split-dir".into(), split.into()]);
    words.extend(model_words(args));
    let benched = runner.command("bench", words, || measured(&bench, CLIPS * OBJECTS));
    let page = args.out.join("report.html");
    let reported = benched
        && runner.command("report", with(&["report", "-o"], page.as_os_str(), &bench), || {
            Ok(page.display().to_string())
        });
    tracked && benched && reported
}

/// `words`, then a flag and its path.
fn with(words: &[&str], flag: impl Into<OsString>, path: &Path) -> Vec<OsString> {
    words.iter().map(OsString::from).chain([flag.into(), path.into()]).collect()
}

/// Flags of both runs of the network. One thread: the network is too small to gain from more. On two
/// virtual processors two threads had half the rate, and latencies too unsteady for a VALID row.
fn model_words(args: &DemoArgs) -> Vec<OsString> {
    let flags = [("--onnx-dir", &args.onnx_dir), ("--ort-lib", &args.ort_lib)];
    let given = flags.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?)));
    let paths = given.flat_map(|(flag, path)| [flag.into(), path.into()]);
    paths.chain(["--threads=1".into()]).collect()
}

/// The first clip, a click on each of its objects, and their true masks, as words of `track`.
fn clicks(split_dir: &Path) -> Result<Vec<OsString>> {
    let split = dataset::open(split_dir, SPLIT_NAME)?;
    let video = split.videos().first().context("the split has no clip")?;
    let clip = split.clip(video)?;
    let size = clip.frame_size()?;
    let frames = clip.frame_path(0)?.parent().context("the frames lie in no folder")?;
    let mut words: Vec<OsString> = vec![frames.into()];
    for (object, id) in clip.objects.iter().zip(1..) {
        let (kind, policy) = (PromptKind::Points, PromptPolicy::Interior);
        let prompt = ObjectPrompt::new(object, clip.frames.len(), size, kind, policy)?;
        if let Prompt::Point { x, y } = prompt.prompt {
            words.extend(["--click".into(), format!("{id}:{x},{y}").into()]);
        }
        let masks = object.masks.values().next().and_then(|file| file.parent());
        if let Some(masks) = masks {
            let mut word = OsString::from(format!("{id}:"));
            word.push(masks);
            words.extend(["--truth".into(), word]);
        }
    }
    Ok(words)
}

/// The result of `track --json` as text. Warnings may precede the document.
fn told(log: &Path) -> Result<String> {
    let text =
        std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    let document = text.find("\n{").map_or(text.as_str(), |at| &text[at..]);
    let summary: Summary = serde_json::from_str(document)
        .with_context(|| format!("{} ends in no summary", log.display()))?;
    Ok(format!(
        "{} frames, {} objects together, {:.1} fps",
        summary.frames, summary.objects, summary.fps
    ))
}

/// What there is to open, the first thing first.
fn files(out: &Path) -> Vec<PathBuf> {
    let track = out.join("track");
    let film = track.join(format!("{OVERLAY}{FILM}"));
    let candidates = [
        film,
        track.join(OVERLAY).join(FIRST_FRAME),
        out.join("report.html"),
        track.join(MASKS),
        out.join("out").join(vos::files::summary_csv::FILE_NAME),
    ];
    candidates.into_iter().filter(|path| path.exists()).collect()
}

fn print(out: &Path, files: &[PathBuf], seconds: f64) {
    println!("all steps passed in {seconds:.0} s; the files are in {}", out.display());
    if let Some(first) = files.first() {
        println!("Open first: {}", first.display());
        println!("  colours: masks of the objects; disc: click; white line: true outline");
    }
    for file in files.iter().skip(1) {
        println!("Then:       {}", file.display());
    }
    println!("The network of this demo follows synthetic shapes only. For your own video:");
    println!("  segtrt fetch edgetam");
    println!("  segtrt track VIDEO --click X,Y --model edgetam --max-frames 24");
}
