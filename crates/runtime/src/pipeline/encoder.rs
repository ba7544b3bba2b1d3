/*!
The encoder on its stream: one engine, or the parts of one in a row, with the tensors and what this program computes itself
between them: attention, or the whole trunk.

Those tensors are there once, however many frames are encoded ahead: all encodes run on one stream, so that a frame's are
read before the next frame's are written.
*/

use std::borrow::Cow;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};

use super::contexts::{Shared, context, port};
use super::engines::{EncoderEngines, Opened};
use super::steps::{Part, Steps};
use crate::{Placed, Port, Stage};
use cuda::{Gpu, MemoryTag, Stream, View};
use kernels::{AttentionKernels, TrunkExecutor};
use tensorrt::{DataType, Mode};
use vos::bundle::Wiring;
use vos::bundle::parts::{FEATURES, Handed, STAGES, Step};

/// The contexts of all parts.
pub struct Encoder {
    parts: Vec<Shared>,
    wiring: Wiring,
    /// Where each of the wiring's tensors lies.
    handed: Vec<Placed>,
    /// The blocks between stem and neck, where the encoder is cut there.
    trunk: Option<Rc<TrunkExecutor>>,
}

impl Encoder {
    /// Makes the contexts, in `scratch`, which they use one after the other, and memory for what they hand on. `kernels` are
    /// needed where there is a trunk between the parts.
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
        let make = |opened: &Opened| context(gpu, opened, 0, scratch, stream);
        let parts: Vec<Shared> = engines.parts.iter().map(make).collect::<Result<_>>()?;
        let wiring = engines.wiring.clone();
        let mut ports = Vec::new();
        for handed in &wiring.handed {
            let port = port_of(&parts, handed)?;
            ports.push((handed.slot, Stage::port_bytes(&port)?, port.dtype));
        }
        let slots = (0..wiring.slots()).map(|slot| {
            let sizes = ports.iter().filter(|(of, ..)| *of == slot).map(|(_, bytes, _)| *bytes);
            Ok(View::new(&gpu.tagged(MemoryTag::Scratch), sizes.max().unwrap_or(0))?)
        });
        let slots: Vec<View> = slots.collect::<Result<_>>()?;
        let handed = ports.into_iter().map(|(slot, bytes, dtype)| {
            // No more than the tensor has, so that a part that takes more is refused.
            Ok(Placed { view: slots.get(slot).context("no slot")?.part(0, bytes)?, dtype })
        });
        let handed: Vec<Placed> = handed.collect::<Result<_>>()?;
        let trunk = match &engines.trunk {
            None => None,
            Some(trunk) => {
                check_maps(&parts, &wiring)?;
                let maps: Vec<View> = handed.iter().map(|placed| placed.view.clone()).collect();
                let run = trunk.lay_out(gpu, kernels, &maps, scratch, stream);
                Some(Rc::new(run.context("the encoder's trunk cannot be laid out")?))
            }
        };
        Ok(Self { parts, wiring, handed, trunk })
    }

    /// The library of the trunk's products and its file: "cuBLASLt 13.1.0 (for CUDA 13), /usr/…/libcublasLt.so.13".
    pub fn products(&self) -> Option<String> {
        let library = self.trunk.as_ref()?.library();
        Some(format!("{library}, {}", library.path().display()))
    }

    /// The part that makes this one of [`FEATURES`], or that takes the image.
    pub fn stage_of(&self, name: &str) -> Result<&Shared> {
        let mode = if FEATURES.contains(&name) { Mode::Output } else { Mode::Input };
        let has = |part: &&Shared| part.borrow().port(name).is_some_and(|port| port.mode == mode);
        let Some(part) = self.parts.iter().find(has) else {
            bail!(
                "no engine of the encoder has the tensor '{name}'; build them again with: segtrt build-engines --force"
            );
        };
        Ok(part)
    }

    /// All parts and the trunk between them, with `tensors` as image and features.
    pub fn steps(&self, tensors: &[(&'static str, Placed)]) -> Steps {
        let mut steps = Vec::new();
        for (at, stage) in self.parts.iter().enumerate() {
            let outside = tensors.iter().map(|(name, placed)| (Cow::from(*name), placed.clone()));
            let between = self.wiring.handed.iter().zip(&self.handed).filter_map(|(h, placed)| {
                Some((Cow::from(h.name_in(Step::Part(at))?.to_owned()), placed.clone()))
            });
            steps.push(Steps::engine(stage, outside.chain(between).collect()));
            if let Some(trunk) = self.trunk.as_ref().filter(|_| at == 0) {
                steps.push(Part::Trunk(Rc::clone(trunk)));
            }
        }
        Steps(steps)
    }
}

/// The port of the part that makes a tensor; for what the trunk makes that of the part that takes it.
fn port_of(parts: &[Shared], handed: &Handed) -> Result<Port> {
    let steps = [handed.maker].into_iter().chain(handed.takers.iter().copied());
    let at = steps.into_iter().find_map(|step| match step {
        Step::Part(at) => Some(at),
        Step::Trunk => None,
    });
    let part = at.and_then(|at| parts.get(at)).context("a part of the encoder is gone")?;
    port(part, &handed.name)
}

/// The neck takes what the trunk gives as the trunk gives it: a build may have chosen other types.
fn check_maps(parts: &[Shared], wiring: &Wiring) -> Result<()> {
    let trunk = wiring.trunk.as_ref().context("the encoder has no trunk")?;
    for (stem_or_neck, names) in parts.iter().zip([&["y"][..], &STAGES[..]]) {
        for name in names {
            let Port { dtype, .. } = port(stem_or_neck, name)?;
            ensure!(
                dtype == DataType::Float,
                "'{name}' beside the encoder's trunk is {dtype}, its blocks take and give fp32; build the engines again with: \
                 segtrt build-engines --force"
            );
        }
    }
    ensure!(
        wiring.handed.len() == trunk.ends.len(),
        "{} tensors around a trunk of {} stages",
        wiring.handed.len(),
        trunk.ends.len()
    );
    Ok(())
}
