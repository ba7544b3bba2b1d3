/*!
The stage times of finished runs.
*/

use anyhow::{Result, bail};
use clap::ValueEnum;

use vos::precision::Precision;
use vos::record::{Mode, StageTimes};
use vos::stage::Stage;

/// One model of a run.
pub(super) struct MeasuredModel {
    /// Run and model, for messages.
    pub shown: String,
    /// Model tag.
    pub tag: String,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// Precision of the engines.
    pub precision: Option<Precision>,
    /// The GPU.
    pub device: String,
    /// Means over the rows with one frame in flight, ms.
    pub stages: StageTimes,
}

/// The models of all runs, in the order of their rows.
pub(super) fn measured(runs: &[String]) -> Result<Vec<MeasuredModel>> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let inputs = report::read(runs, &[])?;
    if let Some(problem) = inputs.problems.first() {
        bail!("{problem}");
    }
    let mut found: Vec<MeasuredModel> = Vec::new();
    for source in &inputs.sources {
        // Stages of frames that overlap, overlap too.
        let rows: Vec<_> = source
            .rows
            .iter()
            .filter(|row| !row.text("mode").is_some_and(Mode::overlaps))
            .collect();
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for row in &rows {
            let key = (row.key().2, row.text("imgsz").unwrap_or(""));
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let alike: Vec<_> = rows
                .iter()
                .filter(|row| (row.key().2, row.text("imgsz").unwrap_or("")) == key)
                .collect();
            let mean = |stage: Stage| {
                let all: Vec<f64> =
                    alike.iter().filter_map(|row| row.number(stage.column())).collect();
                vos::stats::mean(&all)
            };
            let (tag, imgsz) = key;
            found.push(MeasuredModel {
                shown: format!("{} {tag}", source.label),
                tag: tag.to_owned(),
                imgsz: imgsz.parse().unwrap_or(0),
                precision: row
                    .text("precision")
                    .and_then(|name| Precision::from_str(name, false).ok()),
                device: row.text("device").unwrap_or("an unknown device").to_owned(),
                stages: StageTimes::each(mean),
            });
        }
    }
    if found.is_empty() {
        bail!(
            "{} has no rows with one frame in flight; stages of overlapping frames have no share \
             of the roofline: measure with --mode latency",
            runs.join(", ")
        );
    }
    Ok(found)
}
