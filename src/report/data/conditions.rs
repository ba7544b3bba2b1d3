/*!
What must be equal for rows to be taken together, and the shortest name that tells two groups apart.
*/

use serde::{Serialize, Serializer};

use crate::report::input::{Row, Source};

/// Columns whose values may not be mixed, those first that people name first.
pub const COLUMNS: [&str; 12] = [
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
];

/// Values of [`COLUMNS`]; `None` where the table has no such column or an empty field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conditions([Option<String>; COLUMNS.len()]);

impl Conditions {
    /// Of a row.
    pub fn of(row: &Row) -> Self {
        Self(COLUMNS.map(|column| row.text(column).map(str::to_owned)))
    }

    /// The value of a column.
    pub fn get(&self, column: &str) -> Option<&str> {
        let at = COLUMNS.iter().position(|name| *name == column)?;
        self.0[at].as_deref()
    }

    /// Names and values of those that are known.
    pub fn known(&self) -> impl Iterator<Item = (&'static str, &str)> {
        COLUMNS.into_iter().zip(&self.0).filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

impl Serialize for Conditions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.known())
    }
}

/// For each set of conditions, the values that set it apart from its siblings (same model, same platform), in words.
pub fn apart(siblings: &[&Conditions]) -> Vec<Vec<String>> {
    let mut words: Vec<Vec<String>> = vec![Vec::new(); siblings.len()];
    let mut classes = vec![0; siblings.len()];
    for (at, column) in COLUMNS.into_iter().enumerate() {
        let value = |index: usize| siblings[index].0[at].as_deref();
        // Only what divides a class that is still whole is worth a word.
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

/// A value as people say it.
pub fn in_words(column: &str, value: Option<&str>) -> String {
    match (column, value) {
        ("imgsz", Some(value)) => format!("{value} px"),
        ("input_frame_stride", Some(value)) => format!("stride {value}"),
        ("cudnn_benchmark", Some(value)) => format!("cudnn benchmark {value}"),
        ("metrics", Some(value)) => format!("{value} metrics"),
        ("prompt_policy", Some(value)) => format!("{value} prompts"),
        (_, Some(value)) => value.to_owned(),
        (column, None) => format!("{} not said", column.replace('_', " ")),
    }
}

/// Platform and host of a row: its own columns, else the experiment's file, else the run's label.
pub fn place(source: &Source, row: &Row) -> (String, Option<String>) {
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
    let platform = match row.text("platform") {
        Some(platform) => platform,
        None if source.named => &source.label,
        None => configured("Platform").unwrap_or(&source.label),
    };
    (platform.to_owned(), hostname)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[(&str, &str)]) -> Conditions {
        let value = |column: &str| {
            values.iter().find(|(name, _)| *name == column).map(|(_, value)| (*value).to_owned())
        };
        Conditions(COLUMNS.map(value))
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
        assert_eq!(apart(&[&fast, &unsaid]), [["fp16"], ["precision not said"]]);
    }
}
