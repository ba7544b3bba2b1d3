/*!
A model whose reference or every baseline is lost has nothing to be compared with: its comparison
ends, and the cause is told once.
*/

use anyhow::Result;

use super::plan::{ModelWork, Plan, ReferencePlan, SideKind};
use super::rounds::Measuring;
use report::compare::runs::{Measured, MeasuredRun, Missing};

/// What was measured, and why some models ended early.
pub struct Finished {
    /// Everything that is there now.
    pub measured: Measured,
    /// A sentence for each model that ended early, with its cause.
    pub ended: Vec<String>,
}

impl Finished {
    /// Why there is nothing to judge: every model ended early, and no side has a round beside the
    /// reference's.
    pub fn nothing_to_judge(&self, plan: &Plan) -> Option<String> {
        let beside = |run: &MeasuredRun| run.side != self.measured.reference;
        let none = self.ended.len() == plan.models.len() && !self.measured.runs.iter().any(beside);
        none.then(|| self.ended.join("; "))
    }
}

impl Measuring<'_> {
    /// Whether `model` ends here. Notes the rounds that its other sides will not have.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(super) fn ends(&mut self, model: &ModelWork) -> Result<bool> {
        let Some(what) = lacks(self.plan, &self.measured, &model.tag) else { return Ok(false) };
        let causes = causes(&self.measured, &model.tag);
        let rounds = self.plan.rounds;
        for side in &self.plan.sides {
            let noted = |m: &Missing| m.model == model.tag && m.side == side.name;
            let whole = (1..=rounds).all(|round| self.measured.has(&model.tag, &side.name, round));
            if whole || self.measured.missing.iter().any(noted) {
                continue;
            }
            let (model, side) = (model.tag.clone(), side.name.clone());
            self.measured.missing.push(Missing {
                model,
                side,
                why: what.to_owned(),
                rounds: Some(rounds),
            });
        }
        self.measured.write(&self.plan.out_dir)?;
        self.ended.push(format!("{}: {what}: {causes}", model.tag));
        Ok(true)
    }
}

/// What a model lacks without which nothing of it can be compared.
pub(super) fn lacks(plan: &Plan, measured: &Measured, model: &str) -> Option<&'static str> {
    let lost = |name: &str| measured.missing.iter().any(|m| m.model == model && m.side == name);
    let mut baselines =
        plan.sides.iter().filter(|side| matches!(side.kind, SideKind::Runner { .. })).peekable();
    let any = baselines.peek().is_some();
    let reference = match &plan.reference {
        ReferencePlan::Run(side) => lost(&side.name),
        // A sweep's points are compared in speed without a reference too.
        ReferencePlan::Side(name) => any && lost(name),
        ReferencePlan::Folder(_) => false,
    };
    if reference {
        return Some("its reference could not be measured");
    }
    (any && baselines.all(|side| lost(&side.name))).then_some("no baseline of it is left")
}

/// Each cause once, with the sides that it stopped.
fn causes(measured: &Measured, model: &str) -> String {
    let mut found: Vec<(Vec<&str>, &str)> = Vec::new();
    for missing in measured.missing.iter().filter(|missing| missing.model == model) {
        match found.iter_mut().find(|(_, why)| bare(why) == bare(&missing.why)) {
            Some((sides, _)) => sides.push(&missing.side),
            None => found.push((vec![&missing.side], &missing.why)),
        }
    }
    let told = found.iter().map(|(sides, why)| format!("{}: {why}", sides.join(", ")));
    told.collect::<Vec<_>>().join("; ")
}

/// A cause without the log that it names: each side has a log of its own.
pub(super) fn bare(why: &str) -> &str {
    why.rsplit_once("; see ").map_or(why, |(cause, _)| cause)
}
