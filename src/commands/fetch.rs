/*!
`segtrt fetch`: released checkpoints by name, then their export to bundles.
*/

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use indicatif::HumanBytes;

use super::Outcome;
use crate::commands::headings::{DATA, MODEL, OUTPUT};
use crate::commands::shared::parse_stall_limit;
use crate::download::{self, Got, Patience, Source};
use crate::fetch::{self, Environment, Export, MODELS, Released};
use host::{UsageError, share, shell};

/// Flags of `segtrt fetch`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: segtrt fetch edgetam sam2.1_tiny\n  segtrt fetch edgetam --imgsz \
                        512 --precision fp32\n  segtrt fetch sam2.1_large \
                        --checkpoint-only\n\nModels: edgetam, sam2.1_tiny, sam2.1_small, \
                        sam2.1_base_plus, sam2.1_large, from the addresses of their publishers. \
                        Checkpoints are checked against published hashes. The export needs Python \
                        3.11 or newer, and once about 1.5 GB for PyTorch. HTTPS_PROXY, NO_PROXY \
                        and CURL_CA_BUNDLE hold. Files go to ~/.local/share/segtrt, or to the \
                        folder in SEGTRT_SHARE.\n\nWithout a network: segtrt fetch edgetam \
                        --checkpoint edgetam.pt"
)]
pub struct FetchArgs {
    /// Models, such as edgetam or sam2.1_tiny.
    #[arg(value_name = "MODEL", required = true)]
    pub models: Vec<String>,
    /// Export this file, Meta's .pt or .safetensors, and fetch no checkpoint.
    #[arg(
        long,
        help_heading = MODEL,
        value_name = "FILE",
        conflicts_with_all = ["mirror", "checkpoint_only"]
    )]
    pub checkpoint: Option<PathBuf>,
    /// Do not export.
    #[arg(long, help_heading = MODEL)]
    pub checkpoint_only: bool,
    /// Image side of the network input, in pixels [default: 1024].
    #[arg(long, help_heading = MODEL)]
    pub imgsz: Option<usize>,
    /// Precisions to export: fp32 for the CPU and selftest, fp16 for engines.
    #[arg(
        long,
        help_heading = MODEL,
        value_delimiter = ',',
        default_value = "fp32,fp16",
        value_parser = ["fp32", "fp16"]
    )]
    pub precision: Vec<String>,
    /// Folder with the checkpoints under their publishers' names, such as
    /// https://huggingface.co/facebook/sam2.1-hiera-tiny/resolve/main.
    #[arg(long, help_heading = DATA, value_name = "URL")]
    pub mirror: Option<String>,
    /// A Python that has the exporter's packages [default: an environment that fetch makes].
    #[arg(long, help_heading = MODEL, value_name = "FILE")]
    pub python: Option<PathBuf>,
    /// Folder of the checkpoints [default: ~/.local/share/segtrt/checkpoints].
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub checkpoints: Option<PathBuf>,
    /// Folder of the bundles [default: onnx/bundles where it is, else
    /// ~/.local/share/segtrt/onnx/bundles].
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Export again what is there.
    #[arg(long, help_heading = OUTPUT)]
    pub force: bool,
    /// Give up a transfer without data after this many seconds.
    #[arg(
        long,
        help_heading = DATA,
        value_name = "SECONDS",
        default_value_t = 60,
        value_parser = parse_stall_limit
    )]
    pub stall_limit: u64,
}

/// The folders of one call.
struct Folders {
    checkpoints: PathBuf,
    out: PathBuf,
    environment: PathBuf,
}

/// Fetches and exports the models, one after another.
pub fn run(args: FetchArgs) -> Result<Outcome> {
    let models = models(&args)?;
    let folders = folders(&args)?;
    let stop = host::ctrl_c::flag()?;
    let mut checkpoints = Vec::new();
    for model in models {
        let file = match &args.checkpoint {
            Some(file) => file.clone(),
            None => match checkpoint(model, &args, &folders, &stop)? {
                Some(file) => file,
                None => return Ok(Outcome::Stopped),
            },
        };
        checkpoints.push((model, file));
    }
    if args.checkpoint_only {
        return Ok(Outcome::Done);
    }
    let script = share::resolve(Path::new("onnx/export.py"));
    let Some(sources) = script.parent().and_then(Path::parent).filter(|_| script.is_file()) else {
        bail!(
            "the exporter is not here (onnx/export.py): it comes with segtrt's archive and with \
             make install, as share/segtrt; --checkpoint-only fetches without it"
        );
    };
    let mut environment = None::<Environment>;
    for (model, file) in &checkpoints {
        for precision in &args.precision {
            let export = Export {
                model: model.name,
                checkpoint: file,
                imgsz: args.imgsz,
                precision,
                out: &folders.out,
            };
            if !args.force && fetch::is_there(&export)? {
                println!("{} is there", export.folder().display());
                continue;
            }
            let environment = match &environment {
                Some(environment) => environment,
                None => environment.insert(python(&args, &folders, sources)?),
            };
            println!("exporting {} to {}", model.name, export.folder().display());
            fetch::run(&export, environment, &script)?;
        }
    }
    say_next(&checkpoints, &args, &folders);
    Ok(Outcome::Done)
}

