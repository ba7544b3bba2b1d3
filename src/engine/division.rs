/*!
Which of a graph's profiles lie in which plan: the exact track step's in several, where one plan would take too long to build.

TensorRT 8.6 needs some 20 s a profile, and the exact track step has one for each fill level. Divided over plans of the same graph each
plan is built, told and used again by itself. Each holds the weights once more, so releases that build quickly keep all in one.
*/

use std::fmt;

use serde::{Serialize, Serializer};

use super::manifest::{EngineManifest, PlanRecord};
use super::profiles::profiles;
use super::settings::ProfileShapes;
use crate::bundle::Role;
use crate::trt::Family;

/// Profiles in one plan of the exact track step where a release needs long for each: 80 s at 20 s a profile, and no graph may take
/// more than two minutes.
const OF_A_SLOW_RELEASE: usize = 4;

/// What every plan's file name ends with.
const SUFFIX: &str = ".plan";

/// One of several plans of the same graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which, from 0.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number + 1, self.of)
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Most profiles in one plan of this graph; none where all go into one. `asked`: what the user wants; `family`: what builds.
pub fn profiles_per_plan(
    role: Role,
    asked: Option<usize>,
    family: Option<Family>,
) -> Option<usize> {
    let usual = (family == Some(Family::Trt8)).then_some(OF_A_SLOW_RELEASE);
    asked.or(usual).filter(|_| role == Role::Track)
}

/// The profiles in their order, no more than `most` in a plan and as even as can be; undivided where they are no more than that.
pub fn divide(
    mut profiles: Vec<ProfileShapes>,
    most: Option<usize>,
) -> Vec<(Option<Part>, Vec<ProfileShapes>)> {
    let of = most.map_or(1, |most| profiles.len().div_ceil(most.max(1)));
    if of <= 1 {
        return vec![(None, profiles)];
    }
    let (each, more) = (profiles.len() / of, profiles.len() % of);
    let part = |number| {
        let rest = profiles.split_off(each + usize::from(number < more));
        (Some(Part { number, of }), std::mem::replace(&mut profiles, rest))
    };
    (0..of).map(part).collect()
}

/// The name of a plan's file: "track.plan", "track_0.plan".
pub fn file_name(role: Role, part: Option<Part>) -> String {
    let number = part.map_or_else(String::new, |part| format!("_{}", part.number));
    format!("{}{number}{SUFFIX}", role.name())
}

/// The name of a plan's file without its ending: "track", "track_0".
pub fn stem(file: &str) -> &str {
    file.strip_suffix(SUFFIX).unwrap_or(file)
}

/// What a plan is called on the screen: "track", "track 1/4".
pub fn label(graph: &str, part: Option<Part>) -> String {
    part.map_or_else(|| graph.to_owned(), |part| format!("{graph} {part}"))
}

/// Whether a plan of this graph has this file name in any division.
pub fn is_file_of(role: Role, file: &str) -> bool {
    let Some(rest) = file.strip_suffix(SUFFIX).and_then(|stem| stem.strip_prefix(role.name()))
    else {
        return false;
    };
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    rest.is_empty() || rest.strip_prefix('_').is_some_and(is_number)
}

/// The plans that one object's track step runs.
#[derive(Debug)]
pub struct Exact<'a> {
    /// Each adds a fill level; a plan of which no level is needed is left out.
    pub plans: Vec<&'a PlanRecord>,
    /// The fill levels that no plan has, in words.
    pub missing: Vec<String>,
}

/// Chooses the plans of the exact track step in a folder, whose division may be one that a build was stopped in.
pub fn exact(manifest: &EngineManifest) -> Exact<'_> {
    let bundle = &manifest.bundle;
    let wanted = bundle.graph(Role::Track).map(|graph| profiles(graph, &bundle.contract, 1));
    let mut missing = wanted.unwrap_or_default();
    let adds = |plan: &&PlanRecord| {
        let before = missing.len();
        let there = &plan.settings.profiles;
        missing.retain(|wanted| there.iter().all(|profile| profile.shapes != wanted.shapes));
        missing.len() < before
    };
    let plans = manifest.plans_of(Role::Track).filter(adds).collect();
    Exact { plans, missing: missing.into_iter().map(|profile| profile.label).collect() }
}

#[cfg(test)]
mod tests;
