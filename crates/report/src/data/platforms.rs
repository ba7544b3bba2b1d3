/*!
Comparison of platforms: a line for each model and set of conditions, a column for each platform. Runs
of one machine and sides of comparisons are no platforms and are called what they are.
*/

use serde::Serialize;

use super::conditions::in_words;
use super::group::Group;

/// Conditions that distinguish lines. Backend and device belong to the platform, and the rules of
/// scoring do not affect speed.
const KEPT: [&str; 6] =
    ["precision", "imgsz", "mode", "geometry", "input_frame_stride", "experiment_name"];

/// The Python predecessor times other work, so its rows have no ratio to segtrt's.
const PREDECESSOR: &str = "Python predecessor";

/// What the name of a group's platform stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaceKind {
    /// A board or a machine, named by a file or by the user.
    #[default]
    Platform,
    /// A run folder or a table.
    Run,
    /// A side of a comparison.
    Side,
}

impl PlaceKind {
    /// The word as a heading.
    pub fn word(self) -> &'static str {
        match self {
            Self::Platform => "Platform",
            Self::Run => "Run",
            Self::Side => "Side",
        }
    }

    /// The word in a sentence.
    pub fn lower(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Run => "run",
            Self::Side => "side",
        }
    }

    /// One word for all groups: names of one machine are runs, and so are mixed ones.
    fn of(groups: &[Group]) -> Self {
        let Some(first) = groups.first() else { return Self::Platform };
        let one_machine = first.hostname.is_some()
            && groups.iter().all(|group| {
                group.hostname == first.hostname
                    && group.conditions.get("device") == first.conditions.get("device")
            });
        match groups.iter().all(|group| group.place == first.place) {
            true if first.place == Self::Platform && one_machine => Self::Run,
            true => first.place,
            false => Self::Run,
        }
    }
}

/// The whole comparison.
#[derive(Debug, Default, Serialize)]
pub struct PlatformTable {
    /// What the names of the platforms stand for.
    pub kind: PlaceKind,
    /// Platforms in order of first appearance.
    pub platforms: Vec<String>,
    /// Lines; empty if there is one platform.
    pub lines: Vec<PlatformLine>,
}

/// A model under one set of conditions.
#[derive(Debug, Serialize)]
pub struct PlatformLine {
    /// Model and conditions.
    pub name: String,
    /// Side of the network input, pixels; empty if unknown.
    pub imgsz: String,
    /// All groups have the same clips and objects. Otherwise they have no ratio.
    pub same_objects: bool,
    /// Its groups on each platform, usually one; empty if it was not measured there.
    pub cells: Vec<Vec<PlatformCell>>,
}

/// One group.
#[derive(Debug, Serialize)]
pub struct PlatformCell {
    /// Index of the group.
    pub group: usize,
    /// Mean FPS.
    pub fps: Option<f64>,
    /// FPS over the FPS of the first platform with a number; none for INVALID rows.
    pub times_first: Option<f64>,
}

/// The comparison of all groups.
pub fn table(groups: &[Group]) -> PlatformTable {
    let kind = PlaceKind::of(groups);
    let mut platforms: Vec<String> = Vec::new();
    for group in groups {
        if !platforms.contains(&group.platform) {
            platforms.push(group.platform.clone());
        }
    }
    if platforms.len() < 2 {
        return PlatformTable { kind, platforms, lines: Vec::new() };
    }
    let mut keys: Vec<Vec<Option<&str>>> = Vec::new();
    let mut lines: Vec<PlatformLine> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let mut key = vec![Some(group.model.as_str())];
        key.extend(KEPT.map(|column| group.conditions.get(column)));
        key.push(group.predecessor.then_some(PREDECESSOR));
        let line = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key);
            let cells = platforms.iter().map(|_| Vec::new()).collect();
            let imgsz = group.conditions.get("imgsz").unwrap_or_default().to_owned();
            lines.push(PlatformLine { name: name(group), imgsz, same_objects: true, cells });
            lines.len() - 1
        });
        let column = platforms.iter().position(|platform| *platform == group.platform).unwrap_or(0);
        let cell = PlatformCell { group: at, fps: group.mean("fps"), times_first: None };
        lines[line].cells[column].push(cell);
    }
    for line in &mut lines {
        let first = line
            .cells
            .iter()
            .flatten()
            .find_map(|cell| cell.fps.filter(|_| !groups[cell.group].invalid));
        let mut objects = line.cells.iter().flatten().map(|cell| &groups[cell.group].objects);
        let one = objects.next();
        line.same_objects = objects.all(|other| Some(other) == one);
        if line.measured() < 2 || !line.same_objects {
            continue;
        }
        for cell in line.cells.iter_mut().flatten().filter(|cell| !groups[cell.group].invalid) {
            cell.times_first = cell.fps.zip(first).map(|(own, first)| own / first);
        }
    }
    PlatformTable { kind, platforms, lines }
}

impl PlatformLine {
    /// Number of platforms with a measurement.
    pub fn measured(&self) -> usize {
        self.cells.iter().filter(|cells| cells.iter().any(|cell| cell.fps.is_some())).count()
    }
}

fn name(group: &Group) -> String {
    let known = KEPT[..3]
        .iter()
        .filter_map(|column| Some(in_words(column, Some(group.conditions.get(column)?))));
    let by = group.predecessor.then(|| PREDECESSOR.to_owned());
    std::iter::once(group.model.clone()).chain(known).chain(by).collect::<Vec<_>>().join(" · ")
}
