/*!
Drift curves out of `comparison.json`: mask IoU of two sides against the frame's index.

The file's layout is its maker's business and may grow: a curve is any object, however deep, with a list of numbers `iou`.
*/

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;

/// IoU against frame index.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriftCurve {
    /// Model tag; empty where the file does not say.
    pub model: String,
    /// Which side was compared with the reference; empty where the file does not say.
    pub side: String,
    /// Indices of the frames.
    pub frame: Vec<f64>,
    /// Mask IoU, 0..1, one for each frame.
    pub iou: Vec<f64>,
}

/// Reads every curve of a comparison.
///
/// # Errors
/// A file that cannot be read, that is no JSON, or without a curve.
pub fn read(path: &Path) -> Result<Vec<DriftCurve>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let value: Value = serde_json::from_str(&text).with_context(|| {
        format!("{} is no JSON; expected a comparison of segtrt compare", path.display())
    })?;
    let mut curves = Vec::new();
    walk(&value, &DriftCurve::default(), &mut curves);
    if curves.is_empty() {
        bail!(
            "{} holds no drift curve: expected objects with model, side, frame and iou",
            path.display()
        );
    }
    Ok(curves)
}

/// `around` carries the names that the enclosing objects gave.
fn walk(value: &Value, around: &DriftCurve, curves: &mut Vec<DriftCurve>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, around, curves)),
        Value::Object(members) => {
            let name = |key: &str, outer: &str| {
                members.get(key).and_then(Value::as_str).unwrap_or(outer).to_owned()
            };
            let mut own = DriftCurve {
                model: name("model", &around.model),
                side: name("side", &around.side),
                ..DriftCurve::default()
            };
            if let Some(iou) = members.get("iou").and_then(Value::as_array) {
                let frames = members
                    .get("frame")
                    .or_else(|| members.get("frames"))
                    .and_then(Value::as_array);
                // A frame without a number (no mask on either side, say) is a gap and not a zero.
                for (at, iou) in iou.iter().enumerate() {
                    let frame = match frames {
                        Some(frames) => frames.get(at).and_then(Value::as_f64),
                        None => Some(at as f64),
                    };
                    if let (Some(frame), Some(iou)) = (frame, iou.as_f64()) {
                        own.frame.push(frame);
                        own.iou.push(iou);
                    }
                }
                if !own.iou.is_empty() {
                    curves.push(own);
                }
                return;
            }
            members.values().for_each(|member| walk(member, &own, curves));
        }
        _ => {}
    }
}
