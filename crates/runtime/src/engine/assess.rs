/*!
What an engine's layers say about the build: in which types they run, which fell back to fp32,
whether attention is fused.

Pure functions of what `engine.json` holds, so that a plan can be judged where neither TensorRT nor
its GPU is.
*/

mod attention;
mod class;
mod pinned;
mod scores;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

pub use attention::{Attention, Verdict};
pub use class::{Class, Element};

use super::{LayerRecord, PlanRecord};
use pinned::Pins;
use vos::bundle::{Manifest, Role};
use vos::precision::Precision;

/// What the layers of one plan say.
#[derive(Clone, Debug, Serialize)]
pub struct LayerReport {
    /// The plan's role.
    pub role: Role,
    /// The precision that was asked for.
    pub precision: Precision,
    /// Layers after fusion, of all profiles together; none if the engine was never opened.
    pub layers: Option<usize>,
    /// Numbers of layers by the type they compute in ("fp16", "fp32", …); also "moving", "opaque"
    /// and "unsaid" layers.
    pub by_class: BTreeMap<&'static str, usize>,
    /// Names of the layers that compute in fp32.
    pub fp32_layers: Vec<String>,
    /// What runs in fp32 against the plan's precision; none where that cannot be, or where nothing
    /// is known.
    pub fallback: Option<Fallback>,
    /// Whether attention is fused.
    pub attention: Attention,
}

/// Layers that run in fp32 although the plan's precision is lower and nobody pinned them.
#[derive(Clone, Debug, Serialize)]
pub struct Fallback {
    /// Their names.
    pub layers: Vec<String>,
    /// Layers with floating-point arithmetic that TensorRT reports, pinned ones included.
    pub of: usize,
    /// fp32 layers that were pinned.
    pub pinned: usize,
}

impl Fallback {
    /// The share that fell back, 0 to 1; 0 where nothing computes.
    pub fn fraction(&self) -> f64 {
        if self.of == 0 { 0.0 } else { self.layers.len() as f64 / self.of as f64 }
    }
}

/// Judges one plan, built from a graph of `bundle`.
pub fn assess(plan: &PlanRecord, bundle: &Manifest) -> LayerReport {
    let layers = plan.layers.as_deref().unwrap_or_default();
    let mut by_class: BTreeMap<&'static str, usize> = BTreeMap::new();
    for layer in layers {
        *by_class.entry(class_name(Class::of(layer))).or_default() += 1;
    }
    let fp32: Vec<&LayerRecord> =
        layers.iter().filter(|layer| Class::of(layer) == Class::Computes(Element::Fp32)).collect();
    LayerReport {
        role: plan.role,
        precision: plan.settings.precision,
        layers: plan.layers.as_ref().map(Vec::len),
        by_class,
        fp32_layers: fp32.iter().map(|layer| layer.name.clone()).collect(),
        fallback: fallback(plan, layers, &fp32),
        attention: attention::judge(plan, bundle),
    }
}

fn fallback(plan: &PlanRecord, layers: &[LayerRecord], fp32: &[&LayerRecord]) -> Option<Fallback> {
    // Strongly typed plans keep the ONNX file's types, and fp32 is no fallback from fp32.
    if plan.settings.strongly_typed || plan.settings.precision == Precision::Fp32 {
        return None;
    }
    let of = layers.iter().filter(
        |layer| matches!(Class::of(layer), Class::Computes(element) if element != Element::Integer),
    );
    let of = of.count();
    if of == 0 {
        return None;
    }
    let pins = Pins::new(plan.build.pinned_layers.as_deref().unwrap_or_default());
    let (pinned, fallen): (Vec<&LayerRecord>, Vec<&LayerRecord>) =
        fp32.iter().partition(|layer| pins.hold(layer));
    let layers = fallen.into_iter().map(|layer| layer.name.clone()).collect();
    Some(Fallback { layers, of, pinned: pinned.len() })
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Computes(element) => element.name(),
        Class::Moves => "moving",
        Class::Opaque => "opaque",
        Class::Unsaid => "unsaid",
    }
}

impl fmt::Display for LayerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layers {
            None => writeln!(f, "layers: not known, the engine was not opened where it was built")?,
            Some(count) => {
                let parts = self.by_class.iter().map(|(class, n)| format!("{n} {class}"));
                let parts = parts.collect::<Vec<_>>().join(", ");
                writeln!(f, "{count} layers: {parts}")?;
            }
        }
        if let Some(fallback) = &self.fallback {
            let Fallback { layers, of, pinned } = fallback;
            let share = 100.0 * fallback.fraction();
            write!(
                f,
                "fp32 in a {} plan: {} of {of} layers ({share:.1} %)",
                self.precision,
                layers.len()
            )?;
            write!(f, " without being pinned, {pinned} pinned")?;
            match layers.first() {
                Some(first) => writeln!(f, "; such as {}", shortened(first))?,
                None => writeln!(f)?,
            }
        }
        write!(f, "attention: {} ({})", self.attention.verdict, self.attention.evidence)
    }
}

/// Fused layers have names of kilobytes.
fn shortened(name: &str) -> String {
    const MOST: usize = 80;
    match name.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
