/*!
The encoder on its stream: one engine, or the parts of a deep one in a row, with the tensors between them.

Those tensors are there once, however many frames are encoded ahead: all encodes run on one stream, so that a frame's are
read before the next frame's are written.
*/

use std::borrow::Cow;

use anyhow::{Context, Result, bail};

use super::contexts::{Shared, context, port};
use super::engines::{EncoderEngines, Opened};
use super::steps::Steps;
use crate::bundle::Wiring;
use crate::bundle::parts::FEATURES;
use crate::gpu::{Gpu, Placed, Purpose, Stage, Stream, View};
use crate::trt::Mode;

/// The contexts of all parts.
pub struct Encoder {
    parts: Vec<Shared>,
    wiring: Wiring,
    /// Where each of the wiring's tensors lies.
    handed: Vec<Placed>,
}

impl Encoder {
    /// Makes the contexts, in `scratch`, which they use one after the other, and memory for what they hand on.
    ///
    /// # Errors
    /// Engines that lack a tensor which their bundle names, or too little memory.
    pub fn new(
        gpu: &Gpu,
        engines: &EncoderEngines,
        scratch: &View,
        stream: &Stream,
    ) -> Result<Self> {
        let make = |opened: &Opened| context(gpu, opened, 0, scratch, stream);
        let parts: Vec<Shared> = engines.parts.iter().map(make).collect::<Result<_>>()?;
        let wiring = engines.wiring.clone();
        let mut ports = Vec::new();
        for handed in &wiring.handed {
            let maker = parts.get(handed.maker).context("a part of the encoder is gone")?;
            let port = port(maker, &handed.name)?;
            ports.push((handed.slot, Stage::port_bytes(&port)?, port.dtype));
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
        let handed = handed.collect::<Result<_>>()?;
        Ok(Self { parts, wiring, handed })
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

    /// All parts, with `tensors` as image and features.
    pub fn steps(&self, tensors: &[(&'static str, Placed)]) -> Steps {
        let part = |(at, stage): (usize, &Shared)| {
            let outside = tensors.iter().map(|(name, placed)| (Cow::from(*name), placed.clone()));
            let between = self.wiring.handed.iter().zip(&self.handed).filter_map(|(h, placed)| {
                Some((Cow::from(h.name_in(at)?.to_owned()), placed.clone()))
            });
            Steps::engine(stage, outside.chain(between).collect())
        };
        Steps(self.parts.iter().enumerate().map(part).collect())
    }
}
