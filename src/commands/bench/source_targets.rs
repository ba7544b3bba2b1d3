/*!
The report's targets for 1080p, 4K and stereo clips, as remarks below the table of a bench.
*/

use report::targets::Targets;
use vos::record::{Judgement, Mode, SummaryRecord};
use vos::verdict::POWER_LIMITED;

/// One sentence for each target whose kind of clips was measured; empty for other clips.
pub fn remarks(rows: &[&SummaryRecord]) -> Vec<String> {
    let targets = match Targets::of_sources() {
        Ok(targets) => targets,
        Err(error) => {
            log::warn!("{error:#}");
            Vec::new()
        }
    };
    let told = targets.iter().filter(|target| target.metric == "fps").filter_map(|target| {
        let is_of = |row: &&&SummaryRecord| {
            let size = row.pooled.input_size;
            let size = size.map(|[height, width]| (width.max(height), width.min(height)));
            match row.pooled.conditions.stereo {
                true => target.is_stereo(),
                false => target.size().is_some() && size == target.size(),
            }
        };
        let measured: Vec<_> = rows.iter().filter(is_of).copied().collect();
        let is_valid = |row: &&&SummaryRecord| row.pooled.verdict.judgement != Judgement::Invalid;
        let valid: Vec<_> = measured.iter().filter(is_valid).copied().collect();
        let used = if valid.is_empty() { &measured } else { &valid };
        let fps = fps_of(used)?;
        let latency = used.iter().any(|row| row.pooled.conditions.mode == Mode::Latency);
        let outcome = match (valid.is_empty(), target.holds(fps)) {
            (true, _) => "INVALID rows",
            (_, true) => "pass",
            (_, false) => "fail",
        };
        let decoding = if latency { ", decoding not included" } else { "" };
        let is_limited = |row: &&SummaryRecord| row.pooled.verdict.find(POWER_LIMITED).is_some();
        let at_limit = if used.iter().any(is_limited) { ", at the power limit" } else { "" };
        let (name, limit) = (&target.name, target.limit());
        Some(format!("target {name} {limit}: {outcome}, {fps:.2} FPS{decoding}{at_limit}"))
    });
    told.collect()
}

/// Frames of all rows over their time.
fn fps_of(rows: &[&SummaryRecord]) -> Option<f64> {
    let speeds: Vec<_> = rows.iter().filter_map(|row| Some(row.pooled.numbers()?.speed)).collect();
    let frames: usize = speeds.iter().map(|speed| speed.frames).sum();
    let ms: f64 = speeds.iter().map(|speed| speed.duration_ms).sum();
    (ms > 0.0).then(|| 1e3 * frames as f64 / ms)
}
