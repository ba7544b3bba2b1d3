/*!
`segtrt selftest`: tests the kernels, then each engine folder in its own process, and prints and
writes the rows.
*/

mod args;
mod progress;

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::commands::Outcome;
use crate::selftest::clip::{self, ClipRow};
use crate::selftest::kernels::{Chosen, Topic};
use crate::selftest::report::KernelsCsv;
use crate::selftest::{
    self, Asked, EngineRow, Folder, KernelReport, Opened, References, Repeats, Settings, Verdict,
    kernels, report,
};
pub use args::SelftestArgs;
use cuda::{Facts, Gpu};
use progress::Shown;
use vos::bundle::{self, Bundle};
use vos::model_tag::ModelTag;
use vos::prompt::PromptKind;

/// The file name that means standard output.
const STDOUT: &str = "-";

/// Seed of the inputs: the same in every run, so that runs are comparable.
pub const SEED: u64 = 8;

/// Tests kernels and engines.
pub fn run(args: SelftestArgs) -> Result<Outcome> {
    // First: without a GPU nothing below can run.
    let gpu = Gpu::open(0)?;
    let facts = gpu.facts().clone();
    if args.peak {
        return peak(&args, &gpu);
    }
    let layer_runs = if args.layers.is_some() { args.runs as usize } else { 0 };
    let settings = Settings {
        device: facts.ordinal,
        repeats: Repeats { warmup: args.warmup as usize, runs: args.runs as usize, layer_runs },
        max_error: args.max_error,
        seed: SEED,
        tensorrt_lib: args.tensorrt_lib.clone(),
        ort_lib: args.ort_lib.clone(),
    };
    let screen = Screen::of(&args);
    let topics = match args.topics.as_slice() {
        [] => Topic::value_variants(),
        some => some,
    };
    let chosen = Chosen {
        topics,
        max_elements: args.max_elements.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        without_cublaslt: args.without_cublaslt,
    };
    let mut csv = match &args.csv {
        Some(path) if args.kernels => Some(KernelsCsv::create(path)?),
        _ => None,
    };
    let test = || test_kernels(&gpu, &settings, chosen, screen, csv.as_mut());
    let kernels = (!args.no_kernels).then(test);
    // Closed before the engines' processes open it.
    drop(gpu);
    if let Some(kernels) = kernels.as_ref().filter(|_| args.kernels) {
        return end_kernels(&args, &settings, kernels, csv);
    }
    let folders = folders(&args, &facts)?;
    let roots = host::share::bundle_roots(&args.onnx_dir);
    let bundles = if args.no_reference { Vec::new() } else { bundle::list(&roots)? };
    let (mut rows, mut opened) = (Vec::<EngineRow>::new(), None::<Opened>);
    let mut clips = Clips::of(&args)?;
    for folder in &folders {
        let reference = match args.no_reference {
            true => Ok(None),
            false => selftest::reference_of(folder, &bundles, &roots).map(Some),
        };
        match reference {
            Ok(reference) => {
                eprintln!("testing {}", folder.dir.display());
                let dirs = reference.as_ref().map(|bundle| References {
                    bundle: bundle.dir.clone(),
                    parts: selftest::parts_of(folder, &bundles).map(|bundle| bundle.dir),
                });
                let (found, on) = selftest::run(folder, dirs, &settings, || false)?;
                rows.extend(found);
                opened = on.or(opened);
                clips.run(folder, reference.as_ref(), &settings);
            }
            Err(error) => {
                rows.push(EngineRow::failed(&folder.key(), None, None, &format!("{error:#}")));
            }
        }
    }
    screen.say(&report::render(&rows));
    clips.rows.iter().for_each(|row| screen.say(&row.line()));
    if let Some(opened) = &opened {
        screen.say(&format!(
            "{} (sm {}), driver for CUDA {}, {}",
            opened.device, opened.sm, opened.driver_cuda, opened.tensorrt
        ));
    }
    if let Some(path) = &args.csv {
        report::write_csv(path, &rows)?;
        screen.say(&path.display().to_string());
    }
    if let Some(path) = &args.layers {
        report::write_layers(path, &rows)?;
        screen.say(&path.display().to_string());
    }
    write_json(&args, &settings, opened.as_ref(), kernels.as_ref(), &rows, &clips.rows)?;
    let rows_outcome = outcome(&rows, screen);
    let clip_failed = clips.rows.iter().any(|row| row.verdict == Verdict::Failed);
    Ok(match clip_failed || kernels.as_ref().is_some_and(|report| failed(report) > 0) {
        true => Outcome::PartlyFailed,
        false => rows_outcome,
    })
}

