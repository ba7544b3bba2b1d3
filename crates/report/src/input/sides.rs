/*!
Names and colours of the sides of comparisons: a side has one name and one colour on the whole page.
*/

use serde_json::{Map, Value};

use super::RunSource;
use crate::compare::judge::{Comparison, SideReport};

/// The program, mode and precision of a side in words, such as `PyTorch eager fp16`.
pub fn name(comparison: &Comparison, side: &SideReport) -> String {
    let facts = comparison.sides.get(&side.side);
    let Some(runner) = facts.and_then(|facts| runner(&facts.configuration)) else {
        return side.side.clone();
    };
    format!("{runner} {}", side.precision).trim_end().to_owned()
}

/// The same of a run folder; `None` without settings.
pub fn of_run(source: &RunSource) -> Option<String> {
    let settings = source.facts.get("configuration")?.as_object()?;
    let precision = source.rows.iter().find_map(|row| row.text("precision"));
    Some(format!("{} {}", runner(settings)?, precision.unwrap_or_default()).trim_end().to_owned())
}

/// The same of a run that is no side of any model, such as a separate reference.
pub fn of_facts(comparison: &Comparison, side: &str) -> Option<String> {
    let settings = &comparison.sides.get(side)?.configuration;
    let precision = settings.get("models")?.get(0)?.get("precision")?.as_str()?;
    Some(format!("{} {precision}", runner(settings)?))
}

/// The program and its mode, from the settings of a run; `None` without settings.
pub fn runner(settings: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| settings.get(name).and_then(Value::as_str);
    if settings.get("gpu").is_some_and(Value::is_object) {
        return Some("segtrt TensorRT".to_owned());
    }
    Some(match (text("provider")?, text("run_mode"), text("compile_mode")) {
        ("pytorch", mode, compile) => {
            let code = match text("implementation") {
                None | Some("meta") => "PyTorch".to_owned(),
                Some(other) => format!("PyTorch ({other})"),
            };
            match (mode, compile) {
                (Some("compile"), Some("reduce-overhead")) => format!("{code} CUDA graphs"),
                (Some("compile"), Some(compile)) if compile != "default" => {
                    format!("{code} compile {compile}")
                }
                (Some(mode), _) => format!("{code} {mode}"),
                (None, _) => code,
            }
        }
        ("cpu", ..) => "segtrt CPU".to_owned(),
        ("cuda", ..) => "segtrt ONNX Runtime CUDA".to_owned(),
        ("tensorrt", ..) => "segtrt ONNX Runtime TensorRT".to_owned(),
        (other, ..) => format!("segtrt {other}"),
    })
}

/// Every side of the page in order of first appearance; the place is the number of its colour.
#[derive(Clone, Debug, Default)]
pub struct Palette(Vec<String>);

impl Palette {
    /// The series of a name, which is added if it is new.
    pub fn series(&mut self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(settings: Value) -> Option<String> {
        runner(settings.as_object().unwrap())
    }

    #[test]
    fn a_runs_settings_name_its_program() {
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(
            of(json!({"provider": "cpu", "gpu": {"device": 0}})),
            named("segtrt TensorRT"),
            "the provider is ONNX Runtime's, which does not run the engines"
        );
        assert_eq!(of(json!({"provider": "cpu", "gpu": null})), named("segtrt CPU"));
        let pytorch = |implementation: &str, mode: &str, compile: Option<&str>| {
            of(json!({"provider": "pytorch", "implementation": implementation, "run_mode": mode,
                      "compile_mode": compile}))
        };
        assert_eq!(
            pytorch("meta", "compile", Some("reduce-overhead")),
            named("PyTorch CUDA graphs")
        );
        assert_eq!(pytorch("meta", "compile", Some("default")), named("PyTorch compile"));
        assert_eq!(pytorch("transformers", "eager", None), named("PyTorch (transformers) eager"));
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn a_side_keeps_its_colour() {
        let mut palette = Palette::default();
        let found = ["a", "b", "a", "c"].map(|name| palette.series(name));
        assert_eq!(found, [0, 1, 0, 2]);
    }
}
