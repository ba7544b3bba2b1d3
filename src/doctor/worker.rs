/*!
The doctor's probes as child processes: a driver or library that crashes costs one line.
*/

use std::path::PathBuf;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use cuda::cublaslt::{self, CublasLtError};
use cuda::nvjpeg::{self, NvJpegError};
use cuda::{Gpu, GpuError, Missed, Searched};
use host::child;
use runtime::backend;
use runtime::backend::Provider;
use tensorrt::Error;
use vos::telemetry::{Options, Target, Telemetry};

/// What is to be opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Probe {
    /// The driver and all its GPUs.
    Gpus,
    /// One TensorRT.
    TensorRt(#[serde(serialize_with = "host::child::utf8::path")] PathBuf),
    /// One ONNX Runtime.
    OnnxRuntime(#[serde(serialize_with = "host::child::utf8::path")] PathBuf),
    /// nvJPEG, for a driver of this CUDA release where there is one.
    NvJpeg(Option<String>),
    /// cuBLASLt, likewise.
    CublasLt(Option<String>),
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The GPUs.
    Gpus(Vec<FoundGpu>),
    /// A TensorRT.
    TensorRt(FoundTensorRt),
    /// ONNX Runtime's name with its version.
    OnnxRuntime(String),
    /// A library's name with its version, and its file: nvJPEG's or cuBLASLt's.
    Found(String, PathBuf),
    /// There is no such library; where it was looked for.
    NotFound(String),
    /// It is not there.
    Absent,
    /// It cannot be used.
    Failed(String),
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundGpu {
    /// Place among the driver's devices.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability, 90 for 9.0.
    pub sm: u32,
    /// Memory, bytes.
    pub total_bytes: u64,
    /// Of that free, bytes.
    pub free_bytes: u64,
    /// It shares the host's memory.
    pub unified: bool,
    /// Newest CUDA that the driver knows.
    pub driver_cuda: String,
    /// What its sensors say that does not change; empty where there are none.
    pub sensors: Map<String, Value>,
}

/// A TensorRT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundTensorRt {
    /// "TensorRT 10.3.0".
    pub version: String,
    /// Its file.
    pub path: PathBuf,
    /// It can build engines.
    pub builds: bool,
    /// Why it cannot read ONNX files, where it cannot.
    pub no_parser: Option<String>,
}

/// Does one probe.
pub fn run() -> Result<()> {
    let probe: Probe = child::read_job()?;
    child::end_with_parent()?;
    child::send(&answer(&probe))
}

fn answer(probe: &Probe) -> Answer {
    match probe {
        Probe::Gpus => gpus(),
        Probe::TensorRt(library) => tensorrt(library.clone()),
        Probe::OnnxRuntime(library) => match backend::open(Some(library)) {
            Ok((_environment, path)) => {
                Answer::OnnxRuntime(backend::describe(Provider::Cpu, &path).to_string())
            }
            Err(error) => Answer::Failed(format!("{error:#}")),
        },
        Probe::NvJpeg(driver_cuda) => match nvjpeg::open(driver_cuda.as_deref()) {
            Ok(library) => Answer::Found(library.to_string(), library.path().to_owned()),
            Err(NvJpegError::Library(Missed::NotFound(searched))) => not_found(&searched),
            Err(error) => Answer::Failed(error.to_string()),
        },
        Probe::CublasLt(driver_cuda) => match cublaslt::open(driver_cuda.as_deref()) {
            Ok(library) => Answer::Found(library.to_string(), library.path().to_owned()),
            Err(CublasLtError::Library(Missed::NotFound(searched))) => not_found(&searched),
            Err(error) => Answer::Failed(error.to_string()),
        },
    }
}

/// A place that the user named is missed.
fn not_found(searched: &Searched) -> Answer {
    match searched.named {
        true => Answer::Failed(searched.to_string()),
        false => Answer::NotFound(searched.places.join(", ")),
    }
}

fn gpus() -> Answer {
    let mut found = Vec::new();
    loop {
        match Gpu::open(found.len()) {
            Ok(gpu) => found.push(describe(&gpu)),
            Err(GpuError::NoDevice { .. }) if !found.is_empty() => return Answer::Gpus(found),
            // Others are there: one that does not open must not hide them.
            Err(error) if !found.is_empty() => {
                log::warn!("{error}");
                return Answer::Gpus(found);
            }
            Err(error) => return Answer::Failed(error.to_string()),
        }
    }
}

fn describe(gpu: &Gpu) -> FoundGpu {
    let facts = gpu.facts();
    let target = Target { ordinal: facts.ordinal, pci_address: gpu.pci_address().ok() };
    let sensors = Telemetry::start(&target, &Options::default());
    FoundGpu {
        ordinal: facts.ordinal,
        name: facts.name.clone(),
        sm: facts.sm,
        total_bytes: facts.total_bytes,
        free_bytes: gpu.memory_info().map_or(0, |(free, _)| free),
        unified: facts.unified,
        driver_cuda: facts.driver_cuda.clone(),
        sensors: sensors.map(|telemetry| telemetry.facts().clone()).unwrap_or_default(),
    }
}

fn tensorrt(library: PathBuf) -> Answer {
    match runtime::tensorrt_library::open(Some(&library)) {
        Ok(opened) => Answer::TensorRt(FoundTensorRt {
            version: opened.version().to_string(),
            path: opened.path().to_owned(),
            builds: opened.has_builder(),
            no_parser: opened.parser_path().err().map(|error| error.to_string()),
        }),
        Err(Error::NotFound(_)) => Answer::Absent,
        // A bare name that the loader does not know; its sentence begins with another name where a
        // part of it is missing.
        Err(Error::Open { path, why })
            if path.components().count() == 1 && why.starts_with(&*path.to_string_lossy()) =>
        {
            Answer::Absent
        }
        Err(error) => Answer::Failed(error.to_string()),
    }
}
