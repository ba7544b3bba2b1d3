/*!
The parts of `sidecar.json` that a baseline needs.
*/

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::{Map, Value};

use vos::record::Backend;

/// The needed members of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sidecar {
    pub segtrt: String,
    pub configuration: Map<String, Value>,
    pub environment: Map<String, Value>,
    pub inputs: BTreeMap<String, Hashed>,
    pub passes: Vec<TimedPass>,
}

/// Hash of a file or folder.
#[derive(Debug, Deserialize)]
pub(super) struct Hashed {
    pub sha256: String,
}

/// One recorded pass with its times.
#[derive(Debug, Deserialize)]
pub(super) struct TimedPass {
    pub video: String,
    pub object: String,
    pub model: String,
    pub run: usize,
    /// What ran the network; none in files of other programs.
    #[serde(default)]
    pub backend: Option<Backend>,
    pub frame_times: Times,
}

#[derive(Debug, Deserialize)]
pub(super) struct Times {
    /// Intervals where frames overlap.
    #[serde(alias = "interval_ms")]
    pub latency_ms: Vec<f64>,
}

/// Compared members of `environment.gpu`, with their names in a difference. Others, such as the
/// current clock, do not describe the machine.
const GPU_FACTS: [(&str, &str); 8] = [
    ("name", "gpu"),
    ("board", "board"),
    ("l4t", "l4t"),
    ("power_mode", "power_mode"),
    ("power_limit_w", "power_limit_w"),
    ("gpu_clock_max_mhz", "gpu_clock_max_mhz"),
    ("mig_mode", "mig_mode"),
    ("ecc", "ecc"),
];

/// Compared members of `environment`.
const FACTS: [(&str, &str); 6] = [
    ("processor", "processor"),
    ("processors", "processors"),
    ("architecture", "architecture"),
    ("frequency_governor", "frequency_governor"),
    ("build", "build"),
    ("sm", "sm"),
];

/// Settings that are compared elsewhere (models, clips and their limits) or do not affect the
/// numbers.
const NO_SETTINGS: [&str; 10] = [
    "models",
    "videos",
    "shard.selection",
    "split",
    "limit_objects",
    "max_clip_frames",
    "profile_runs",
    "gpu.device",
    "gpu.tensorrt_lib",
    "gpu.options.mode",
];

impl Sidecar {
    /// What the speed depends on, by name.
    pub fn machine(&self) -> BTreeMap<String, String> {
        let mut machine = BTreeMap::new();
        let mut fact = |name: &str, value: Option<&Value>| {
            machine.extend(value.and_then(text).map(|value| (name.to_owned(), value)));
        };
        let gpu = self.environment.get("gpu");
        for (there, here) in GPU_FACTS {
            fact(here, gpu.and_then(|gpu| gpu.get(there)));
        }
        for (there, here) in FACTS {
            fact(here, self.environment.get(there));
        }
        let driver = gpu.and_then(|gpu| gpu.get("driver")?.as_str());
        machine.extend(driver.map(|driver| ("driver".to_owned(), major(driver).to_owned())));
        machine
    }

    /// Settings by name; inner members as `gpu.options.encode_ahead`.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = BTreeMap::new();
        flatten(&mut settings, "", &self.configuration);
        settings.retain(|name, _| !NO_SETTINGS.contains(&name.as_str()));
        settings
    }

    /// What ran the network, by its label in the `backend` column.
    pub fn backends(&self) -> HashMap<String, Backend> {
        let backends = self.passes.iter().filter_map(|pass| pass.backend.clone());
        backends.map(|backend| (backend.to_string(), backend)).collect()
    }

    /// The configuration's entry of a model; of several with one tag the one with this size and
    /// precision.
    pub fn model(&self, tag: &str, imgsz: &str, precision: &str) -> Option<&Value> {
        let models = self.configuration.get("models")?.as_array()?;
        let of_tag = || models.iter().filter(|model| model["tag"] == tag);
        let is =
            |model: &Value, name: &str, value: &str| text(&model[name]).as_deref() == Some(value);
        let exact = of_tag().find(|m| is(m, "imgsz", imgsz) && is(m, "precision", precision));
        exact.or_else(|| of_tag().next())
    }
}

fn flatten(into: &mut BTreeMap<String, String>, prefix: &str, members: &Map<String, Value>) {
    for (name, value) in members {
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => flatten(into, &format!("{name}."), inner),
            Value::Array(_) => {
                into.insert(name, value.to_string());
            }
            _ => into.extend(text(value).map(|value| (name, value))),
        }
    }
}

/// A value as text; `None` for null.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// `580` of `580.95.05`: releases with the same major number are fixes.
fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_machine_is_what_the_speed_hangs_on() {
        let sidecar: Sidecar = serde_json::from_value(json!({
            "segtrt": "0.1.0",
            "environment": {
                "hostname": "rack1", "kernel": "6.1", "processor": "AMD \
                    EPYC", "processors": 16, "build": "release",
                "tensorrt": ["/x/libnvinfer.so (TensorRT 8.6.0)"], "sm": 90,
                "gpu": {"source": "NVML", "name": "NVIDIA H200", "driver": "580.95.05", "uuid": "GPU-1", "mig_mode": false,
                        "power_limit_w": 700.0}
            },
            "configuration": {
                "models": [{"tag": "m", "imgsz": 512, "precision": "fp16"}, {"tag": "m", "imgsz": 1024, "precision": "fp16"}],
                "threads": 4, "gpu": {"device": 1, "options": {"mode": "latency", "encode_ahead": 3}, "bank": null},
                "profile_runs": 3
            }
        }))
        .unwrap();
        let machine = sidecar.machine();
        let names: Vec<_> = machine.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            names,
            [
                "build=release",
                "driver=580",
                "gpu=NVIDIA H200",
                "mig_mode=false",
                "power_limit_w=700.0",
                "processor=AMD EPYC",
                "processors=16",
                "sm=90"
            ]
        );
        let settings: Vec<_> = sidecar.settings().into_iter().collect();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(settings, [pair("gpu.options.encode_ahead", "3"), pair("threads", "4")]);
        assert_eq!(sidecar.model("m", "1024", "fp16").unwrap()["imgsz"], 1024);
        assert_eq!(sidecar.model("m", "1", "x").unwrap()["imgsz"], 512);
        assert_eq!(sidecar.model("n", "1", "x"), None);
    }
}
