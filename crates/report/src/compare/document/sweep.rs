/*!
A sweep as `sweep.json`, `sweep.csv`, `sweep.md` and a table on the screen.
*/

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use crate::compare::iou_format;
use crate::compare::judge::{Fastest, SweepRow, fastest};
use crate::compare::sweep::Combination;
use host::screen_table;
use vos::files::atomic;

const HEADER: [&str; 15] = [
    "model",
    "combination",
    "precision",
    "imgsz",
    "objects together",
    "FPS",
    "object frames / s",
    "p50 ms",
    "p99 ms",
    "GPU MiB allocated",
    "slowest stage",
    "IoU mean / lowest",
    "J&F, %",
    "masks",
    "verdict",
];

fn cells(row: &SweepRow) -> [String; 15] {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let speed = row.speed.as_ref();
    let equality = row.equality.as_ref();
    // A row that is its own reference has no comparison.
    let compared = equality.filter(|_| row.reference != row.combination);
    let stage = |(name, ms): &(String, f64)| format!("{name} {ms:.2} ms");
    let dash = || "-".to_owned();
    [
        row.model.clone(),
        row.combination.clone(),
        row.precision.clone(),
        if row.imgsz.is_empty() { dash() } else { row.imgsz.clone() },
        row.objects_together.to_string(),
        number(speed.map(|s| s.fps), 2),
        number(row.object_fps, 2),
        number(speed.and_then(|s| s.p50_ms), 2),
        number(speed.and_then(|s| s.p99_ms), 2),
        number(speed.and_then(|s| s.gpu_alloc_mib), 0),
        row.slowest_stage.as_ref().map_or_else(dash, stage),
        compared.map_or_else(dash, |e| iou_format::pair(e.mean_iou, e.min_iou)),
        number(equality.and_then(|e| Some(e.scores?.jf)), 2),
        row.outcome.as_str().to_owned(),
        if speed.is_some() { row.verdict.judgement.as_str().to_owned() } else { dash() },
    ]
}

/// The table on the screen.
pub fn render(rows: &[SweepRow]) -> String {
    let mut table =
        screen_table::table(HEADER, 4..HEADER.len()).optional([3, 9, 10, 8, 6, 2, 4, 7]);
    for row in rows {
        table.add_row(cells(row));
    }
    table.to_string()
}

/// The fastest combination of each model, withheld speeds and missing rows.
pub fn remarks(rows: &[SweepRow]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut models: Vec<&str> = Vec::new();
    for row in rows {
        if !models.contains(&row.model.as_str()) {
            models.push(&row.model);
        }
    }
    for model in models {
        lines.push(format!("{model}: {}", fastest_of(rows, model)));
        for row in rows.iter().filter(|row| row.model == model && !row.outcome.is_proven()) {
            let why = row.why.as_deref().unwrap_or("no reason");
            lines.push(format!("{model} {}: {}: {why}", row.combination, row.outcome.as_str()));
        }
        for row in rows.iter().filter(|row| row.model == model && row.speed.is_some()) {
            lines.extend(row.verdict.findings.iter().map(|finding| {
                let word = row.verdict.judgement.as_str();
                format!(
                    "{model} {} {word}: {}: {}",
                    row.combination, finding.code, finding.sentence
                )
            }));
        }
    }
    lines
}

/// The fastest combination of a model, or the reason why there is none.
fn fastest_of(rows: &[SweepRow], model: &str) -> String {
    let fps = |row: &SweepRow| {
        format!("{:.2} frames of single objects a second", row.object_fps.unwrap_or(f64::NAN))
    };
    let stage = |row: &SweepRow| {
        row.slowest_stage.as_ref().map_or_else(String::new, |(name, ms)| {
            format!("; its slowest stage is {name}, {ms:.2} ms a frame")
        })
    };
    match fastest(rows, model) {
        Fastest::Of(row) => format!("fastest is {}, {}{}", row.combination, fps(row), stage(row)),
        Fastest::Alone(row) => format!(
            "cannot name a fastest combination: only {} has a valid speed, {}{}",
            row.combination,
            fps(row),
            stage(row)
        ),
        Fastest::Invalid(1) => {
            "cannot name a fastest combination: the only speed is INVALID".to_owned()
        }
        Fastest::Invalid(count) => {
            format!("cannot name a fastest combination: all {count} speeds are INVALID")
        }
        Fastest::Unknown => "no combination has a speed to show".to_owned(),
    }
}

