/*!
TensorRT's log: kept until an operation fails, then the cause of that error.

TensorRT logs from its threads and also reports errors to an error recorder; both end here.
*/

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sys;

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A fault of TensorRT.
    InternalError,
    /// A fault of the caller.
    Error,
    /// Suspicious, but it goes on.
    Warning,
    /// Progress.
    Info,
    /// Everything, timing of single tactics included.
    Verbose,
}

/// One line of TensorRT's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its severity.
    pub severity: Severity,
    /// `nvinfer1::ErrorCode`, if the error recorder gave one.
    pub code: Option<i32>,
    /// The line.
    pub text: String,
}

/// `ErrorCode::kFAILED_ALLOCATION` of every release.
const FAILED_ALLOCATION: i32 = 5;
/// Lines kept; older ones are the cause of no later error.
const KEPT: usize = 256;
/// Lines attached to one error: the first ones are closest to the reason.
const ATTACHED: usize = 12;

/// Receives every line, from TensorRT's threads.
pub type LogListener = Box<dyn Fn(&LogLine) + Send>;

/// The log of one opened library.
#[derive(Default)]
pub(super) struct Log {
    state: Mutex<State>,
    listener: Mutex<Option<LogListener>>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<(u64, LogLine)>,
    next: u64,
    /// The latest mark.
    marked: u64,
}

impl Severity {
    fn from_number(number: i32) -> Self {
        match number {
            0 => Self::InternalError,
            1 => Self::Error,
            2 => Self::Warning,
            3 => Self::Info,
            _ => Self::Verbose,
        }
    }
}

impl LogLine {
    /// Whether it reports a lack of memory.
    pub fn is_out_of_memory(&self) -> bool {
        let text = self.text.to_ascii_lowercase();
        self.code == Some(FAILED_ALLOCATION)
            || ["out of memory", "outofmemory", "insufficient memory", "bad_alloc"]
                .iter()
                .any(|words| text.contains(words))
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::InternalError => "internal error",
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
            Severity::Verbose => "verbose",
        };
        write!(f, "[{severity}] {}", self.text)
    }
}

impl Log {
    /// A place in the log; [`Log::since`] gives what came after it.
    pub(super) fn mark(&self) -> u64 {
        let mut state = lock(&self.state);
        state.marked = state.next;
        state.marked
    }

    /// Warnings and errors since a mark: errors first, each text once.
    pub(super) fn since(&self, mark: u64) -> Vec<LogLine> {
        let state = lock(&self.state);
        let mut lines: Vec<LogLine> = Vec::new();
        for (_, line) in state.lines.iter().filter(|(number, _)| *number >= mark) {
            if !lines.iter().any(|known| known.text == line.text) {
                lines.push(line.clone());
            }
        }
        lines.sort_by_key(|line| line.severity.max(Severity::Error));
        lines.truncate(ATTACHED);
        lines
    }

    /// Calls `listener` for every line, from TensorRT's threads.
    pub(super) fn listen(&self, listener: Option<LogListener>) {
        *lock(&self.listener) = listener;
    }

    fn push(&self, line: LogLine) {
        log::trace!(target: "tensorrt", "{line}");
        if let Some(listener) = lock(&self.listener).as_ref() {
            listener(&line);
        }
        if line.severity > Severity::Warning {
            return;
        }
        let mut state = lock(&self.state);
        // Recorder and logger report the same error, one of them with a code. Lines of an earlier
        // operation are kept apart: a second build that fails like the first has a cause too.
        let marked = state.marked;
        if let Some((number, last)) = state.lines.back_mut()
            && *number >= marked
            && (last.text.contains(&line.text) || line.text.contains(&last.text))
            && last.severity.max(Severity::Error) == line.severity.max(Severity::Error)
        {
            last.code = last.code.or(line.code);
            if line.text.len() > last.text.len() {
                last.text = line.text;
            }
            return;
        }
        let number = state.next;
        state.next += 1;
        state.lines.push_back((number, line));
        if state.lines.len() > KEPT {
            state.lines.pop_front();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shim's log callback; `user` is a [`Log`].
pub(super) unsafe extern "C" fn on_log(user: *mut c_void, severity: i32, text: *const c_char) {
    receive(user, Severity::from_number(severity), None, text);
}

/// The shim's error recorder callback; `user` is a [`Log`].
pub(super) unsafe extern "C" fn on_report(user: *mut c_void, code: i32, text: *const c_char) {
    receive(user, Severity::Error, Some(code), text);
}

fn receive(user: *mut c_void, severity: Severity, code: Option<i32>, text: *const c_char) {
    // A panic must not unwind into TensorRT; a line lost to one is lost.
    let _ = catch_unwind(|| {
        // SAFETY: `user` is the Log that Library::open leaked, so it lives for ever and is Sync.
        let Some(log) = (unsafe { user.cast::<Log>().as_ref() }) else { return };
        if text.is_null() {
            return;
        }
        // SAFETY: TensorRT passes a NUL-terminated string that is valid during the call.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned();
        log.push(LogLine { severity, code, text });
    });
}

/// A type check that the callbacks are what the shim calls.
const _: (sys::trtdl_log_fn, sys::trtdl_report_fn) = (Some(on_log), Some(on_report));

#[cfg(test)]
mod tests {
    use super::*;

    fn line(severity: Severity, text: &str) -> LogLine {
        LogLine { severity, code: None, text: text.into() }
    }

    #[test]
    fn a_cause_is_what_came_after_the_mark_errors_first() {
        let log = Log::default();
        log.push(line(Severity::Error, "old"));
        let mark = log.mark();
        log.push(line(Severity::Warning, "slow"));
        log.push(line(Severity::Info, "not kept"));
        log.push(line(Severity::Error, "no kernel"));
        log.push(line(Severity::Warning, "slow"));
        let texts: Vec<_> = log.since(mark).into_iter().map(|line| line.text).collect();
        assert_eq!(texts, ["no kernel", "slow"]);
    }

    #[test]
    fn recorder_and_logger_become_one_line_with_the_code() {
        let log = Log::default();
        log.push(line(Severity::Error, "Error Code 5: no memory for tactic"));
        log.push(LogLine { code: Some(5), ..line(Severity::Error, "no memory for tactic") });
        let lines = log.since(0);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].is_out_of_memory());
    }

    #[test]
    fn the_same_failure_twice_is_the_cause_of_both() {
        let log = Log::default();
        for _ in 0..2 {
            let mark = log.mark();
            log.push(line(Severity::Error, "could not find any implementation"));
            assert_eq!(log.since(mark).len(), 1);
        }
    }

    #[test]
    fn listeners_hear_every_line() {
        let log = Log::default();
        let heard = std::sync::Arc::new(Mutex::new(Vec::new()));
        let ear = heard.clone();
        log.listen(Some(Box::new(move |line| lock(&ear).push(line.text.clone()))));
        log.push(line(Severity::Verbose, "tactic"));
        log.listen(None);
        log.push(line(Severity::Verbose, "later"));
        assert_eq!(*lock(&heard), ["tactic"]);
    }
}
