/*!
A prompt on its way to the device: one pinned block, one copy.
*/

use anyhow::{Result, ensure};

use super::bound::tensor_of;
use super::contexts::Contexts;
use cuda::{Gpu, Pinned, Stream, View};
use execution::DeviceTensor;
use tensorrt::DataType;
use vos::tracker::NetworkPrompt;

/// Coordinates, labels and the choice of outputs begin here; each takes less than what is between
/// them.
const COORDS: usize = 0;
const LABELS: usize = 256;
const MULTI: usize = 512;
const POINTS_BYTES: usize = 768;

/// The prompt engines' own inputs.
pub struct PromptInput {
    points: (Pinned, View),
    /// Where objects are prompted with masks: as large as the network's input.
    mask: Option<(Pinned, View)>,
}

impl PromptInput {
    /// Memory for the prompts that the contexts take.
    pub fn new(gpu: &Gpu, contexts: &Contexts) -> Result<Self> {
        let both = |bytes| -> Result<_> { Ok((Pinned::new(gpu, bytes)?, View::new(gpu, bytes)?)) };
        let mask = match &contexts.mask_prompt {
            Some(engine) => {
                let desc = tensor_of(engine, "mask")?;
                ensure!(desc.dtype == DataType::Float, "'mask' is {}, expected fp32", desc.dtype);
                Some(both(desc.bytes()?)?)
            }
            None => None,
        };
        Ok(Self { points: both(POINTS_BYTES)?, mask })
    }

    /// Enqueues the prompt's copy; returns what the engine is to be bound to.
    pub fn enqueue(
        &mut self,
        prompt: &NetworkPrompt,
        stream: &Stream,
    ) -> Result<Vec<(&'static str, DeviceTensor)>> {
        let tensor = |view, dtype| DeviceTensor { view, dtype };
        match prompt {
            NetworkPrompt::Points { points, multimask } => {
                let (pinned, view) = &mut self.points;
                let bytes = pinned.bytes()?;
                let coords = points.coords.as_flattened().iter().flat_map(|v| v.to_le_bytes());
                let labels = points.labels.iter().flat_map(|v| v.to_le_bytes());
                let coords = write(&mut bytes[COORDS..LABELS], coords)?;
                let labels = write(&mut bytes[LABELS..MULTI], labels)?;
                let multi = f32::from(u8::from(*multimask)).to_le_bytes();
                let multi = write(&mut bytes[MULTI..], multi)?;
                pinned.upload(POINTS_BYTES, view, stream)?;
                Ok(vec![
                    ("coords", tensor(view.part(COORDS, coords)?, DataType::Float)),
                    ("labels", tensor(view.part(LABELS, labels)?, DataType::Int32)),
                    ("multi", tensor(view.part(MULTI, multi)?, DataType::Float)),
                ])
            }
            NetworkPrompt::Mask(mask) => {
                let Some((pinned, view)) = &mut self.mask else {
                    anyhow::bail!("the mask prompt engine is not loaded");
                };
                let bytes = size_of_val(mask.as_slice());
                ensure!(
                    bytes == view.len(),
                    "the prompt's mask has {bytes} bytes, the engine takes {}",
                    view.len()
                );
                // Inside the timed region, and as large as the network's input: value by value, not
                // byte by byte.
                for (to, value) in pinned.bytes()?.chunks_exact_mut(size_of::<f32>()).zip(mask) {
                    to.copy_from_slice(&value.to_le_bytes());
                }
                pinned.upload(bytes, view, stream)?;
                Ok(vec![("mask", tensor(view.clone(), DataType::Float))])
            }
        }
    }
}

/// Writes bytes to the start of `to`; how many they are.
fn write(to: &mut [u8], bytes: impl IntoIterator<Item = u8>) -> Result<usize> {
    let mut count = 0;
    for byte in bytes {
        let room = to.len();
        let place = to.get_mut(count);
        *place.ok_or_else(|| anyhow::anyhow!("a prompt takes more than {room} bytes"))? = byte;
        count += 1;
    }
    Ok(count)
}
