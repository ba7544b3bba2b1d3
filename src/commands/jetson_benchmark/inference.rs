/*!
The second phase of `segtrt jetson-benchmark`: one bench after another, each in a fresh process, and their
rows in one file.
*/

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::args::JetsonBenchmarkArgs;
use super::plan::Plan;
use crate::commands::Outcome;
use crate::commands::started_bench::text;
use crate::experiment::{STOPPED, Step, run_step};
use crate::two_phase::{
    MemoryWatch, Metadata, ModelRows, SUMMARY_FILE, Summary, SystemMemory, Watched,
};
use host::UsageError;
use host::colour;
use host::screen_table::{self, number};
use vos::dataset::Dataset;
use vos::files::{self, atomic, summary_csv};

/// Folder of the models' run folders, below the output folder.
const RUNS: &str = "runs";

/// Measures the clips of `metadata`.
pub(super) fn run(
    plan: &Plan,
    args: &JetsonBenchmarkArgs,
    metadata: &Metadata,
    split: &dyn Dataset,
) -> Result<Outcome> {
    eprintln!("second phase: measuring");
    if metadata.imgsz != plan.imgsz {
        bail!(UsageError(format!(
            "--imgsz is {}, and the first phase ran with {}; give that, or run the first phase \
             again (without --skip-setup)",
            plan.imgsz, metadata.imgsz
        )));
    }
    let clip_frames = unchanged(metadata, split)?;
    let runs = plan.out_dir.join(RUNS);
    std::fs::create_dir_all(&runs).with_context(|| {
        format!("cannot create {}; choose a writable --out-dir", runs.display())
    })?;
    let list = runs.join("videos.txt");
    atomic::write(&list, |out| Ok(out.write_all(metadata.video_ids.join("\n").as_bytes())?))?;
    let file = plan.out_dir.join(SUMMARY_FILE);
    if !args.resume && file.exists() {
        // Rows of an earlier run would pass for this one's until the first model is done.
        forget(&file)?;
    }
    let mut summary =
        Summary { videos: metadata.video_ids.clone(), clip_frames, models: Vec::new() };
    let mut done: Vec<(String, ModelRows)> = Vec::new();
    let mut failed = 0;
    for tag in &plan.models {
        let folder = runs.join(tag);
        let (code, watched) = model(plan, args, tag, &folder, &list)?;
        failed += usize::from(code != Some(0));
        if code == Some(STOPPED) {
            return Ok(Outcome::Stopped);
        }
        let own = folder.join(summary_csv::FILE_NAME);
        if !own.exists() {
            eprintln!("{tag}: no rows; its error is above");
            continue;
        }
        let rows = ModelRows::read(&own, &format!("{RUNS}/{tag}"), watched.peak_used_mib)?;
        eprintln!("[POST-INFERENCE] {tag}: {}", after(&rows, watched));
        summary.models.push(rows.clone());
        done.push((tag.clone(), rows));
        summary.write(&file)?;
    }
    if done.is_empty() {
        bail!(
            "no model left rows; fix the errors above, then repeat the command with --skip-setup --resume"
        );
    }
    show(&summary, &done, args.json)?;
    if !args.json {
        println!("{}", file.display());
    }
    Ok(if failed > 0 { Outcome::PartlyFailed } else { Outcome::Done })
}

/// One model in a process of its own.
fn model(
    plan: &Plan,
    args: &JetsonBenchmarkArgs,
    tag: &str,
    folder: &Path,
    list: &Path,
) -> Result<(Option<i32>, Watched)> {
    let mut words = plan.words(&[tag.to_owned()]);
    words.extend(["--out-dir".to_owned(), text(folder)?]);
    words.extend(["--video-list".to_owned(), text(list)?]);
    if let Some(values) = plan.predecode {
        words.extend(["--predecoded".to_owned(), text(&plan.frames_dir(values))?]);
    }
    if args.resume {
        words.push("--resume".to_owned());
    } else {
        forget(&folder.join(summary_csv::FILE_NAME))?;
    }
    if let Some(memory) = SystemMemory::now() {
        eprintln!("[PRE-INFERENCE] {tag}: {}", memory.line());
    }
    let watch = MemoryWatch::start(tag, Duration::from_secs(args.memory_log_interval));
    let ran = run_step(&Step { name: "bench", words, directory: None, variables: Vec::new() });
    let watched = watch.stop();
    let ran = ran?;
    if ran.code != Some(0) {
        eprintln!("{tag}: the bench ended {}", ran.ended);
    }
    Ok((ran.code, watched))
}

