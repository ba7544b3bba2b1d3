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
use super::trunk::TrunkRun;
use crate::bundle::Wiring;
use crate::bundle::parts::{ATTENDED, Attends, FEATURES, Handed, RESULT, STAGES, Step};
use crate::gpu::kernels::{Attention, AttentionKernels, AttentionShape, Values};
use crate::gpu::{Gpu, Placed, Port, Purpose, Stage, Stream, View};
use crate::trt::{DataType, Mode};

/// The contexts of all parts.
pub struct Encoder {
    parts: Vec<Shared>,
    wiring: Wiring,
    /// Where each of the wiring's tensors lies.
    handed: Vec<Placed>,
    /// Each of the wiring's attentions; those of one size are one, for they run one after the other.
    attentions: Vec<Rc<Attention>>,
    /// The blocks between stem and neck, where the encoder is cut there.
    trunk: Option<Rc<TrunkRun>>,
}

impl Encoder {
    /// Makes the contexts, in `scratch`, which they use one after the other, and memory for what they hand on. `kernels` are
    /// needed where there is attention between the parts.
    ///
    /// # Errors
    /// Engines that lack a tensor which their bundle names, attentions that there are no kernels for, a trunk's weights that are
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
        let mut attentions = Vec::<Rc<Attention>>::new();
        for attends in &wiring.attentions {
            check_ports(&parts, &wiring, attends)?;
            let shape = shape_of(attends);
            let known = attentions.iter().find(|attention| attention.shape() == shape);
            attentions.push(match known {
                Some(known) => Rc::clone(known),
                None => {
                    let kernels = kernels.context("the attention kernels are not loaded")?;
                    let attention = Attention::new(gpu, kernels, shape)?;
                    log::debug!(
                        "attention of the encoder: {} in {} parts",
                        attention.kernel(),
                        attention.splits()
                    );
                    Rc::new(attention)
                }
            });
        }
        let slots = (0..wiring.slots()).map(|slot| {
            let sizes = ports.iter().filter(|(of, ..)| *of == slot).map(|(_, bytes, _)| *bytes);
            Ok(View::new(&gpu.towards(Purpose::Scratch), sizes.max().unwrap_or(0))?)
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
                let run = TrunkRun::new(gpu, trunk, kernels, &maps, scratch, stream);
                Some(Rc::new(run.context("the encoder's trunk cannot be laid out")?))
            }
        };
        Ok(Self { parts, wiring, handed, attentions, trunk })
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

    /// All parts and what they attend to between them, with `tensors` as image and features.
    ///
    /// # Errors
    /// A tensor of an attention is nowhere.
    pub fn steps(&self, tensors: &[(&'static str, Placed)]) -> Result<Steps> {
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
            let all = self.wiring.attentions.iter().zip(&self.attentions);
            let behind = all.into_iter().find(|(attends, _)| attends.behind == at);
            if let Some((_, attention)) = behind {
                let [q, k, v] = ATTENDED.map(|name| self.attended(at, name));
                steps.push(Part::Attention {
                    attention: Rc::clone(attention),
                    inputs: [q?, k?, v?],
                    bias: None,
                    output: self.attended(at, RESULT)?,
                });
            }
        }
        Ok(Steps(steps))
    }

    /// Where the attention behind this part has a tensor.
    fn attended(&self, behind: usize, name: &str) -> Result<View> {
        let step = Step::Attention(behind);
        let mut all = self.wiring.handed.iter().zip(&self.handed);
        let found = all.find(|(handed, _)| handed.name_in(step) == Some(name));
        let (_, placed) = found.with_context(|| format!("an attention's '{name}' is nowhere"))?;
        Ok(placed.view.clone())
    }
}

/// The port of the part that makes a tensor; for what an attention makes that of the part that takes it.
fn port_of(parts: &[Shared], handed: &Handed) -> Result<Port> {
    let steps = [handed.maker].into_iter().chain(handed.takers.iter().copied());
    let at = steps.into_iter().find_map(|step| match step {
        Step::Part(at) => Some(at),
        Step::Attention(_) | Step::Trunk => None,
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

fn shape_of(attends: &Attends) -> AttentionShape {
    let Attends { heads, tokens, width, .. } = *attends;
    AttentionShape { objects: heads, queries: tokens, keys: tokens, values: Values::Heads(width) }
}

/// The engines' ports around an attention are what the bundle said: a build may give them other types.
fn check_ports(parts: &[Shared], wiring: &Wiring, attends: &Attends) -> Result<()> {
    let Attends { behind, heads, tokens, width } = *attends;
    let step = Step::Attention(behind);
    for handed in wiring.handed.iter().filter(|handed| handed.name_in(step).is_some()) {
        let Port { name, dtype, shape, .. } = port_of(parts, handed)?;
        let wanted = [heads, tokens, width].map(|extent| extent as i64);
        ensure!(
            dtype == DataType::Half && shape == wanted,
            "'{name}' of the attention behind encoder_cut{behind} is {dtype} {shape:?}, the attention kernels take fp16 \
             {wanted:?}; build the engines again with: segtrt build-engines --force"
        );
    }
    Ok(())
}
