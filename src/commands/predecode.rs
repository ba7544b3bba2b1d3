/*!
`segtrt predecode`: clip after clip to a file of resized frames; a clip that cannot be read costs
its row only.
*/

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::Outcome;
use super::shared::ShuffleArgs;
use crate::commands::headings::{DATA, MEASURING, MODEL, OUTPUT};
use host::colour;
use host::ctrl_c;
use host::printable::printable;
use host::processor;
use host::screen_table;
use host::{UsageError, counted};
use vos::dataset::{self, Dataset};
use vos::geometry::GeometryKind;
use vos::predecode::Values;
use vos::predecode::{self, Done, Options};

/// Flags of `segtrt predecode`.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt predecode --split-dir demo/split --imgsz 256 --values u8 \
                  --out-dir demo/frames\nThen:    segtrt bench --split-dir demo/split --models \
                  edgetam_mini_points --predecoded demo/frames\n\nOnly missing, damaged or \
                  outdated files are written, so an interrupted run continues. Rows measured with \
                  such frames record it (docs/how-to/small-memory.md).")]
pub struct PredecodeArgs {
    /// Folder of the split, in the layout of SA-V, DAVIS, YouTube-VOS, MOSE or LVOS.
    #[arg(long, help_heading = DATA)]
    pub split_dir: PathBuf,
    /// Name of the clip list in the split folder; without such a file all clips are taken.
    #[arg(long, help_heading = DATA, default_value = "sav_val")]
    pub split_name: String,
    /// Image side of the network input, in pixels.
    #[arg(long, help_heading = MODEL, default_value_t = 1024)]
    pub imgsz: usize,
    /// How frames are resized to the square network input.
    #[arg(long, help_heading = DATA, value_enum, default_value = "stretch")]
    pub geometry: GeometryKind,
    /// Stored type of each pixel and channel.
    #[arg(long, help_heading = OUTPUT, value_enum, default_value = "f16")]
    pub values: Values,
    /// Number of clips, 0 for all.
    #[arg(long, help_heading = DATA, default_value_t = 0)]
    pub limit_videos: usize,
    /// In which order clips are taken.
    #[command(flatten)]
    pub shuffle: ShuffleArgs,
    /// Folder of the files [default: predecoded].
    #[arg(long, help_heading = OUTPUT)]
    pub out_dir: Option<PathBuf>,
    /// Largest number of frames in memory [default: two per thread].
    #[arg(long, help_heading = MEASURING, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_frames_in_mem: Option<u32>,
    /// Threads [default: all processors].
    #[arg(long, help_heading = MEASURING, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Rewrite files that are up to date.
    #[arg(long, help_heading = OUTPUT)]
    pub force: bool,
    /// Print the rows as JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Sides of networks are multiples of this.
const SIDE_STEP: usize = 32;
/// No network here comes near; a typing error would fill the disk.
const MOST_SIDE: usize = 4096;

/// A clip's row.
#[derive(Debug, Serialize)]
pub(super) struct ClipRow {
    /// Clip.
    pub video: String,
    /// `written`, `up to date` or `failed`.
    pub result: &'static str,
    /// Why it failed, or why a file that was there was written again.
    pub reason: Option<String>,
    /// Its file.
    pub file: Option<PathBuf>,
    /// Frames in it.
    pub frames: Option<usize>,
    /// Its size, bytes.
    pub bytes: Option<u64>,
    /// Time for it, s.
    pub seconds: Option<f64>,
}

/// Predecodes the chosen clips.
pub fn run(args: PredecodeArgs) -> Result<Outcome> {
    if args.imgsz == 0 || !args.imgsz.is_multiple_of(SIDE_STEP) || args.imgsz > MOST_SIDE {
        let side = args.imgsz;
        bail!(UsageError(format!(
            "--imgsz {side}: expected a multiple of {SIDE_STEP} up to {MOST_SIDE}, the side of a \
             network's input"
        )));
    }
    let split = dataset::open(&args.split_dir, &args.split_name)?;
    let videos = dataset::select(
        split.videos(),
        args.limit_videos,
        args.shuffle.shuffle_videos,
        args.shuffle.seed,
    );
    let dir = args.out_dir.clone().unwrap_or_else(|| "predecoded".into());
    let threads = args.threads.map_or_else(processor::processors, |threads| threads as usize);
    let options = Options {
        side: args.imgsz,
        geometry: args.geometry,
        values: args.values,
        frames_in_memory: args.max_frames_in_mem.map_or(2 * threads, |frames| frames as usize),
        force: args.force,
    };
    ctrl_c::end_with_repeat(&format!("Finished clips are kept in {}.", dir.display()), &[]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.context("cannot start the decoding threads; try fewer with --threads")?;
    let rows = pool.install(|| all(split.as_ref(), &videos, &dir, &options))?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &rows)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", colour::shown(&table(&rows), &std::io::stdout()))?;
        writeln!(out, "{}", printable(&dir.display().to_string()))?;
    }
    let failed = rows.iter().filter(|row| row.result == "failed").count();
    if failed > 0 {
        eprintln!("{failed} of {} failed; the others are written", counted(rows.len(), "clip"));
    }
    Ok(if failed > 0 { Outcome::PartlyFailed } else { Outcome::Done })
}

/// Predecodes `videos` into `dir`, which is made; a row for each.
pub(super) fn all(
    split: &dyn Dataset,
    videos: &[String],
    dir: &Path,
    options: &Options,
) -> Result<Vec<ClipRow>> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create {}; choose a writable folder", dir.display()))?;
    predecode::remove_litter(dir);
    Ok(videos.iter().map(|video| one(split, video, dir, options)).collect())
}

fn one(split: &dyn Dataset, video: &str, dir: &Path, options: &Options) -> ClipRow {
    let made = split.clip(video).map_err(anyhow::Error::from).and_then(|clip| {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(clip.frames.len() as u64),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30.cyan/blue} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_prefix(printable(video).into_owned());
        let done = predecode::predecode(&clip, dir, options, &mut |frames| {
            bar.set_position(frames as u64);
        });
        bar.finish_and_clear();
        done
    });
    match made {
        Ok(Done { path, frames, bytes, outcome, why, took }) => ClipRow {
            video: video.to_owned(),
            result: match outcome {
                predecode::ClipOutcome::Written => "written",
                predecode::ClipOutcome::UpToDate => "up to date",
            },
            reason: why,
            file: Some(path),
            frames: Some(frames),
            bytes: Some(bytes),
            seconds: Some(took.as_secs_f64()),
        },
        Err(error) => ClipRow {
            video: video.to_owned(),
            result: "failed",
            reason: Some(format!("{error:#}")),
            file: None,
            frames: None,
            bytes: None,
            seconds: None,
        },
    }
}

fn table(rows: &[ClipRow]) -> String {
    let mut table = screen_table::table(["clip", "frames", "MiB", "s", "result", "reason"], 1..4);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for row in rows {
        table.add_row([
            row.video.clone(),
            or_dash(row.frames.map(|frames| frames.to_string())),
            or_dash(row.bytes.map(|bytes| format!("{:.1}", bytes as f64 / f64::from(1 << 20)))),
            or_dash(row.seconds.map(|seconds| format!("{seconds:.2}"))),
            row.result.to_owned(),
            row.reason.clone().unwrap_or_default(),
        ]);
    }
    table.to_string()
}