/// Writes the files and returns their paths.
///
/// # Errors
/// The folder is not writable or the disk is full.
pub fn write(
    out_dir: &Path,
    rows: &[SweepRow],
    combinations: &[Combination],
    command: &str,
    days: &[String],
) -> Result<Vec<PathBuf>> {
    let paths = ["sweep.md", "sweep.csv", "sweep.json"].map(|name| out_dir.join(name));
    let [text, table, json] = &paths;
    let line = |cells: &[String]| format!("| {} |", cells.join(" | ").replace('<', "&lt;"));
    let mut lines = vec![format!("Measured {}.", days.join(", ")), String::new()];
    lines.extend([format!("    {command}"), String::new()]);
    lines.push(line(&HEADER.map(str::to_owned)));
    lines.push(format!("|{}|", ["---"; HEADER.len()].join("|")));
    lines.extend(rows.iter().map(|row| line(&cells(row))));
    lines.push(String::new());
    lines.extend(remarks(rows).iter().map(|remark| format!("- {remark}")));
    lines.push(String::new());
    atomic::write(text, |out| Ok(out.write_all(lines.join("\n").as_bytes())?))?;
    atomic::write(table, |out| {
        let mut csv = csv::Writer::from_writer(out);
        // A name for programs; the unit would put a comma into it.
        csv.write_record(HEADER.map(|title| title.trim_end_matches(", %")))?;
        for row in rows {
            csv.write_record(cells(row))?;
        }
        Ok(csv.flush()?)
    })?;
    atomic::write(json, |out| {
        let names: Vec<String> = combinations.iter().map(Combination::name).collect();
        let all = json!({"format": "segtrt sweep result 1", "segtrt": env!("CARGO_PKG_VERSION"),
            "command": command, "measured_on": days, "combinations": names, "rows": rows});
        Ok(serde_json::to_writer_pretty(out, &all)?)
    })?;
    Ok(paths.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::judge::Outcome;
    use vos::record::{Judgement, Verdict};

    /// A row of model "m" with this speed, if any.
    fn row(combination: &str, object_fps: Option<f64>, judgement: Judgement) -> SweepRow {
        SweepRow {
            model: "m".to_owned(),
            combination: combination.to_owned(),
            precision: "fp16".to_owned(),
            imgsz: "1024".to_owned(),
            objects_together: 1,
            reference: combination.to_owned(),
            outcome: if object_fps.is_some() { Outcome::Same } else { Outcome::NotAvailable },
            why: None,
            stopped_early: None,
            speed: None,
            object_fps,
            slowest_stage: Some(("encoder".to_owned(), 2.5)),
            withheld: None,
            equality: None,
            verdict: Verdict { judgement, findings: Vec::new() },
        }
    }

    #[test]
    fn a_fastest_needs_two_valid_speeds() {
        let (slow, quick) =
            (row("a", Some(10.0), Judgement::Valid), row("b", Some(20.0), Judgement::Unjudged));
        let invalid = row("c", Some(30.0), Judgement::Invalid);
        let failed = row("d", None, Judgement::Unjudged);
        let remark = |rows: &[&SweepRow]| {
            let rows: Vec<SweepRow> = rows.iter().map(|row| (*row).clone()).collect();
            remarks(&rows).remove(0)
        };
        let two = "m: fastest is b, 20.00 frames of single objects a second; its slowest stage is \
                   encoder, 2.50 ms a frame";
        assert_eq!(remark(&[&slow, &quick]), two);
        assert_eq!(remark(&[&slow, &quick, &invalid, &failed]), two);
        for rows in [&[&slow, &failed][..], &[&invalid, &slow], &[&slow]] {
            let remark = remark(rows);
            assert!(
                remark.starts_with(
                    "m: cannot name a fastest combination: only a has a valid speed, 10.00 frames"
                ),
                "{remark}"
            );
            assert!(remark.contains("its slowest stage is encoder"), "{remark}");
        }
        assert!(remark(&[&invalid, &invalid]).ends_with("all 2 speeds are INVALID"));
        assert!(remark(&[&invalid, &failed]).ends_with("the only speed is INVALID"));
        assert_eq!(remark(&[&failed]), "m: no combination has a speed to show");
    }
}
