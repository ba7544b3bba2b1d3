/*!
Machine and time of a run: from `experiment_config.txt`, or without one from segtrt's sidecar.
*/

use std::path::Path;

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Table;

/// The predecessor's word for a missing value.
pub(super) const UNKNOWN: &str = "unknown";
/// The predecessor's file about an experiment.
const CONFIG: &str = "experiment_config.txt";

/// The three columns that a merge adds; `None` if the folder has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `jetson` or `desktop`.
    pub platform: Option<String>,
    /// The machine's name.
    pub hostname: Option<String>,
    /// Start of the run, `YYYYmmdd_HHMMSS`.
    pub timestamp: Option<String>,
}

impl Origin {
    /// Names of the columns, in their order.
    pub const COLUMNS: [&'static str; 3] = ["platform", "hostname", "timestamp"];

    /// Origin of the experiment at `folder`, whose table is in `table_folder`.
    ///
    /// If the predecessor's file exists, only it counts. A damaged sidecar is logged and ignored.
    pub fn of(folder: &Path, table_folder: &Path) -> Self {
        if let Ok(bytes) = std::fs::read(folder.join(CONFIG)) {
            return Self::from_config(&String::from_utf8_lossy(&bytes));
        }
        let path = table_folder.join("sidecar.json");
        let Ok(bytes) = std::fs::read(&path) else { return Self::default() };
        match serde_json::from_slice::<Sidecar>(&bytes) {
            Ok(sidecar) => Self::from_environment(&sidecar.environment),
            Err(error) => {
                log::warn!("{} is damaged ({error}); its machine is unknown", path.display());
                Self::default()
            }
        }
    }

    /// Origin of a table that was named directly. Only a table with a run's usual name belongs to
    /// the files next to it: a merged table may be anywhere.
    pub fn of_file(table: &Path) -> Self {
        let is_runs = |kind: &Table| table.file_name().is_some_and(|name| name == kind.file_name());
        if !Table::value_variants().iter().any(is_runs) {
            return Self::default();
        }
        let beside = table.parent().unwrap_or(Path::new(""));
        let configured = |folder: &&Path| folder.join(CONFIG).is_file();
        let folder = [Some(beside), beside.parent()].into_iter().flatten().find(configured);
        Self::of(folder.unwrap_or(beside), beside)
    }

    /// The values in the order of [`Self::COLUMNS`].
    pub fn values(&self) -> [Option<&str>; 3] {
        [self.platform.as_deref(), self.hostname.as_deref(), self.timestamp.as_deref()]
    }

    /// The platform in the predecessor's spelling.
    pub fn platform(&self) -> &str {
        self.platform.as_deref().unwrap_or(UNKNOWN)
    }

    /// Lines `key: value`; the last of equal keys counts, as in the predecessor.
    fn from_config(text: &str) -> Self {
        let value = |name: &str| {
            let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('='));
            let pairs = lines.filter_map(|line| line.split_once(':'));
            let mut of_name = pairs.filter(|(key, _)| key.trim() == name);
            of_name.next_back().map(|(_, value)| value.trim().to_owned())
        };
        Self {
            platform: value("Platform"),
            hostname: value("Hostname"),
            timestamp: value("Timestamp"),
        }
    }

    fn from_environment(environment: &Map<String, Value>) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let gpu = environment.get("gpu");
        let board = text(gpu.and_then(|gpu| gpu.get("board")));
        // A CPU run still names its board: ARM kernels report it in place of the processor.
        let names = [board, text(environment.get("processor"))];
        let jetson = |name: &String| {
            let name = name.to_lowercase();
            ["jetson", "tegra", "orin", "xavier"].iter().any(|word| name.contains(word))
        };
        let platform = match names.iter().flatten().any(jetson) {
            true => "jetson",
            false => "desktop",
        };
        Self {
            platform: (!environment.is_empty()).then(|| platform.to_owned()),
            hostname: text(environment.get("hostname")).filter(|name| !name.is_empty()),
            timestamp: None,
        }
    }
}

/// The needed members of a sidecar; frame times are skipped.
#[derive(Deserialize)]
struct Sidecar {
    #[serde(default)]
    environment: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_read_as_the_predecessor_reads_it() {
        let text = "Experiment Configuration\n====: x\nTimestamp: 20251130_143022\n  \
                    Platform:jetson \nHostname: jetson-orin\nNsight: /opt/a:b\nHostname: second\n";
        let origin = Origin::from_config(text);
        assert_eq!(origin.values(), [Some("jetson"), Some("second"), Some("20251130_143022")]);
        assert_eq!(Origin::from_config("Platforms: x\n"), Origin::default());
        assert_eq!(Origin::default().platform(), "unknown");
    }

    #[test]
    fn a_sidecar_tells_machine_and_kind() {
        let of = |text: &str| Origin::from_environment(&serde_json::from_str(text).unwrap());
        let server =
            of(r#"{"hostname": "rack1", "processor": "AMD EPYC", "gpu": {"name": "H200"}}"#);
        assert_eq!(server.values(), [Some("desktop"), Some("rack1"), None]);
        let board = of(r#"{"hostname": "", "gpu": {"board": "NVIDIA Jetson AGX Orin"}}"#);
        assert_eq!(board.values(), [Some("jetson"), None, None]);
        assert_eq!(of("{}"), Origin::default());
    }
}
