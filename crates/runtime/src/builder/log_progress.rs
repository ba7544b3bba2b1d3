/*!
How far a build is: TensorRT's progress monitor (10 on), or its log (8.x), as one number of steps.
*/

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tensorrt::{BuildProgress, LogLine};

/// Reports come at most this often.
const PERIOD: Duration = Duration::from_millis(250);

/// What 8.x logs before it turns to the first layer: how many there are.
const LAYERS: &str = "After vertical fusions: ";
/// What 8.x logs as it turns to a layer, once for each profile.
const COSTS: &str = "Computing costs for";

/// Receives the steps done, the steps known and the current step.
type Report = Box<dyn Fn(u64, u64, &str) + Send + Sync>;

/// Gathers steps and passes them on.
pub struct Steps {
    state: Mutex<State>,
    profiles: u64,
    report: Report,
}

#[derive(Default)]
struct State {
    /// Steps done and steps of each phase.
    phases: HashMap<String, (u64, u64)>,
    doing: String,
    last: Option<Instant>,
}

impl Steps {
    /// Calls `report(done, total, doing)` now and then; each layer is built for so many profiles.
    pub fn new(profiles: usize, report: impl Fn(u64, u64, &str) + Send + Sync + 'static) -> Self {
        let profiles = profiles.max(1) as u64;
        Self { state: Mutex::default(), profiles, report: Box::new(report) }
    }

    /// Takes a line of TensorRT's log.
    pub fn hear(&self, line: &LogLine) {
        if let Some((_, count)) = line.text.split_once(LAYERS) {
            let layers = count.split(' ').next().and_then(|count| count.parse::<u64>().ok());
            self.change(|state| {
                let steps = layers.unwrap_or(0) * self.profiles;
                state.phases.insert(LAYERS.to_owned(), (0, steps));
                "timing layers".clone_into(&mut state.doing);
            });
        } else if line.text.contains(COSTS) {
            self.change(|state| state.phases.entry(LAYERS.to_owned()).or_default().0 += 1);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tensorrt::Severity;

    fn now(steps: &Steps) -> (u64, u64) {
        let state = steps.state.lock().unwrap();
        state.phases.values().fold((0, 0), |sum, phase| (sum.0 + phase.0, sum.1 + phase.1))
    }

    #[test]
    fn the_log_of_8_counts_layers_once_for_each_profile() {
        let heard = Arc::new(Mutex::new(None));
        let sink = heard.clone();
        let steps = Steps::new(2, move |done, total, _| {
            sink.lock().unwrap().get_or_insert((done, total));
        });
        let line =
            |text: &str| LogLine { severity: Severity::Verbose, code: None, text: text.into() };
        for text in
            ["After vertical fusions: 12 layers", "=============== Computing costs for ", "x"]
        {
            steps.hear(&line(text));
        }
        assert_eq!(now(&steps), (1, 24));
        assert_eq!(*heard.lock().unwrap(), Some((0, 24)));
    }

    #[test]
    fn the_monitor_counts_steps_of_all_phases() {
        let steps = Steps::new(1, |_, _, _| {});
        steps.start("build", None, 4);
        steps.start("tactics", Some("build"), 10);
        steps.step("tactics", 4);
        assert_eq!(now(&steps), (5, 14));
        steps.finish("tactics");
        assert_eq!(now(&steps), (10, 14));
    }
}
