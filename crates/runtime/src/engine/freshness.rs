/*!
Whether a plan on disk is the plan that is wanted: the one place that decides between reuse, rebuild
and refusal.
*/

use std::path::Path;

use clap::ValueEnum;

use super::manifest::PlanRecord;
use super::settings::Settings;
use vos::bundle::WeightsRecord;
use vos::files::sha256_of_file;

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

/// Why a recorded plan is not the wanted one, as a phrase; none if it is. The file itself is not
/// read.
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

/// Why a file of weights in `dir` is not what the manifest says, as a phrase; none if it is.
pub fn damaged_weights(weights: WeightsRecord<'_>, dir: &Path) -> Option<String> {
    match sha256_of_file(&dir.join(weights.file)) {
        Err(_) => Some("its file cannot be read".to_owned()),
        Ok(found) if found.sha256 == weights.sha256 => None,
        Ok(found) => Some(format!(
            "it is damaged, or not that of its engines: sha256 {} found, {} expected",
            short(&found.sha256),
            short(weights.sha256)
        )),
    }
}

fn different_setting(old: &Settings, new: &Settings) -> Option<String> {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let capped = |bytes: Option<u64>| bytes.map_or("no cap".to_owned(), mib);
    let runs = |runs: Option<u8>| runs.map_or("TensorRT's own".to_owned(), |runs| runs.to_string());
    let level = |level: Option<u8>| level.map_or("none".to_owned(), |level| level.to_string());
    let listed = |words: &[String]| match words {
        [] => "empty".to_owned(),
        words => words.join(", "),
    };
    let targets = |settings: &Settings| {
        listed(&settings.targets.iter().map(|sm| format!("sm_{sm}")).collect::<Vec<_>>())
    };
    // As --fp32-pins has it.
    let fp32_pins = |settings: &Settings| {
        let value = settings.fp32_pins.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    };
    let changes = [
        ("precision", old.precision.to_string(), new.precision.to_string()),
        ("strong typing", old.strongly_typed.to_string(), new.strongly_typed.to_string()),
        ("kind of fp32 pins", fp32_pins(old), fp32_pins(new)),
        ("list of layers in fp32", listed(&old.fp32_layers), listed(&new.fp32_layers)),
        ("source", old.graphs.clone(), new.graphs.clone()),
        // More care than was asked for is no reason to build again.
        (
            "number of timing runs",
            runs(new.timing_runs.and_then(|asked| Some(old.timing_runs?.min(asked)))),
            runs(new.timing_runs),
        ),
        ("optimization level", level(old.opt_level), level(new.opt_level)),
        ("workspace cap", mib(old.workspace_bytes), mib(new.workspace_bytes)),
        ("tactic memory cap", capped(old.tactic_bytes), capped(new.tactic_bytes)),
        ("memory cap", capped(old.memory_bytes), capped(new.memory_bytes)),
        ("library tactics", old.library_tactics.to_string(), new.library_tactics.to_string()),
        ("restriction to Ampere", old.ampere_plus.to_string(), new.ampere_plus.to_string()),
        ("list of targets", targets(old), targets(new)),
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
    use crate::engine::fp32_pins::Fp32Pins;
    use vos::precision::Precision;

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

    #[test]
    fn differences_are_told_in_the_words_of_the_command_line() {
        let old = Settings { targets: vec![86], ..Settings::plain(Precision::Fp16) };
        let told = |new: Settings| different_setting(&old, &new).unwrap();
        let why = told(Settings { opt_level: Some(2), ..old.clone() });
        assert_eq!(why, "its optimization level is 3, asked for is 2");
        let why = told(Settings { fp32_pins: Fp32Pins::Pinned, ..old.clone() });
        assert_eq!(why, "its kind of fp32 pins is none, asked for is pinned");
        let why = told(Settings { fp32_layers: vec!["/a".into(), "/b".into()], ..old.clone() });
        assert_eq!(why, "its list of layers in fp32 is empty, asked for is /a, /b");
        let why = told(Settings { targets: vec![86, 89], ..old.clone() });
        assert_eq!(why, "its list of targets is sm_86, asked for is sm_86, sm_89");
    }
}
