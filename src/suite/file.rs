/*!
A suite of one's own, from a TOML file.
*/

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{Experiment, Suite};
use vos::strides::Strides;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    experiment: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    name: String,
    #[serde(default)]
    description: String,
    imgsz: Option<usize>,
    #[serde(alias = "input_frame_stride")]
    input_frame_stride: Option<usize>,
    #[serde(alias = "annotation_stride_frames")]
    annotation_stride_frames: Option<usize>,
}

/// Reads the suite in `path`; its table is named after the file.
///
/// # Errors
/// A file that cannot be read or is no list of experiments, names that are no folders or come
/// twice.
pub(super) fn read(path: &Path) -> Result<Suite> {
    let said = || format!("cannot read the suite {}", path.display());
    let text = std::fs::read_to_string(path).with_context(said)?;
    let file: File = toml::from_str(&text).with_context(said)?;
    ensure!(
        !file.experiment.is_empty(),
        "{} has no experiment; write [[experiment]] with a name, imgsz and strides",
        path.display()
    );
    let mut experiments: Vec<Experiment> = Vec::new();
    for table in file.experiment {
        let name = table.name;
        let folder = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
        ensure!(
            folder,
            "{}: the experiment {name:?} cannot name a folder; use letters, digits, - and _",
            path.display()
        );
        ensure!(
            experiments.iter().all(|other| other.name != name),
            "{}: two experiments are called {name:?}; each needs a name of its own",
            path.display()
        );
        let input = table.input_frame_stride.unwrap_or(1);
        ensure!(
            input >= 1,
            "{}: {name}: input-frame-stride is 0; 1 feeds every frame",
            path.display()
        );
        experiments.push(Experiment {
            name,
            description: table.description,
            imgsz: table.imgsz,
            strides: Strides { input, annotation: table.annotation_stride_frames.unwrap_or(0) },
        });
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Suite { summary: format!("{stem}_summary.csv"), name: stem, experiments })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(text: &str) -> Result<Suite> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn a_file_is_a_suite() {
        let text = "[[experiment]]\nname = 'half'\ninput-frame-stride = 2\n\
                    [[experiment]]\nname = 'all'\nimgsz = 512\nannotation_stride_frames = 4\n";
        let suite = suite(text).unwrap();
        assert_eq!((suite.name.as_str(), suite.summary.as_str()), ("mine", "mine_summary.csv"));
        let told: Vec<_> =
            suite.experiments.iter().map(|e| (e.name.as_str(), e.imgsz, e.strides)).collect();
        let half = Strides { input: 2, annotation: 0 };
        let all = Strides { input: 1, annotation: 4 };
        assert_eq!(told, [("half", None, half), ("all", Some(512), all)]);
    }

    #[test]
    fn what_is_no_suite_is_refused_with_the_file_and_the_reason() {
        for (text, expected) in [
            ("experiment = []", "has no experiment"),
            ("[[experiment]]\nname = '../x'", "cannot name a folder"),
            ("[[experiment]]\nname = 'a'\n[[experiment]]\nname = 'a'", "two experiments"),
            ("[[experiment]]\nname = 'a'\ninput-frame-stride = 0", "1 feeds every frame"),
            ("[[experiment]]\nname = 'a'\nimgsize = 3", "imgsize"),
            ("[[experiment]]\nimgsz = 3", "name"),
            ("[[experiment", "cannot read the suite"),
        ] {
            let error = format!("{:#}", suite(text).unwrap_err());
            assert!(error.contains(expected) && error.contains("mine.toml"), "{error}");
        }
    }
}
