/*!
What a build took, as a table or as JSON.
*/

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use super::build_resolve::{Planned, Resolved};
use super::build_weights::PlannedWeights;
use host::screen_table;
use runtime::build::{FailureKind, NotBuilt};
use runtime::engine::assess::{LayerReport, Verdict, assess};
use runtime::engine::{BuildCost, PlanRecord};
use vos::bundle::Manifest;

/// What became of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Built now.
    Built,
    /// Weights, copied now.
    Copied,
    /// It was there already.
    UpToDate,
    /// Not built.
    Failed,
}

/// One plan's row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// "edgetam_1024_fp16".
    pub model: String,
    /// Its graph; "encoder_trunk", "track_decoder" or "memory_encoder" for weights, which are no plan.
    pub role: &'static str,
    /// Its file name.
    pub file: String,
    /// What became of it.
    pub status: Status,
    /// Workspace cap, MiB.
    pub workspace_mib: u64,
    /// Size of the plan, bytes.
    pub plan_bytes: Option<u64>,
    /// What the build took.
    pub cost: Option<BuildCost>,
    /// What its layers show.
    pub layers: Option<LayerReport>,
    /// Why it failed.
    pub failure: Option<FailureKind>,
    /// Why it failed and what to try next, in words.
    pub reason: Option<String>,
}

impl Row {
    /// The row of a plan that is there.
    pub fn of(model: &str, record: &PlanRecord, status: Status, bundle: &Manifest) -> Self {
        Self {
            model: model.to_owned(),
            role: record.role.name(),
            file: record.file.clone(),
            status,
            workspace_mib: record.settings.workspace_bytes >> 20,
            plan_bytes: Some(record.bytes),
            cost: Some(record.build.clone()),
            layers: Some(assess(record, bundle)),
            failure: None,
            reason: None,
        }
    }

    /// The row of a plan that is not.
    pub fn failed(model: &str, planned: &Planned, not: &NotBuilt) -> Self {
        let workspace_mib = planned.job.settings.workspace_bytes >> 20;
        Self {
            model: model.to_owned(),
            role: planned.job.role.name(),
            file: planned.file.clone(),
            status: Status::Failed,
            workspace_mib,
            plan_bytes: None,
            cost: None,
            layers: None,
            failure: Some(not.kind),
            reason: Some(format!("{}; {}", not.reason, not.kind.advice(workspace_mib))),
        }
    }

    /// The row of a file of weights, `copied` now or there already.
    pub fn of_weights(
        model: &str,
        planned: &PlannedWeights,
        bytes: Option<u64>,
        copied: bool,
    ) -> Self {
        let status = if copied { Status::Copied } else { Status::UpToDate };
        Self {
            model: model.to_owned(),
            role: planned.graph,
            file: planned.file.clone(),
            status,
            workspace_mib: 0,
            plan_bytes: bytes,
            cost: None,
            layers: None,
            failure: None,
            reason: None,
        }
    }

    /// The row of a file of weights that could not be copied.
    pub fn failed_weights(model: &str, planned: &PlannedWeights, not: &NotBuilt) -> Self {
        Self {
            status: Status::Failed,
            failure: Some(not.kind),
            reason: Some(not.reason.clone()),
            ..Self::of_weights(model, planned, None, false)
        }
    }

    /// One line, as each plan is done.
    pub fn line(&self) -> String {
        let what = format!("{} {}", self.model, self.role);
        match (&self.cost, &self.reason) {
            (Some(cost), _) => {
                format!("{what}: {:.1} s, {} MiB", cost.seconds, mib(self.plan_bytes))
            }
            (_, Some(reason)) => format!("{what}: FAILED: {reason}"),
            _ if self.status == Status::Copied => {
                format!("{what}: copied, {} MiB", mib(self.plan_bytes))
            }
            _ => format!("{what}: FAILED"),
        }
    }
}

/// All rows for a terminal.
pub fn table(rows: &[Row]) -> String {
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
    );
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
    );
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
    format!("{} for {}\n{table}", resolved.tensorrt, resolved.platform.title)
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
    })
}

/// All rows for a program.
pub fn json(rows: &[Row]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)?)
}

/// Number of layers, those in fp32, the share that fell back, and the verdict on attention.
fn layer_cells(report: &LayerReport) -> [String; 4] {
    let Some(layers) = report.layers else { return [dash(), dash(), dash(), dash()] };
    let fell_back =
        |f: &runtime::engine::assess::Fallback| format!("{:.0} %", 100.0 * f.fraction());
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

/// What became of a plan, in words.
pub fn status(row: &Row) -> String {
    match (row.status, row.failure) {
        (Status::Built, _) => "built",
        (Status::Copied, _) => "copied",
        (Status::UpToDate, _) => "up to date",
        (Status::Failed, Some(FailureKind::OutOfMemory)) => "OUT OF MEMORY",
        (Status::Failed, Some(FailureKind::Stopped)) => "stopped",
        (Status::Failed, _) => "FAILED",
    }
    .to_owned()
}

/// Bytes as MiB; a dash where nobody knows them.
pub fn mib(bytes: Option<u64>) -> String {
    bytes.map_or_else(dash, |bytes| format!("{:.1}", bytes as f64 / 1048576.0))
}

fn dash() -> String {
    "-".to_owned()
}
