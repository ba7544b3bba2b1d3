/*!
`segtrt collect`.
*/

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::Outcome;
use crate::collect::{self, Collected, Options, Remote, Ssh, State};
use crate::commands::headings::{DATA, OUTPUT};
use host::UsageError;
use host::ctrl_c;
use host::screen_table;

/// What is fetched, and where to.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    segtrt collect nvidia@jetson:nsight_experiment_jetson_20251130_143022\n  \
    segtrt collect 'jetson:nsight_experiment_*' 'rack1:runs/nsight_experiment_*' --ssh 'ssh -C'\n\n\
    Then: segtrt merge collected_results/nsight_experiment_* -o final_comparison.csv\n\n\
    Quote patterns (* ? [a-z]): they are matched on the other machine, which needs sh, find and tar. \
    With sha256sum or shasum there, every file is verified and existing files are not fetched again. \
    Nothing is written there. collected.json in the output folder names the source of each folder.")]
pub struct CollectArgs {
    /// Folders on other machines; HOST PATH as two words is accepted too, as in the predecessor's
    /// script.
    #[arg(required = true, value_name = "HOST:PATH")]
    pub sources: Vec<String>,
    /// Folder for the fetched folders.
    #[arg(long, help_heading = OUTPUT, value_name = "DIR", default_value = "collected_results")]
    pub out: PathBuf,
    /// Write into one folder per machine, for folders of the same name.
    #[arg(long, help_heading = OUTPUT)]
    pub by_host: bool,
    /// Command that connects, with its arguments.
    #[arg(long, help_heading = DATA, value_name = "COMMAND", env = "SEGTRT_SSH", default_value = "ssh")]
    pub ssh: String,
    /// Print one JSON document instead of the table.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

/// Fetches, shows what came, tells what did not.
pub fn run(args: CollectArgs) -> Result<Outcome> {
    let remotes = remotes(&args.sources)?;
    let Some(ssh) = Ssh::parse(&args.ssh) else {
        bail!(UsageError(format!(
            "--ssh {:?}: expected a command such as \"ssh -p 2222\"",
            args.ssh
        )));
    };
    let options = Options { out: args.out.clone(), by_host: args.by_host, ssh };
    ctrl_c::end_with_repeat(&format!("Fetched files are kept in {}.", args.out.display()), &[]);
    let collected = collect::collect(&remotes, &options)?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&collected)?),
        false => println!("{}", table(&collected)),
    }
    let mut failed = 0;
    for one in &collected {
        failed += usize::from(one.state == State::Incomplete);
        one.problems.iter().for_each(|problem| eprintln!("Error: {}: {problem}", one.from));
        if one.state == State::Unverified {
            log::warn!(
                "{}: not verified, and all files fetched again: that machine has neither \
                 sha256sum nor shasum",
                one.from
            );
        }
        if one.links > 0 {
            log::warn!("{}: {} symbolic links or devices were not fetched", one.from, one.links);
        }
    }
    if failed > 0 {
        eprintln!(
            "{failed} of {} are incomplete; fix the errors above, then repeat the command to continue",
            collected.len()
        );
    }
    Ok(if failed > 0 { Outcome::PartlyFailed } else { Outcome::Done })
}

fn remotes(sources: &[String]) -> Result<Vec<Remote>> {
    let text = match sources {
        // collect_results.sh HOST PATH
        [host, path] if !host.contains([':', '/']) && !path.contains(':') => {
            vec![format!("{host}:{path}")]
        }
        _ => sources.to_vec(),
    };
    let parse = |text: &String| text.parse().map_err(|error| UsageError(format!("{error}")).into());
    text.iter().map(parse).collect()
}

fn table(collected: &[Collected]) -> String {
    let mut table =
        screen_table::table(["from", "to", "files", "fetched", "here before", "MB", "state"], 2..6)
            .optional([4]);
    for one in collected {
        let state = match one.state {
            State::Complete => "complete",
            State::Unverified => "not compared",
            State::Incomplete => "INCOMPLETE",
        };
        table.add_row([
            one.from.clone(),
            one.folder
                .as_ref()
                .map_or_else(|| "-".to_owned(), |folder| folder.display().to_string()),
            one.files.to_string(),
            one.fetched.to_string(),
            one.reused.to_string(),
            format!("{:.1}", one.bytes as f64 / 1e6),
            state.to_owned(),
        ]);
    }
    table.to_string()
}
