/*!
The arguments that hold, as a file that could be given back, each with where it is from.
*/

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::Value;

use super::words::key;

/// Renders the chosen subcommand's arguments; `from_file` are the ids of those that `file` gave.
pub(super) fn render(
    root: &Command,
    matches: &ArgMatches,
    from_file: &HashSet<String>,
    file: Option<&Path>,
) -> String {
    let (mut command, mut matches, mut path) = (root, matches, Vec::new());
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, inner);
        path.push(name);
    }
    let mut out = String::new();
    let mut line = |arg: &Arg| {
        let id = arg.get_id().as_str();
        let source = matches.value_source(id)?;
        // A flag that means nothing here is worth a line only where somebody gave it.
        if arg.is_hide_set() && source == ValueSource::DefaultValue {
            return None;
        }
        let value = value(arg, matches)?;
        let from = match (source, file) {
            (_, Some(file)) if from_file.contains(id) => file.display().to_string(),
            (ValueSource::CommandLine, _) => "command line".to_owned(),
            (ValueSource::EnvVariable, _) => "environment".to_owned(),
            _ => "default".to_owned(),
        };
        Some(format!("{} = {value}  # {from}\n", key(arg)))
    };
    let about_files = ["config", "print_config", "help", "version"];
    let args =
        || command.get_arguments().filter(|arg| !about_files.contains(&arg.get_id().as_str()));
    // What holds everywhere stands before the first table.
    args()
        .filter(|arg| arg.is_global_set())
        .filter_map(&mut line)
        .for_each(|line| out.push_str(&line));
    let _ = write!(out, "\n[{}]\n", path.join("."));
    args().filter(|arg| !arg.is_global_set()).filter_map(line).for_each(|line| out.push_str(&line));
    out
}

/// The value as TOML; none where there is none.
fn value(arg: &Arg, matches: &ArgMatches) -> Option<Value> {
    let id = arg.get_id().as_str();
    match arg.get_action() {
        ArgAction::SetTrue | ArgAction::SetFalse => Some(Value::Boolean(matches.get_flag(id))),
        ArgAction::Count => Some(Value::Integer(matches.get_count(id).into())),
        action => {
            let raw = matches.get_raw(id)?;
            let mut values: Vec<Value> = raw.map(|raw| scalar(&raw.to_string_lossy())).collect();
            match action {
                ArgAction::Append => Some(Value::Array(values)),
                _ => values.pop(),
            }
        }
    }
}

/// A number where it reads as one and is written the same way back.
fn scalar(text: &str) -> Value {
    if let Ok(number) = text.parse::<i64>()
        && number.to_string() == text
    {
        return Value::Integer(number);
    }
    if let Ok(number) = text.parse::<f64>()
        && number.to_string() == text
        && text.contains('.')
    {
        return Value::Float(number);
    }
    Value::String(text.to_owned())
}
