/*!
Arguments from a file: `--config FILE`, and `--print-config` to make one.

A table belongs to a subcommand and a key to one of its flags, so whatever can be typed can be
written, and nothing else: the words that the file stands for go through the same parser. What is
typed wins, then the environment, then the file.
*/

mod error;
mod file;
mod print;
mod words;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
pub use error::ConfigError;

use super::Cli;
use words::Words;

/// The request of a command line.
pub enum Start {
    /// Run this.
    Run(Box<Cli>),
    /// Print this and end.
    Print(String),
}

/// Parses a command line, with the arguments of the file that it may name.
///
/// # Errors
/// A file that cannot be read, or that says what cannot be typed. What is wrong with the command
/// line itself ends the program with clap's own message.
pub fn start(args: Vec<OsString>) -> Result<Start, ConfigError> {
    let mut lenient = lenient(Cli::command());
    lenient.build();
    // Where even this fails the strict parser says what is wrong.
    let Ok(typed) = lenient.try_get_matches_from_mut(args.clone()) else {
        return Ok(Start::Run(Box::new(parse(args))));
    };
    let path = typed.get_one::<PathBuf>("config").cloned();
    let print = typed.get_flag("print_config");
    if path.is_none() && !print {
        return Ok(Start::Run(Box::new(parse(args))));
    }
    let chosen = Chosen::of(&lenient, &typed);
    let words = match &path {
        Some(path) => file::words(path, &lenient, &chosen)?,
        None => Words::default(),
    };
    let all = chosen.with(args, &words);
    let mut strict = super::command();
    let matches = match strict.try_get_matches_from_mut(all) {
        Ok(matches) => matches,
        Err(error) => {
            let error = advise(error);
            let _ = error.print();
            if let (Some(path), false) = (&path, words.is_empty()) {
                eprintln!("\nfrom {}: {words}", path.display());
            }
            std::process::exit(error.exit_code());
        }
    };
    if print {
        return Ok(Start::Print(print::render(&strict, &matches, &words.ids, path.as_deref())));
    }
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => Ok(Start::Run(Box::new(cli))),
        Err(error) => error.format(&mut strict).exit(),
    }
}

/// Parses, or ends the program with clap's message.
fn parse(args: Vec<OsString>) -> Cli {
    let mut command = super::command();
    let typed = command.try_get_matches_from_mut(args);
    let parsed = typed.and_then(|matches| {
        Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    });
    parsed.unwrap_or_else(|error| {
        let error = advise(error);
        let _ = error.print();
        if let Some(tip) = flag_of_a_bare_word(&error) {
            eprintln!("\n{tip}");
        }
        std::process::exit(error.exit_code())
    })
}

/// Takes the hidden subcommands, which only this program starts, out of clap's advice where there
/// is other advice.
fn advise(mut error: clap::Error) -> clap::Error {
    const KIND: ContextKind = ContextKind::SuggestedSubcommand;
    let command = Cli::command();
    let is_shown = |name: &String| command.find_subcommand(name).is_some_and(|c| !c.is_hide_set());
    let Some(ContextValue::Strings(names)) = error.get(KIND) else { return error };
    let shown: Vec<String> = names.iter().filter(|name| is_shown(name)).cloned().collect();
    if !shown.is_empty() {
        error.insert(KIND, ContextValue::Strings(shown));
    }
    error
}

/// A word without a flag is most often the folder of the clips, a number below zero, or the second
/// number of a click.
fn flag_of_a_bare_word(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    match word.parse::<f64>() {
        Ok(_) if word.starts_with('-') => {
            Some(format!("no flag here takes a number below 0, such as {word}"))
        }
        Ok(_) => Some(format!(
            "numbers that belong together are one word without spaces, such as --click 420,{word}"
        )),
        _ if word == "--points" => Some("a click of `segtrt track` is --click X,Y".to_owned()),
        _ if word.starts_with('-') => None,
        _ if Path::new(word).is_dir() => {
            Some(format!("to name a folder of clips: --split-dir {}", host::shell::word(word)))
        }
        _ => None,
    }
}

/// The same command, content with what lacks: the file may bring it.
fn lenient(command: Command) -> Command {
    command
        .subcommand_required(false)
        .arg_required_else_help(false)
        .mut_args(|arg| arg.required(false))
        .mut_subcommands(lenient)
}

/// The subcommand that was typed, and what was typed for it.
struct Chosen<'a> {
    /// Names from the outermost subcommand on.
    path: Vec<String>,
    command: &'a Command,
    /// Ids of the arguments that were typed or that the environment gives.
    given: HashSet<String>,
}

impl<'a> Chosen<'a> {
    fn of(root: &'a Command, matches: &ArgMatches) -> Self {
        let (mut command, mut matches, mut path) = (root, matches, Vec::new());
        while let Some((name, inner)) = matches.subcommand() {
            let Some(found) = command.find_subcommand(name) else { break };
            (command, matches) = (found, inner);
            path.push(name.to_owned());
        }
        let typed = |arg: &&Arg| {
            let source = matches.try_contains_id(arg.get_id().as_str()).unwrap_or(false);
            source && matches.value_source(arg.get_id().as_str()).is_some_and(has_precedence)
        };
        let ids = command.get_arguments().filter(typed).map(|arg| arg.get_id().to_string());
        let given = ids.collect();
        Self { path, command, given }
    }

    /// Whether the file's value for `arg` is to be left out: it was typed, or something that
    /// excludes it.
    fn excludes(&self, arg: &Arg) -> bool {
        let is_given = |arg: &Arg| self.given.contains(arg.get_id().as_str());
        let conflicts = |a: &Arg, b: &Arg| {
            self.command.get_arg_conflicts_with(a).iter().any(|other| other.get_id() == b.get_id())
        };
        let typed = || self.command.get_arguments().filter(|other| is_given(other));
        is_given(arg)
            || arg.is_positional() && typed().any(Arg::is_positional)
            || typed().any(|other| conflicts(arg, other) || conflicts(other, arg))
    }

    /// The command line with the file's words, after the subcommand's name but for those that must
    /// be last.
    fn with(&self, args: Vec<OsString>, words: &Words) -> Vec<OsString> {
        let mut names = self.path.iter().peekable();
        let (mut at, mut skip) = (1, false);
        for (index, arg) in args.iter().enumerate().skip(1) {
            if std::mem::take(&mut skip) {
                continue;
            }
            skip = arg == "--config";
            if names.peek().is_some_and(|name| *arg == ***name) {
                names.next();
                at = index + 1;
            }
            if names.peek().is_none() {
                break;
            }
        }
        let mut all = args;
        all.splice(at..at, words.first().map(OsString::from));
        let end = all.iter().position(|arg| arg == "--").unwrap_or(all.len());
        all.splice(end..end, words.last().map(OsString::from));
        all
    }
}

fn has_precedence(source: ValueSource) -> bool {
    matches!(source, ValueSource::CommandLine | ValueSource::EnvVariable)
}

#[cfg(test)]
mod tests;
