/*!
Conditions that rows of a group share, and the shortest names that distinguish two groups.
*/

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::platforms::PlaceKind;
use crate::input::{ResultRow, RunSource};
use vos::files::OTHER_DEVICES;

/// Columns whose values are never mixed, the most familiar first.
pub const COLUMNS: [&str; 15] = [
    "precision",
    "imgsz",
    "mode",
    "backend",
    "device",
    "input_frame_stride",
    "experiment_name",
    "geometry",
    "prompt_policy",
    "metrics",
    "fidelity",
    "cudnn_benchmark",
    "encode",
    "views",
    "frame_transfer",
];

/// Settings of a run that change its speed and have no column. The GPU pipeline's settings are
/// added.
const SETTINGS: [&str; 4] = ["threads", "warmup_runs", "max_clip_frames", OTHER_DEVICES];
/// The GPU's settings that name a place and do not affect the work, and the setting that has a
/// column.
const PLACES: [&str; 3] = ["device", "tensorrt_lib", "mode"];

/// The word of the column `views` for two.
pub const STEREO: &str = "stereo";

/// Settings of a run by their names.
pub type Settings = BTreeMap<String, String>;

/// Values of [`COLUMNS`], `None` for a missing column or an empty field; and the run's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conditions([Option<String>; COLUMNS.len()], Settings);

/// The settings of a run; empty without a sidecar.
pub fn settings(source: &RunSource) -> Settings {
    let mut found = Settings::new();
    let Some(all) = source.facts.get("configuration").and_then(Value::as_object) else {
        return found;
    };
    let mut add = |name: &str, value: &Value| match value {
        Value::Null | Value::Object(_) => {}
        Value::String(text) => drop(found.insert(name.to_owned(), text.clone())),
        value => drop(found.insert(name.to_owned(), value.to_string())),
    };
    let gpu = all.get("gpu").and_then(Value::as_object);
    let options = gpu.and_then(|gpu| gpu.get("options")).and_then(Value::as_object);
    for (name, value) in [gpu, options].into_iter().flatten().flatten() {
        if !PLACES.contains(&name.as_str()) {
            add(name, value);
        }
    }
    // ONNX Runtime's threads do not affect engines.
    for name in SETTINGS.iter().filter(|name| gpu.is_none() || **name != "threads") {
        add(name, all.get(*name).unwrap_or(&Value::Null));
    }
    found
}

impl Conditions {
    /// Conditions of a row in a run with these settings.
    pub fn of(row: &ResultRow, settings: &Settings) -> Self {
        Self(COLUMNS.map(|column| row.text(column).map(str::to_owned)), settings.clone())
    }

    /// The value of a column or a setting.
    fn value(&self, name: &str) -> Option<&str> {
        self.get(name).or_else(|| self.1.get(name).map(String::as_str))
    }

    /// Whether frames were decoded and resized before the run.
    pub fn are_predecoded(&self) -> bool {
        self.get("fidelity").is_some_and(is_predecoded)
    }

    /// Whether another thread encoded the frames, outside their time.
    pub fn encode_beside(&self) -> bool {
        self.get("encode").is_some_and(|stage| stage.ends_with(",beside"))
    }

    /// Whether two clips ran in step as the views of a stereo camera.
    pub fn stereo(&self) -> bool {
        self.get("views") == Some(STEREO)
    }

    /// The value of a column.
    pub fn get(&self, column: &str) -> Option<&str> {
        let at = COLUMNS.iter().position(|name| *name == column)?;
        self.0[at].as_deref()
    }

    /// Names and values of the known conditions.
    pub fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        COLUMNS.into_iter().zip(&self.0).filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

impl Serialize for Conditions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = self.1.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        serializer.collect_map(self.known().chain(settings))
    }
}

/// For each set of conditions, the values that distinguish it from its siblings (same model, same
/// platform).
pub fn apart(siblings: &[&Conditions]) -> Vec<Vec<String>> {
    let mut words: Vec<Vec<String>> = vec![Vec::new(); siblings.len()];
    let mut classes = vec![0; siblings.len()];
    let settings: BTreeSet<&str> =
        siblings.iter().flat_map(|conditions| conditions.1.keys()).map(String::as_str).collect();
    for column in COLUMNS.into_iter().chain(settings) {
        let value = |index: usize| siblings[index].value(column);
        // Only a value that splits a class is added.
        let divides = (0..siblings.len())
            .any(|a| (0..a).any(|b| classes[a] == classes[b] && value(a) != value(b)));
        if !divides {
            continue;
        }
        for (index, words) in words.iter_mut().enumerate() {
            words.push(in_words(column, value(index)));
        }
        classes = (0..siblings.len())
            .map(|a| {
                (0..a)
                    .find(|b| classes[a] == classes[*b] && value(a) == value(*b))
                    .map_or(a, |b| classes[b])
            })
            .collect();
    }
    words
}

