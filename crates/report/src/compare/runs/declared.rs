/*!
The mode, precision and device that a side claims, from its comparison or from the name that a user
typed for it, and whether a folder contradicts them.

Earlier releases accepted `--runner-arg=--mode`; the last argument counted, and a side could differ
from its name. Its folder shows what ran.
*/

use serde_json::Value;

use super::folder::{RunFolder, SummaryRow};
use vos::files::Configuration;

/// PyTorch's modes, which name its sides.
const MODES: [&str; 3] = ["eager", "compile", "vos_optimized"];

/// segtrt's sides.
const OWN: [&str; 4] = ["tensorrt", "cpu", "ort-cuda", "ort-tensorrt"];

/// Precisions that a side's name may end with.
const PRECISIONS: [&str; 5] = ["fp32", "tf32", "mixed", "fp16", "bf16"];

/// The claims of a side; none where it claims nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    mode: Option<String>,
    precision: Option<String>,
    on_cpu: Option<bool>,
}

impl Declared {
    /// From a name as `compare` gives it: `compile`, `compile-tf32`, `tensorrt-mixed`. Other names
    /// claim nothing.
    pub fn by_name(name: &str) -> Self {
        let name = name.strip_prefix("reference-").unwrap_or(name);
        let tail = name.rsplit_once('-').filter(|(_, tail)| PRECISIONS.contains(tail));
        let head = match tail.map_or(name, |(head, _)| head) {
            // compare's word for one compile mode.
            "reduce_overhead" => "compile",
            head => head,
        };
        let mode = MODES.contains(&head).then(|| head.to_owned());
        let known = mode.is_some() || OWN.contains(&head);
        let precision = tail.filter(|_| known).map(|(_, precision)| precision.to_owned());
        Self { mode, precision, on_cpu: None }
    }

    /// From the settings in the comparison's file.
    pub fn by_settings(settings: &Configuration) -> Self {
        let settings = settings.clone().into_fields();
        let text = |member: &str| settings.get(member).and_then(Value::as_str).map(str::to_owned);
        let args = settings.get("args").and_then(Value::as_array);
        let tf32 = args.is_some_and(|args| args.iter().any(|arg| arg == "--tf32"));
        let precision = text("precision").map(|precision| match precision.as_str() {
            "fp32" if tf32 => "tf32".to_owned(),
            _ => precision,
        });
        Self { mode: text("mode"), precision, on_cpu: text("device").map(|device| device == "cpu") }
    }

    /// How `folder` contradicts this side: the rest of a sentence that begins with the folder. None
    /// if they agree.
    pub fn contradiction(&self, folder: &RunFolder, model: &str) -> Option<String> {
        let mut rows = folder.rows.iter().filter(|row| row.model == model);
        let (what, is, declared) = rows.find_map(|row| self.differs(folder, row))?;
        Some(format!(
            "ran {what} {is}, and the side is said to run {what} {declared}: an argument that was \
             handed on (--runner-arg, --bench-arg) may have made it something else than its name \
             says; take that folder away and measure it again, or compare it as what it is (--runs \
             NAME=FOLDER)"
        ))
    }

    /// The quantity that differs, its value in the folder and the claimed value.
    fn differs(
        &self,
        folder: &RunFolder,
        row: &SummaryRow,
    ) -> Option<(&'static str, String, String)> {
        let mode = folder.configuration.get("run_mode").and_then(Value::as_str);
        if let (Some(is), Some(declared)) = (mode, &self.mode)
            && is != declared
        {
            return Some(("in mode", is.to_owned(), declared.clone()));
        }
        let tf32 = folder.configuration.get("tf32") == Some(&Value::Bool(true));
        if let Some(declared) = &self.precision
            && row.precision != *declared
            && !row.precision.is_empty()
            // On a CPU TF32 has no effect, and the row says fp32.
            && !(tf32 && declared == "tf32" && row.precision == "fp32")
        {
            return Some(("in precision", row.precision.clone(), declared.clone()));
        }
        let device = |cpu: bool| if cpu { "a CPU" } else { "a GPU" }.to_owned();
        match self.on_cpu.filter(|cpu| !row.device.is_empty() && *cpu != row.is_on_cpu()) {
            Some(declared) => Some(("on", device(row.is_on_cpu()), device(declared))),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn declared(mode: Option<&str>, precision: Option<&str>) -> Declared {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Declared { mode: owned(mode), precision: owned(precision), on_cpu: None }
    }

    #[test]
    fn names_of_compare_say_what_a_side_is() {
        for (name, mode, precision) in [
            ("compile", Some("compile"), None),
            ("compile-tf32", Some("compile"), Some("tf32")),
            ("reduce_overhead-fp16", Some("compile"), Some("fp16")),
            ("reference-eager-fp32", Some("eager"), Some("fp32")),
            ("tensorrt-mixed", None, Some("mixed")),
            ("ort-cuda-fp16", None, Some("fp16")),
            ("ort-cuda", None, None),
            // Names that a user chose.
            ("mine-fp16", None, None),
            ("compile-2", None, None),
            ("fp16", None, None),
        ] {
            assert_eq!(Declared::by_name(name), declared(mode, precision), "{name}");
        }
    }

    #[test]
    fn settings_state_mode_precision_and_device() {
        let settings = Configuration::default()
            .with("precision", "fp32")
            .with("mode", "compile")
            .with("device", "cuda")
            .with("args", json!(["--tf32"]));
        let found = Declared::by_settings(&settings);
        let expected = declared(Some("compile"), Some("tf32"));
        assert_eq!(found, Declared { on_cpu: Some(false), ..expected });
        let none = Declared::by_settings(&Configuration::default());
        assert_eq!(none, Declared::default());
    }
}
