/*!
The encoder on its stream: one engine, its parts with the tensors between them and the trunk, or
kernels alone.

These tensors exist once, however many frames are encoded ahead. All encodes run on one stream, so a
frame's tensors are read before the next frame's are written.
*/

use std::borrow::Cow;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};

use super::bound::{bind, tensor_of};
use super::engines::EncoderEngines;
use super::loaded_engine::LoadedEngine;
use cuda::{Gpu, MemoryTag, Stream, View};
use execution::{DeviceTensor, Op, Program, SharedEngine, TensorDesc};
use kernels::{AttentionKernels, ImageEncoder, Trunk};
use tensorrt::{DataType, Mode};
use vos::bundle::part_graph::{Edge, FEATURES, PartStep, STAGES};
use vos::bundle::trunk::TrunkBlocks;
use vos::bundle::{Axis, PartGraph};

/// The contexts of all parts, or the kernels in their place.
pub struct Encoder {
    /// Kernels that compute all of it; then there are no parts.
    whole: Option<Rc<ImageEncoder>>,
    parts: Vec<SharedEngine>,
    part_graph: PartGraph,
    /// Memory of the part graph's edges.
    edges: Vec<DeviceTensor>,
    /// The trunk between stem and neck, where the encoder is split at it.
    trunk: Option<Rc<Trunk>>,
}

impl Encoder {
    /// Makes the contexts, which use `scratch` one after the other, and memory for the tensors
    /// between them. A Hiera needs `kernels`.
    ///
    /// # Errors
    /// Engines that lack a tensor which their bundle names, a trunk's weights that are
    /// missing or damaged, no cuBLASLt for it, or too little memory.
    pub fn new(
        gpu: &Gpu,
        engines: &EncoderEngines,
        kernels: Option<&AttentionKernels>,
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let whole = engines.trunk.as_ref().filter(|_| engines.parts.is_empty());
        let whole = whole.map(|file| file.lay_out_whole(gpu, kernels, scratch, stream)).transpose();
        let whole = whole.context("the encoder's kernels cannot be laid out")?.map(Rc::new);
        let make = |loaded: &LoadedEngine| bind(gpu, loaded, 0, scratch, stream);
        let parts: Vec<SharedEngine> = engines.parts.iter().map(make).collect::<Result<_>>()?;
        let part_graph = engines.part_graph.clone();
        let mut tensors = Vec::new();
        for edge in &part_graph.edges {
            let desc = tensor_of_edge(&parts, edge)?;
            tensors.push((edge.slot, desc.bytes()?, desc.dtype));
        }
        let slots = (0..part_graph.slots()).map(|slot| {
            let sizes = tensors.iter().filter(|(of, ..)| *of == slot).map(|(_, bytes, _)| *bytes);
            Ok(View::new(&gpu.tagged(MemoryTag::Scratch), sizes.max().unwrap_or(0))?)
        });
        let slots: Vec<View> = slots.collect::<Result<_>>()?;
        let edges = tensors.into_iter().map(|(slot, bytes, dtype)| {
            // No more than the tensor has, so that a part that takes more is refused.
            Ok(DeviceTensor { view: slots.get(slot).context("no slot")?.part(0, bytes)?, dtype })
        });
        let edges: Vec<DeviceTensor> = edges.collect::<Result<_>>()?;
        let trunk = match &engines.trunk {
            Some(trunk) if whole.is_none() => {
                check_maps(&parts, &part_graph)?;
                let maps: Vec<View> = edges.iter().map(|placed| placed.view.clone()).collect();
                let run = trunk.lay_out(gpu, kernels, &maps, scratch, stream);
                Some(Rc::new(run.context("the encoder's trunk cannot be laid out")?))
            }
            _ => None,
        };
        Ok(Self { whole, parts, part_graph, edges, trunk })
    }

    /// The library of the trunk's products and its file, where it needs one: "cuBLASLt 13.1.0 (for
    /// CUDA 13), /usr/…/libcublasLt.so.13".
    pub fn products(&self) -> Option<String> {
        let whole = self.whole.as_ref().and_then(|whole| whole.library());
        let library = whole.or_else(|| self.trunk.as_ref()?.library())?;
        Some(format!("{library}, {}", library.path().display()))
    }

    /// The encoder's tensor of this name: one of [`FEATURES`], or the image.
    ///
    /// # Errors
    /// No part has it.
    pub fn tensor(&self, name: &str) -> Result<TensorDesc> {
        match &self.whole {
            Some(whole) => tensor_of_kernels(whole, name),
            None => tensor_of(self.engine_of(name)?, name),
        }
    }

