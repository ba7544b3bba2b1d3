/*!
`segtrt ncu`: the custom CUDA kernels under Nsight Compute.
*/

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use super::Outcome;
use crate::commands::headings::{DATA, MEASURING, OUTPUT};
use host::UsageError;
use host::printable::printable;
use report::ncu::{Ncu, Recording, parse, table};
use report::nsys::render;

/// Flags of `segtrt ncu`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  segtrt ncu -- selftest --kernels --runs 1 --warmup 0\n  segtrt \
                        ncu --kernel attend --launches 20 -- bench --split-dir demo/split\n  segtrt \
                        ncu raw.csv\n\nncu replays each launch several times, so the command's \
                        speeds mean nothing; only kernels are measured. It needs the GPU's \
                        counters, which most drivers give to root only. Time, DRAM and L2 are \
                        medians of a launch."
)]
pub struct NcuArgs {
    /// Output of ncu --csv --page raw, or a report (.ncu-rep).
    #[arg(required_unless_present = "command", conflicts_with = "command", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Only kernels whose names match this regular expression [default: all custom kernels].
    #[arg(long, help_heading = DATA, requires = "command", value_name = "REGEX")]
    pub kernel: Option<String>,
    /// Most launches to measure, over all kernels.
    #[arg(long, help_heading = MEASURING, requires = "command", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub launches: Option<u32>,
    /// Write the table to DIR/ncu_kernels.csv.
    #[arg(long, help_heading = OUTPUT, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
    /// A command of segtrt with its flags, to run under ncu.
    #[arg(last = true, value_name = "COMMAND …")]
    pub command: Vec<OsString>,
}

/// Measures or reads, and prints the table.
///
/// # Errors
/// There is no ncu, it failed, the driver refuses its counters, or the file has no table.
pub fn run(args: NcuArgs) -> Result<Outcome> {
    let (text, from) = match &args.file {
        Some(file) => (read(file)?, file.display().to_string()),
        None => (record(&args)?, "the output of ncu".to_owned()),
    };
    let launches = parse(&text, &from)?;
    if launches.is_empty() {
        bail!("{from} has no launch: no kernel of these names ran; see --kernel");
    }
    let table = table(&launches);
    if args.json {
        println!("{:#}", json!({ table.name: table.json() }));
    } else {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", printable(&render::text(&table, usize::MAX)))?;
    }
    if let Some(folder) = &args.csv {
        for file in render::csv_of(folder, &[table], None)? {
            eprintln!("{}", file.display());
        }
    }
    Ok(Outcome::Done)
}

fn read(file: &Path) -> Result<String> {
    if file.extension().is_some_and(|suffix| suffix == "ncu-rep") && file.is_file() {
        return Ncu::find()?.import(file);
    }
    let bytes = std::fs::read(file).with_context(|| {
        format!(
            "{} cannot be read; expected the output of ncu --csv --page raw, or a report \
             (.ncu-rep)",
            file.display()
        )
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn record(args: &NcuArgs) -> Result<String> {
    if args.command.first().is_some_and(|first| first == "ncu") {
        bail!(UsageError("ncu cannot run under itself; name another command after --".to_owned()));
    }
    let ncu = Ncu::find()?;
    eprintln!("{}", ncu.path().display());
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let kernels = args
        .kernel
        .clone()
        .unwrap_or_else(|| format!("^({})$", kernels::names().collect::<Vec<_>>().join("|")));
    let command = [program.into_os_string()].into_iter().chain(args.command.iter().cloned());
    ncu.record(&Recording { kernels, launches: args.launches, command: command.collect() })
}
