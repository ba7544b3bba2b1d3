/*!
`segtrt man`: manual pages from the same declaration as `--help`.
*/

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Command;
use clap_mangen::Man;

use super::Outcome;
use crate::cli::{self, ManArgs};
use host::UsageError;
use vos::files::atomic;

/// Prints one page, or writes all.
pub fn run(args: ManArgs) -> Result<Outcome> {
    let mut root = cli::public().disable_help_subcommand(true);
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
    Ok((man.get_filename(), page))
}
