/*!
Joins a profiled pass's stage times by events with the projections in its report, and sums them up
for each model.
*/

use std::path::Path;

use serde_json::{Value, json};

use host::screen_table::{self, number};
use host::shell;
use report::nsys::stage_projections;
use vos::record::{ComparedStage, Mode, ProfiledStages, RunRecord};

/// The stage times of a profiled pass by its events. None where they cannot be compared with
/// projections: on the CPU, where frames overlap, and where a stage's time is that of two views.
pub fn of_pass(pass: &RunRecord) -> Option<ProfiledStages> {
    let numbers = pass.numbers().filter(|numbers| numbers.gpu_ms.is_some())?;
    let alone = pass.conditions.mode == Mode::Latency && !pass.conditions.stereo;
    alone.then(|| ProfiledStages::of_events(&numbers.stages))
}

/// The same with the projections of the pass's report. A report that cannot be read is a warning,
/// and leaves them empty.
pub fn joined(stages: ProfiledStages, report: &Path) -> ProfiledStages {
    match stage_projections(report) {
        Ok(projected) => ProfiledStages { projected, ..stages },
        Err(error) => {
            log::warn!(
                "no projected stage times of {}: {error:#}. Look at it with: segtrt nsys {}; then \
                 repeat this command with --resume after bench",
                report.display(),
                shell::path(report)
            );
            stages
        }
    }
}

/// One model's stages: means over its recorded passes.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelStages {
    model: String,
    passes: usize,
    stages: Vec<ComparedStage>,
}

/// The models that have projections, in the order in which they first appear.
pub fn by_model(passes: &[(String, ProfiledStages)]) -> Vec<ModelStages> {
    let mut models: Vec<(&str, Vec<ProfiledStages>)> = Vec::new();
    for (model, stages) in passes.iter().filter(|(_, stages)| stages.has_projections()) {
        match models.iter_mut().find(|(known, _)| known == model) {
            Some((_, all)) => all.push(*stages),
            None => models.push((model, vec![*stages])),
        }
    }
    let line = |(model, passes): (&str, Vec<ProfiledStages>)| {
        let stages = ProfiledStages::mean(&passes)?.compared().collect();
        Some(ModelStages { model: model.to_owned(), passes: passes.len(), stages })
    };
    models.into_iter().filter_map(line).collect()
}

impl ModelStages {
    /// A heading and the table.
    pub fn text(&self, width: Option<usize>) -> String {
        let header = ["stage", "event ms", "projected ms", "difference ms", "difference %"];
        let mut table = screen_table::dense(header, 1..header.len());
        for stage in &self.stages {
            table.add_row([
                stage.stage.range().to_string_lossy().into_owned(),
                number(Some(stage.event_ms), 3),
                number(Some(stage.projected_ms), 3),
                number(Some(stage.difference_ms()), 3),
                number(stage.difference_percent(), 1),
            ]);
        }
        format!(
            "{}: stages under nsys, means of {}\n{}",
            self.model,
            host::counted(self.passes, "pass"),
            table.render(width)
        )
    }

    /// The same for `--json`.
    pub fn json(&self) -> Value {
        let stage = |stage: &ComparedStage| {
            json!({
                "stage": stage.stage.range().to_string_lossy(), "event_ms": stage.event_ms,
                "projected_ms": stage.projected_ms, "difference_ms": stage.difference_ms(),
                "difference_percent": stage.difference_percent(),
            })
        };
        let stages: Vec<Value> = self.stages.iter().map(stage).collect();
        json!({"model": self.model, "passes": self.passes, "stages": stages})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vos::record::StageTimes;
    use vos::stage::Stage;

    fn pass(encoder: f64, projected: Option<f64>) -> ProfiledStages {
        let of = |ms: Option<f64>| StageTimes::of(ms.map(|ms| (Stage::Encoder, ms)));
        ProfiledStages { events: of(Some(encoder)), projected: of(projected) }
    }

    #[test]
    fn a_model_has_the_means_of_its_readable_reports() {
        let passes = [
            ("a".to_owned(), pass(2.0, Some(1.0))),
            ("b".to_owned(), pass(9.0, None)),
            ("a".to_owned(), pass(4.0, Some(3.5))),
            ("a".to_owned(), pass(100.0, None)),
        ];
        let models = by_model(&passes);
        assert_eq!(models.len(), 1, "a model without projections has no table: {models:?}");
        let text = models[0].text(None);
        assert!(text.starts_with("a: stages under nsys, means of 2 passes\n"), "{text}");
        let row = text.lines().find(|line| line.contains("encoder")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().filter(|cell| *cell != "│").collect();
        assert_eq!(cells, ["encoder", "3.000", "2.250", "0.750", "25.0"], "{text}");
        assert_eq!(models[0].json()["stages"][0]["difference_percent"], 25.0);
    }

    #[test]
    fn a_report_that_cannot_be_read_leaves_the_events() {
        let dir = tempfile::tempdir().unwrap();
        let stages = pass(2.0, None);
        assert_eq!(joined(stages, &dir.path().join("no.sqlite")), stages);
    }
}
