/*!
Whether a plan on disk is the plan that is wanted: the one place that decides between reuse, rebuild and refusal.
*/

use std::path::Path;

use super::manifest::PlanRecord;
use super::settings::Settings;
use crate::files::sha256_of_file;

/// What a plan must have been made from and for.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// SHA-256 of the ONNX file; none where the graph is not at hand.
    pub onnx_sha256: Option<&'a str>,
    /// "TensorRT 8.6.0".
    pub tensorrt: &'a str,
    /// Compute capability, 90 for 9.0.
    pub sm: u32,
    /// What is to be built; none where any settings will do.
    pub settings: Option<&'a Settings>,
}

/// Why a recorded plan is not the wanted one, as a phrase; none if it is. The file itself is not read.
pub fn differs(record: &PlanRecord, wanted: &Wanted<'_>) -> Option<String> {
    if record.made_by.tensorrt != wanted.tensorrt {
        return Some(format!(
            "it was built by {}, this is {}",
            record.made_by.tensorrt, wanted.tensorrt
        ));
    }
    if !record.made_by.sm.contains(&wanted.sm) {
        let built: Vec<String> = record.made_by.sm.iter().map(|sm| format!("sm_{sm}")).collect();
        return Some(format!("it was built for {}, this is sm_{}", built.join(", "), wanted.sm));
    }
    if let Some(onnx) = wanted.onnx_sha256
        && record.onnx_sha256 != onnx
    {
        return Some(format!(
            "its ONNX graph has changed: built from {}, now {}",
            short(&record.onnx_sha256),
            short(onnx)
        ));
    }
    wanted.settings.and_then(|settings| different_setting(&record.settings, settings))
}

/// Why the plan's file is not what its record says, as a phrase; none if it is.
pub fn damaged(record: &PlanRecord, dir: &Path) -> Option<String> {
    let path = dir.join(&record.file);
    let Ok(found) = sha256_of_file(&path) else {
        return Some("its file cannot be read".to_owned());
    };
    if found.bytes != record.bytes {
        return Some(format!(
            "it is damaged: {} bytes found, {} expected",
            found.bytes, record.bytes
        ));
    }
    (found.sha256 != record.sha256).then(|| {
        format!(
            "it is damaged: sha256 {} found, {} expected",
            short(&found.sha256),
            short(&record.sha256)
        )
    })
}

fn different_setting(old: &Settings, new: &Settings) -> Option<String> {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let capped = |bytes: Option<u64>| bytes.map_or("no cap".to_owned(), mib);
    let runs = |runs: Option<u8>| runs.map_or("TensorRT's own".to_owned(), |runs| runs.to_string());
    let changes = [
        ("precision", old.precision.to_string(), new.precision.to_string()),
        ("strong typing", old.strongly_typed.to_string(), new.strongly_typed.to_string()),
        ("islands", format!("{:?}", old.islands), format!("{:?}", new.islands)),
        ("layers in fp32", format!("{:?}", old.fp32_layers), format!("{:?}", new.fp32_layers)),
        ("source", old.graphs.clone(), new.graphs.clone()),
        // More care than was asked for is no reason to build again.
        (
            "number of timing runs",
            runs(new.timing_runs.and_then(|asked| Some(old.timing_runs?.min(asked)))),
            runs(new.timing_runs),
        ),
        ("optimization level", format!("{:?}", old.opt_level), format!("{:?}", new.opt_level)),
        ("workspace cap", mib(old.workspace_bytes), mib(new.workspace_bytes)),
        ("tactic memory cap", capped(old.tactic_bytes), capped(new.tactic_bytes)),
        ("memory cap", capped(old.memory_bytes), capped(new.memory_bytes)),
        ("library tactics", old.library_tactics.to_string(), new.library_tactics.to_string()),
        ("targets", format!("{:?}", old.targets), format!("{:?}", new.targets)),
    ];
    let changed = changes.iter().find(|(_, old, new)| old != new);
    if let Some((what, old, new)) = changed {
        return Some(format!("its {what} is {old}, asked for is {new}"));
    }
    (old.profiles != new.profiles).then(|| {
        format!(
            "its profiles differ: {} there, {} asked for",
            old.profiles.len(),
            new.profiles.len()
        )
    })
}

fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Precision;

    #[test]
    fn more_timing_runs_than_asked_for_are_no_difference() {
        let with = |timing_runs| Settings { timing_runs, ..Settings::plain(Precision::Fp16) };
        let told = |old, new| different_setting(&with(old), &with(new));
        for (old, new) in [(None, None), (Some(8), None), (Some(8), Some(4)), (Some(4), Some(4))] {
            assert_eq!(told(old, new), None, "{old:?} {new:?}");
        }
        let why = told(Some(2), Some(4)).unwrap();
        assert_eq!(why, "its number of timing runs is 2, asked for is 4");
        let why = told(None, Some(4)).unwrap();
        assert_eq!(why, "its number of timing runs is TensorRT's own, asked for is 4");
    }
}
