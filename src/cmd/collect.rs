/*!
`segtrt collect`.
*/

use anyhow::{Result, bail};

use super::Outcome;
use crate::cli::CollectArgs;
use crate::collect::{self, Collected, Options, Remote, Ssh, State};
use host::UsageError;
use host::screen_table;

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
                "{}: that machine has neither sha256sum nor shasum, so nothing could be compared, nor taken from an \
                 earlier copy",
                one.from
            );
        }
        if one.links > 0 {
            log::warn!("{}: {} symbolic links or devices were left there", one.from, one.links);
        }
    }
    if failed > 0 {
        eprintln!(
            "{failed} of {} are not complete; once that is mended the same command goes on where it stopped",
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
        screen_table::table(["from", "to", "files", "fetched", "here before", "MB", "state"], 2..6);
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
