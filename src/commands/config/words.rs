/*!
A key and its value as the words that could have been typed.
*/

use std::collections::HashSet;
use std::fmt;

use clap::{Arg, ArgAction};
use toml::Value;

/// The words of a file for one command line.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    flags: Vec<String>,
    /// Those without a flag's name, which follow the others.
    positional: Vec<String>,
    /// Flags whose value is left out: the last words of all, for they would take the next one for
    /// it.
    bare: Vec<String>,
    /// Ids of the arguments that they are of.
    pub ids: HashSet<String>,
}

impl Words {
    pub(super) fn add(&mut self, arg: &Arg, words: Vec<String>) {
        if words.is_empty() {
            return;
        }
        self.ids.insert(arg.get_id().to_string());
        let bare = takes_none(arg) && words.iter().all(|word| !word.contains('='));
        match (arg.is_positional(), bare) {
            (true, _) => &mut self.positional,
            (_, true) => &mut self.bare,
            _ => &mut self.flags,
        }
        .extend(words);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Those that follow the subcommand's name.
    pub(super) fn first(&self) -> impl Iterator<Item = &String> {
        self.flags.iter().chain(&self.positional)
    }

    /// Those that end the command line.
    pub(super) fn last(&self) -> impl Iterator<Item = &String> {
        self.bare.iter()
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.first().chain(self.last()).map(String::as_str).collect();
        f.write_str(&words.join(" "))
    }
}

/// How an argument is called in a file.
pub(super) fn key(arg: &Arg) -> String {
    match arg.get_long() {
        Some(long) => long.to_owned(),
        None => arg.get_id().as_str().replace('_', "-"),
    }
}

/// The words for `value`; what is expected instead, where it cannot be typed.
pub(super) fn words_of(arg: &Arg, value: &Value) -> Result<Vec<String>, &'static str> {
    let flag = format!("--{}", key(arg));
    match arg.get_action() {
        ArgAction::SetTrue | ArgAction::SetFalse => match value {
            Value::Boolean(true) => Ok(vec![flag]),
            Value::Boolean(false) => Ok(Vec::new()),
            _ => Err("true or false"),
        },
        ArgAction::Count => match value {
            Value::Integer(times) if (0..=9).contains(times) => Ok(vec![flag; *times as usize]),
            _ => Err("a number from 0 to 9"),
        },
        // A flag whose value may be left out: on is the flag alone, off is no flag.
        _ if takes_none(arg) && matches!(value, Value::Boolean(_)) => {
            Ok(if *value == Value::Boolean(true) { vec![flag] } else { Vec::new() })
        }
        action => {
            let values = values(value)?;
            let word = |value: &String| match arg.is_positional() {
                true => value.clone(),
                false => format!("{flag}={value}"),
            };
            Ok(match action {
                ArgAction::Append => values.iter().map(word).collect(),
                // One value that is itself a list, such as the tags of --models.
                _ => vec![word(&values.join(","))],
            })
        }
    }
}

fn takes_none(arg: &Arg) -> bool {
    !arg.is_positional()
        && arg
            .get_num_args()
            .is_some_and(|number| number.takes_values() && number.min_values() == 0)
}

fn values(value: &Value) -> Result<Vec<String>, &'static str> {
    match value {
        Value::Array(values) => values.iter().map(scalar).collect(),
        value => Ok(vec![scalar(value)?]),
    }
}

fn scalar(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(on) => Ok(on.to_string()),
        _ => Err("a text, a number, true or false, or a list of them"),
    }
}