/// Sets a table aside: rows of an earlier run would pass for this one's where its process dies
/// before it writes any.
fn forget(table: &Path) -> Result<()> {
    if let Some(kept) = files::set_aside(table)? {
        eprintln!("{} is kept in {kept}", table.display());
    }
    Ok(())
}

/// The memory that a model took, the predecessor's words first.
fn after(rows: &ModelRows, watched: Watched) -> String {
    let mib = |value: Option<f64>| {
        value.map_or_else(|| "N/A".to_owned(), |value| format!("{value:.1} MiB"))
    };
    format!(
        "GPU alloc: {}, reserved: {}, process: {} (most of any row); system memory at its peak: \
         {} used by all programs, the GPU's share of it included where memory is unified",
        mib(rows.largest("gpu_peak_alloc_MiB")),
        mib(rows.largest("gpu_peak_reserved_MiB")),
        mib(rows.largest("cpu_peak_rss_MiB")),
        mib(watched.peak_used_mib)
    )
}

/// The clips' lengths, where the split still is what the first phase saw.
fn unchanged(metadata: &Metadata, split: &dyn Dataset) -> Result<HashMap<String, usize>> {
    let mut lengths = HashMap::new();
    for video in &metadata.video_ids {
        // Without an entry nothing of it could be used; the bench says why in its row.
        let Some(data) = metadata.video(video)? else { continue };
        let now = match split.clip(video) {
            // Frames of a video file are no files.
            Ok(clip)
                if clip.frames.decoder().is_some() && clip.frames.len() == data.frames.len() =>
            {
                None
            }
            Ok(clip) => {
                // The predecessor wrote paths as the split was typed.
                let paths = data.frames.iter().map(std::path::absolute);
                let paths: Vec<PathBuf> = paths.collect::<std::io::Result<_>>()?;
                (clip.frames.files() != paths)
                    .then(|| format!("{} frames, then {}", clip.frames.len(), data.frames.len()))
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(what) = now {
            bail!(
                "{video} is not what the first phase saw ({what}); run it again, without --skip-setup"
            );
        }
        lengths.insert(video.clone(), data.frames.len());
    }
    Ok(lengths)
}

fn show(summary: &Summary, done: &[(String, ModelRows)], json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        let (header, rows) = summary.table();
        let object = |row: Vec<String>| -> Map<String, Value> {
            header.iter().cloned().zip(row.into_iter().map(Value::from)).collect()
        };
        let rows: Vec<_> = rows.into_iter().map(object).collect();
        serde_json::to_writer_pretty(&mut out, &rows)?;
        return Ok(writeln!(out)?);
    }
    let mut table = screen_table::table(
        ["model", "rows ok", "fps", "J, %", "GPU MiB", "process MiB", "system MiB"],
        1..7,
    )
    .optional([6]);
    for (tag, rows) in done {
        let status = rows.column("status");
        table.add_row([
            tag.clone(),
            format!("{}/{}", status.iter().filter(|status| **status == "ok").count(), status.len()),
            number(rows.mean("fps"), 2),
            number(rows.mean("J").map(|j| 100.0 * j), 2),
            number(rows.largest("gpu_peak_alloc_MiB"), 1),
            number(rows.largest("cpu_peak_rss_MiB"), 1),
            number(rows.system_peak_used_mib, 0),
        ]);
    }
    Ok(writeln!(out, "{}", colour::shown(&table.to_string(), &std::io::stdout()))?)
}
