/*!
Flags of the predecessor that have no effect, accepted so that its scripts run.
*/

use clap::Args;

/// Each flag that is given costs a warning.
#[derive(Clone, Debug, Args)]
pub struct DeadFlags {
    #[arg(long, hide = true)]
    weights_dir: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "1")]
    compile_models: Option<String>,
    #[arg(long, hide = true)]
    compile_mode: Option<String>,
    #[arg(long, hide = true)]
    compile_backend: Option<String>,
    #[arg(long, hide = true)]
    disable_cudnn: bool,
    #[arg(long, hide = true)]
    max_frames_in_mem: Option<String>,
    #[arg(long, hide = true)]
    workspace_mb: Option<String>,
    #[arg(long, hide = true)]
    memory_log_interval: Option<String>,
    #[arg(long, hide = true)]
    enable_cudnn_tuning: bool,
    #[arg(long, hide = true)]
    nsight_path: Option<String>,
    #[arg(long, hide = true)]
    nsight_trace_options: Option<String>,
    #[arg(long, hide = true)]
    profile_mode: Option<String>,
}

impl DeadFlags {
    /// Each given flag, and why it has no effect.
    pub fn given(&self) -> Vec<(&'static str, &'static str)> {
        let weights = "weights are in the bundles (--onnx-dir) or engines (--engines)";
        let compile = "graphs are compiled in advance; PyTorch does not run here";
        let cudnn = "this tool does not use cuDNN";
        let memory = "frames are decoded one by one; memory does not grow with the clip";
        let nsight = "bench does not start nsys; use segtrt profile";
        [
            (self.weights_dir.is_some(), "--weights-dir", weights),
            (self.compile_models.is_some(), "--compile-models", compile),
            (self.compile_mode.is_some(), "--compile-mode", compile),
            (self.compile_backend.is_some(), "--compile-backend", compile),
            (self.disable_cudnn, "--disable-cudnn", cudnn),
            (self.enable_cudnn_tuning, "--enable-cudnn-tuning", cudnn),
            (self.max_frames_in_mem.is_some(), "--max-frames-in-mem", memory),
            (self.memory_log_interval.is_some(), "--memory-log-interval", memory),
            (
                self.workspace_mb.is_some(),
                "--workspace-mb",
                "it limits engine builds; bench builds none",
            ),
            (self.nsight_path.is_some(), "--nsight-path", nsight),
            (self.nsight_trace_options.is_some(), "--nsight-trace-options", nsight),
            (self.profile_mode.is_some(), "--profile-mode", nsight),
        ]
        .into_iter()
        .filter(|(given, ..)| *given)
        .map(|(_, flag, why)| (flag, why))
        .collect()
    }
}
