/*!
Runs any ONNX graph on named tensors in ONNX Runtime on the processor: the other side of every
comparison.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use half::f16;
use ort::environment::Environment;
use ort::session::{Session, SessionInputValue};
use ort::value::{DynValue, Tensor as OrtTensor, TensorElementType, ValueType};

use super::bank_inputs;
use super::case::{Case, Meaning};
use super::inputs::FEATURES;
use super::tensor::{Tensor, Values};
use runtime::backend::Provider;
use runtime::backend::{self, plain};
use vos::bundle::{Bundle, Role};

/// The graphs of a model, fp32 but for parts that are there in fp16 alone; one of them loaded at a
/// time.
pub struct Reference {
    environment: Environment,
    library: PathBuf,
    threads: usize,
    bundle: Bundle,
    parts: Parts,
    /// Which graphs those parts are.
    cuts: Vec<Role>,
    loaded: Option<(Role, Session)>,
}

/// Where the graphs of what is cut are.
pub enum Parts {
    /// In the same bundle, which is cut as the engines' is.
    Alike,
    /// In the bundle that the engines were built from: it is cut where fp32 bundles are whole.
    Of(Box<Bundle>),
    /// Nobody knows.
    Unknown,
}

impl Reference {
    /// Opens ONNX Runtime for this bundle, and for `cuts` those of `parts`; graphs are loaded, and
    /// their hashes checked, when they are first run.
    pub fn open(
        bundle: Bundle,
        (parts, cuts): (Parts, Vec<Role>),
        ort_lib: Option<&Path>,
        threads: usize,
    ) -> Result<Self> {
        let (environment, library) = backend::open(ort_lib)?;
        Ok(Self { environment, library, threads, bundle, parts, cuts, loaded: None })
    }

    /// ONNX Runtime's library and its build.
    pub fn library(&self) -> String {
        format!("{} ({})", self.library.display(), backend::build_info())
    }

    /// The encoder's outputs for an image.
    pub fn features(&mut self, image: Tensor) -> Result<Vec<Tensor>> {
        let outputs = self.run(Role::Encoder, &[image])?;
        Ok(outputs.into_iter().filter(|t| FEATURES.contains(&t.name.as_str())).collect())
    }

    /// What an engine of this role should give for these inputs.
    ///
    /// A padded track step is compared with the exact one over the filled slots alone: padding must
    /// change nothing.
    pub fn expected(&mut self, role: Role, case: &Case, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        match role {
            _ if case.meaning == Meaning::Joined => self.run(Role::Encoder, inputs),
            Role::TrackPadded => {
                self.run(Role::Track, &bank_inputs::without_padding(inputs, case)?)
            }
            _ => self.run(role, inputs),
        }
    }

    fn run(&mut self, role: Role, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let bundle = match &self.parts {
            _ if !self.cuts.contains(&role) => &self.bundle,
            Parts::Alike => &self.bundle,
            Parts::Of(bundle) => bundle,
            Parts::Unknown => bail!(
                "{} is cut otherwise, and the bundle that the engines were built from is not \
                 there to compare its parts with; name its folder too, with --onnx-dir",
                self.bundle.dir.display()
            ),
        };
        let path = bundle.graph_file(role)?;
        let session = match self.loaded.take() {
            Some((known, session)) if known == role => session,
            _ => {
                bundle.verify(&[role])?;
                load(&self.environment, &path, self.threads)?
            }
        };
        let (_, session) = self.loaded.insert((role, session));
        run_graph(session, inputs).with_context(|| format!("while running {}", path.display()))
    }
}

/// Loads a graph for the processor.
pub fn load(environment: &Environment, path: &Path, threads: usize) -> Result<Session> {
    backend::load_session(environment, path, Provider::Cpu, threads)
        .with_context(|| format!("ONNX Runtime cannot load {}", path.display()))
}

/// Runs a graph; tensors that it does not declare are left out, the others are converted to its
/// element types.
///
/// # Errors
/// An input that is missing, or whose type or shape does not fit.
pub fn run_graph(session: &mut Session, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut given: Vec<(String, SessionInputValue<'_>)> = Vec::new();
    for port in session.inputs() {
        let found = inputs.iter().find(|tensor| tensor.name == port.name());
        let tensor = found.with_context(|| format!("input '{}' is missing", port.name()))?;
        given.push((tensor.name.clone(), value(tensor, port.dtype())?.into()));
    }
    let outputs = session.run(given).map_err(plain)?;
    outputs.iter().map(|(name, value)| read(name, &value)).collect()
}

fn value(tensor: &Tensor, wanted: &ValueType) -> Result<DynValue> {
    let Some(dtype) = wanted.tensor_type() else { bail!("input '{}' is no tensor", tensor.name) };
    let shape = tensor.shape.clone();
    Ok(match (&tensor.values, dtype) {
        (Values::Real(values), TensorElementType::Float32) => {
            OrtTensor::from_array((shape, values.clone())).map_err(plain)?.into_dyn()
        }
        (Values::Real(values), TensorElementType::Float16) => {
            let values: Vec<f16> = values.iter().map(|v| f16::from_f32(*v)).collect();
            OrtTensor::from_array((shape, values)).map_err(plain)?.into_dyn()
        }
        (Values::Whole(values), TensorElementType::Int32) => {
            OrtTensor::from_array((shape, values.clone())).map_err(plain)?.into_dyn()
        }
        (_, other) => bail!("input '{}' is {other}, which does not fit its values", tensor.name),
    })
}

fn read(name: &str, value: &ort::value::DynValueRef<'_>) -> Result<Tensor> {
    if let Ok((shape, values)) = value.try_extract_tensor::<f32>() {
        return Ok(Tensor::real(name, shape, values.to_vec()));
    }
    let (shape, values) = value.try_extract_tensor::<f16>().map_err(plain)?;
    Ok(Tensor::real(name, shape, values.iter().map(|v| v.to_f32()).collect()))
}
