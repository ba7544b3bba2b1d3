/*!
The plots of a report, by the section that they belong to. `fps_vs_jandf` and `gpu_vs_cpu` have the
predecessor's names and axes.
*/

mod latency;
mod memory;
mod power;
mod speed;
mod stages;

use super::chart::Plot;
use super::data::{Group, Report};

/// Curves in one plot: as many as can be told apart without effort.
const CURVES: usize = 6;
/// Groups of bars in one plot: about a page.
const BAR_GROUPS: usize = 10;

/// All plots.
#[derive(Debug, Default)]
pub struct Figures {
    /// Speed against accuracy.
    pub speed: Vec<Plot>,
    /// Platform against platform.
    pub platforms: Vec<Plot>,
    /// Distributions and courses of frame times.
    pub latency: Vec<Plot>,
    /// Where the time goes.
    pub stages: Vec<Plot>,
    /// Memory.
    pub memory: Vec<Plot>,
    /// Power and clocks.
    pub power: Vec<Plot>,
    /// IoU against frame index.
    pub drift: Vec<Plot>,
}

impl Figures {
    /// Draws everything that the report has numbers for.
    pub fn of(report: &Report) -> Self {
        Self {
            speed: speed::plots(report),
            platforms: speed::platforms(report),
            latency: latency::plots(report),
            stages: stages::plots(report),
            memory: memory::plots(report),
            power: power::plots(report),
            drift: latency::drift(report),
        }
    }

    /// Each plot once.
    pub fn all(&self) -> impl Iterator<Item = &Plot> {
        let sections = [
            &self.speed,
            &self.platforms,
            &self.latency,
            &self.stages,
            &self.memory,
            &self.power,
            &self.drift,
        ];
        sections.into_iter().flatten()
    }
}

/// The name of a plot's part: the first part has the plain name.
fn part_name(name: &str, part: usize) -> String {
    if part == 0 { name.to_owned() } else { format!("{name}_{}", part + 1) }
}

/// Heading of a part.
fn part_title(title: &str, part: usize, parts: usize) -> String {
    if parts > 1 { format!("{title} ({} of {parts})", part + 1) } else { title.to_owned() }
}

/// A group's name on a plot, with the platform where there are several, and a word where its
/// numbers are doubted.
fn label(report: &Report, group: &Group) -> String {
    let name =
        if report.platforms.platforms.len() > 1 { group.full_name() } else { group.name.clone() };
    if group.invalid { format!("{name} · INVALID") } else { name }
}

/// Said under plots in which a group is drawn hollow.
fn doubt_note<'a>(mut groups: impl Iterator<Item = &'a Group>) -> Vec<String> {
    let doubted = groups.any(|group| group.invalid);
    doubted.then(|| "Drawn hollow: every row is INVALID.".to_owned()).into_iter().collect()
}

/// A list for a sentence, cut where it grows long.
fn listed(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<String> = words.into_iter().collect();
    match words.len() {
        0..=12 => words.join("; "),
        more => format!("{}; and {} more", words[..12].join("; "), more - 12),
    }
}