/// The models by their names, each once.
fn models(args: &FetchArgs) -> Result<Vec<&'static Released>> {
    let mut models = Vec::<&'static Released>::new();
    for name in &args.models {
        let Some(model) = fetch::by_name(name) else {
            let known: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
            bail!(UsageError(format!(
                "no released checkpoint is called {name}; known are {}; for example: segtrt fetch \
                 edgetam. Own weights: --checkpoint FILE",
                known.join(", ")
            )));
        };
        if !models.iter().any(|other| other.name == model.name) {
            models.push(model);
        }
    }
    if let (Some(file), [_, _, ..]) = (&args.checkpoint, models.as_slice()) {
        bail!(UsageError(format!(
            "--checkpoint {} is of one model, found {}; name one model",
            file.display(),
            models.len()
        )));
    }
    if let Some(file) = &args.checkpoint {
        check_checkpoint(file)?;
    }
    Ok(models)
}

/// Refuses a file that no checkpoint can be, before an environment of gigabytes is installed.
fn check_checkpoint(file: &Path) -> Result<()> {
    let wrong = |found: &str| UsageError(format!("--checkpoint {}: {found}", file.display()));
    if !file.is_file() {
        bail!(wrong("there is no such file"));
    }
    let mut start = Vec::new();
    let read = File::open(file).and_then(|file| file.take(9).read_to_end(&mut start));
    read.with_context(|| format!("cannot read --checkpoint {}", file.display()))?;
    // PyTorch writes a ZIP archive, and wrote a pickle; safetensors has a length before its JSON.
    let known = start.starts_with(b"PK") || start.starts_with(&[0x80]) || start.ends_with(b"{");
    if !known {
        let found = if start.is_empty() { "is empty" } else { "is none" };
        bail!(wrong(&format!(
            "the file {found}; expected a checkpoint by PyTorch (.pt) or a safetensors file"
        )));
    }
    Ok(())
}

fn folders(args: &FetchArgs) -> Result<Folders> {
    let user = share::of_user().ok_or_else(|| {
        anyhow!("there is no folder for the files: set SEGTRT_SHARE=DIR (HOME is not set)")
    })?;
    let here = PathBuf::from(share::BUNDLES);
    let usual = if here.is_dir() { here } else { user.join(share::BUNDLES) };
    Ok(Folders {
        checkpoints: args.checkpoints.clone().unwrap_or_else(|| user.join("checkpoints")),
        out: args.out.clone().unwrap_or(usual),
        environment: user.join("python"),
    })
}

/// The checkpoint of a model, fetched; `None` if the user stopped it.
fn checkpoint(
    model: &Released,
    args: &FetchArgs,
    folders: &Folders,
    stop: &AtomicBool,
) -> Result<Option<PathBuf>> {
    let to = folders.checkpoints.join(model.file);
    let source = Source {
        url: model.url(args.mirror.as_deref()),
        to: to.clone(),
        bytes: model.bytes,
        check: model.check(),
        offline: match args.checkpoint_only {
            true => format!("copy it to {}", shell::path(&to)),
            false => format!("type: segtrt fetch {} --checkpoint {}", model.name, model.file),
        },
    };
    let size = model.bytes.map_or(String::new(), |bytes| format!(", {}", HumanBytes(bytes)));
    println!(
        "{}: {} ({}; licence {}{size})",
        model.name, source.url, model.publisher, model.licence
    );
    let pause = Duration::from_secs(1);
    let patience = Patience { stall: Duration::from_secs(args.stall_limit), pause, stop };
    let how = match download::get(&source, patience)? {
        Got::There => "was here",
        Got::Fetched => "fetched",
        Got::Stopped => return Ok(None),
    };
    println!("{how}: {}, SHA-256 {}", to.display(), download::sha256(&to)?);
    Ok(Some(to))
}

fn python(args: &FetchArgs, folders: &Folders, sources: &Path) -> Result<Environment> {
    match &args.python {
        Some(python) => Ok(Environment { python: python.clone(), edgetam: None }),
        None => fetch::prepare(&folders.environment, sources),
    }
}

/// The commands that use the bundles.
fn say_next(checkpoints: &[(&Released, PathBuf)], args: &FetchArgs, folders: &Folders) {
    let tags: Vec<String> =
        checkpoints.iter().map(|(model, _)| format!("{}_points", model.name)).collect();
    let dir = match &args.out {
        Some(dir) => format!(" --onnx-dir {}", shell::path(dir)),
        None => String::new(),
    };
    println!("bundles are in {}; next:", folders.out.display());
    println!("  segtrt bench --split-dir DIR --models {}{dir}", tags.join(","));
    if args.precision.iter().any(|precision| precision == "fp16") {
        let names: Vec<&str> = checkpoints.iter().map(|(model, _)| model.name).collect();
        println!(
            "  segtrt build-engines --platform auto --models {}{dir}   (on a machine with TensorRT)",
            names.join(",")
        );
    }
}
