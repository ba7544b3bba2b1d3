/*!
The result of one plan or weights file.
*/

use serde::Serialize;

use super::planned::{PlannedPlan, PlannedWeights};
use runtime::builder::{FailureKind, NotBuilt};
use runtime::engine::assess::{LayerReport, assess};
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
pub struct BuildRow {
    /// "edgetam_1024_fp16".
    pub model: String,
    /// Its graph; for weights, which are no plan, the part's name among the graphs.
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

impl BuildRow {
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
    pub fn failed(model: &str, planned: &PlannedPlan, not: &NotBuilt) -> Self {
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

/// What became of a plan, in words.
pub fn status(row: &BuildRow) -> String {
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

/// Of a cell without a value.
pub fn dash() -> String {
    "-".to_owned()
}
