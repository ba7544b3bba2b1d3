/*!
The plots of a report, by section. `fps_vs_jandf` and `gpu_vs_cpu` have the predecessor's names and
axes.
*/

mod drift;
mod history;
mod latency;
mod memory;
mod power;
mod profiles;
mod proof;
mod speed;
mod stages;
mod sweep;

use super::chart::{Plot, Style};
use super::content::Report;
use super::data::Group;

/// Most curves in one plot that are still distinguishable.
const CURVES: usize = 6;
/// Most groups of bars in one plot, about a page.
const BAR_GROUPS: usize = 10;

/// All plots.
#[derive(Debug, Default)]
pub struct Figures {
    /// Sides of comparisons.
    pub proof: Vec<Plot>,
    /// The same for narrow screens; not written as files.
    pub narrow: Vec<Plot>,
    /// Speed against accuracy.
    pub speed: Vec<Plot>,
    /// Platform against platform.
    pub platforms: Vec<Plot>,
    /// Distributions and time series of frame times.
    pub latency: Vec<Plot>,
    /// Stages of a frame's time.
    pub stages: Vec<Plot>,
    /// Memory.
    pub memory: Vec<Plot>,
    /// Power and clocks.
    pub power: Vec<Plot>,
    /// IoU against frame index.
    pub drift: Vec<Plot>,
    /// Numbers over the runs of a history.
    pub history: Vec<Plot>,
    /// Rates and stages of a sweep's points.
    pub sweep: Vec<Plot>,
    /// Profiles of Nsight Systems.
    pub profiles: Vec<Plot>,
}

impl Figures {
    /// Draws every plot for which the report has numbers.
    pub fn of(report: &Report, style: Style) -> Self {
        Self {
            proof: proof::plots(report, style),
            narrow: proof::narrow(report),
            speed: speed::plots(report, style),
            platforms: speed::platforms(report, style),
            latency: latency::plots(report, style),
            stages: stages::plots(report, style),
            memory: memory::plots(report, style),
            power: power::plots(report, style),
            drift: drift::plots(report, style),
            history: history::plots(report, style),
            sweep: sweep::plots(report, style),
            profiles: profiles::plots(report, style),
        }
    }

    /// Each plot that becomes a file, once.
    pub fn all(&self) -> impl Iterator<Item = &Plot> {
        let sections = [
            &self.proof,
            &self.speed,
            &self.platforms,
            &self.latency,
            &self.stages,
            &self.memory,
            &self.power,
            &self.drift,
            &self.history,
            &self.sweep,
            &self.profiles,
        ];
        sections.into_iter().flatten()
    }
}

/// Groups of one size of the network input: sizes are never mixed in a plot.
struct OfSize<'a> {
    /// End of plot names; empty if the page has one size.
    name: String,
    /// End of headings, likewise.
    title: String,
    /// The groups.
    groups: Vec<&'a Group>,
}

/// `groups` by size in order of first appearance.
fn by_size<'a>(report: &'a Report, groups: impl IntoIterator<Item = &'a Group>) -> Vec<OfSize<'a>> {
    let size = |group: &'a Group| group.conditions.get("imgsz").unwrap_or("unknown");
    let mut all: Vec<&str> = report.groups.iter().map(size).collect();
    all.dedup();
    let several = all.iter().any(|other| *other != all[0]);
    let mut found: Vec<(&str, Vec<&Group>)> = Vec::new();
    for group in groups {
        match found.iter_mut().find(|(known, _)| *known == size(group)) {
            Some((_, members)) => members.push(group),
            None => found.push((size(group), vec![group])),
        }
    }
    let named = |(size, groups): (&str, Vec<&'a Group>)| OfSize {
        name: if several { format!("_{}", slug(size)) } else { String::new() },
        title: if several { format!(", {size} pixels") } else { String::new() },
        groups,
    };
    found.into_iter().map(named).collect()
}

/// A text as a part of a file name.
fn slug(text: &str) -> String {
    text.replace(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.' | '_'), "_")
}

/// The name of a plot's part: the first part has the plain name.
fn part_name(name: &str, part: usize) -> String {
    if part == 0 { name.to_owned() } else { format!("{name}_{}", part + 1) }
}

/// Heading of a part.
fn part_title(title: &str, part: usize, parts: usize) -> String {
    if parts > 1 { format!("{title} ({} of {parts})", part + 1) } else { title.to_owned() }
}

/// A group's name on a plot, with the platform if there are several, and with INVALID if its rows
/// are.
fn label(report: &Report, group: &Group) -> String {
    let name =
        if report.platforms.platforms.len() > 1 { group.full_name() } else { group.name.clone() };
    if group.invalid { format!("{name} · INVALID") } else { name }
}

/// The note below plots with hollow groups.
fn invalid_note<'a>(mut groups: impl Iterator<Item = &'a Group>) -> Vec<String> {
    let any_invalid = groups.any(|group| group.invalid);
    any_invalid.then(|| "Drawn hollow: every row is INVALID.".to_owned()).into_iter().collect()
}

/// A list for a sentence, shortened if it is long.
fn listed(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<String> = words.into_iter().collect();
    match words.len() {
        0..=12 => words.join("; "),
        more => format!("{}; and {} more", words[..12].join("; "), more - 12),
    }
}
