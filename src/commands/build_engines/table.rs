/*!
What a build took, as a table or as JSON.
*/

use anyhow::Result;
use serde_json::{Value, json};

use super::estimate;
use super::planned::Resolved;
use super::row::{BuildRow, dash, mib, status};
use host::screen_table;
use runtime::engine::assess::{Fallback, LayerReport, Verdict};

/// All rows for a terminal.
pub fn table(rows: &[BuildRow]) -> String {
    let mut table = screen_table::table(
        [
            "engine",
            "graph",
            "status",
            "build s",
            "cache",
            "plan MiB",
            "weights MiB",
            "context MiB",
            "build GPU MiB",
            "build host MiB",
            "layers",
            "fp32",
            "fell back",
            "attention",
        ],
        3..14,
    )
    .optional([9, 13, 12, 11, 10, 7, 6, 8, 4]);
    for row in rows {
        let cost = row.cost.clone().unwrap_or_default();
        let seconds = row.cost.as_ref().map_or_else(dash, |cost| format!("{:.1}", cost.seconds));
        let cache = match &row.cost {
            Some(cost) if cost.warm_cache => "warm".to_owned(),
            // Ahead of time, without a GPU, nothing is timed.
            Some(cost) if cost.peak_device_bytes.is_some() => "cold".to_owned(),
            _ => dash(),
        };
        let [layers, fp32, fell_back, attention] =
            row.layers.as_ref().map_or_else(|| [dash(), dash(), dash(), dash()], layer_cells);
        table.add_row([
            row.model.clone(),
            row.role.to_owned(),
            status(row),
            seconds,
            cache,
            mib(row.plan_bytes),
            mib(cost.weights_bytes),
            mib(cost.context_bytes),
            mib(cost.peak_device_bytes),
            mib(cost.peak_host_bytes),
            layers,
            fp32,
            fell_back,
            attention,
        ]);
    }
    table.to_string()
}

/// What would be built, and why.
pub fn dry_run_table(resolved: &Resolved) -> String {
    let mut table = screen_table::table(
        ["engine", "graph", "profiles", "workspace MiB", "what", "from", "to"],
        0..0,
    )
    .optional([3, 2]);
    for model in &resolved.models {
        for weights in &model.weights {
            table.add_row([
                model.name.clone(),
                weights.graph.to_owned(),
                dash(),
                dash(),
                weights.why.as_ref().map_or("up to date".to_owned(), |why| format!("copy: {why}")),
                model.bundle.dir.join(&weights.file).display().to_string(),
                model.dir.join(&weights.file).display().to_string(),
            ]);
        }
        for plan in &model.plans {
            let settings = &plan.job.settings;
            table.add_row([
                model.name.clone(),
                plan.job.role.name().to_owned(),
                settings.profiles.len().max(1).to_string(),
                (settings.workspace_bytes >> 20).to_string(),
                plan.why.as_ref().map_or("up to date".to_owned(), |why| format!("build: {why}")),
                plan.job.onnx.display().to_string(),
                model.dir.join(&plan.file).display().to_string(),
            ]);
        }
    }
    let estimate = estimate::text(resolved).map_or_else(String::new, |text| format!("\n{text}"));
    format!("{} for {}\n{table}{estimate}", resolved.tensorrt, resolved.platform.title)
}

/// The same for a program.
pub fn dry_run_json(resolved: &Resolved) -> Value {
    let plans = resolved.models.iter().flat_map(|model| {
        let weights = model.weights.iter().map(|weights| {
            json!({
                "model": model.name, "role": weights.graph, "profiles": null, "workspace_mib": null,
                "build": weights.why.is_some(), "why": weights.why, "from": model.bundle.dir.join(&weights.file),
                "to": model.dir.join(&weights.file),
            })
        });
        weights.chain(model.plans.iter().map(|plan| {
            let settings = &plan.job.settings;
            json!({
                "model": model.name, "role": plan.job.role, "profiles": settings.profiles.len().max(1),
                "workspace_mib": settings.workspace_bytes >> 20, "build": plan.why.is_some(),
                "why": plan.why.as_ref().map(ToString::to_string), "from": plan.job.onnx,
                "to": model.dir.join(&plan.file),
            })
        }))
    });
    json!({
        "tensorrt": resolved.tensorrt.to_string(), "platform": resolved.platform.name,
        "plans": plans.collect::<Vec<_>>(), "left_out": resolved.left_out,
        "estimate": estimate::json(resolved),
    })
}

/// All rows for a program.
pub fn json(rows: &[BuildRow]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)?)
}

/// Number of layers, those in fp32, the share that fell back, and the verdict on attention.
fn layer_cells(report: &LayerReport) -> [String; 4] {
    let Some(layers) = report.layers else { return [dash(), dash(), dash(), dash()] };
    let fell_back = |f: &Fallback| format!("{:.0} %", 100.0 * f.fraction());
    let attention = match report.attention.verdict {
        Verdict::NotJudged => dash(),
        verdict => verdict.to_string(),
    };
    [
        layers.to_string(),
        report.fp32_layers.len().to_string(),
        report.fallback.as_ref().map_or_else(dash, fell_back),
        attention,
    ]
}
