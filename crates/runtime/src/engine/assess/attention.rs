/*!
Whether a plan's attention is fused: computed by one kernel that never writes the score matrix out.

Evidence, strongest first: a softmax of the decisive attention's size on its own (not fused); a
kernel that says it is an attention (fused); and where TensorRT does not open a region, a bound: a
context whose device memory is smaller than one score matrix cannot have written it out. A larger
one proves nothing.
*/

use std::fmt;

use serde::Serialize;

use super::class::{Class, is_fused_attention, is_softmax};
use super::scores::{Scores, decisive};
use crate::engine::{LayerRecord, PlanRecord};
use vos::bundle::{Family, Manifest, Role, Trunk};
use vos::precision::Precision;

/// What is known about a plan's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// One kernel; no score matrix in memory.
    Fused,
    /// Scores, softmax and product are kernels of their own.
    NotFused,
    /// The evidence does not suffice.
    Unknown,
    /// The plan has no attention that matters for its speed.
    NotJudged,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Fused => "fused",
            Self::NotFused => "not fused",
            Self::Unknown => "unknown",
            Self::NotJudged => "not judged",
        })
    }
}

/// A verdict with its evidence in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attention {
    /// The verdict.
    pub verdict: Verdict,
    /// What it rests on.
    pub evidence: String,
}

/// Judges one plan of a bundle.
pub fn judge(plan: &PlanRecord, bundle: &Manifest) -> Attention {
    let said = |verdict, evidence: String| Attention { verdict, evidence };
    if let Some(why) = not_judged(plan.role, bundle) {
        return said(Verdict::NotJudged, why.to_owned());
    }
    let scores = decisive(plan, bundle);
    let layers = plan.layers.as_deref().unwrap_or_default();
    let split: Vec<_> =
        layers.iter().filter(|layer| is_softmax(layer) && is_of_size(layer, &scores)).collect();
    if let Some(first) = split.first() {
        let text = format!(
            "a softmax of its own in {}, such as {}",
            layers_in_words(split.len()),
            first.name
        );
        return said(Verdict::NotFused, text);
    }
    let fused: Vec<_> = layers
        .iter()
        .filter(|layer| is_fused_attention(layer) && reads_keys(layer, &scores))
        .collect();
    let opaque = layers.iter().filter(|layer| Class::of(layer) == Class::Opaque).count();
    // Without a decisive attention a fused kernel says nothing of what the opaque layers hold.
    if let Some(first) = fused.first().filter(|_| opaque == 0 || !scores.is_empty()) {
        let text = format!(
            "an attention kernel in {}, such as {}",
            layers_in_words(fused.len()),
            first.name
        );
        return said(Verdict::Fused, text);
    }
    let hidden = match (&plan.layers, opaque) {
        (None, _) => "the engine was not opened where it was built".to_owned(),
        (Some(_), 0) => "no layer says that it is an attention kernel or a softmax".to_owned(),
        (Some(_), n) => format!("TensorRT does not tell what {} holds", opaque_in_words(n)),
    };
    let (verdict, bound) =
        by_memory(plan.build.context_bytes, scores.iter().max_by_key(|s| s.bytes()));
    let half = match plan.settings.precision {
        Precision::Fp32 if verdict == Verdict::Unknown => {
            "; TensorRT documents fused attention for half precision only"
        }
        _ => "",
    };
    said(verdict, format!("{hidden}{bound}{half}"))
}

fn not_judged(role: Role, bundle: &Manifest) -> Option<&'static str> {
    const OWN: &str = "its attention is computed by this program's own kernel";
    let has_hiera = bundle.trunk.as_ref().is_some_and(Trunk::is_hiera);
    match (role, bundle.model.family) {
        // What it keeps attends within small windows.
        (role, _) if role.is_encoder_part() && has_hiera => Some(OWN),
        (role, Family::EdgeTam) if role.is_encoder() => Some("the encoder is convolutional"),
        (role, _) if role.is_encoder() => None,
        (Role::Prompt | Role::Track | Role::TrackPadded, _) => None,
        (Role::MaskPrompt | Role::Memory, _) => Some("its attention is too small to matter"),
        _ => Some(OWN),
    }
}

/// The bound from memory.
fn by_memory(context_bytes: Option<u64>, scores: Option<&Scores>) -> (Verdict, String) {
    let Some(scores) = scores else { return (Verdict::Unknown, String::new()) };
    let Some(context) = context_bytes else { return (Verdict::Unknown, String::new()) };
    let (needs, matrix) = (mebibytes(context), mebibytes(scores.bytes()));
    let words = scores.in_words();
    if context < scores.bytes() {
        let text = format!(
            "; but a context needs {needs}, less than the {matrix} of one score matrix ({words}), \
             which therefore is never written out"
        );
        return (Verdict::Fused, text);
    }
    let text = format!(
        "; a context needs {needs}, enough for the {matrix} of one score matrix ({words}), which \
         proves nothing"
    );
    (Verdict::Unknown, text)
}

/// The layer's largest tensor is a score matrix of the decisive attention, or nothing is known
/// against it.
fn is_of_size(layer: &LayerRecord, scores: &[Scores]) -> bool {
    let Some(smallest) = scores.iter().map(Scores::elements).min() else { return true };
    // Without details the larger claim is the safer one: a plan is not called fused by default.
    largest_tensor(layer).is_none_or(|elements| elements >= smallest)
}

/// The kernel reads as many keys as the decisive attention has, or nothing is known against it.
fn reads_keys(layer: &LayerRecord, scores: &[Scores]) -> bool {
    let shapes = &layer.input_shapes;
    if scores.is_empty() || shapes.is_empty() || shapes.iter().flatten().any(|extent| *extent < 0) {
        return true;
    }
    let keys = |extent: &i64| scores.iter().any(|s| i64::try_from(s.keys).ok() == Some(*extent));
    shapes.iter().flatten().any(keys)
}

fn largest_tensor(layer: &LayerRecord) -> Option<u64> {
    let shapes = layer.input_shapes.iter().chain(&layer.output_shapes);
    // One open extent makes a shape useless.
    let sizes = shapes.map(|shape| {
        shape.iter().map(|extent| u64::try_from(*extent).ok()).product::<Option<u64>>()
    });
    sizes.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

fn layers_in_words(n: usize) -> String {
    if n == 1 { "1 layer".to_owned() } else { format!("{n} layers") }
}

fn opaque_in_words(n: usize) -> String {
    if n == 1 { "its opaque layer".to_owned() } else { format!("each of its {n} opaque layers") }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
