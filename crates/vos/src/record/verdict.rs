/*!
The verdict on a row's speed, with its reasons.
*/

use serde::{Deserialize, Serialize};

/// The word of a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judgement {
    /// Nothing speaks against the numbers.
    Valid,
    /// Something does.
    Invalid,
    /// There is too little to judge by.
    #[default]
    Unjudged,
}

impl Judgement {
    /// The word that files carry.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Invalid => "INVALID",
            Self::Unjudged => "-",
        }
    }
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The numbers must not be used.
    Fault,
    /// There are too few numbers to judge.
    Gap,
    /// Good to know.
    Note,
}

/// One thing that was found, with the advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A short code (`throttled`).
    pub code: String,
    /// The finding, the limit and the advice.
    pub sentence: String,
    /// What it means for the verdict.
    pub weight: Weight,
}

/// A judgement with its reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The judgement.
    pub judgement: Judgement,
    /// Everything that was found, faults first.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Of findings: INVALID with a fault, `-` with a gap, VALID otherwise.
    pub fn of(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.weight as u8);
        let judgement = match findings.first().map(|finding| finding.weight) {
            Some(Weight::Fault) => Judgement::Invalid,
            Some(Weight::Gap) => Judgement::Unjudged,
            Some(Weight::Note) | None => Judgement::Valid,
        };
        Self { judgement, findings }
    }

    /// The findings as `code: sentence`, with `; ` between them; `None` without any.
    pub fn reason(&self) -> Option<String> {
        let told: Vec<String> =
            self.findings.iter().map(|f| format!("{}: {}", f.code, f.sentence)).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// The finding with this code.
    pub fn find(&self, code: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.code == code)
    }

    /// Whether a text of [`Self::reason`] has a finding with this code.
    pub fn reason_has(reason: &str, code: &str) -> bool {
        let of_code =
            |part: &str| part.strip_prefix(code).is_some_and(|rest| rest.starts_with(": "));
        reason.split("; ").any(of_code)
    }

    /// The passes of one object taken together: one INVALID pass spoils all, because its frames are
    /// in the numbers. Each code appears once, with the sentence of the first pass that has it.
    pub fn pool<'a>(passes: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut judgements = Vec::new();
        let mut findings: Vec<Finding> = Vec::new();
        for pass in passes {
            judgements.push(pass.judgement);
            for finding in &pass.findings {
                if !findings.iter().any(|known| known.code == finding.code) {
                    findings.push(finding.clone());
                }
            }
        }
        findings.sort_by_key(|finding| finding.weight as u8);
        let any = |judgement| judgements.contains(&judgement);
        let judgement = match (any(Judgement::Invalid), any(Judgement::Unjudged)) {
            (true, _) => Judgement::Invalid,
            (false, false) if !judgements.is_empty() => Judgement::Valid,
            _ => Judgement::Unjudged,
        };
        Self { judgement, findings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: &str, weight: Weight) -> Finding {
        Finding { code: code.to_owned(), sentence: "so it is".to_owned(), weight }
    }

    #[test]
    fn the_heaviest_finding_decides_and_comes_first() {
        let judged = |weights: &[Weight]| {
            Verdict::of(weights.iter().map(|weight| finding("x", *weight)).collect()).judgement
        };
        assert_eq!(judged(&[]).as_str(), "VALID");
        assert_eq!(judged(&[Weight::Note]).as_str(), "VALID");
        assert_eq!(judged(&[Weight::Note, Weight::Gap]).as_str(), "-");
        assert_eq!(judged(&[Weight::Gap, Weight::Fault]).as_str(), "INVALID");
        let verdict = Verdict::of(vec![finding("n", Weight::Note), finding("f", Weight::Fault)]);
        let reason = verdict.reason().unwrap();
        assert_eq!(reason, "f: so it is; n: so it is");
        let has = |code| Verdict::reason_has(&reason, code);
        assert!(has("f") && has("n") && !has("so it is"));
        assert_eq!(Verdict::of(vec![]).reason(), None);
    }

    #[test]
    fn one_bad_pass_spoils_the_row_and_each_code_is_told_once() {
        let valid = Verdict::of(vec![finding("n", Weight::Note)]);
        let bad = Verdict::of(vec![finding("f", Weight::Fault), finding("n", Weight::Note)]);
        let pooled = Verdict::pool([&valid, &bad, &bad]);
        assert_eq!(pooled.judgement, Judgement::Invalid);
        assert_eq!(pooled.findings.len(), 2);
        assert_eq!(Verdict::pool([&valid, &valid]).judgement, Judgement::Valid);
        assert_eq!(Verdict::pool([]), Verdict::default());
    }
}