/// Measures the peaks, and prints the command that takes them.
fn peak(args: &SelftestArgs, gpu: &Gpu) -> Result<Outcome> {
    let found = ::kernels::selftest::peak::measure(gpu)?;
    let (gflops, rate) = (found.gflops.round(), found.mb_per_s.round());
    let screen = Screen::of(args);
    screen.say(&format!(
        "{} (sm {}), measured: {:.1} TFLOP/s of fp16 (matmul of {n} x {n} x {n}, {}), {:.1} GB/s \
         (copy of {} MiB)",
        found.device,
        found.sm,
        gflops / 1e3,
        found.library,
        rate / 1e3,
        found.copied_bytes >> 20,
        n = found.gemm_size
    ));
    screen.say(&format!("segtrt roofline --peak-gflops {gflops} --peak-mb-per-s {rate}"));
    let document = serde_json::json!({
        "device": found.device, "sm": found.sm, "peak_gflops": gflops, "memory_mb_per_s": rate,
        "gemm_size": found.gemm_size, "library": found.library, "copied_bytes": found.copied_bytes,
    });
    match (&args.json, screen) {
        (None, _) => {}
        (Some(_), Screen::Stderr) => println!("{document:#}"),
        (Some(path), Screen::Stdout) => report::write_json(path, &document)?,
    }
    Ok(Outcome::Done)
}

/// Clips through whole models, where they are wanted.
struct Clips {
    /// The clip, and the runs while they are compared.
    scratch: Option<tempfile::TempDir>,
    rows: Vec<ClipRow>,
}

impl Clips {
    fn of(args: &SelftestArgs) -> Result<Self> {
        if args.no_clip || args.no_reference {
            return Ok(Self { scratch: None, rows: Vec::new() });
        }
        let scratch =
            tempfile::tempdir().context("no disk space for a clip; free some, or use --no-clip")?;
        clip::make(scratch.path())?;
        Ok(Self { scratch: Some(scratch), rows: Vec::new() })
    }

    fn run(&mut self, folder: &Folder, reference: Option<&Bundle>, settings: &Settings) {
        let (Some(scratch), Some(reference)) = (&self.scratch, reference) else { return };
        if clip::is_possible(&folder.manifest) {
            eprintln!("a clip on {}", folder.dir.display());
            self.rows.push(clip::run(folder, reference, settings, scratch.path()));
        } else {
            eprintln!("no clip on {}: it lacks plans of the model", folder.dir.display());
        }
    }
}

/// Where tables and messages go.
#[derive(Clone, Copy)]
enum Screen {
    Stdout,
    /// Standard output has only the JSON document.
    Stderr,
}

impl Screen {
    fn of(args: &SelftestArgs) -> Self {
        if args.json.as_deref() == Some(Path::new(STDOUT)) { Self::Stderr } else { Self::Stdout }
    }

    fn say(self, text: &str) {
        match self {
            Self::Stdout => println!("{text}"),
            Self::Stderr => eprintln!("{text}"),
        }
    }
}

