/*!
The flags of `nsys profile`: the predecessor's, and those that CUDA graphs need.
*/

use report::nsys::Nsys;

/// Default traces, as in the predecessor.
pub const USUAL_TRACE: &str = "cuda,cudnn,cublas,nvtx,osrt";

/// Settings of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// APIs, separated by commas.
    pub trace: String,
    /// Sampling of the CPU.
    pub sample: String,
    /// Backtraces of the samples.
    pub backtrace: String,
    /// GPUs whose counters are sampled, in nsys's numbering, or `all`.
    pub gpu_metrics: Option<String>,
    /// Whether each report is exported to SQLite too.
    pub export_sqlite: bool,
}

impl Settings {
    /// The defaults of `segtrt profile`, with what its variables say otherwise.
    pub fn from_environment() -> Self {
        let value = |name: &str, usual: &str| {
            let set = std::env::var(name).ok().filter(|value| !value.is_empty());
            set.unwrap_or_else(|| usual.to_owned())
        };
        Self {
            trace: value("NSYS_TRACE", USUAL_TRACE),
            sample: value("NSYS_SAMPLE", "none"),
            backtrace: value("NSYS_BACKTRACE", "none"),
            gpu_metrics: None,
            export_sqlite: false,
        }
    }

    /// The arguments of `nsys profile` without the output; `knows` tells whether this release has a
    /// flag.
    pub fn arguments(&self, knows: impl Fn(&str) -> bool) -> Vec<String> {
        let mut arguments = vec![
            format!("--trace={}", self.trace),
            format!("--sample={}", self.sample),
            format!("--backtrace={}", self.backtrace),
            "--force-overwrite=true".to_owned(),
        ];
        if self.trace.split(',').any(|api| api.trim() == "cuda") {
            arguments.push("--cuda-memory-usage=true".to_owned());
            // Engines are replayed as CUDA graphs, which would hide their kernels if they were
            // traced whole.
            if knows("--cuda-graph-trace") {
                arguments.push("--cuda-graph-trace=node".to_owned());
            }
        }
        // Without samples context switches are not needed, and many systems do not permit them.
        if self.sample == "none" && knows("--cpuctxsw") {
            arguments.push("--cpuctxsw=none".to_owned());
        }
        if let Some(gpus) = &self.gpu_metrics {
            // The flag's name since 2024; before, it took one number or all.
            let flag = ["--gpu-metrics-devices", "--gpu-metrics-device"];
            let flag = if knows(flag[0]) { flag[0] } else { flag[1] };
            arguments.push(format!("{flag}={gpus}"));
        }
        if self.export_sqlite {
            arguments.push("--export=sqlite".to_owned());
        }
        arguments
    }

    /// The arguments for this nsys.
    pub fn arguments_for(&self, nsys: &Nsys) -> Vec<String> {
        self.arguments(|flag| nsys.profile_knows(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(trace: &str, sample: &str, export_sqlite: bool) -> Settings {
        let (trace, sample) = (trace.to_owned(), sample.to_owned());
        let backtrace = "none".to_owned();
        Settings { trace, sample, backtrace, gpu_metrics: None, export_sqlite }
    }

    #[test]
    fn the_predecessors_flags_come_out() {
        let arguments = settings(USUAL_TRACE, "none", true).arguments(|_| false);
        assert_eq!(
            arguments,
            [
                "--trace=cuda,cudnn,cublas,nvtx,osrt",
                "--sample=none",
                "--backtrace=none",
                "--force-overwrite=true",
                "--cuda-memory-usage=true",
                "--export=sqlite"
            ]
        );
    }

    #[test]
    fn counters_are_asked_for_by_the_name_that_this_release_knows() {
        let gpu_metrics = Some("all".to_owned());
        let asked = Settings { gpu_metrics, ..settings("nvtx", "process-tree", false) };
        let flag = |name: &str| asked.arguments(|flag| flag == name).pop().unwrap();
        assert_eq!(flag("--gpu-metrics-devices"), "--gpu-metrics-devices=all");
        assert_eq!(flag("--gpu-metrics-device"), "--gpu-metrics-device=all");
    }

    #[test]
    fn graphs_are_opened_where_cuda_is_traced_and_nsys_can() {
        let all = settings("nvtx, cuda", "none", false).arguments(|_| true);
        assert!(all.contains(&"--cuda-graph-trace=node".to_owned()), "{all:?}");
        assert!(all.contains(&"--cpuctxsw=none".to_owned()), "{all:?}");
        let no_cuda = settings("nvtx", "process-tree", false).arguments(|_| true);
        assert_eq!(no_cuda.len(), 4, "{no_cuda:?}");
    }
}
