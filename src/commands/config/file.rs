/*!
A file of arguments, checked as a whole: a slip in a table that is not used today is one all the
same.
*/

use std::path::Path;

use clap::{Arg, Command};
use toml::{Table, Value};

use super::Chosen;
use super::error::ConfigError;
use super::words::{Words, key, words_of};

/// Names less alike than this are no suggestion.
const LIKENESS: f64 = 0.7;

/// Flags that a file cannot hold: they are about files, or end the program.
const ABOUT_FILES: [&str; 4] = ["config", "print_config", "help", "version"];

/// What the file says for the chosen subcommand, less what was typed.
pub(super) fn words(
    path: &Path,
    root: &Command,
    chosen: &Chosen<'_>,
) -> Result<Words, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
    let table: Table = toml::from_str(&text)
        .map_err(|source| ConfigError::Syntax { path: path.into(), source: Box::new(source) })?;
    let mut reader = Reader { path, chosen, words: Words::default() };
    reader.table(root, &table, &mut Vec::new())?;
    Ok(reader.words)
}

struct Reader<'a> {
    path: &'a Path,
    chosen: &'a Chosen<'a>,
    words: Words,
}

impl Reader<'_> {
    /// Goes through the table of `command`, which `at` names from the outermost subcommand on.
    fn table(
        &mut self,
        command: &Command,
        table: &Table,
        at: &mut Vec<String>,
    ) -> Result<(), ConfigError> {
        // Of a table further out only what holds everywhere concerns the chosen subcommand.
        let chosen = *at == self.chosen.path;
        let inner = self.chosen.path.starts_with(at);
        for (key, value) in table {
            let name = key.replace('_', "-");
            if let (Value::Table(table), Some(subcommand)) = (value, subcommand(command, &name)) {
                at.push(subcommand.get_name().to_owned());
                self.table(subcommand, table, at)?;
                at.pop();
                continue;
            }
            let Some(arg) = argument(command, &name) else {
                return Err(ConfigError::Unknown {
                    path: self.path.into(),
                    place: place(at),
                    what: if value.is_table() { "subcommand" } else { "flag" },
                    name: key.clone(),
                    nearest: nearest(command, &name, value.is_table()),
                });
            };
            let words = words_of(arg, value).map_err(|expected| ConfigError::Value {
                path: self.path.into(),
                place: place(at),
                key: key.clone(),
                expected,
                found: format!("{} {value}", value.type_str()),
            })?;
            let holds = chosen || inner && arg.is_global_set();
            if holds && !self.chosen.excludes(arg) {
                self.words.add(arg, words);
            }
        }
        Ok(())
    }
}

/// `segtrt bench`.
fn place(at: &[String]) -> String {
    let names = std::iter::once("segtrt").chain(at.iter().map(String::as_str));
    names.collect::<Vec<_>>().join(" ")
}

fn subcommand<'a>(command: &'a Command, name: &str) -> Option<&'a Command> {
    command.find_subcommand(name).filter(|found| !found.is_hide_set())
}

/// The argument of that long name, or the positional one of that id.
fn argument<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().filter(|arg| !ABOUT_FILES.contains(&arg.get_id().as_str())).find(
        |arg| key(arg) == name || arg.get_all_aliases().is_some_and(|all| all.contains(&name)),
    )
}

/// A name of the same kind that is much like `name`.
fn nearest(command: &Command, name: &str, table: bool) -> Option<String> {
    let commands = command.get_subcommands().filter(|sub| table && !sub.is_hide_set());
    let flags = command.get_arguments().filter(|arg| {
        !table && !arg.is_hide_set() && !ABOUT_FILES.contains(&arg.get_id().as_str())
    });
    commands
        .map(|sub| sub.get_name().to_owned())
        .chain(flags.map(key))
        .map(|known| (strsim::jaro_winkler(&known, name), known))
        .filter(|(likeness, _)| *likeness > LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
