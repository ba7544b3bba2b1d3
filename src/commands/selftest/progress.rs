/*!
How far the test of the kernels is, on standard error: a bar on a terminal, and everywhere a line
for each kind of cases when they are done; where there is no terminal, one every few seconds too.
*/

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::selftest::kernels::Step;
use crate::selftest::{KernelReport, Verdict};

/// Between two lines of one kind of cases.
const PERIOD: Duration = Duration::from_secs(5);

/// Shows steps.
pub struct Shown {
    bar: Option<ProgressBar>,
    /// When the kind of cases at hand began, and its first row.
    began: (Instant, usize),
    said: Instant,
}

impl Shown {
    /// Shows nothing yet.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = "{prefix} {bar:30.cyan/blue} {pos}/{len} {elapsed}";
            if let Ok(style) = ProgressStyle::with_template(style) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        let now = Instant::now();
        Self { bar, began: (now, 0), said: now }
    }

    /// The report has grown, or another kind of cases begins or ends.
    pub fn hear(&mut self, report: &KernelReport, step: Step) {
        let now = Instant::now();
        if step.done == 0 && !step.ended {
            self.began = (now, report.rows.len());
            self.said = now;
        }
        if let Some(bar) = &self.bar {
            bar.set_prefix(step.topic);
            bar.set_length(step.cases as u64);
            bar.set_position(step.done as u64);
        }
        let due = self.bar.is_none() && step.done > 0 && now >= self.said + PERIOD;
        if step.ended || due {
            self.said = now;
            let line = self.line(report, step, now);
            match &self.bar {
                Some(bar) => bar.suspend(|| eprintln!("{line}")),
                None => eprintln!("{line}"),
            }
        }
    }

    fn line(&self, report: &KernelReport, step: Step, now: Instant) -> String {
        let (began, first) = self.began;
        let seconds = (now - began).as_secs_f64();
        if step.cases == 0 && step.done == 0 {
            return format!("{}: {seconds:.1} s", step.topic);
        }
        let rows = report.rows.get(first..).unwrap_or_default();
        let failed = rows.iter().filter(|row| row.verdict == Verdict::Failed).count();
        let Step { topic, done, cases, .. } = step;
        format!("{topic}: {done} of {cases} cases, {failed} failed, {seconds:.1} s")
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
