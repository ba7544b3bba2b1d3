/*!
`segtrt roofline`: the least time of each stage at a GPU's peaks, and the share that runs reached.
*/

mod args;
mod measured;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::json;

use crate::commands::Outcome;
use crate::estimate::FpsRange;
pub use args::RooflineArgs;
use cuda::Gpu;
use host::{UsageError, screen_table, share};
use measured::{MeasuredModel, measured};
use vos::bundle::{self, Bundle};
use vos::model_tag::ModelTag;
use vos::platform::{Platform, Platforms};
use vos::precision::Precision;
use vos::prompt::PromptKind;
use vos::roofline::{self, Peaks, StageBound};
use vos::stage::Stage;

/// One model on the roofline.
#[derive(Debug, Serialize)]
struct ModelBound {
    /// The bundle.
    bundle: String,
    /// Precision of the engines.
    precision: Precision,
    /// Run and model tag; none without a run.
    run: Option<String>,
    /// A line for each stage.
    stages: Vec<StageLine>,
    /// Least time of a tracked frame, ms.
    frame_least_ms: Option<f64>,
    /// The range of FPS; an estimate.
    fps: Option<FpsRange>,
}

/// One stage.
#[derive(Debug, Serialize)]
struct StageLine {
    #[serde(flatten)]
    bound: StageBound,
    /// Mean of the run's rows, ms.
    measured_ms: Option<f64>,
    /// Share of the roofline, 0..1.
    reached: Option<f64>,
}

/// Prints the table.
///
/// # Errors
/// There are no peaks for the platform, no bundle has the numbers, or a run cannot be read.
pub fn run(args: RooflineArgs) -> Result<Outcome> {
    let runs = measured(&args.runs)?;
    let peaks = peaks(&args, &runs)?;
    let bundles = bundle::list(&share::bundle_roots(&args.onnx_dir))?;
    let models = match runs.as_slice() {
        [] => of_bundles(&args, &bundles, &peaks),
        runs => of_runs(&args, runs, &bundles, &peaks)?,
    };
    if models.is_empty() {
        bail!(
            "no bundle with these flags; found {}; name others with --onnx-dir, --models, --imgsz",
            bundles.iter().map(Bundle::name).collect::<Vec<_>>().join(", ")
        );
    }
    if let Some(older) = models.iter().find(|model| model.stages.is_empty()) {
        bail!(
            "{} has no bytes and launches of its graphs: an older onnx/export.py wrote it; add \
             them: python3 onnx/segexport/work.py PATH_OF_THE_BUNDLE",
            older.bundle
        );
    }
    if args.json {
        println!("{:#}", json!({"peaks": peaks, "models": models}));
    } else {
        println!("{}", heading(&peaks));
        println!("{}", table(&models));
        models.iter().filter_map(fps_line).for_each(|line| println!("{line}"));
    }
    Ok(Outcome::Done)
}

/// The peaks: typed ones, else those of the platform table.
fn peaks(args: &RooflineArgs, runs: &[MeasuredModel]) -> Result<Peaks> {
    let platforms = Platforms::open(args.platforms.as_deref())?;
    let typed = |gflops| Peaks {
        gflops,
        mb_per_s: args.peak_mb_per_s,
        source: "the command line".to_owned(),
    };
    if let (Some(gflops), Some(_)) = (args.peak_gflops, args.peak_mb_per_s) {
        return Ok(typed(gflops));
    }
    let platform = platform(args, &platforms, runs)?;
    let Some(mut peaks) = Peaks::of_platform(&platform) else {
        let Some(gflops) = args.peak_gflops else {
            bail!(UsageError(format!(
                "the platform table has no peak_gflops of the {}; measure it there with segtrt \
                 selftest --peak, then type --peak-gflops and --peak-mb-per-s",
                platform.title
            )));
        };
        return Ok(typed(gflops));
    };
    if args.peak_gflops.is_some() || args.peak_mb_per_s.is_some() {
        peaks.gflops = args.peak_gflops.unwrap_or(peaks.gflops);
        peaks.mb_per_s = args.peak_mb_per_s.or(peaks.mb_per_s);
        peaks.source = format!("{} and the command line", peaks.source);
    }
    Ok(peaks)
}

fn platform(
    args: &RooflineArgs,
    platforms: &Platforms,
    runs: &[MeasuredModel],
) -> Result<Platform> {
    let known = || platforms.names();
    if let Some(name) = &args.platform {
        let row = platforms.get(name).cloned();
        return row.ok_or_else(|| {
            UsageError(format!("--platform {name}: unknown platform; known: {}", known())).into()
        });
    }
    if let Some(run) = runs.first() {
        return platforms.of_name(&run.device).cloned().ok_or_else(|| {
            UsageError(format!(
                "{} ran on {}, which the platform table lacks; name a row with --platform ({}), or \
                 type --peak-gflops and --peak-mb-per-s",
                run.shown,
                run.device,
                known()
            ))
            .into()
        });
    }
    let gpu = Gpu::open(0).map(|gpu| gpu.facts().clone());
    let row = gpu.as_ref().ok().and_then(|gpu| platforms.of_device(&gpu.name, gpu.sm));
    row.cloned().ok_or_else(|| {
        UsageError(format!(
            "no GPU of the platform table here; name a row with --platform ({})",
            known()
        ))
        .into()
    })
}

