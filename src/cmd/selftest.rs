/*!
`segtrt selftest`: find engines and references, test each folder in a process of its own, show and write the rows.
*/

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::Outcome;
use crate::bundle;
use crate::cli::SelftestArgs;
use crate::gpu::{Facts, Gpu};
use crate::model_tag::ModelTag;
use crate::prompt::PromptKind;
use crate::selftest::{self, Asked, Folder, Opened, Repeats, Row, Settings, Verdict, report};

/// Where references are looked for unless `--onnx-dir` says otherwise.
const USUAL_ONNX_DIR: &str = "onnx/bundles";

/// Makes inputs that are the same in every run, so that two runs can be compared.
pub const SEED: u64 = 8;

/// Tests the engines.
pub fn run(args: SelftestArgs) -> Result<Outcome> {
    // Asked first, and closed again: without a GPU nothing below makes sense.
    let facts = Gpu::open(0)?.facts().clone();
    let folders = folders(&args, &facts)?;
    let layer_runs = if args.layers.is_some() { args.runs as usize } else { 0 };
    let settings = Settings {
        device: facts.ordinal,
        repeats: Repeats { warmup: args.warmup as usize, runs: args.runs as usize, layer_runs },
        max_error: args.max_error,
        seed: SEED,
        tensorrt_lib: args.tensorrt_lib.clone(),
        ort_lib: args.ort_lib.clone(),
    };
    let roots = match args.onnx_dir.as_slice() {
        [] => vec![PathBuf::from(USUAL_ONNX_DIR)],
        dirs => dirs.to_vec(),
    };
    let bundles = if args.no_reference { Vec::new() } else { bundle::list(&roots)? };
    let (mut rows, mut opened) = (Vec::<Row>::new(), None::<Opened>);
    for folder in &folders {
        let reference = match args.no_reference {
            true => Ok(None),
            false => {
                selftest::reference_of(folder, &bundles, &roots).map(|bundle| Some(bundle.dir))
            }
        };
        match reference {
            Ok(reference) => {
                eprintln!("testing {}", folder.dir.display());
                let (found, on) = selftest::run(folder, reference, &settings)?;
                rows.extend(found);
                opened = on.or(opened);
            }
            Err(error) => {
                rows.push(Row::failed(&folder.key(), None, None, &format!("{error:#}")));
            }
        }
    }
    println!("{}", report::render(&rows));
    if let Some(opened) = &opened {
        println!(
            "{} (sm {}), driver for CUDA {}, {}",
            opened.device, opened.sm, opened.driver_cuda, opened.tensorrt
        );
    }
    if let Some(path) = &args.csv {
        report::write_csv(path, &rows)?;
        println!("{}", path.display());
    }
    if let Some(path) = &args.layers {
        report::write_layers(path, &rows)?;
        println!("{}", path.display());
    }
    if let Some(path) = &args.json {
        report::write_json(path, &settings, opened.as_ref(), &rows)?;
        println!("{}", path.display());
    }
    Ok(outcome(&rows))
}

/// The folders asked for; without a platform those that run on this GPU.
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
        eprintln!("left out {}: built for other GPUs than {}", folder.dir.display(), facts.name);
    }
    if ours.is_empty() {
        bail!(
            "none of the engines in {} runs on {} (sm {}); build them with: segtrt build-engines",
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
        .map_or_else(|| text.trim().to_owned(), |tag| tag.model)
}

fn outcome(rows: &[Row]) -> Outcome {
    let failed = rows.iter().filter(|row| row.verdict == Verdict::Failed).count();
    let ran = rows.iter().filter(|row| row.verdict == Verdict::Ran).count();
    if ran > 0 {
        println!("{ran} outputs were compared with nothing (--no-reference)");
    }
    println!("{} of {} rows passed, {failed} failed", rows.len() - failed - ran, rows.len());
    if failed > 0 { Outcome::PartlyFailed } else { Outcome::Done }
}
