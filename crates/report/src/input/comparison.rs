/*!
`comparison.json`: the result of `segtrt compare`, and drift curves of other programs.

A curve is any object, at any depth, with a list of numbers `iou`. Everything else is read by its
type; members that a release does not know are ignored, and missing ones have no value.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::compare::judge::{Comparison, ModelComparison, Outcome, SideReport};

/// IoU against frame index.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriftCurve {
    /// Model tag; empty if the file has none.
    pub model: String,
    /// Side of the network input, pixels; empty if the file has none.
    pub imgsz: String,
    /// Name of the comparison.
    pub comparison: String,
    /// The compared side; empty if the file has none.
    pub side: String,
    /// Program, mode and precision of the side.
    pub name: String,
    /// The number of its colour on the page.
    #[serde(skip)]
    pub series: usize,
    /// Its memories came from the reference's masks.
    pub teacher_forced: bool,
    /// Indices of the frames.
    pub frame: Vec<f64>,
    /// Mask IoU, 0..1, one for each frame; the mean over several objects.
    pub iou: Vec<f64>,
    /// Lowest IoU of any object in any frame, if the file has more than the means.
    pub lowest: Option<f64>,
}

/// A side of one model whose masks are not proven equal to the reference's.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Unproven {
    /// Model tag.
    pub model: String,
    /// The side.
    pub side: String,
    /// `MISMATCH` or a similar word, with the reason.
    pub why: String,
    /// Its run folders that exist.
    #[serde(skip)]
    pub folders: Vec<PathBuf>,
}

/// One comparison.
#[derive(Clone, Debug, Default)]
pub struct ReadComparison {
    /// The file.
    pub path: PathBuf,
    /// Its short name.
    pub label: String,
    /// Its content.
    pub result: Comparison,
    /// Its curves.
    pub drift: Vec<DriftCurve>,
}

impl ReadComparison {
    /// Every side of every model.
    pub fn sides(&self) -> impl Iterator<Item = (&ModelComparison, &SideReport)> {
        self.result
            .models
            .iter()
            .flat_map(|model| model.sides.iter().map(move |side| (model, side)))
    }

    /// Sides without proven masks.
    pub fn unproven(&self) -> impl Iterator<Item = Unproven> {
        let unproven = |side: &SideReport| {
            matches!(side.outcome, Outcome::Mismatch | Outcome::ProvesNothing | Outcome::Refused)
        };
        self.sides().filter(move |(_, side)| unproven(side)).map(|(model, side)| {
            let reason = side.why.as_deref().unwrap_or("no reason given");
            Unproven {
                model: model.model.clone(),
                side: side.side.clone(),
                why: format!("{}: {reason}", side.outcome.as_str()),
                folders: self.folders(side),
            }
        })
    }

    /// Sentences about sides whose masks agree only with the original's at their precision.
    pub fn as_original(&self) -> impl Iterator<Item = String> {
        self.sides().filter(|(_, side)| side.outcome == Outcome::AsOriginal).map(|(model, side)| {
            let of = side.as_original.as_ref().map_or("eager", |found| found.side.as_str());
            format!(
                "{}, {}: its masks agree with those of {of}, the original code at its precision, \
                 not with the reference's. Compare its speed only with sides that have these masks.",
                model.model, side.side
            )
        })
    }

    /// The run folders of a side that exist. Relative ones start at the file's folder.
    pub fn folders(&self, side: &SideReport) -> Vec<PathBuf> {
        let near = self.path.parent().unwrap_or(Path::new("."));
        let found = side.folders.iter().filter_map(|folder| {
            let below = std::fs::canonicalize(near.join(folder));
            below.or_else(|_| std::fs::canonicalize(folder)).ok()
        });
        found.collect()
    }
}

/// Reads a comparison.
///
/// # Errors
/// The file cannot be read, is not JSON, or has neither a curve nor a judged side.
pub fn read(path: &Path, label: String) -> Result<ReadComparison> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let value: Value = serde_json::from_str(&text).with_context(|| {
        format!("{} is not JSON; name a comparison.json of segtrt compare", path.display())
    })?;
    let mut drift = Vec::new();
    curves(&value, "", "", &mut drift);
    // A list of curves is no comparison.
    let result: Comparison = match value {
        Value::Object(_) => serde_json::from_value(value).with_context(|| {
            format!(
                "{} is not a comparison of this release of segtrt; judge it again with segtrt \
                 compare --runs",
                path.display()
            )
        })?,
        _ => Comparison::default(),
    };
    if drift.is_empty() && result.models.iter().all(|model| model.sides.is_empty()) {
        bail!(
            "{} has no drift curve and no judged side; expected objects with model, side, frame \
             and iou; name a comparison.json of segtrt compare",
            path.display()
        );
    }
    for curve in &mut drift {
        let model = result.models.iter().find(|model| model.model == curve.model);
        curve.imgsz = model.map(|model| model.imgsz.clone()).unwrap_or_default();
        curve.comparison.clone_from(&label);
    }
    Ok(ReadComparison { path: path.to_owned(), label, result, drift })
}

/// Collects curves; `model` and `side` come from the enclosing objects.
fn curves(value: &Value, model: &str, side: &str, found: &mut Vec<DriftCurve>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| curves(item, model, side, found)),
        Value::Object(members) => {
            let text = |key: &str| members.get(key).and_then(Value::as_str);
            let (model, side) = (text("model").unwrap_or(model), text("side").unwrap_or(side));
            match members.get("iou").and_then(Value::as_array) {
                Some(iou) => found.extend(curve(members, iou, model, side)),
                None => members.values().for_each(|member| curves(member, model, side, found)),
            }
        }
        _ => {}
    }
}

fn curve(
    members: &Map<String, Value>,
    iou: &[Value],
    model: &str,
    side: &str,
) -> Option<DriftCurve> {
    let list = |key: &str| members.get(key).and_then(Value::as_array);
    let frames = list("frame").or_else(|| list("frames"));
    let lowest = list("lowest")
        .map(|all| all.iter().filter_map(Value::as_f64).fold(f64::INFINITY, f64::min));
    let mut curve = DriftCurve {
        model: model.to_owned(),
        side: side.to_owned(),
        teacher_forced: members.get("memory").and_then(Value::as_str) == Some("teacher"),
        lowest: lowest.filter(|lowest| lowest.is_finite()),
        ..DriftCurve::default()
    };
    // A frame without a number (for instance without a mask on either side) is a gap, not a zero.
    for (at, iou) in iou.iter().enumerate() {
        let frame = match frames {
            Some(frames) => frames.get(at).and_then(Value::as_f64),
            None => Some(at as f64),
        };
        if let (Some(frame), Some(iou)) = (frame, iou.as_f64()) {
            curve.frame.push(frame);
            curve.iou.push(iou);
        }
    }
    (!curve.iou.is_empty()).then_some(curve)
}
