/*!
How far a build is: TensorRT's progress monitor (10 on), or its log (8.x), as one number of steps.
*/

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::trt::{BuildProgress, LogLine};

/// Reports come at most this often.
const PERIOD: Duration = Duration::from_millis(250);

/// What 8.x logs as it turns to the next group of layers.
const COSTS: &str = "Computing costs for";

/// Gathers steps and passes them on.
pub struct Steps {
    state: Mutex<State>,
    report: Box<dyn Fn(u64, u64, &str) + Send + Sync>,
}

#[derive(Default)]
struct State {
    /// Steps done and steps of each phase.
    phases: HashMap<String, (u64, u64)>,
    doing: String,
    last: Option<Instant>,
}

impl Steps {
    /// Calls `report(done, total, doing)` now and then.
    pub fn new(report: impl Fn(u64, u64, &str) + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), report: Box::new(report) }
    }

    /// Takes a line of TensorRT's log.
    pub fn hear(&self, line: &LogLine) {
        if let Some((_, of)) = line.text.split_once(COSTS) {
            self.change(|state| {
                state.phases.entry("layers".to_owned()).or_default().0 += 1;
                of.trim().clone_into(&mut state.doing);
            });
        }
    }

    fn change(&self, act: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut state);
        if state.last.is_none_or(|last| last.elapsed() >= PERIOD) {
            state.last = Some(Instant::now());
            let (done, total) =
                state.phases.values().fold((0, 0), |sum, phase| (sum.0 + phase.0, sum.1 + phase.1));
            (self.report)(done, total, &state.doing);
        }
    }
}

impl BuildProgress for Steps {
    fn start(&self, phase: &str, _: Option<&str>, steps: i32) {
        let steps = u64::try_from(steps).unwrap_or(0);
        self.change(|state| {
            state.phases.insert(phase.to_owned(), (0, steps));
            phase.clone_into(&mut state.doing);
        });
    }

    fn step(&self, phase: &str, step: i32) {
        let done = u64::try_from(step).unwrap_or(0) + 1;
        self.change(|state| {
            if let Some(entry) = state.phases.get_mut(phase) {
                entry.0 = done.min(entry.1);
            }
        });
    }

    fn finish(&self, phase: &str) {
        self.change(|state| {
            if let Some(entry) = state.phases.get_mut(phase) {
                entry.0 = entry.1;
            }
        });
    }
}
