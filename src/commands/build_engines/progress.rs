/*!
What a build is about to do, and how far it is: a bar for each plan at work on a terminal, lines
elsewhere.
*/

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::planned::{ModelBuild, PlannedPlan};
use runtime::builder::{BuildJob, BuilderProcess, Built, NotBuilt};

/// Between two lines about one plan, where there is no terminal.
const PERIOD: Duration = Duration::from_secs(15);

/// Which plans are to be built, and how long that may take; none where all are up to date.
pub fn announcement(models: &[ModelBuild]) -> Option<String> {
    let plans = models.iter().map(|model| model.plans.len()).sum::<usize>();
    let wanted = |model: &ModelBuild| model.plans.iter().any(|plan| plan.why.is_some());
    let of_model = |model: &ModelBuild| {
        let graphs = model.plans.iter().filter(|plan| plan.why.is_some());
        let graphs: Vec<&str> = graphs.map(|plan| plan.job.role.name()).collect();
        format!("{} {}", model.name, graphs.join(", "))
    };
    let those: Vec<String> = models.iter().filter(|model| wanted(model)).map(of_model).collect();
    if those.is_empty() {
        return None;
    }
    let all = models.iter().flat_map(|model| &model.plans);
    let to_build: Vec<&PlannedPlan> = all.filter(|plan| plan.why.is_some()).collect();
    let said = format!("to build: {} of {plans} plans: {}", to_build.len(), those.join("; "));
    let untimed = to_build.iter().find_map(|plan| no_cache(&plan.job));
    Some(match untimed {
        None => said,
        Some(cache) => format!(
            "{said}\nthere is no timing cache {} yet, so TensorRT times every layer, which can \
             take minutes a plan: EdgeTAM's encoder took 4 on an H100. What it timed is kept \
             there for the next build",
            cache.display()
        ),
    })
}

/// The timing cache that this build writes, if there is none yet.
fn no_cache(job: &BuildJob) -> Option<&Path> {
    // Nothing is timed where a plan is built ahead of time.
    let files = job.timing_cache.as_ref().filter(|_| job.settings.targets.is_empty())?;
    (!files.shared.exists() && !files.own.exists()).then_some(files.shared.as_path())
}

/// The plans of one call that are to be built.
pub struct Progress {
    bars: MultiProgress,
    terminal: bool,
    total: usize,
    begun: AtomicUsize,
}

impl Progress {
    /// Of so many plans.
    pub fn new(total: usize) -> Self {
        let (bars, terminal) = (MultiProgress::new(), std::io::stderr().is_terminal());
        Self { bars, terminal, total, begun: AtomicUsize::new(0) }
    }

    /// A line above the bars.
    pub fn say(&self, line: &str) {
        self.bars.suspend(|| eprintln!("{line}"));
    }

    /// Builds a plan, and shows how far it is.
    pub fn build(&self, job: &BuildJob, line: &mut BuilderProcess<'_>) -> Result<Built, NotBuilt> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let name = format!("[{number}/{}] {}", self.total.max(number), job.what);
        if self.terminal {
            return self.with_bar(name, job, line);
        }
        self.say(&format!("{name}: building"));
        let far = Mutex::<String>::default();
        let began = Instant::now();
        let say = || {
            let far = far.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.say(&format!("{name}: {} s{far}", began.elapsed().as_secs()));
        };
        now_and_then(PERIOD, say, || {
            line.build(job, |done, total, doing| {
                let mut far = far.lock().unwrap_or_else(PoisonError::into_inner);
                *far = format!(", {done} of {} steps, {doing}", total.max(done));
            })
        })
    }

    fn with_bar(
        &self,
        name: String,
        job: &BuildJob,
        line: &mut BuilderProcess<'_>,
    ) -> Result<Built, NotBuilt> {
        let bar = self.bars.add(ProgressBar::new(0));
        let style = "{prefix} {bar:30.cyan/blue} {pos}/{len} {elapsed} {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_prefix(name);
        bar.enable_steady_tick(Duration::from_millis(500));
        let built = line.build(job, |done, total, doing| {
            bar.set_length(total.max(done));
            bar.set_position(done);
            bar.set_message(doing.to_owned());
        });
        bar.finish_and_clear();
        self.bars.remove(&bar);
        built
    }
}

/// Does `work`, and meanwhile says something after each `period`.
fn now_and_then<T>(period: Duration, say: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (end, ended) = mpsc::channel::<()>();
        let say = &say;
        scope.spawn(move || {
            while ended.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                say();
            }
        });
        // Ends the other thread when it goes, whatever becomes of the work.
        let _end = end;
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_build_says_something_now_and_then_and_a_short_one_nothing() {
        let said = AtomicUsize::new(0);
        let say = || _ = said.fetch_add(1, Ordering::SeqCst);
        let period = Duration::from_millis(5);
        let done = now_and_then(period, say, || {
            while said.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            7
        });
        assert_eq!(done, 7);
        said.store(0, Ordering::SeqCst);
        now_and_then(Duration::from_secs(600), say, || ());
        assert_eq!(said.load(Ordering::SeqCst), 0);
    }
}