/// The document, to the file or to standard output.
fn write_json(
    args: &SelftestArgs,
    settings: &Settings,
    opened: Option<&Opened>,
    kernels: Option<&KernelReport>,
    rows: &[EngineRow],
    clips: &[ClipRow],
) -> Result<()> {
    let Some(path) = &args.json else { return Ok(()) };
    let document = report::document(settings, opened, kernels, rows, clips);
    match Screen::of(args) {
        Screen::Stderr => println!("{}", serde_json::to_string_pretty(&document)?),
        Screen::Stdout => {
            report::write_json(path, &document)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Tests the kernels and prints the result.
fn test_kernels(
    gpu: &Gpu,
    settings: &Settings,
    chosen: Chosen<'_>,
    screen: Screen,
    mut csv: Option<&mut KernelsCsv>,
) -> KernelReport {
    eprintln!("testing the kernels on {}", gpu.facts().name);
    let mut shown = Shown::new();
    let found = kernels::run(gpu, settings.repeats, settings.seed, chosen, &mut |report, step| {
        if let Some(csv) = &mut csv {
            csv.hear(report);
        }
        shown.hear(report, step);
    });
    shown.finish();
    screen.say(&report::render_kernels(&found));
    let library = found.rows.iter().find_map(|row| row.library.as_deref());
    let library = library.map_or_else(String::new, |library| format!(", matmuls by {library}"));
    screen.say(&format!(
        "{} (sm {}), driver for CUDA {}, kernels from {}{library}",
        found.device,
        found.sm,
        found.driver_cuda,
        found.form.as_deref().unwrap_or("nothing that loads")
    ));
    let (all, bad) = (found.rows.len(), failed(&found));
    screen.say(&format!(
        "{} of {all} kernel cases agree with the CPU, {bad} failed; preprocessing, masks and \
         memory bank must agree bit for bit; for the trunk a CUDA graph is compared with launches",
        all - bad
    ));
    if let Some(most) = chosen.max_elements {
        screen.say(&format!(
            "{} of {} kernel cases were left out: more than {most} elements (--max-elements)",
            found.left_out,
            all + found.left_out
        ));
    }
    found
}

fn failed(report: &KernelReport) -> usize {
    report.rows.iter().filter(|row| row.verdict == Verdict::Failed).count()
}

/// Ends a test without engines.
fn end_kernels(
    args: &SelftestArgs,
    settings: &Settings,
    kernels: &KernelReport,
    csv: Option<KernelsCsv>,
) -> Result<Outcome> {
    if let Some(csv) = csv {
        Screen::of(args).say(&csv.finish()?.display().to_string());
    }
    write_json(args, settings, None, Some(kernels), &[], &[])?;
    Ok(if failed(kernels) > 0 { Outcome::PartlyFailed } else { Outcome::Done })
}

/// The requested folders; without --platform those for this GPU.
fn folders(args: &SelftestArgs, facts: &Facts) -> Result<Vec<Folder>> {
    let asked = Asked {
        platform: args.platform.clone(),
        models: args.models.iter().map(|name| model_name(name)).collect(),
        imgsz: args.imgsz,
        precision: args.precision,
    };
    let found = selftest::find(&args.engines, &asked)?;
    if args.platform.is_some() {
        return Ok(found);
    }
    let (ours, others): (Vec<Folder>, Vec<Folder>) =
        found.into_iter().partition(|folder| folder.runs_on(facts.sm));
    for folder in &others {
        eprintln!("left out {}: built for another GPU than {}", folder.dir.display(), facts.name);
    }
    if ours.is_empty() {
        bail!(
            "no engine in {} runs on {} (sm {}); build one: segtrt build-engines",
            args.engines.display(),
            facts.name,
            facts.sm
        );
    }
    Ok(ours)
}

/// The name in manifests of a model that may be given as bench's tags are (sam2_tiny).
fn model_name(text: &str) -> String {
    ModelTag::parse(text.trim(), PromptKind::Points)
        .map_or_else(|| text.trim().to_owned(), |tag| tag.network)
}

fn outcome(rows: &[EngineRow], screen: Screen) -> Outcome {
    let failed = rows.iter().filter(|row| row.verdict == Verdict::Failed).count();
    let ran = rows.iter().filter(|row| row.verdict == Verdict::Ran).count();
    if ran > 0 {
        screen.say(&format!("{ran} outputs have no reference (--no-reference)"));
    }
    let passed = rows.len() - failed - ran;
    screen.say(&format!("{passed} of {} rows passed, {failed} failed", rows.len()));
    if failed > 0 { Outcome::PartlyFailed } else { Outcome::Done }
}
