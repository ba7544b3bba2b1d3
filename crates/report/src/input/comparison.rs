/*!
What `comparison.json` says beside speeds: how masks drift along a clip, and which sides did not
compute the same thing.

The file's layout is its maker's business and may grow: a curve is any object, however deep, with a
list of numbers `iou`; a judged side is any object with a `side` and an `outcome`.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

/// Outcomes after which a side's speed stands beside no proof, and the word for each.
const UNPROVEN: [(&str, &str); 3] =
    [("mismatch", "MISMATCH"), ("proves_nothing", "NO PROOF"), ("refused", "REFUSED")];

/// IoU against frame index.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriftCurve {
    /// Model tag; empty where the file does not say.
    pub model: String,
    /// Which side was compared with the reference; empty where the file does not say.
    pub side: String,
    /// Its memories were written from the reference's masks instead of its own.
    pub teacher_forced: bool,
    /// Indices of the frames.
    pub frame: Vec<f64>,
    /// Mask IoU, 0..1, one for each frame; the mean where there are several objects.
    pub iou: Vec<f64>,
    /// Lowest IoU of any object in any frame, where the file says more than the means.
    pub lowest: Option<f64>,
}

/// A side whose masks are not the reference's.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Unproven {
    /// Model tag.
    pub model: String,
    /// The side.
    pub side: String,
    /// `MISMATCH` and the like, with the reason.
    pub why: String,
    /// Its run folders, as far as they are there.
    #[serde(skip)]
    pub folders: Vec<PathBuf>,
}

/// What a comparison says.
#[derive(Debug, Default, PartialEq)]
pub struct Comparison {
    /// Its curves.
    pub drift: Vec<DriftCurve>,
    /// Sides without proof.
    pub unproven: Vec<Unproven>,
    /// Sides that have the original's masks at their precision and not the reference's, a sentence
    /// each.
    pub as_original: Vec<String>,
}

/// Reads a comparison.
///
/// # Errors
/// A file that cannot be read, that is no JSON, or that has neither a curve nor a judged side.
pub fn read(path: &Path) -> Result<Comparison> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let value: Value = serde_json::from_str(&text).with_context(|| {
        format!("{} is no JSON; expected a comparison of segtrt compare", path.display())
    })?;
    let mut walk = Walk {
        folder: path.parent().unwrap_or(Path::new(".")),
        found: Comparison::default(),
        judged: 0,
    };
    walk.value(&value, "", "");
    if walk.found.drift.is_empty() && walk.judged == 0 {
        bail!(
            "{} holds no drift curve and no judged side: expected objects with model, side, frame and iou",
            path.display()
        );
    }
    Ok(walk.found)
}

struct Walk<'a> {
    /// Folder of the file: the run folders that it names may be relative to it.
    folder: &'a Path,
    found: Comparison,
    judged: usize,
}

impl Walk<'_> {
    /// `model` and `side` are what the enclosing objects said.
    fn value(&mut self, value: &Value, model: &str, side: &str) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.value(item, model, side)),
            Value::Object(members) => {
                let said = |key: &str| members.get(key).and_then(Value::as_str);
                let (model, side) = (said("model").unwrap_or(model), said("side").unwrap_or(side));
                if let Some(iou) = members.get("iou").and_then(Value::as_array) {
                    self.found.drift.extend(curve(members, iou, model, side));
                    return;
                }
                if let (Some(outcome), Some(_)) = (said("outcome"), said("side")) {
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
                "{model}, {side}: its masks are not the reference's but those of {}, the original code at its precision. Its speed is \
                 to be compared with sides that have these masks, and with no others.",
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
    // A frame without a number (no mask on either side, say) is a gap and not a zero.
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
