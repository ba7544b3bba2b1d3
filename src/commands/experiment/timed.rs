/*!
How the timed part of an experiment ended.
*/

use crate::experiment::STOPPED;

/// How the timed rows came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// All are there.
    Sound,
    /// Some failed or are missing.
    PartlyFailed,
    /// The user stopped it, or the waiting for it.
    Stopped,
    /// They will come; nobody waits.
    Later,
}

impl Timed {
    /// From the exit code of a bench.
    pub(super) fn of(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Sound,
            Some(STOPPED) => Self::Stopped,
            _ => Self::PartlyFailed,
        }
    }
}
