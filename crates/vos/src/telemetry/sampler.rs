/*!
The thread that reads the sensors, and its interface: a mark before a pass, the observations after
it.
*/

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::source::{Reading, SensorSource};
use super::window::Window;
use super::{Options, Target, TelemetryError};
use crate::record::Observed;

/// Longest wait of a mark for its reading, because a hanging driver must not hang the bench.
const PATIENCE: Duration = Duration::from_secs(2);
/// Processes and memory are read at marks and at every tenth reading.
const THOROUGH_EVERY: u64 = 10;

/// The start of a pass.
#[must_use = "a pass that is not ended gives nothing"]
pub struct Mark {
    id: u64,
    shared: Arc<Shared>,
}

/// Watches a GPU while it lives.
pub struct Telemetry {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    facts: Map<String, Value>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Requested and finished readings besides the regular ones.
    asked: u64,
    given: u64,
    latest: Option<(Instant, Reading)>,
    windows: Vec<(u64, Window)>,
    next_id: u64,
    stop: bool,
}

impl Telemetry {
    /// Starts watching.
    ///
    /// # Errors
    /// No sensors can be read; the message has the reason.
    pub fn start(target: &Target, options: &Options) -> Result<Self, TelemetryError> {
        let (target, options) = (target.clone(), options.clone());
        let period = options.period;
        Self::with_source(period, move || super::open(&target, &options))
    }

