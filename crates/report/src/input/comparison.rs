/*!
The parts of `comparison.json` that a report shows besides speeds: drift curves, and sides without
proven masks.

The file's layout may grow: a curve is any object, at any depth, with a list of numbers `iou`; a
judged side is any object with a `side` and an `outcome`.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

/// Outcomes without proof, and the word for each.
const UNPROVEN: [(&str, &str); 3] =
    [("mismatch", "MISMATCH"), ("proves_nothing", "NO PROOF"), ("refused", "REFUSED")];

/// IoU against frame index.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriftCurve {
    /// Model tag; empty if the file has none.
    pub model: String,
    /// The compared side; empty if the file has none.
    pub side: String,
    /// Its memories came from the reference's masks.
    pub teacher_forced: bool,
    /// Indices of the frames.
    pub frame: Vec<f64>,
    /// Mask IoU, 0..1, one for each frame; the mean over several objects.
    pub iou: Vec<f64>,
    /// Lowest IoU of any object in any frame, if the file has more than the means.
    pub lowest: Option<f64>,
}

/// A side whose masks differ from the reference's.
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

/// The content of a comparison for a report.
#[derive(Debug, Default, PartialEq)]
pub struct Comparison {
    /// Its curves.
    pub drift: Vec<DriftCurve>,
    /// Sides without proof.
    pub unproven: Vec<Unproven>,
    /// Sentences about sides whose masks agree only with the original's at their precision.
    pub as_original: Vec<String>,
}

/// Reads a comparison.
///
/// # Errors
/// The file cannot be read, is not JSON, or has neither a curve nor a judged side.
pub fn read(path: &Path) -> Result<Comparison> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let value: Value = serde_json::from_str(&text).with_context(|| {
        format!("{} is not JSON; name a comparison.json of segtrt compare", path.display())
    })?;
    let mut walk = Walk {
        folder: path.parent().unwrap_or(Path::new(".")),
        found: Comparison::default(),
        judged: 0,
    };
    walk.value(&value, "", "");
    if walk.found.drift.is_empty() && walk.judged == 0 {
        bail!(
            "{} has no drift curve and no judged side; expected objects with model, side, frame \
             and iou; name a comparison.json of segtrt compare",
            path.display()
        );
    }
    Ok(walk.found)
}

struct Walk<'a> {
    /// Folder of the file; relative run folders start there.
    folder: &'a Path,
    found: Comparison,
    judged: usize,
}

impl Walk<'_> {
    /// `model` and `side` come from the enclosing objects.
    fn value(&mut self, value: &Value, model: &str, side: &str) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.value(item, model, side)),
            Value::Object(members) => {
                let text = |key: &str| members.get(key).and_then(Value::as_str);
                let (model, side) = (text("model").unwrap_or(model), text("side").unwrap_or(side));
                if let Some(iou) = members.get("iou").and_then(Value::as_array) {
                    self.found.drift.extend(curve(members, iou, model, side));
                    return;
                }
                if let (Some(outcome), Some(_)) = (text("outcome"), text("side")) {
                    self.side(members, outcome, model, side);
                }
                members.values().for_each(|member| self.value(member, model, side));
            }
            _ => {}
        }
    }

    fn side(&mut self, members: &Map<String, Value>, outcome: &str, model: &str, side: &str) {
        self.judged += 1;
        if outcome == "as_original" {
            let of = members.get("as_original").and_then(|found| found.get("side")?.as_str());
            self.found.as_original.push(format!(
                "{model}, {side}: its masks agree with those of {}, the original code at its \
                 precision, not with the reference's. Its speed is to be compared with sides that \
                 have these masks, and with no others.",
                of.unwrap_or("eager")
            ));
        }
        let Some((_, word)) = UNPROVEN.iter().find(|(name, _)| *name == outcome) else { return };
        let reason = members.get("why").and_then(Value::as_str).unwrap_or("no reason given");
        let folders = members.get("folders").and_then(Value::as_array).into_iter().flatten();
        let folders = folders.filter_map(Value::as_str).filter_map(|folder| {
            let near = std::fs::canonicalize(self.folder.join(folder));
            near.or_else(|_| std::fs::canonicalize(folder)).ok()
        });
        self.found.unproven.push(Unproven {
            model: model.to_owned(),
            side: side.to_owned(),
            why: format!("{word}: {reason}"),
            folders: folders.collect(),
        });
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
