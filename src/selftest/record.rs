/*!
The results of a self-test: one row for each output of each case, or one row with the reason.
*/

use serde::{Deserialize, Serialize};

use super::verdict::{Judged, Verdict};
use runtime::engine::PlanRecord;
use vos::bundle::Role;
use vos::precision::Precision;
pub use vos::stats::Timing;

/// What a case takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// From event to event around one enqueue: with the launches of its kernels.
    pub enqueue: Option<Timing>,
    /// The same around one launch of the recorded CUDA graph.
    pub graph: Option<Timing>,
    /// Why there is no graph.
    pub graph_problem: Option<String>,
    /// Scratch memory that the context runs in, bytes; none where it has its own.
    pub context_bytes: Option<u64>,
    /// What the engine took from the allocator, weights and all, bytes.
    pub engine_bytes: Option<u64>,
    /// Each layer by itself; empty unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerCost>,
}

/// What one layer of an engine takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerCost {
    /// TensorRT's name: the nodes that were fused into it.
    pub layer: String,
    /// The middle time of the runs, ms. The profiler keeps layers apart, so the sum exceeds the
    /// engine's own time.
    pub median_ms: f64,
}

/// Which engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineKey {
    /// The folder of the plan.
    pub dir: String,
    /// Row of the platform table.
    pub platform: String,
    /// Model, by its name in bundle manifests.
    pub model: String,
    /// Side of the network input, pixels.
    pub imgsz: usize,
    /// Precision that was asked for.
    pub precision: Precision,
}

/// Which plan of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanKey {
    /// What its graph does.
    pub role: Role,
    /// Its file name.
    pub file: String,
}

impl From<&PlanRecord> for PlanKey {
    fn from(plan: &PlanRecord) -> Self {
        Self { role: plan.role, file: plan.file.clone() }
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineRow {
    /// Which engine.
    #[serde(flatten)]
    pub engine: EngineKey,
    /// Which of its graphs; none where the folder as a whole failed.
    pub role: Option<Role>,
    /// File name of the plan; none as above, and in older rows, where a graph had one plan.
    #[serde(default)]
    pub plan: Option<String>,
    /// Which optimization profile of that plan.
    pub profile: Option<usize>,
    /// What the case is.
    pub case: String,
    /// Seed of the inputs; none where the case did not run.
    pub seed: Option<u64>,
    /// The output; none where the case did not run to its end.
    pub output: Option<Judged>,
    /// What the case took.
    pub cost: Cost,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it failed.
    pub reason: Option<String>,
}

impl EngineRow {
    /// What the plan is called: "track"; none where the folder as a whole failed.
    pub fn plan_name(&self) -> Option<&'static str> {
        self.role.map(Role::name)
    }

    /// A row for something that did not run.
    pub fn failed(
        engine: &EngineKey,
        plan: Option<&PlanKey>,
        case: Option<(usize, &str)>,
        why: &str,
    ) -> Self {
        Self {
            engine: engine.clone(),
            role: plan.map(|plan| plan.role),
            plan: plan.map(|plan| plan.file.clone()),
            profile: case.map(|(profile, _)| profile),
            case: case.map_or_else(String::new, |(_, label)| label.to_owned()),
            seed: None,
            output: None,
            cost: Cost::default(),
            verdict: Verdict::Failed,
            reason: Some(why.to_owned()),
        }
    }

    /// A row for an output.
    pub fn of(
        engine: &EngineKey,
        plan: &PlanKey,
        case: (usize, &str),
        seed: u64,
        cost: &Cost,
        judged: Judged,
    ) -> Self {
        Self {
            engine: engine.clone(),
            role: Some(plan.role),
            plan: Some(plan.file.clone()),
            profile: Some(case.0),
            case: case.1.to_owned(),
            seed: Some(seed),
            cost: cost.clone(),
            verdict: judged.verdict,
            reason: judged.reason.clone(),
            output: Some(judged),
        }
    }
}
