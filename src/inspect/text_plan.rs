/*!
A plan's report for people.
*/

use std::fmt::Write;

use super::plan::{ManifestFacts, PlanReport};
use super::protocol::{Live, LiveEngine};
use super::units::{capabilities, facts, mebibytes, megabytes};
use host::screen_table;
use runtime::engine::{LayerRecord, PlanRecord};

/// Longest name or tactic that a table shows; JSON has them whole.
const LONGEST: usize = 72;

/// Renders the report.
pub fn plan(report: &PlanReport, all_layers: bool) -> String {
    let kind = match &report.manifest {
        Some(facts) => format!("plan of {} ({})", facts.model, facts.plan.name()),
        None => "plan".to_owned(),
    };
    let mut pairs = vec![
        ("size", format!("{} MB ({} bytes)", megabytes(report.bytes), report.bytes)),
        ("sha256", report.sha256.clone()),
    ];
    pairs.push(match &report.header {
        Some(header) => ("header", format!("written by {}", header.written_by)),
        None => ("header", "of a form that this program does not know".to_owned()),
    });
    match &report.manifest {
        Some(facts) => pairs.extend(from_manifest(facts)),
        None => pairs.push(("manifest", "no engine.json in its folder names this file".to_owned())),
    }
    let mut out = format!("{}: {kind}\n{}", report.path.display(), facts(&pairs));
    if let Some(facts) =
        report.manifest.as_ref().filter(|facts| !facts.plan.settings.profiles.is_empty())
    {
        let _ = writeln!(out, "{}", profiles(&facts.plan));
    }
    match &report.live {
        Live::Opened(engine) => out.push_str(&opened(engine)),
        Live::NotOpened { why } => {
            let _ = writeln!(out, "  not opened by TensorRT: {why}");
        }
    }
    if let Some(assessment) = &report.assessment {
        for line in assessment.to_string().lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    let layers = known_layers(report);
    if let Some(layers) = layers.filter(|_| all_layers) {
        let _ = writeln!(out, "{}", layer_table(layers));
    } else if all_layers {
        let _ = writeln!(out, "  no layers are known");
    }
    out
}

fn known_layers(report: &PlanReport) -> Option<&[LayerRecord]> {
    let recorded = report.manifest.as_ref().and_then(|facts| facts.plan.layers.as_deref());
    recorded.or(match &report.live {
        Live::Opened(engine) => engine.layers.as_deref(),
        Live::NotOpened { .. } => None,
    })
}

fn from_manifest(facts: &ManifestFacts) -> Vec<(&'static str, String)> {
    let PlanRecord { made_by, settings, build, onnx_sha256, .. } = &facts.plan;
    let unknown = || "not known".to_owned();
    let device = made_by.device.as_deref().unwrap_or("no GPU");
    let driver = made_by.driver_cuda.as_deref().map(|cuda| format!(", driver for CUDA {cuda}"));
    let cap = |bytes: Option<u64>| bytes.map_or_else(|| "TensorRT's default".to_owned(), mebibytes);
    let level = settings.opt_level.map_or_else(|| "none".to_owned(), |level| level.to_string());
    let typing = if settings.strongly_typed { "strongly typed" } else { "weakly typed" };
    let pinned = build
        .pinned_layers
        .as_ref()
        .map(|layers| format!(", {} pinned to fp32", counted(layers.len())));
    let cache = match (build.warm_cache, build.peak_device_bytes) {
        (true, _) => " with a warm timing cache",
        (false, Some(_)) => " with a cold timing cache",
        // Ahead of time, without a GPU, nothing is timed.
        (false, None) => "",
    };
    vec![
        ("model", format!("{} at {}, {}", facts.model, facts.imgsz, facts.weights)),
        ("platform", facts.platform.clone()),
        ("built by", format!("{}, segtrt {}", made_by.tensorrt, made_by.segtrt)),
        ("built on", format!("{device}{}", driver.unwrap_or_default())),
        ("runs on", capabilities(&made_by.sm)),
        ("graph", format!("sha256 {onnx_sha256}")),
        ("precision", format!("{}, {typing}{}", settings.precision, pinned.unwrap_or_default())),
        (
            "caps",
            format!(
                "workspace {}, tactics {}, build {}; optimization level {level}{}",
                mebibytes(settings.workspace_bytes),
                cap(settings.tactic_bytes),
                cap(settings.memory_bytes),
                if settings.ampere_plus { "; only tactics of Ampere and newer" } else { "" }
            ),
        ),
        (
            "build",
            format!(
                "{:.1} s{cache}, peak {} on the host, {} on the device",
                build.seconds,
                build.peak_host_bytes.map_or_else(unknown, mebibytes),
                build.peak_device_bytes.map_or_else(unknown, mebibytes)
            ),
        ),
        (
            "memory",
            format!(
                "{} for a context, {} for the weights",
                build.context_bytes.map_or_else(unknown, mebibytes),
                build.weights_bytes.map_or_else(unknown, mebibytes)
            ),
        ),
        ("build again", facts.rebuild.clone()),
    ]
}

fn profiles(plan: &PlanRecord) -> String {
    let mut profiles = screen_table::dense(["profile", "for", "shapes"], [0]);
    for (index, profile) in plan.settings.profiles.iter().enumerate() {
        let shapes =
            profile.shapes.iter().map(|(name, shape)| format!("{name} {}", extents(shape)));
        let shapes = shapes.collect::<Vec<_>>().join(", ");
        profiles.add_row([index.to_string(), profile.label.clone(), shapes]);
    }
    profiles.to_string()
}

fn opened(engine: &LiveEngine) -> String {
    let unknown = || "unknown".to_owned();
    let each: Vec<String> = engine.profile_bytes.iter().map(|bytes| mebibytes(*bytes)).collect();
    let each = match each.as_slice() {
        [] | [_] => String::new(),
        several => format!(" (by profile: {})", several.join(", ")),
    };
    let mut pairs = vec![
        ("opened by", format!("{} ({})", engine.tensorrt, engine.library)),
        ("context", format!("{}{each}", engine.context_bytes.map_or_else(unknown, mebibytes))),
        ("layers", engine.layer_count.to_string()),
        ("profiles", engine.profiles.to_string()),
    ];
    if let Some(why) = &engine.layers_missing {
        pairs.push(("no layer list", why.clone()));
    }
    let mut tensors = screen_table::dense(["", "name", "type", "shape", "profiles", "layout"], []);
    for tensor in &engine.tensors {
        tensors.add_row([
            if tensor.input { "input" } else { "output" }.to_owned(),
            tensor.name.clone(),
            tensor.dtype.clone().unwrap_or_else(|| "unknown".to_owned()),
            extents(&tensor.shape),
            distinct(&tensor.profiles),
            tensor.format.clone(),
        ]);
    }
    format!("{}{tensors}\n", facts(&pairs))
}

fn counted(layers: usize) -> String {
    if layers == 1 { "1 layer".to_owned() } else { format!("{layers} layers") }
}

/// The shapes of all profiles, each once.
fn distinct(profiles: &[Vec<i64>]) -> String {
    let mut seen: Vec<String> = Vec::new();
    for shape in profiles {
        let text = extents(shape);
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen.join("\n")
}

fn extents(shape: &[i64]) -> String {
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

fn layer_table(layers: &[LayerRecord]) -> String {
    let mut rows = screen_table::dense(["", "layer", "kind", "writes", "tactic"], [0]);
    for (index, layer) in layers.iter().enumerate() {
        let mut writes: Vec<&str> = layer.outputs.iter().map(String::as_str).collect();
        writes.dedup();
        rows.add_row([
            index.to_string(),
            shortened(&layer.name),
            layer.kind.clone(),
            shortened(&writes.join(", ")),
            layer.tactic.as_deref().map(shortened).unwrap_or_default(),
        ]);
    }
    rows.to_string()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
