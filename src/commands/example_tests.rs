//! Every subcommand shows how it is used, with examples that the parser takes; what prints a table
//! prints JSON too.

use std::ffi::OsString;

use clap::{Command, CommandFactory};

use super::{Cli, accept_underscores, public};

/// Subcommands that print no table of their own: what an experiment or a profile shows is its
/// bench's; `setup` and `fetch` print the paths of what they installed.
const NO_TABLE: [&str; 8] =
    ["completions", "man", "experiment", "profile", "setup", "fetch", "masks", "trace"];

/// Each shown subcommand with its whole name.
fn each(command: &Command, name: &str, visit: &mut dyn FnMut(&str, &Command)) {
    let shown = |sub: &&Command| !sub.is_hide_set() && sub.get_name() != "help";
    for sub in command.get_subcommands().filter(shown) {
        let name = format!("{name} {}", sub.get_name());
        visit(&name, sub);
        each(sub, &name, visit);
    }
}

fn after_help(command: &Command) -> String {
    command.get_after_help().map(ToString::to_string).unwrap_or_default()
}

/// The command lines in a help text, without what a shell would do with them.
fn examples(text: &str) -> Vec<String> {
    let begin = text.lines().filter_map(|line| line.find("segtrt ").map(|at| &line[at..]));
    let ends = [" | ", " && ", " > ", "; ", "  #"];
    begin
        .map(|line| {
            let end = ends.iter().filter_map(|end| line.find(end)).min().unwrap_or(line.len());
            line[..end].trim_end().to_owned()
        })
        .collect()
}

#[test]
fn every_subcommand_has_examples_that_can_be_typed() {
    each(&Cli::command(), "segtrt", &mut |name, command| {
        let text = after_help(command);
        assert!(
            text.contains("Example"),
            "{name} --help shows no example: add #[command(after_help = \"Example: {name} …\")] to its Args"
        );
        let examples = examples(&text);
        assert!(
            examples.iter().any(|line| line.starts_with(name)),
            "no example of {name} is a whole command line that begins with {name:?}: {text}"
        );
        for line in examples.iter().filter(|line| line.starts_with(name)) {
            let words = shlex::split(line).expect("quotes are closed");
            let words = accept_underscores(words.into_iter().map(OsString::from));
            if let Err(error) = Cli::command().try_get_matches_from(words) {
                panic!("the help of {name} shows `{line}`, which cannot be typed: {error}");
            }
        }
    });
}

#[test]
fn every_table_can_be_had_as_json() {
    let mut all = Cli::command();
    // Flags of a group reach its subcommands.
    all.build();
    each(&all, "segtrt", &mut |name, command| {
        let is_group = command.get_subcommands().next().is_some();
        let json = command.get_arguments().any(|arg| arg.get_long() == Some("json"));
        let none = NO_TABLE.iter().any(|known| name.ends_with(&format!(" {known}")));
        assert!(
            json || is_group || none,
            "{name} has no --json: add it if {name} prints a table, else add it to NO_TABLE here"
        );
    });
}

#[test]
fn the_public_declaration_lacks_only_what_is_hidden() {
    let (all, public) = (Cli::command(), public());
    public.clone().debug_assert();
    let names = |command: &Command| -> Vec<String> {
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        shown.map(|sub| sub.get_name().to_owned()).collect()
    };
    assert_eq!(names(&public), names(&all));
    assert!(public.get_subcommands().all(|sub| !sub.is_hide_set()));
    assert_eq!(
        public.get_about().map(ToString::to_string),
        all.get_about().map(ToString::to_string)
    );
    let flags = |command: &Command| {
        command.get_arguments().map(|a| a.get_id().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(flags(&public), flags(&all));
}
