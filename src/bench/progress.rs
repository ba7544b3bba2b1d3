/*!
The progress of a bench: a bar with the time left on a terminal, plain lines elsewhere.
*/

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};

use host::printable::printable;
use vos::record::{Status, SummaryRecord};

/// Steps of the bar that one object takes, so that frames move it too.
const STEPS: u64 = 1000;

/// What the worker does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// Runs the network over its frames.
    Tracking,
    /// Compares the masks of a pass with ground truth.
    Scoring,
    /// Writes a pass's files.
    Writing,
}

/// Where the worker stands: for the progress display, and for who waits for a sign of life. Comes
/// with each frame of a pass, each mask that is scored and each that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it did last.
    pub doing: Doing,
    /// Frames done of all passes over this object.
    pub done: usize,
    /// Frames of all passes over this object.
    pub total: usize,
}

/// The display of one bench.
pub struct Display {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    /// The same number as `done`, for another thread.
    shared: Arc<AtomicUsize>,
}

impl Display {
    /// For `total` rows, of which `done` are there already.
    pub fn new(total: usize, done: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(total as u64 * STEPS),
                ProgressDrawTarget::stderr(),
            );
            let style =
                "{wide_bar:.cyan/blue} {percent:>3}%  {elapsed_precise} ETA {eta_precise}\n{msg}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            // Rows of an earlier run must not flatter the estimate of this one.
            bar.set_position(done as u64 * STEPS);
            bar.reset_eta();
            bar
        });
        Self { bar, total, done, shared: Arc::new(AtomicUsize::new(done)) }
    }

    /// The rows that are written, as another thread may read them.
    pub fn rows_done(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.shared)
    }

    /// A line of its own above the bar.
    pub fn line(&self, text: &str) {
        let text = printable(text);
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    /// `done` of `total` frames of the object at hand, and in words what is done with it.
    pub fn frames(&self, what: &str, done: usize, total: usize) {
        if let Some(bar) = &self.bar {
            let part = STEPS * done as u64 / total.max(1) as u64;
            bar.set_position(self.done as u64 * STEPS + part.min(STEPS));
            bar.set_message(printable(what).into_owned());
        }
    }

    /// One row is written.
    pub fn row(&mut self, row: &SummaryRecord) {
        self.done += 1;
        self.shared.store(self.done, Ordering::Relaxed);
        let record = &row.pooled;
        let key = &record.key;
        let what = format!("{} {} {}", key.tag, key.video, key.object);
        let outcome = match (record.status, record.numbers()) {
            (Status::Ok, Some(numbers)) => {
                let quality = numbers
                    .quality
                    .map_or(String::new(), |q| format!(", J&F {:.2} %", 100.0 * q.jf));
                format!("{:.2} fps{quality}", numbers.speed.fps)
            }
            (status, _) => {
                format!("{}: {}", status.as_str(), record.reason.as_deref().unwrap_or("no reason"))
            }
        };
        self.line(&format!("[{}/{}] {what}: {outcome}", self.done, self.total));
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64 * STEPS);
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
