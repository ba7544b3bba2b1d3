/*!
Loads a model to run: engines on a GPU, or graphs in ONNX Runtime. The one place for bench and `track`.
*/

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::gpu_runner::{GpuRunner, Opened, Parts};
use super::plan::{BenchPlan, GpuPlan};
use super::runner::{ClipRunner, StepByStep};
use runtime::backend::{self, OrtNetwork, Provider};
use vos::bundle::{Bundle, Role};
use vos::preprocess::Filter;

/// What runs the network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RuntimePlan {
    /// A GPU's engines; none: ONNX Runtime.
    pub gpu: Option<GpuPlan>,
    /// ONNX Runtime's library, where named.
    #[serde(serialize_with = "host::child::utf8::optional")]
    pub ort_lib: Option<PathBuf>,
    /// ONNX Runtime's provider.
    pub provider: Provider,
    /// ONNX Runtime's threads.
    pub threads: usize,
    /// ONNX Runtime's resize filter; a GPU's is among its options.
    #[serde(default)]
    pub resize: Filter,
}

impl RuntimePlan {
    /// The runtime of a bench.
    pub fn of(plan: &BenchPlan) -> Self {
        Self {
            gpu: plan.gpu.clone(),
            ort_lib: plan.ort_lib.clone(),
            provider: plan.provider,
            threads: plan.threads,
            resize: plan.resize,
        }
    }

    /// Loads the model in `dir`, a folder of engines or a bundle. `with_mask`: it will take masks as prompts.
    ///
    /// # Errors
    /// The folder lacks a file, or the library, the GPU or the model cannot be used.
    pub fn load(&self, dir: &Path, with_mask: bool) -> Result<(Box<dyn ClipRunner>, Opened)> {
        match &self.gpu {
            Some(gpu) => {
                let (runner, opened) = GpuRunner::new(Parts::open(gpu, dir, with_mask)?, gpu)?;
                Ok((Box::new(runner), opened))
            }
            None => self.load_graphs(dir, with_mask),
        }
    }

    fn load_graphs(&self, dir: &Path, with_mask: bool) -> Result<(Box<dyn ClipRunner>, Opened)> {
        let bundle = Bundle::open(dir)?;
        let mut roles = vec![Role::Encoder, Role::Prompt, Role::Track, Role::Memory];
        roles.extend(with_mask.then_some(Role::MaskPrompt));
        // Before the clock starts: reading every byte of the graphs is not loading them.
        bundle.verify(&roles)?;
        let (environment, library) = backend::open(self.ort_lib.as_deref())?;
        let start = Instant::now();
        let mut network =
            OrtNetwork::open(&environment, &bundle, self.provider, self.threads, with_mask)?;
        network.set_resize(self.resize);
        let load_ms = start.elapsed().as_secs_f64() * 1e3;
        let backend = backend::describe(self.provider, &library);
        let opened = Opened {
            version: format!("{backend}, {}", backend::build_info()),
            library: format!("{} ({})", library.display(), backend::build_info()),
            device: backend::device_name(self.provider),
            backend,
            sm: None,
            load_ms,
        };
        Ok((Box::new(StepByStep(network)), opened))
    }
}
