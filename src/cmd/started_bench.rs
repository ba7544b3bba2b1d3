/*!
What `experiment` and `jetson-benchmark` do alike with the flags of the benches that they start.
*/

use std::path::Path;

use anyhow::{Result, bail};

use super::bench_plan::split_tags;
use crate::cli::StartedBenchArgs;
use crate::experiment::owned_flag;
use host::UsageError;
use vos::model_tag::ModelTag;

/// Refuses flags after the two hyphens that `command` sets itself, `ours` among them; says which flags do nothing.
pub(super) fn check_started(args: &StartedBenchArgs, command: &str, ours: &[&str]) -> Result<()> {
    if let Some(flag) = owned_flag(&args.bench, ours) {
        bail!(UsageError(format!(
            "{flag} after the two hyphens is set by segtrt {command} itself; write it before them, or leave it out"
        )));
    }
    if args.weights_dir.is_some() {
        log::warn!(
            "--weights-dir does nothing here: weights are in the bundles (--onnx-dir) and engines (--engines)"
        );
    }
    Ok(())
}

/// The tags of `--models`.
pub(super) fn tags_of(models: &str) -> Vec<String> {
    match models.trim() {
        "" | "all" => ModelTag::all(),
        _ => split_tags(models),
    }
}

/// A path as a word of a bench.
pub(super) fn text(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| UsageError(format!("{} is no UTF-8 path", path.display())).into())
}
