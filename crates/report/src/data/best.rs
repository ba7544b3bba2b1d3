/*!
The best group by each common measure, and conditions that differ between the groups.

A group of INVALID rows only never takes part, a single group is not the best of anything, and rows
of the Python predecessor take part only in accuracy.
*/

use std::collections::BTreeSet;

use serde::Serialize;

use super::group::Group;

/// Conditions that make numbers incomparable. Precision, backend and device may differ: they are
/// the subject of the comparison.
const SHARED: [&str; 8] = [
    "imgsz",
    "mode",
    "metrics",
    "prompt_policy",
    "geometry",
    "input_frame_stride",
    "experiment_name",
    "cudnn_benchmark",
];

/// The best group by one measure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    /// The measure as a heading.
    pub measure: &'static str,
    /// Its column.
    pub column: &'static str,
    /// Index of the group.
    pub group: usize,
    /// Its mean; J&F as percent.
    pub value: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// Decimals worth showing.
    pub digits: usize,
    /// Groups that were compared.
    pub among: usize,
    /// Conditions that differ between them.
    pub caveats: Vec<String>,
}

/// Heading, column, unit, decimals, whether more is better.
type Measure = (&'static str, &'static str, &'static str, usize, bool);

const MEASURES: [Measure; 5] = [
    ("Fastest", "fps", "FPS", 1, true),
    ("Shortest P99 latency", "latency_p99_ms", "ms", 2, false),
    ("Most accurate", "JandF", "%", 2, true),
    ("Least GPU memory", "gpu_peak_alloc_MiB", "MiB", 0, false),
    ("Least energy", "energy_j_per_frame", "J per frame", 3, false),
];

/// The best group by each measure that two or more groups have.
pub fn best(groups: &[Group]) -> Vec<Best> {
    MEASURES.into_iter().filter_map(|measure| winner(groups, measure)).collect()
}

fn winner(groups: &[Group], (measure, column, unit, digits, more): Measure) -> Option<Best> {
    // The predecessor times other work and counts memory in another way; its masks are comparable.
    let ours = |group: &Group| !group.predecessor && !group.invalid && group.mean(column).is_some();
    let apart = column != "JandF" && groups.iter().any(ours);
    let candidates: Vec<(usize, f64)> = groups
        .iter()
        .enumerate()
        .filter(|(_, group)| !(group.invalid || apart && group.predecessor))
        .filter_map(|(at, group)| Some((at, group.mean(column)?)))
        .collect();
    if candidates.len() < 2 {
        return None;
    }
    let order = |a: &f64, b: &f64| if more { a.total_cmp(b) } else { b.total_cmp(a) };
    let (group, value) = candidates.iter().copied().max_by(|a, b| order(&a.1, &b.1))?;
    let compared: Vec<&Group> = candidates.iter().map(|(at, _)| &groups[*at]).collect();
    Some(Best {
        measure,
        column,
        group,
        value: if column == "JandF" { 100.0 * value } else { value },
        unit,
        digits,
        among: compared.len(),
        caveats: differences(&compared),
    })
}

/// Conditions that differ between groups, as sentences.
pub fn differences(groups: &[&Group]) -> Vec<String> {
    let mut found = Vec::new();
    for column in SHARED {
        let values: BTreeSet<Option<&str>> =
            groups.iter().map(|group| group.conditions.get(column)).collect();
        // Models with a fixed input size are compared too; the note names the sizes.
        if values.len() > 1 {
            let words: Vec<&str> =
                values.into_iter().map(|value| value.unwrap_or("unknown")).collect();
            found.push(format!("{} ({})", column.replace('_', " "), words.join(", ")));
        }
    }
    if groups.iter().any(|group| group.predecessor) && groups.iter().any(|group| !group.predecessor)
    {
        found.push("the timed region (rows of the Python predecessor and of segtrt)".to_owned());
    }
    if groups.windows(2).any(|pair| pair[0].objects != pair[1].objects) {
        found.push("the clips and objects".to_owned());
    }
    found
}
