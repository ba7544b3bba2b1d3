/*!
`segtrt pack`.
*/

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::Outcome;
use crate::commands::headings::{DATA, MODEL, OUTPUT};
use crate::pack::{self, Wanted};
use host::UsageError;
use host::shell;
use vos::model_tag::ModelTag;
use vos::platform::{BUILT_IN, Platforms};
use vos::precision::Precision;
use vos::prompt::PromptKind;

/// Flags of `segtrt pack`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt pack --platform orin --models edgetam --onnx-dir onnx/bundles \
    --out orin.tar\n\nOn the board: tar xf orin.tar && sh segtrt-pack-orin/run.sh"
)]
pub struct PackArgs {
    /// Row of the platform table: orin, orin-nano, h200, …
    #[arg(long, help_heading = MODEL)]
    pub platform: String,
    /// Another platform table.
    #[arg(long, help_heading = MODEL, value_name = "FILE")]
    pub platforms: Option<PathBuf>,
    /// Models such as edgetam, sam2.1_tiny, separated by commas [default: the
    /// platform's].
    #[arg(long, help_heading = MODEL)]
    pub models: Option<String>,
    /// Image side of the network input, in pixels [default: the platform's].
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Precision of the engines [default: the platform's].
    #[arg(long, help_heading = MODEL)]
    pub precision: Option<Precision>,
    /// Largest number of objects of a clip that run at once.
    #[arg(
        long,
        help_heading = MODEL,
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    pub max_objects: u16,
    /// Folders of exported bundles, or bundles [default: onnx/bundles, then the installed ones].
    #[arg(
        long, help_heading = MODEL,
        env = "SEGTRT_ONNX_DIR",
        value_delimiter = ':',
        value_name = "DIR",
        num_args = 1..
    )]
    pub onnx_dir: Vec<PathBuf>,
    /// The tar file [default: segtrt-pack-PLATFORM.tar].
    #[arg(long, help_heading = OUTPUT, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A segtrt binary built for the board, to include.
    #[arg(long, help_heading = DATA, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// Split to include; without it the board measures a synthetic one.
    #[arg(long, help_heading = DATA, value_name = "SPLIT_DIR")]
    pub with_clips: Option<PathBuf>,
    /// Replace an existing tar file.
    #[arg(long, help_heading = OUTPUT)]
    pub force: bool,
    /// Print the contents as JSON.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Writes the pack and says what to do with it.
pub fn run(args: PackArgs) -> Result<Outcome> {
    let models = args.models.as_deref().map(models).transpose()?;
    let platforms = Platforms::open(args.platforms.as_deref())?;
    let Some(platform) = platforms.get(&args.platform).cloned() else {
        bail!(UsageError(format!(
            "--platform {}: unknown platform; known: {}; to use your own table: --platforms FILE",
            args.platform,
            platforms.names()
        )));
    };
    let table = match &args.platforms {
        None => BUILT_IN.to_owned(),
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the platform table {}", path.display()))?,
    };
    let wanted = Wanted {
        platform,
        table,
        models,
        imgsz: args.imgsz,
        precision: args.precision,
        max_objects: args.max_objects,
        onnx_dirs: host::share::bundle_roots(&args.onnx_dir),
        binary: args.binary,
        clips: args.with_clips,
    };
    let plan = pack::plan(&wanted)?;
    for warning in &plan.warnings {
        log::warn!("{warning}");
    }
    let usual = || PathBuf::from(format!("segtrt-pack-{}.tar", plan.platform.name));
    let out = args.out.unwrap_or_else(usual);
    let packed = pack::write(&plan, &out, args.force)?;
    for warning in &packed.warnings {
        log::warn!("{warning}");
    }
    if args.json {
        let document = serde_json::json!({
            "tar": out, "files": packed.files, "bytes": packed.bytes, "folder": packed.folder,
            "platform": plan.platform.name,
        });
        println!("{}", serde_json::to_string_pretty(&document)?);
        return Ok(Outcome::Done);
    }
    println!(
        "{}: {} files, {:.1} MB, for {}; there: tar xf {} && sh {}/run.sh",
        out.display(),
        packed.files,
        packed.bytes as f64 / 1e6,
        plan.platform.title,
        shell::word(&out.file_name().unwrap_or(out.as_os_str()).to_string_lossy()),
        packed.folder
    );
    Ok(Outcome::Done)
}

/// Names as manifests have them, each once.
fn models(text: &str) -> Result<Vec<String>> {
    let mut models = Vec::new();
    let tags = match text.trim() {
        "all" => ModelTag::all(),
        list => {
            list.split(',').map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty()).collect()
        }
    };
    for tag in tags {
        let Some(known) = ModelTag::parse(&tag, PromptKind::Points) else {
            bail!(UsageError(format!(
                "--models {tag}: no such model; expected all, or of {}",
                ModelTag::models()
            )));
        };
        if !models.contains(&known.network) {
            models.push(known.network);
        }
    }
    if models.is_empty() {
        bail!(UsageError("--models names no model".to_owned()));
    }
    Ok(models)
}
