/*!
The child process that opens a plan with TensorRT and describes it. It may die at any call into
TensorRT.
*/

use anyhow::{Context, Result, bail};

use super::protocol::{Live, LiveEngine, LiveTensor, Request};
use host::child;
use runtime::engine::layers;
use tensorrt::{Engine, Error, Mode, Runtime, TensorInfo};

/// Reads a request from standard input and prints the answer as one line.
pub fn run() -> Result<()> {
    let request: Request = child::read_job()?;
    child::end_with_parent()?;
    let answer = match open(&request) {
        Ok(engine) => Live::Opened(Box::new(engine)),
        Err(error) => Live::NotOpened { why: format!("{error:#}") },
    };
    child::send(&answer)
}

fn open(request: &Request) -> Result<LiveEngine> {
    let library = match runtime::tensorrt_library::open(request.tensorrt_lib.as_deref()) {
        // Without advice on how to get one: the report has the manifest's facts.
        Err(Error::NotFound(searched)) if !searched.named => {
            bail!("no TensorRT library found; name the directory of one with --tensorrt-lib")
        }
        other => other?,
    };
    let version = library.version().to_string();
    if let Some(built_by) = &request.built_by
        && *built_by != version
    {
        bail!("it was built by {built_by}, this is {version}");
    }
    let runtime = Runtime::new(&library)?;
    let plan = std::fs::read(&request.plan)
        .with_context(|| format!("cannot read {}", request.plan.display()))?;
    let engine = runtime.deserialize(&plan, &request.plan.display().to_string())?;
    describe(&engine)
}

fn describe(engine: &Engine) -> Result<LiveEngine> {
    let profiles = engine.profile_count();
    let told = engine.layer_information().map_err(anyhow::Error::from);
    let (layers, layers_missing) = match told.and_then(|json| layers::parse(&json)) {
        Ok(layers) => (Some(layers), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    Ok(LiveEngine {
        tensorrt: engine.library().version().to_string(),
        library: engine.library().path().display().to_string(),
        name: engine.name(),
        profiles,
        tensors: engine.tensors()?.into_iter().map(tensor).collect(),
        context_bytes: engine.device_memory(None),
        profile_bytes: (0..profiles)
            .map_while(|profile| engine.device_memory(Some(profile)))
            .collect(),
        layer_count: engine.layer_count(),
        layers,
        layers_missing,
    })
}

fn tensor(info: TensorInfo) -> LiveTensor {
    LiveTensor {
        name: info.name,
        input: info.mode == Mode::Input,
        dtype: info.dtype.map(|dtype| dtype.to_string()),
        shape: info.shape,
        profiles: info.profiles,
        on_device: info.on_device,
        format: info.format,
    }
}
