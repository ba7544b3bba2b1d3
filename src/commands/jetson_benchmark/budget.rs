/*!
Whether each model fits into the GPU's memory, before it is built or run.

A model that does not fit gets a smaller workspace cap; one that does not fit with the smallest is
left out. Without this a board with one memory for host and GPU swaps, or its kernel kills the
program.
*/

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::plan::Plan;
use crate::bench::plan::BenchModel;
use crate::estimate::{LEAST_WORKSPACE_MB, MemoryNeed, mib, workspace_that_fits};
use crate::two_phase::SystemMemory;
use cuda::Facts;
use host::share;
use runtime::engine::EngineManifest;
use vos::bundle::{self, Bundle};
use vos::model_tag::ModelTag;
use vos::precision::Precision;
use vos::prompt::PromptKind;

/// Part of the GPU's memory that is left to the driver and to others where nothing tells what is
/// free.
const KEPT_FREE: f64 = 0.1;
/// Host and GPU share a memory if their totals differ by at most this part.
const SAME_MEMORY: f64 = 0.1;
/// Bytes of a decoded 4K frame, the largest that the limit of frames counts on.
const FRAME: u64 = 3840 * 2160 * 3;

/// The memory of the GPU.
pub(super) struct Budget {
    /// Bytes that a model may take.
    available: u64,
    /// It is the host's memory, too.
    unified: bool,
}

impl Budget {
    /// Of this GPU. On a board the kernel tells what other programs left.
    pub fn of(gpu: &Facts) -> Self {
        let total = gpu.total_bytes as f64;
        let board = SystemMemory::now().filter(|memory| {
            let host = memory.total_mib * f64::from(1 << 20);
            gpu.unified && (host - total).abs() <= SAME_MEMORY * total
        });
        let usual = total * (1.0 - KEPT_FREE);
        let free = board.map_or(usual, |memory| memory.available_mib * f64::from(1 << 20));
        Self { available: free.min(usual) as u64, unified: gpu.unified }
    }

    /// "3686 MiB of shared memory".
    fn text(&self) -> String {
        let kind = if self.unified { "memory that host and GPU share" } else { "GPU memory" };
        format!("{} of {kind}", mib(self.available))
    }

    /// Leaves models out that do not fit, and lowers the number of frames that are decoded ahead
    /// where the rest is small. Each network's workspace cap and the number of models left out come
    /// back.
    ///
    /// # Errors
    /// No model fits.
    pub fn fit(&self, plan: &mut Plan, bundles: &[Bundle]) -> Result<(Caps, usize)> {
        let precision = plan.precision()?;
        let mut caps = Caps::new();
        let mut refused: BTreeMap<String, String> = BTreeMap::new();
        let mut largest = 0;
        for network in plan.networks() {
            // A model without a bundle may have engines; the check of the models looks at both.
            let Some(bundle) = bundle_of(bundles, &network, plan.imgsz, precision) else {
                caps.insert(network, plan.workspace_mb);
                continue;
            };
            let need = |cap: u64| MemoryNeed::of_bundle(bundle, precision, cap, self.unified);
            match workspace_that_fits(need, plan.workspace_mb, self.available) {
                Some(cap) => {
                    if cap < plan.workspace_mb {
                        eprintln!(
                            "memory: {network} with a workspace of {} MiB needs about {}, and {} \
                             is available: the cap is lowered to {cap} MiB",
                            plan.workspace_mb,
                            mib(need(plan.workspace_mb).bytes()),
                            self.text()
                        );
                    }
                    largest = largest.max(need(cap).bytes());
                    caps.insert(network, cap);
                }
                None => {
                    let least = need(LEAST_WORKSPACE_MB.min(plan.workspace_mb));
                    let why = self.refusal(&network, &least);
                    refused.insert(network, why);
                }
            }
        }
        let count = self.leave_out(plan, &refused)?;
        plan.limit_decode_threads(self.available.saturating_sub(largest) / FRAME);
        Ok((caps, count))
    }

    /// Why a built model does not fit; none where it does, or where its plans were not measured.
    pub fn refuses(&self, model: &BenchModel) -> Option<String> {
        let engines = EngineManifest::read(&model.dir).ok().flatten()?;
        let need = MemoryNeed::of_engines(&engines, self.unified)?;
        (need.bytes() > self.available).then(|| self.refusal(&model.tag.text, &need))
    }

    fn refusal(&self, model: &str, need: &MemoryNeed) -> String {
        format!(
            "{model} needs about {} MiB), and {} is available: left out; choose a smaller --imgsz \
             or another model, or end other programs",
            need.text().replacen(": ", " (", 1),
            self.text()
        )
    }

    /// Takes the models out of the plan; an error where none is left.
    fn leave_out(&self, plan: &mut Plan, refused: &BTreeMap<String, String>) -> Result<usize> {
        for why in refused.values() {
            log::warn!("{why}");
        }
        let count = plan.leave_out(|network| refused.contains_key(network));
        if plan.models.is_empty() && count > 0 {
            bail!("no model fits into {}; the reasons are above", self.text());
        }
        Ok(count)
    }
}

/// Workspace caps by network, MiB.
pub(super) type Caps = BTreeMap<String, u64>;

/// All bundles that the flags name.
pub(super) fn bundles(plan_dirs: &[std::path::PathBuf]) -> Result<Vec<Bundle>> {
    bundle::list(&share::bundle_roots(plan_dirs))
}

/// The bundle that engines of this precision are built from: of the same precision, else any.
fn bundle_of<'b>(
    bundles: &'b [Bundle],
    network: &str,
    imgsz: usize,
    precision: Precision,
) -> Option<&'b Bundle> {
    let graphs = if precision == Precision::Fp32 { "fp32" } else { "fp16" };
    let fits = |bundle: &&Bundle| {
        let model = &bundle.manifest.model;
        model.name == network && model.imgsz == imgsz
    };
    let mut all = bundles.iter().filter(fits);
    let first = all.next()?;
    let same = |bundle: &&Bundle| bundle.manifest.model.precision == graphs;
    Some(std::iter::once(first).chain(all).find(same).unwrap_or(first))
}

/// The networks of model tags, each once; unknown tags are left to the check of the models.
pub(super) fn networks(tags: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for tag in tags {
        let Some(tag) = ModelTag::parse(tag, PromptKind::Points) else { continue };
        if !names.contains(&tag.network) {
            names.push(tag.network);
        }
    }
    names
}