/// Whether a row with this fidelity used frames that were decoded before the run.
pub fn is_predecoded(fidelity: &str) -> bool {
    fidelity.contains("-predecoded-")
}

/// A value as text.
pub fn in_words(column: &str, value: Option<&str>) -> String {
    match (column, value) {
        ("imgsz", Some(value)) => format!("{value} px"),
        ("input_frame_stride", Some(value)) => format!("stride {value}"),
        ("cudnn_benchmark", Some(value)) => format!("cudnn benchmark {value}"),
        ("encode", Some(value)) => format!("encode {value}"),
        ("frame_transfer", Some(value)) => format!("{value} frames"),
        ("frame_transfer", None) => "no frame transfer".to_owned(),
        ("views", None) => "one view".to_owned(),
        ("encode", None) => "no encode stage".to_owned(),
        ("metrics", Some(value)) => format!("{value} metrics"),
        ("prompt_policy", Some(value)) => format!("{value} prompts"),
        (column, Some(value)) if COLUMNS.contains(&column) => value.to_owned(),
        (setting, Some(value)) => format!("{} {value}", setting.replace('_', " ")),
        (column, None) => format!("{} unknown", column.replace('_', " ")),
    }
}

/// Platform and host of a row: the side of a comparison, else from its columns, else from the
/// experiment's file, else the run's label. The last member says what the platform's name stands
/// for.
pub fn place(source: &RunSource, row: &ResultRow) -> (String, Option<String>, PlaceKind) {
    let configured = |name: &str| {
        source
            .experiment
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|v| !v.is_empty())
    };
    let host = || source.environment("hostname").and_then(|name| name.as_str());
    let hostname =
        row.text("hostname").or_else(|| configured("Hostname")).or_else(host).map(str::to_owned);
    let (platform, kind) = match (row.text("platform"), configured("Platform")) {
        _ if source.side.is_some() => (source.side.as_deref().unwrap_or_default(), PlaceKind::Side),
        (Some(platform), _) => (platform, PlaceKind::Platform),
        (None, _) if source.named => (source.label.as_str(), PlaceKind::Platform),
        (None, Some(platform)) => (platform, PlaceKind::Platform),
        (None, None) => (source.label.as_str(), PlaceKind::Run),
    };
    (platform.to_owned(), hostname, kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(values: &[(&str, &str)]) -> Conditions {
        let value = |column: &str| {
            values.iter().find(|(name, _)| *name == column).map(|(_, value)| (*value).to_owned())
        };
        Conditions(COLUMNS.map(value), Settings::new())
    }

    #[test]
    fn settings_without_a_column_set_runs_apart() {
        let run = |configuration: Value| {
            let mut source = RunSource::default();
            source.facts.insert("configuration".into(), configuration);
            Conditions([const { None }; COLUMNS.len()], settings(&source))
        };
        let gpu = |graphs: bool, device: usize| {
            let options = json!({"mode": "latency", "graphs": graphs});
            run(json!({"threads": device, "gpu": {"device": device, "options": options}}))
        };
        let (graphs, other, without) = (gpu(true, 0), gpu(true, 1), gpu(false, 0));
        assert_eq!(
            graphs, other,
            "which GPU and how many threads of another backend is no setting"
        );
        assert_eq!(apart(&[&graphs, &without]), [["graphs true"], ["graphs false"]]);
        let cpu = [1, 8].map(|threads| run(json!({"threads": threads, "gpu": null})));
        assert_eq!(apart(&[&cpu[0], &cpu[1]]), [["threads 1"], ["threads 8"]]);
        assert_eq!(serde_json::to_value(&cpu[0]).unwrap(), json!({"threads": "1"}));
        assert_eq!(settings(&RunSource::default()), Settings::new());
    }

    #[test]
    fn only_what_differs_is_named() {
        let fast = with(&[("precision", "fp16"), ("mode", "latency"), ("device", "H200")]);
        let wide = with(&[("precision", "fp16"), ("mode", "throughput"), ("device", "H200")]);
        let exact = with(&[("precision", "fp32"), ("mode", "latency"), ("device", "H200")]);
        assert_eq!(apart(&[&fast]), [Vec::<String>::new()]);
        assert_eq!(apart(&[&fast, &wide]), [["latency"], ["throughput"]]);
        assert_eq!(
            apart(&[&fast, &wide, &exact]),
            [["fp16", "latency"], ["fp16", "throughput"], ["fp32", "latency"]]
        );
        let unsaid = with(&[("mode", "latency"), ("device", "H200")]);
        assert_eq!(apart(&[&fast, &unsaid]), [["fp16"], ["precision unknown"]]);
    }
}