    fn engine_of(&self, name: &str) -> Result<&SharedEngine> {
        let mode = if FEATURES.contains(&name) { Mode::Output } else { Mode::Input };
        let has =
            |part: &&SharedEngine| part.borrow().tensor(name).is_some_and(|desc| desc.mode == mode);
        let Some(part) = self.parts.iter().find(has) else {
            bail!(
                "no engine of the encoder has the tensor '{name}'; build them again with: segtrt \
                 build-engines --force"
            );
        };
        Ok(part)
    }

    /// All parts and the trunk between them, with `tensors` as image and features.
    ///
    /// # Errors
    /// `tensors` lacks one that the kernels take.
    pub fn program(&self, tensors: &[(&'static str, DeviceTensor)]) -> Result<Program> {
        let mut ops = Vec::new();
        ops.extend(self.whole.as_ref().map(|whole| op_of_kernels(whole, tensors)).transpose()?);
        for (at, engine) in self.parts.iter().enumerate() {
            let outside = tensors.iter().map(|(name, placed)| (Cow::from(*name), placed.clone()));
            let between =
                self.part_graph.edges.iter().zip(&self.edges).filter_map(|(h, placed)| {
                    Some((Cow::from(h.name_in(PartStep::Part(at))?.to_owned()), placed.clone()))
                });
            ops.push(Program::engine(engine, outside.chain(between).collect()));
            if let Some(trunk) = self.trunk.as_ref().filter(|_| at == 0) {
                ops.push(Op::Trunk(Rc::clone(trunk)));
            }
        }
        Ok(Program::new(ops))
    }
}

/// A tensor of kernels that compute the whole encoder.
fn tensor_of_kernels(whole: &ImageEncoder, name: &str) -> Result<TensorDesc> {
    let port = whole.shape().ports().into_iter().find(|port| port.name == name);
    let port = port.with_context(|| format!("the encoder has no tensor '{name}'"))?;
    let extent = |axis: &Axis| match axis {
        Axis::Fixed(extent) => i64::try_from(*extent).ok(),
        Axis::Symbol(_) => None,
    };
    let shape = port.shape.iter().map(extent).collect::<Option<_>>().context("an open extent")?;
    let mode = if FEATURES.contains(&name) { Mode::Output } else { Mode::Input };
    Ok(TensorDesc { name: port.name, mode, dtype: DataType::Half, shape })
}

/// The work of such kernels on these tensors.
fn op_of_kernels(whole: &Rc<ImageEncoder>, tensors: &[(&'static str, DeviceTensor)]) -> Result<Op> {
    let of = |wanted: &str| {
        let found = tensors.iter().find(|(name, _)| *name == wanted);
        let (_, placed) = found.with_context(|| format!("the encoder gets no '{wanted}'"))?;
        Ok::<View, anyhow::Error>(placed.view.clone())
    };
    let [feat, hr0, hr1] = FEATURES.map(of);
    let (encoder, image) = (Rc::clone(whole), of("image")?);
    Ok(Op::Encoder { encoder, image, features: [feat?, hr0?, hr1?] })
}

/// The tensor of the part that produces it; of a tensor that the trunk produces that of the part
/// that consumes it.
fn tensor_of_edge(parts: &[SharedEngine], edge: &Edge) -> Result<TensorDesc> {
    let steps = [edge.producer].into_iter().chain(edge.consumers.iter().copied());
    let at = steps.into_iter().find_map(|step| match step {
        PartStep::Part(at) => Some(at),
        PartStep::Trunk => None,
    });
    let part = at.and_then(|at| parts.get(at)).context("a part of the encoder is gone")?;
    tensor_of(part, &edge.name)
}

/// The neck takes what the trunk gives as the trunk gives it: a build may have chosen other types.
fn check_maps(parts: &[SharedEngine], part_graph: &PartGraph) -> Result<()> {
    let trunk = part_graph.trunk.as_ref().context("the encoder has no trunk")?;
    let expected = match trunk.blocks {
        TrunkBlocks::Hiera(_) => DataType::Float,
        TrunkBlocks::RepVit(_) => DataType::Half,
    };
    for (stem_or_neck, names) in parts.iter().zip([&["y"][..], &STAGES[..]]) {
        for name in names {
            let TensorDesc { dtype, .. } = tensor_of(stem_or_neck, name)?;
            ensure!(
                dtype == expected,
                "'{name}' beside the encoder's trunk is {dtype}, its blocks take and give \
                 {expected}; build the engines again with: segtrt build-engines --force"
            );
        }
    }
    ensure!(
        part_graph.edges.len() == trunk.ends.len(),
        "{} tensors around a trunk of {} stages",
        part_graph.edges.len(),
        trunk.ends.len()
    );
    Ok(())
}