/// Every bundle that the flags allow.
fn of_bundles(args: &RooflineArgs, bundles: &[Bundle], peaks: &Peaks) -> Vec<ModelBound> {
    let wanted: Vec<String> = args.models.iter().map(|name| network(name)).collect();
    let fits = |bundle: &&Bundle| {
        let model = &bundle.manifest.model;
        (wanted.is_empty() || wanted.contains(&model.name))
            && args.imgsz.is_none_or(|side| side == model.imgsz)
    };
    let of = |bundle: &Bundle| {
        let graphs = bundle.manifest.model.precision.as_str();
        let usual = if graphs == "fp32" { Precision::Fp32 } else { Precision::Fp16 };
        bound(bundle, args.precision.unwrap_or(usual), peaks, None)
    };
    bundles.iter().filter(fits).map(of).collect()
}

/// Every model of the runs.
fn of_runs(
    args: &RooflineArgs,
    runs: &[MeasuredModel],
    bundles: &[Bundle],
    peaks: &Peaks,
) -> Result<Vec<ModelBound>> {
    let wanted: Vec<String> = args.models.iter().map(|name| network(name)).collect();
    let mut found = Vec::new();
    for run in runs {
        let name = network(&run.tag);
        if !(wanted.is_empty() || wanted.contains(&name)) {
            continue;
        }
        let fits = |bundle: &&Bundle| {
            let model = &bundle.manifest.model;
            (&model.name, model.imgsz) == (&name, run.imgsz)
        };
        // The work does not depend on the precision of the graphs; a bundle with numbers is better.
        let all: Vec<&Bundle> = bundles.iter().filter(fits).collect();
        let counted =
            |bundle: &&&Bundle| bundle.manifest.graphs.iter().any(|graph| graph.bytes.is_some());
        let Some(bundle) = all.iter().find(counted).or(all.first()) else {
            bail!(
                "{}: no bundle of {name} at {} pixels; name its folder with --onnx-dir",
                run.shown,
                run.imgsz
            );
        };
        let precision = args.precision.or(run.precision).unwrap_or(Precision::Fp16);
        found.push(bound(bundle, precision, peaks, Some(run)));
    }
    Ok(found)
}

/// The network's name in manifests.
fn network(text: &str) -> String {
    ModelTag::parse(text.trim(), PromptKind::Points)
        .map_or_else(|| text.trim().to_owned(), |tag| tag.network)
}

fn bound(
    bundle: &Bundle,
    precision: Precision,
    peaks: &Peaks,
    run: Option<&MeasuredModel>,
) -> ModelBound {
    let bounds = roofline::stages(&bundle.manifest, precision, peaks);
    let frame_least_ms = roofline::frame_ms(&bounds);
    let model = &bundle.manifest.model;
    let line = |bound: StageBound| {
        let measured_ms = run.and_then(|run| run.stages[bound.stage]);
        let reached = measured_ms.map(|ms| bound.least_ms / ms);
        StageLine { bound, measured_ms, reached }
    };
    ModelBound {
        bundle: bundle.name(),
        precision,
        run: run.map(|run| run.shown.clone()),
        stages: bounds.into_iter().map(line).collect(),
        frame_least_ms,
        fps: frame_least_ms.map(|ms| FpsRange::of(&model.name, model.imgsz, ms)),
    }
}

fn heading(peaks: &Peaks) -> String {
    let bandwidth = peaks
        .mb_per_s
        .map_or("unknown bandwidth".to_owned(), |rate| format!("{:.0} GB/s", rate / 1e3));
    format!("peaks: {:.1} TFLOP/s of fp16, {bandwidth} ({})", peaks.gflops / 1e3, peaks.source)
}

fn table(models: &[ModelBound]) -> String {
    let mut table = screen_table::dense(
        [
            "model",
            "stage",
            "GFLOP",
            "MB",
            "launches",
            "least ms",
            "limited by",
            "measured ms",
            "reached",
        ],
        [2, 3, 4, 5, 7, 8],
    )
    .optional([4, 6]);
    let percent = |share: Option<f64>| {
        share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
    };
    for model in models {
        let name = model.run.as_ref().unwrap_or(&model.bundle);
        for line in &model.stages {
            let StageLine { bound, measured_ms, reached } = line;
            table.add_row([
                name.clone(),
                stage_name(bound.stage).to_owned(),
                format!("{:.2}", bound.flops as f64 / 1e9),
                format!("{:.1}", bound.bytes as f64 / 1e6),
                bound.launches.to_string(),
                format!("{:.4}", bound.least_ms),
                format!("{:?}", bound.limited_by).to_lowercase(),
                screen_table::number(*measured_ms, 3),
                percent(*reached),
            ]);
        }
        let of_frame = |line: &&StageLine| roofline::OF_A_FRAME.contains(&line.bound.stage);
        let measured: Option<f64> =
            model.stages.iter().filter(of_frame).map(|line| line.measured_ms).sum();
        let least = model.frame_least_ms;
        table.add_row([
            name.clone(),
            "tracked frame".to_owned(),
            String::new(),
            String::new(),
            String::new(),
            screen_table::number(least, 4),
            String::new(),
            screen_table::number(measured, 3),
            percent(least.zip(measured).map(|(least, ms)| least / ms)),
        ]);
    }
    table.to_string()
}

/// "encoder" of `encoder_ms`.
fn stage_name(stage: Stage) -> &'static str {
    stage.column().trim_end_matches("_ms")
}

fn fps_line(model: &ModelBound) -> Option<String> {
    let fps = model.fps.as_ref()?;
    let lower =
        fps.least_from.as_ref().map_or_else(String::new, |from| format!("; lower end: {from}"));
    Some(format!(
        "estimate, {} in {}: {} FPS of one object, one frame in flight; upper end: 100 % of the \
         roofline{lower}",
        model.bundle,
        model.precision,
        fps.text()
    ))
}