    /// Watches the source that `open` returns. It is called on the thread itself, because a driver
    /// may bind itself to one.
    ///
    /// # Errors
    /// Errors of `open`, or the thread does not start.
    pub fn with_source(
        period: Duration,
        open: impl FnOnce() -> Result<Box<dyn SensorSource>, TelemetryError> + Send + 'static,
    ) -> Result<Self, TelemetryError> {
        let shared =
            Arc::new(Shared { state: Mutex::new(State::default()), changed: Condvar::new() });
        let (send, receive) = mpsc::channel();
        let theirs = Arc::clone(&shared);
        let body = move || match open() {
            Ok(mut source) => {
                // Nobody listens any more if the start timed out.
                let _ = send.send(Ok(source.facts()));
                watch(&theirs, source.as_mut(), period);
            }
            Err(error) => {
                let _ = send.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("telemetry".to_owned()).spawn(body);
        let thread = thread.map_err(|error| TelemetryError::NoThread(error.to_string()))?;
        let facts =
            receive.recv().map_err(|error| TelemetryError::NoThread(error.to_string()))??;
        Ok(Self { shared, thread: Some(thread), facts })
    }

    /// Constant facts for the sidecar: driver, limits, modes.
    pub fn facts(&self) -> &Map<String, Value> {
        &self.facts
    }

    /// Takes a reading and begins a pass. It waits some milliseconds for the sensors, so it is not
    /// for a timed region.
    pub fn mark(&self) -> Mark {
        let mut state = self.shared.fresh_reading();
        let (at, reading) = state.latest.unwrap_or_else(|| (Instant::now(), Reading::default()));
        state.next_id += 1;
        let id = state.next_id;
        state.windows.push((id, Window::new(at, &reading)));
        Mark { id, shared: Arc::clone(&self.shared) }
    }

    /// Takes a last reading and ends the pass. It waits as [`Self::mark`] does.
    pub fn since(&self, mark: Mark) -> Observed {
        let state = self.shared.fresh_reading();
        let window = state.windows.iter().find(|(id, _)| *id == mark.id);
        window.map_or_else(Observed::default, |(_, window)| window.observed())
    }
}

impl Drop for Mark {
    /// An aborted pass leaves no window.
    fn drop(&mut self) {
        self.shared.lock().windows.retain(|(id, _)| *id != self.id);
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + PATIENCE;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !thread.is_finished() {
            // The thread ends with its call into the driver, or with the process.
            log::warn!(
                "the GPU's sensors have not answered for {PATIENCE:?}; they are waited for no \
                 longer"
            );
        } else if thread.join().is_err() {
            log::warn!("the telemetry thread died; readings may be missing");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements that hold the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a reading that began after this call.
    fn fresh_reading(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.asked += 1;
        let mine = state.asked;
        self.changed.notify_all();
        let waiting = |state: &mut State| state.given < mine;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, waiting);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            log::warn!(
                "the GPU's sensors did not answer within {PATIENCE:?}; a reading is missing"
            );
        }
        state
    }
}

/// Reads every `period`, and at once on request, until the end.
fn watch(shared: &Shared, source: &mut dyn SensorSource, period: Duration) {
    let mut next = Instant::now() + period;
    let mut count = 0;
    loop {
        let state = shared.lock();
        let rest = next.saturating_duration_since(Instant::now());
        let idle = |state: &mut State| !state.stop && state.asked == state.given;
        let waited = shared.changed.wait_timeout_while(state, rest, idle);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.stop {
            return;
        }
        let asked = state.asked;
        let is_asked = asked > state.given;
        // Nobody may wait for the lock while the driver is slow.
        drop(state);
        let at = Instant::now();
        let reading = source.read(is_asked || count % THOROUGH_EVERY == 0);
        count += 1;
        let mut state = shared.lock();
        state.latest = Some((at, reading));
        for (_, window) in &mut state.windows {
            window.push(at, &reading);
        }
        state.given = asked;
        drop(state);
        shared.changed.notify_all();
        if !is_asked {
            // A late reading is not repeated: two in a row would be equal.
            next = Instant::now() + period;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Counts its readings and returns the number as the power.
    struct Counter(Arc<AtomicU64>, Duration);

    impl SensorSource for Counter {
        fn facts(&self) -> Map<String, Value> {
            Map::from_iter([("source".to_owned(), "a counter".into())])
        }
        fn read(&mut self, thorough: bool) -> Reading {
            std::thread::sleep(self.1);
            let number = self.0.fetch_add(1, Ordering::SeqCst) as f64;
            Reading {
                power_w: Some(number),
                process_memory_mib: thorough.then_some(number),
                ..Reading::default()
            }
        }
    }

    fn counting(period: Duration, slow: Duration) -> (Telemetry, Arc<AtomicU64>) {
        let count = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&count);
        let telemetry =
            Telemetry::with_source(period, move || Ok(Box::new(Counter(theirs, slow)))).unwrap();
        (telemetry, count)
    }

    #[test]
    fn a_pass_has_a_reading_at_both_ends_however_short_it_is() {
        let (telemetry, _) = counting(Duration::from_secs(3600), Duration::ZERO);
        assert_eq!(telemetry.facts()["source"], "a counter");
        let mark = telemetry.mark();
        let observed = telemetry.since(mark);
        assert_eq!(observed.readings, 1);
        assert_eq!(observed.power_max_w, Some(1.0));
        assert_eq!(observed.process_memory_mib, Some(1.0), "both ends are thorough");
        let second = telemetry.mark();
        assert_eq!(telemetry.since(second).power_max_w, Some(3.0));
    }

    #[test]
    fn readings_come_in_their_period_and_windows_may_overlap() {
        let (telemetry, count) = counting(Duration::from_millis(2), Duration::ZERO);
        let outer = telemetry.mark();
        let inner = telemetry.mark();
        let begun = count.load(Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(20);
        while count.load(Ordering::SeqCst) < begun + 10 {
            assert!(Instant::now() < deadline, "no readings came");
            std::thread::sleep(Duration::from_millis(1));
        }
        let inner = telemetry.since(inner);
        let outer = telemetry.since(outer);
        assert!(inner.readings >= 10, "{inner:?}");
        assert!(outer.readings >= inner.readings + 2, "{outer:?} {inner:?}");
        assert!(telemetry.shared.lock().windows.is_empty());
    }

    #[test]
    fn a_mark_waits_for_a_reading_of_its_own_and_not_for_one_under_way() {
        let (telemetry, _) = counting(Duration::from_millis(1), Duration::from_millis(30));
        std::thread::sleep(Duration::from_millis(10));
        let before = Instant::now();
        let mark = telemetry.mark();
        let latest = telemetry.shared.lock().latest.unwrap();
        assert!(latest.0 >= before, "the reading was begun before it was asked for");
        let _ = telemetry.since(mark);
    }

    #[test]
    fn sensors_that_never_answer_do_not_hold_up_the_end() {
        let (telemetry, count) = counting(Duration::ZERO, Duration::from_secs(60));
        // It is reading by then.
        std::thread::sleep(Duration::from_millis(50));
        let before = Instant::now();
        drop(telemetry);
        assert!(before.elapsed() < 4 * PATIENCE, "{:?}", before.elapsed());
        assert_eq!(count.load(Ordering::SeqCst), 0, "it is still at its first reading");
    }

    #[test]
    fn what_cannot_be_opened_is_told() {
        let refused = Telemetry::with_source(Duration::from_secs(1), || {
            Err(TelemetryError::NoNvml("no such file".to_owned()))
        });
        let text = refused.err().unwrap().to_string();
        assert!(text.contains("no such file") && text.contains("nvidia-smi"), "{text}");
        let died = Telemetry::with_source(Duration::from_secs(1), || panic!("a broken driver"));
        assert!(died.err().unwrap().to_string().contains("did not start"));
    }
}
