/*!
Flags of a bench as words: understood by the program's own parser before any process starts.
*/

use std::ffi::OsString;

use anyhow::Result;
use clap::Parser;

use crate::commands::bench::BenchArgs;
use crate::commands::{Cli, Command, accept_underscores};
use host::UsageError;

/// Flags that a command around a bench sets itself.
const OWNED: [&str; 8] = [
    "--split-dir",
    "--split-name",
    "--models",
    "--out-dir",
    "--resume",
    "--backend",
    "--video-list",
    "--test-mode",
];

/// The first of `flags` that is among [`OWNED`] or `more`.
pub(in crate::commands) fn owned_flag<'a>(flags: &'a [String], more: &[&str]) -> Option<&'a str> {
    let name = |flag: &str| flag.split('=').next().unwrap_or_default().replace('_', "-");
    let owned = |flag: &&String| {
        let name = name(flag);
        OWNED.contains(&name.as_str()) || more.contains(&name.as_str())
    };
    flags.iter().find(owned).map(String::as_str)
}

/// Parses the flags of a bench.
///
/// # Errors
/// A [`UsageError`] with the parser's own message.
pub(in crate::commands) fn parse_bench(words: &[String]) -> Result<BenchArgs> {
    let line = ["segtrt", "bench"].map(OsString::from).into_iter();
    let line = line.chain(words.iter().map(OsString::from));
    let parsed = Cli::try_parse_from(accept_underscores(line));
    let parsed = parsed.map_err(|error| {
        UsageError(format!("the flags of the bench are not understood: {error}"))
    })?;
    match parsed.command {
        Command::Bench(args) => Ok(*args),
        _ => Err(UsageError("the flags of the bench name another command".to_owned()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn words_are_understood_as_on_the_command_line() {
        let args = parse_bench(&words("--split_dir /a --limit-videos 2 --autocast fp16")).unwrap();
        assert_eq!((args.limit_videos, args.precision.as_deref()), (2, Some("fp16")));
        let error = parse_bench(&words("--limit-vids 2")).unwrap_err();
        assert!(error.downcast_ref::<UsageError>().is_some() && error.to_string().contains("vids"));
    }

    #[test]
    fn flags_that_are_set_already_are_found_however_they_are_written() {
        assert_eq!(owned_flag(&words("--threads 2 --out_dir=/x"), &[]), Some("--out_dir=/x"));
        assert_eq!(owned_flag(&words("--threads 2"), &[]), None);
        assert_eq!(owned_flag(&words("--threads 2"), &["--threads"]), Some("--threads"));
    }
}
