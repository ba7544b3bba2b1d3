/*!
One line of the doctor.
*/

use serde::Serialize;

/// The state of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Ok,
    /// It works, with a remark.
    Warning,
    /// It is absent or does not work.
    Missing,
    /// It was not checked.
    NotAsked,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Missing => "missing",
            Self::NotAsked => "-",
        }
    }
}

/// What a check is about, in the order of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The machine itself.
    Machine,
    /// What every bench needs.
    Needed,
    /// What only a bench on a GPU needs.
    Gpu,
    /// What single commands can use.
    Optional,
}

impl Group {
    /// All groups in the order of the screen.
    pub const ALL: [Self; 4] = [Self::Machine, Self::Needed, Self::Gpu, Self::Optional];

    /// The heading of its checks.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Machine => "Machine",
            Self::Needed => "Needed (ONNX Runtime: for the CPU)",
            Self::Gpu => "For a GPU",
            Self::Optional => "Optional",
        }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is about.
    pub group: Group,
    /// The subject.
    pub name: String,
    /// Its state.
    pub state: State,
    /// The findings.
    pub found: String,
    /// Advice, if there is any.
    pub advice: Option<String>,
}

impl Check {
    /// A check without a fault.
    pub fn ok(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            group: Group::Machine,
            name: name.into(),
            state: State::Ok,
            found: found.into(),
            advice: None,
        }
    }

    /// The check in another group than the machine's.
    #[must_use]
    pub fn of(self, group: Group) -> Self {
        Self { group, ..self }
    }

    /// The word for its state. An optional tool that is missing is no fault.
    pub fn word(&self) -> &'static str {
        match (self.state, self.group) {
            (State::Missing, Group::Optional) => "absent",
            (state, _) => state.word(),
        }
    }

    /// A check with a remark.
    pub fn warning(
        name: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { state: State::Warning, advice: Some(advice.into()), ..Self::ok(name, found) }
    }

    /// A check of an absent part.
    pub fn missing(
        name: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { state: State::Missing, advice: Some(advice.into()), ..Self::ok(name, found) }
    }

    /// A check that was not requested or does not apply here.
    pub fn not_asked(name: impl Into<String>, found: impl Into<String>) -> Self {
        Self { state: State::NotAsked, ..Self::ok(name, found) }
    }
}
