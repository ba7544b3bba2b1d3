/*!
Chooses the backend for `--backend auto`: engines if GPU and engines exist, else the CPU, with a
warning.
*/

use super::{BackendWish, tags_of};
use crate::commands::bench::BenchArgs;
use crate::commands::bench::engines::Catalogue;
use cuda::{Facts, Gpu};
use vos::model_tag::ModelTag;

/// The choice.
pub(in crate::commands) struct Chosen {
    /// Engines on the GPU.
    pub tensorrt: bool,
    /// Why.
    pub reason: String,
    /// The GPU, used or not.
    pub gpu: Option<Facts>,
}

impl Chosen {
    /// The backend's name on bench's command line.
    pub fn name(&self) -> &'static str {
        if self.tensorrt { "tensorrt" } else { "onnxruntime" }
    }

    /// The line that says so; loud where it is not what a benchmark of GPUs is about.
    pub fn line(&self) -> String {
        match self.tensorrt {
            true => format!("backend: TensorRT engines ({})", self.reason),
            false => format!(
                "*** backend: ONNX Runtime on the CPU, NOT a GPU: {}. These speeds say nothing of a GPU. ***",
                self.reason
            ),
        }
    }
}

/// Decides for a bench with `args`. `build` says that engines which are not there yet will be
/// built.
pub(in crate::commands) fn choose(wish: BackendWish, args: &BenchArgs, build: bool) -> Chosen {
    // Opened and closed again: whatever measures opens it for itself.
    let gpu = Gpu::open(args.gpu.device).map(|gpu| gpu.facts().clone());
    let chosen = |tensorrt, reason: &str, gpu| Chosen { tensorrt, reason: reason.to_owned(), gpu };
    match (wish, gpu) {
        (BackendWish::OnnxRuntime, gpu) => chosen(false, "as asked for", gpu.ok()),
        (BackendWish::TensorRt, gpu) => chosen(true, "as asked for", gpu.ok()),
        (BackendWish::Auto, Err(error)) => chosen(false, &error.to_string(), None),
        (BackendWish::Auto, Ok(gpu)) => {
            let name = gpu.name.clone();
            match (build, engines(args)) {
                (_, Ok(())) => chosen(true, &format!("{name}, engines are there"), Some(gpu)),
                (true, Err(_)) => {
                    chosen(true, &format!("{name}, engines will be built"), Some(gpu))
                }
                (false, Err(why)) => {
                    chosen(false, &format!("{name} is there, but {why}"), Some(gpu))
                }
            }
        }
    }
}

/// Whether at least one of the models has engines that run here; else why not.
fn engines(args: &BenchArgs) -> Result<(), String> {
    let catalogue = Catalogue::open(&args.gpu).map_err(|error| format!("{error:#}"))?;
    let mut why = "no model is named".to_owned();
    for text in tags_of(&args.models) {
        let Some(tag) = ModelTag::parse(&text, args.prompt) else { continue };
        match catalogue.find(&tag, args.imgsz, args.precision.as_deref()) {
            Ok(_) => return Ok(()),
            Err(error) => why = format!("{error:#}"),
        }
    }
    Err(why)
}
