/*!
The plots of a report, by section. `fps_vs_jandf` and `gpu_vs_cpu` have the predecessor's names and
axes.
*/

mod latency;
mod memory;
mod power;
mod speed;
mod stages;

use super::chart::Plot;
use super::content::Report;
use super::data::Group;

/// Most curves in one plot that are still distinguishable.
const CURVES: usize = 6;
/// Most groups of bars in one plot, about a page.
const BAR_GROUPS: usize = 10;

/// All plots.
#[derive(Debug, Default)]
pub struct Figures {
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
}

impl Figures {
    /// Draws every plot for which the report has numbers.
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
