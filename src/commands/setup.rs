/*!
`segtrt setup`: installs ONNX Runtime and the demo's network for this user.
*/

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;

use super::Outcome;
use crate::commands::headings::{DATA, OUTPUT};
use crate::commands::shared::parse_stall_limit;
use crate::doctor::probe;
use crate::download::{self, Check, Got, Patience, Source};
use crate::setup::{INDEX, WHEEL, address, install_demo, install_library};
use host::{UsageError, share};

/// Flags of `segtrt setup`.
#[derive(Debug, Args)]
#[command(after_help = "Example: segtrt setup\n\nONNX Runtime is taken where it is found: \
                        ORT_DYLIB_PATH, beside segtrt, .venv, an earlier setup, the system's \
                        folders. Else its wheel comes from PyPI (24 MB, MIT licence) and is \
                        checked by its SHA-256; HTTPS_PROXY and PIP_INDEX_URL hold. All files go \
                        to ~/.local/share/segtrt, or to the folder in SEGTRT_SHARE.\n\nWithout a \
                        network: segtrt setup --from \
                        onnxruntime-1.31.1-cp312-cp312-manylinux_2_28_x86_64.whl")]
pub struct SetupArgs {
    /// Take ONNX Runtime from this file: a wheel, its release archive (.tgz), or libonnxruntime.so.
    #[arg(long, help_heading = DATA, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Package index, as pip's --index-url.
    #[arg(
        long,
        help_heading = DATA,
        value_name = "URL",
        env = "PIP_INDEX_URL",
        default_value = INDEX,
        conflicts_with = "from"
    )]
    pub mirror: String,
    /// Install ONNX Runtime even if one is found.
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

/// Installs what is missing.
pub fn run(args: SetupArgs) -> Result<Outcome> {
    let user = share::of_user().ok_or_else(|| {
        anyhow!("there is no folder to install into: set SEGTRT_SHARE=DIR (HOME is not set)")
    })?;
    match install_demo(&user)? {
        Some(dir) => println!("demo network: {}", dir.display()),
        None => println!(
            "demo network: not found; it comes with segtrt's archive and with make install, as share/segtrt"
        ),
    }
    let found = match args.force || args.from.is_some() {
        true => Err(String::new()),
        false => probe::onnxruntime(None),
    };
    if let Ok((label, library)) = found {
        println!("ONNX Runtime: {label}, {}", library.display());
        println!("ready; next: segtrt demo");
        return Ok(Outcome::Done);
    }
    let lib = user.join("lib");
    let library = match &args.from {
        Some(file) => install_library(file, &lib)?,
        None => match fetch(&args, &user)? {
            Some(wheel) => {
                let library = install_library(&wheel, &lib)?;
                // It holds nothing else that is needed.
                remove(&wheel);
                library
            }
            None => return Ok(Outcome::Stopped),
        },
    };
    match probe::onnxruntime(Some(&library)) {
        Ok((label, library)) => {
            println!("ONNX Runtime: {label}, {}", library.display());
            println!("ready; next: segtrt demo");
            Ok(Outcome::Done)
        }
        Err(why) => {
            remove(&library);
            bail!("{} does not work here and was removed: {why}", library.display())
        }
    }
}

fn remove(path: &std::path::Path) {
    for path in [path.to_owned(), path.with_extension("whl.sha256")] {
        if path.exists() && std::fs::remove_file(&path).is_err() {
            log::warn!("{} is no longer needed and cannot be removed", path.display());
        }
    }
}

/// The wheel, fetched; `None` if the user stopped it.
fn fetch(args: &SetupArgs, user: &std::path::Path) -> Result<Option<PathBuf>> {
    let Some(wheel) = WHEEL else {
        bail!(UsageError(
            "there is no wheel of ONNX Runtime for this machine; build libonnxruntime.so, and \
             name it with --from"
                .to_owned()
        ));
    };
    let stall = Duration::from_secs(args.stall_limit);
    let offline = format!("type: segtrt setup --from {}", wheel.file);
    let url = address(&args.mirror, "onnxruntime", wheel.file, stall)
        .map_err(|error| anyhow!("{error:#}. With a copy from elsewhere, {offline}"))?;
    println!("fetching ONNX Runtime (MIT licence) from {url}");
    let source = Source {
        url,
        to: user.join("lib").join(wheel.file),
        bytes: Some(wheel.bytes),
        check: Check::Sha256(wheel.sha256.to_owned()),
        offline,
    };
    let stop = host::ctrl_c::flag()?;
    let patience = Patience { stall, pause: Duration::from_secs(1), stop: &stop };
    Ok(match download::get(&source, patience)? {
        Got::There | Got::Fetched => Some(source.to),
        Got::Stopped => None,
    })
}
