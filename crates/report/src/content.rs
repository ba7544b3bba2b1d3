/*!
The content of a report without its layout. The page and `--json` show the same.
*/

use serde::Serialize;

use super::data::{
    Best, ComparedModel, Gallery, Group, Hint, PlatformTable, RunsOverTime, SourceInfo, best,
    compared, gather, hints, history, notes, pictures, platforms, sources,
};
use super::input::sides;
use super::input::{
    DriftCurve, Inputs, NsysPlatform, NsysReport, ReadSweep, ResultRow, TEXT_COLUMNS, Unproven,
};
use super::targets::{self, Targets, Verdicts};

/// The content of the page.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this program.
    pub segtrt: &'static str,
    /// Time of the report, UTC.
    pub generated: String,
    /// The files with rows.
    pub sources: Vec<SourceInfo>,
    /// Rows of one model under one set of conditions on one platform, taken together.
    pub groups: Vec<Group>,
    /// Every model of every comparison.
    pub compared: Vec<ComparedModel>,
    /// Pictures of masks.
    pub gallery: Gallery,
    /// The best groups by each measure.
    pub best: Vec<Best>,
    /// Platform against platform.
    pub platforms: PlatformTable,
    /// Mask IoU against frame index.
    pub drift: Vec<DriftCurve>,
    /// Sides of comparisons without proven masks.
    pub unproven: Vec<Unproven>,
    /// Runs over time.
    pub histories: Vec<RunsOverTime>,
    /// Sweeps.
    pub sweeps: Vec<ReadSweep>,
    /// Profiles.
    pub nsys: Vec<NsysReport>,
    /// Ranges of the profiles by platform.
    pub nsys_platforms: Vec<NsysPlatform>,
    /// Targets, if requested.
    pub targets: Option<Verdicts>,
    /// Hints about what limits a group's speed, with evidence.
    pub hints: Vec<Hint>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Files and rows that could not be read.
    pub problems: Vec<String>,
    /// Every row.
    pub rows: Vec<RowEntry>,
}

/// A row and its group.
#[derive(Debug, Serialize)]
pub struct RowEntry {
    /// Index in [`Report::groups`].
    pub group: usize,
    /// Index in [`Report::sources`].
    pub source: usize,
    /// Its fields by column.
    #[serde(flatten, serialize_with = "row_fields")]
    pub row: ResultRow,
}

/// Now, in UTC; `SOURCE_DATE_EPOCH` stands in for the clock where a page must come out the same
/// twice.
pub fn now() -> String {
    let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let moment = fixed
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok())
        .unwrap_or_else(jiff::Timestamp::now);
    moment.strftime("%F %H:%M UTC").to_string()
}

/// Builds the report from the files' contents.
pub fn build(inputs: Inputs, targets: Option<&Targets>, generated: String) -> Report {
    let mut palette = sides::Palette::default();
    let compared = compared::models(&inputs.comparisons, &mut palette);
    let (mut groups, places) = gather::groups(&inputs.sources);
    for group in &mut groups {
        // A side has one colour whatever its model; other groups have one each.
        let name = if group.side { group.platform.clone() } else { group.full_name() };
        group.series = palette.series(&name);
    }
    let sources: Vec<SourceInfo> = inputs.sources.iter().map(sources::info).collect();
    let notes = notes::notes(&inputs, &groups);
    let gallery =
        pictures::gallery(&inputs.comparisons, &compared, &inputs.sources, &groups, &places);
    let mut problems = inputs.problems;
    problems.extend(gallery.problems.iter().cloned());
    let unproven = inputs.comparisons.iter().flat_map(|read| read.unproven()).collect();
    let curves = inputs.comparisons.into_iter().flat_map(|read| read.drift);
    let drift = curves.map(|curve| named(curve, &compared, &mut palette)).collect();
    let mut hints = hints::hints(&groups);
    hints.extend(hints::of_profiles(&inputs.nsys));
    let rows =
        inputs.sources.into_iter().zip(places).enumerate().flat_map(|(source, (read, places))| {
            let entry = move |(row, group)| RowEntry { group, source, row };
            read.rows.into_iter().zip(places).map(entry).collect::<Vec<_>>()
        });
    let rows = rows.collect();
    let targets = targets.map(|targets| targets::judge(targets, &groups, &inputs.nsys));
    Report {
        segtrt: env!("CARGO_PKG_VERSION"),
        generated,
        sources,
        best: best::best(&groups),
        platforms: platforms::table(&groups),
        compared,
        gallery,
        drift,
        unproven,
        sweeps: inputs.sweeps,
        histories: inputs.histories.iter().map(history::over_time).collect(),
        nsys: inputs.nsys,
        nsys_platforms: inputs.nsys_platforms,
        targets,
        hints,
        notes,
        problems,
        rows,
        groups,
    }
}

/// A curve with the name and the colour of its side.
fn named(
    curve: DriftCurve,
    compared: &[ComparedModel],
    palette: &mut sides::Palette,
) -> DriftCurve {
    let of = |model: &&ComparedModel| {
        (&model.comparison, &model.model) == (&curve.comparison, &curve.model)
    };
    let sides = compared.iter().filter(of).flat_map(|model| &model.sides);
    let side = sides.into_iter().find(|side| side.side == curve.side);
    let name = side.map_or_else(|| curve.side.clone(), |side| side.name.clone());
    DriftCurve { series: palette.series(&name), name, ..curve }
}

fn row_fields<S: serde::Serializer>(row: &ResultRow, serializer: S) -> Result<S::Ok, S::Error> {
    let value = |column: &str| match (row.number(column), row.text(column)) {
        (Some(number), _) if !TEXT_COLUMNS.contains(&column) => number.into(),
        (_, Some(text)) => text.into(),
        (_, None) => serde_json::Value::Null,
    };
    serializer.collect_map(row.columns().into_iter().map(|column| (column, value(column))))
}

#[cfg(test)]
mod tests;
