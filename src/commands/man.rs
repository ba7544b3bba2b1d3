/*!
`segtrt man`: manual pages from the same declaration as `--help`.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::Command;
use clap_mangen::Man;

use super::{Outcome, public};
use crate::commands::headings::OUTPUT;
use host::UsageError;
use vos::files::atomic;

/// Flags of `segtrt man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt man bench | man -l -\n  \
    segtrt man --out ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Subcommand of the page [default: segtrt itself].
    #[arg(value_name = "SUBCOMMAND")]
    pub subcommand: Vec<String>,
    /// Write all pages into this folder instead.
    #[arg(long, help_heading = OUTPUT, value_name = "DIR", conflicts_with = "subcommand")]
    pub out: Option<PathBuf>,
}

/// Prints one page, or writes all.
pub fn run(args: ManArgs) -> Result<Outcome> {
    let mut root = public().disable_help_subcommand(true);
    root.build();
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir)
            .with_context(|| format!("cannot create {}; choose another --out", dir.display()))?;
        write_all(&root, dir)?;
        return Ok(Outcome::Done);
    }
    let mut command = &root;
    for name in &args.subcommand {
        let Some(found) = command.find_subcommand(name) else {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            bail!(UsageError(format!(
                "{name:?} is no subcommand; expected {}",
                if known.is_empty() { "nothing further".to_owned() } else { known.join(", ") }
            )));
        };
        command = found;
    }
    std::io::stdout().lock().write_all(&page(command)?.1)?;
    Ok(Outcome::Done)
}

fn write_all(command: &Command, dir: &Path) -> Result<()> {
    let (name, page) = page(command)?;
    let path = dir.join(name);
    atomic::write(&path, |out| Ok(out.write_all(&page)?))?;
    println!("{}", path.display());
    command.get_subcommands().try_for_each(|sub| write_all(sub, dir))
}

/// Name and content of a page.
fn page(command: &Command) -> Result<(String, Vec<u8>)> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    let mut page = String::from_utf8(page)?;
    // clap_mangen's synopsis lists every flag without its value; the usage line names no flag.
    const SYNOPSIS: &str = ".SH SYNOPSIS\n";
    if let Some(start) = page.find(SYNOPSIS).map(|at| at + SYNOPSIS.len()) {
        let end = page[start..].find("\n.SH ").map_or(page.len(), |at| start + at);
        let usage = command.clone().render_usage().to_string();
        page.replace_range(
            start..end,
            &usage.trim_start_matches("Usage: ").trim().replace('-', "\\-"),
        );
    }
    Ok((man.get_filename(), page.into_bytes()))
}
