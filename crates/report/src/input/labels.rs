/*!
Short names for runs: the fewest last parts of a path that distinguish a run from the others.
*/

use std::path::Path;

use super::find::{Found, is_run_table};
use super::sweep::is_sweep;

/// A name for each file: the user's, else from its path. Rounds of one run (`round_1`, `round_2`,
/// …) share one name.
pub fn labels(found: &[Found]) -> Vec<String> {
    let parts: Vec<Vec<String>> = found.iter().map(|found| parts(&found.path)).collect();
    found
        .iter()
        .zip(&parts)
        .map(|(found, own)| match &found.label {
            Some(label) => label.clone(),
            None => shortest(own, &parts),
        })
        .collect()
}

/// The parts of the path that may name a run.
fn parts(table: &Path) -> Vec<String> {
    let whole = std::fs::canonicalize(table).unwrap_or_else(|_| table.to_owned());
    let mut named = whole.with_extension("");
    // Every comparison's file has the same name; its folder tells it from others.
    if is_run_table(&whole) || whole.ends_with("comparison.json") || is_sweep(&whole) {
        named.pop();
    }
    let mut parts: Vec<String> = named
        .components()
        .filter_map(|part| match part {
            std::path::Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    while parts.len() > 1 && parts.last().is_some_and(|last| says_nothing(last)) {
        parts.pop();
    }
    parts
}

/// Whether a name is common to all runs.
fn says_nothing(name: &str) -> bool {
    let round = name.strip_prefix("from_").unwrap_or(name).strip_prefix("round_");
    let round = round.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()));
    round || matches!(name, "profile_outputs" | "benchmark_outputs" | "jetson_benchmark_outputs")
}

fn shortest(own: &[String], all: &[Vec<String>]) -> String {
    for count in 1..=own.len() {
        let tail = &own[own.len() - count..];
        if all.iter().all(|other| other == own || !other.ends_with(tail)) {
            return tail.join("/");
        }
    }
    own.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::find::FileKind;
    use super::*;

    fn of(paths: &[&str]) -> Vec<String> {
        let found = |path: &&str| Found { path: path.into(), kind: FileKind::Table, label: None };
        labels(&paths.iter().map(found).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_as_short_as_they_can_be() {
        assert_eq!(
            of(&["/x/h200/profile_summary.csv", "/x/orin/profile_summary.csv"]),
            ["h200", "orin"]
        );
        assert_eq!(
            of(&[
                "/x/h200/out/sav_benchmark_summary.csv",
                "/x/orin/out/sav_benchmark_summary.csv",
                "/y/final.csv"
            ]),
            ["h200/out", "orin/out", "final"]
        );
    }

    #[test]
    fn rounds_are_one_run_and_a_name_of_the_users_stays() {
        let rounds =
            ["/x/eager/round_1/profile_summary.csv", "/x/eager/round_2/profile_summary.csv"];
        assert_eq!(of(&rounds), ["eager", "eager"]);
        let mut found = vec![
            Found { path: rounds[0].into(), kind: FileKind::Table, label: Some("RTX 3090".into()) },
            Found { path: rounds[1].into(), kind: FileKind::Table, label: None },
        ];
        assert_eq!(labels(&found), ["RTX 3090", "eager"]);
        found[1].path = "/x/nsight_experiment_jetson/profile_outputs/profile_summary.csv".into();
        assert_eq!(labels(&found)[1], "nsight_experiment_jetson");
    }
}
