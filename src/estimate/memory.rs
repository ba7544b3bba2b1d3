/*!
The memory of a model, added up from its bundle before anything is built, and from its plans after
that.
*/

use std::path::Path;

use serde::Serialize;

use runtime::engine::EngineManifest;
use vos::bundle::{Bundle, Role};
use vos::precision::Precision;

/// The graphs whose weights are on the device while a clip is tracked.
const LOADED: [Role; 4] = [Role::Encoder, Role::Prompt, Role::Track, Role::Memory];
/// Their steps after the encoder run one at a time in one block.
const STEPS: [Role; 3] = [Role::Prompt, Role::Track, Role::Memory];
/// What driver and TensorRT hold beside a model's own memory: reserved less allocated memory of
/// EdgeTAM and SAM2.1-tiny on an H200 (docs/results/pytorch.tar.xz, 24 November). On a Jetson it was
/// not measured.
const LIBRARIES: u64 = 590 << 20;
/// Most resident host memory of the same runs.
const HOST: u64 = 750 << 20;
/// Frames, features, memory bank and masks of one object with one frame in flight: 73 MiB of
/// EdgeTAM's 167 at 1024 pixels were neither weights nor activations.
const BUFFERS_AT_1024: u64 = 80 << 20;
/// The smallest cap of the workspace that is tried.
pub const LEAST_WORKSPACE_MB: u64 = 64;

/// The parts of a model's memory, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryNeed {
    /// Weights of all graphs that tracking loads.
    pub weights: u64,
    /// Results inside the graphs: of the encoder, and of the largest step after it.
    pub activations: u64,
    /// TensorRT's scratch memory, up to its cap.
    pub workspace: u64,
    /// Frames, features, memory bank.
    pub buffers: u64,
    /// Driver and libraries on the device, on a board also the process's host memory.
    pub libraries: u64,
}

impl MemoryNeed {
    /// From a bundle, for engines of this precision under a workspace cap. `unified`: host and GPU
    /// share one memory.
    pub fn of_bundle(
        bundle: &Bundle,
        precision: Precision,
        workspace_mb: u64,
        unified: bool,
    ) -> Self {
        let manifest = &bundle.manifest;
        let halved = manifest.model.precision == "fp32" && precision != Precision::Fp32;
        let scaled = |bytes: u64| if halved { bytes / 2 } else { bytes };
        let file = |role: Role| {
            let path = bundle.graph_file(role).ok()?;
            Some(std::fs::metadata(path).ok()?.len())
        };
        let active = |role: Role| manifest.graph(role)?.activation_bytes;
        let most = STEPS.into_iter().filter_map(active).max().unwrap_or(0);
        Self {
            weights: scaled(LOADED.into_iter().filter_map(file).sum()),
            activations: scaled(active(Role::Encoder).unwrap_or(0) + most),
            workspace: workspace_mb << 20,
            ..Self::besides(manifest.model.imgsz, unified)
        }
    }

    /// From a folder of engines, as TensorRT reported them. The contexts include the workspace.
    /// None where a plan was not opened after its build.
    pub fn of_engines(engines: &EngineManifest, unified: bool) -> Option<Self> {
        let is_encoder = |role: Role| role.is_encoder();
        let context = |encoder: bool| {
            let plans = engines.plans.iter().filter(|plan| is_encoder(plan.role) == encoder);
            plans.map(|plan| plan.build.context_bytes).collect::<Option<Vec<u64>>>()
        };
        let largest = |all: Vec<u64>| all.into_iter().max().unwrap_or(0);
        let manifest = &engines.bundle;
        let parts = [
            engines.dir.as_deref().map(|dir| files_of(dir, engines)),
            Some(engines.plans.iter().map(|plan| plan.bytes).sum()),
        ];
        Some(Self {
            weights: parts.into_iter().flatten().sum(),
            activations: largest(context(true)?) + largest(context(false)?),
            workspace: 0,
            ..Self::besides(manifest.model.imgsz, unified)
        })
    }

    fn besides(imgsz: usize, unified: bool) -> Self {
        let pixels = (imgsz as u64).pow(2);
        Self {
            weights: 0,
            activations: 0,
            workspace: 0,
            buffers: BUFFERS_AT_1024 * pixels / (1024 * 1024),
            libraries: LIBRARIES + if unified { HOST } else { 0 },
        }
    }

    /// All of it, bytes.
    pub fn bytes(&self) -> u64 {
        self.weights + self.activations + self.workspace + self.buffers + self.libraries
    }

    /// "1234 MiB: weights 60, activations 40, workspace 256, buffers 80, libraries 590".
    pub fn text(&self) -> String {
        let mut parts = vec![("weights", self.weights), ("activations", self.activations)];
        parts.extend((self.workspace > 0).then_some(("workspace", self.workspace)));
        parts.extend([("buffers", self.buffers), ("libraries", self.libraries)]);
        let parts: Vec<String> =
            parts.into_iter().map(|(name, bytes)| format!("{name} {}", bytes >> 20)).collect();
        format!("{}: {}", mib(self.bytes()), parts.join(", "))
    }
}

/// "356 MiB".
pub fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Bytes of the weights for custom kernels beside the plans.
fn files_of(dir: &Path, engines: &EngineManifest) -> u64 {
    let files = engines.bundle.weights_files();
    files.filter_map(|record| Some(std::fs::metadata(dir.join(record.file)).ok()?.len())).sum()
}

/// The largest workspace cap up to `wanted_mb` with which a model fits into `available` bytes:
/// halves of it, down to [`LEAST_WORKSPACE_MB`]. None where even that does not fit.
pub fn workspace_that_fits(
    need: impl Fn(u64) -> MemoryNeed,
    wanted_mb: u64,
    available: u64,
) -> Option<u64> {
    let least = LEAST_WORKSPACE_MB.min(wanted_mb);
    let caps = std::iter::successors(Some(wanted_mb), |cap| {
        (*cap > least).then_some((cap / 2).max(least))
    });
    caps.into_iter().find(|cap| need(*cap).bytes() <= available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_are_halved_until_a_model_fits_or_none_does() {
        let need = |cap: u64| MemoryNeed {
            weights: 100 << 20,
            activations: 0,
            workspace: cap << 20,
            buffers: 0,
            libraries: 0,
        };
        let found = |wanted, mib: u64| workspace_that_fits(need, wanted, mib << 20);
        assert_eq!(found(256, 400), Some(256));
        assert_eq!(found(256, 355), Some(128));
        assert_eq!(found(300, 170), Some(64));
        assert_eq!(found(256, 160), None);
        // A cap that was asked for and is smaller still.
        assert_eq!((found(32, 140), found(32, 130)), (Some(32), None));
        assert_eq!(
            need(256).text(),
            "356 MiB: weights 100, activations 0, workspace 256, buffers 0, libraries 0"
        );
    }

    #[test]
    fn an_edgetam_of_1024_pixels_is_near_what_was_measured() {
        // 60 MiB of weights, 50 of activations; 736 MiB were reserved on an H200, 346 resident.
        let need = MemoryNeed {
            weights: 60 << 20,
            activations: 50 << 20,
            ..MemoryNeed::besides(1024, false)
        };
        assert!((700 << 20..850 << 20).contains(&need.bytes()), "{}", need.text());
        assert!(MemoryNeed::besides(512, true).bytes() > MemoryNeed::besides(512, false).bytes());
    }
}
