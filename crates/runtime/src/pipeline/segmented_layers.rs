/*!
What lies between the attentions of a segmented track step: engines of its segments, or CUDA
kernels; and the tensors that they exchange with the attention kernels.
*/

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};

use super::bound::{allocate_for, tensor_of};
use cuda::{Gpu, MemoryTag, View};
use execution::{DeviceTensor, Op, Program, SharedEngine, TensorDesc};
use kernels::{Attended, Attention, HEAD, MemoryAttention, Values};
use tensorrt::DataType;

/// The attention between two segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionBetween {
    /// Self-attention of the frame's tokens.
    SelfAttention,
    /// Cross-attention to the memory bank, of this layer.
    CrossAttention(usize),
}

/// What lies between the attentions.
pub enum Layers {
    /// Contexts of the segments in order.
    Engines(Vec<SharedEngine>),
    /// CUDA kernels, a piece for each segment.
    Kernels(Rc<MemoryAttention>),
}

/// What segments and attentions exchange.
pub struct LayerTensors {
    /// Tokens on their way through the layers, in turn.
    tokens: [DeviceTensor; 2],
    pub query: DeviceTensor,
    pub key: DeviceTensor,
    pub value: DeviceTensor,
    /// Queries, keys and values in one piece, where kernels write them.
    projected: Option<View>,
    /// Where both attentions leave their results: tensors of their own, or the parts that kernels
    /// join.
    pub frame_result: Attended,
    pub bank_result: Attended,
}

impl Layers {
    /// The attentions behind all segments but the last. `decoded`: the mask decoder's kernels
    /// follow the last one, which gives tokens.
    ///
    /// # Errors
    /// Segments whose outputs do not say what comes next.
    pub fn attentions(&self, decoded: bool) -> Result<Vec<AttentionBetween>> {
        let (mut attentions, mut layers) = (Vec::new(), 0);
        let mut cross = || {
            layers += 1;
            AttentionBetween::CrossAttention(layers - 1)
        };
        let segments = match self {
            Self::Engines(segments) => segments,
            Self::Kernels(kernels) => {
                ensure!(decoded, "nothing decodes what the memory attention's kernels give");
                for _ in 0..kernels.layers() {
                    attentions.extend([AttentionBetween::SelfAttention, cross()]);
                }
                return Ok(attentions);
            }
        };
        let has = |engine: &SharedEngine, name: &str| engine.borrow().tensor(name).is_some();
        for (at, segment) in segments.iter().enumerate() {
            let last = at + 1 == segments.len();
            attentions.push(match (has(segment, "q"), has(segment, "k"), has(segment, "low")) {
                (true, true, false) if !last => AttentionBetween::SelfAttention,
                (true, false, false) if !last => cross(),
                (false, false, answers) if last && answers != decoded => break,
                _ => bail!(
                    "the outputs of the track_seg{at} engine do not say what comes next: expected \
                     q, k and v or q alone, and {} of the last one; export the model again with \
                     --segments and build its engines",
                    if decoded { "y alone" } else { "low" }
                ),
            });
        }
        // Every layer has the attentions of the first two.
        ensure!(
            segments.len() >= 3,
            "there are {} segments of the track step, three are the fewest",
            segments.len()
        );
        ensure!(
            matches!(
                attentions.as_slice(),
                [AttentionBetween::SelfAttention, AttentionBetween::CrossAttention(0), ..]
            ),
            "the track step has no self-attention before its cross-attention to the bank; export \
             the model again with --segments and build its engines"
        );
        Ok(attentions)
    }

    /// Segments or pieces.
    pub fn len(&self) -> usize {
        match self {
            Self::Engines(segments) => segments.len(),
            Self::Kernels(kernels) => kernels.pieces().len(),
        }
    }

    /// Tokens of a frame.
    ///
    /// # Errors
    /// Engines whose tensors the attention kernels do not take.
    pub fn queries(&self) -> Result<usize> {
        let first = match self {
            Self::Engines(segments) => segments.first().context("there are no segments")?,
            Self::Kernels(kernels) => return Ok(kernels.tokens()),
        };
        let [queries, _] = half(&tensor_of(first, "q")?, [None, Some(HEAD)])?;
        for name in ["k", "v"] {
            half(&tensor_of(first, name)?, [Some(queries), Some(HEAD)])?;
        }
        Ok(queries)
    }

    /// Memory for what they exchange with these attentions, of the frame and to the bank.
    /// `decoded`: tokens that the mask decoder takes, where its kernels follow.
    ///
    /// # Errors
    /// Tensors of other sizes than the kernels take, or too little memory.
    pub fn tensors(
        &self,
        gpu: &Gpu,
        attentions: [&Attention; 2],
        decoded: Option<usize>,
    ) -> Result<LayerTensors> {
        let (queries, width) = (self.queries()?, Values::Memory.columns());
        let segments = match self {
            Self::Engines(segments) => segments,
            Self::Kernels(kernels) => {
                ensure!(
                    decoded.is_none_or(|tokens| tokens == kernels.tokens()),
                    "the mask decoder takes {decoded:?} tokens, the memory attention has {}",
                    kernels.tokens()
                );
                return LayerTensors::of_kernels(gpu, kernels, attentions);
            }
        };
        let [first, second, third, ..] = segments.as_slice() else {
            bail!("there are {} segments of the track step", segments.len());
        };
        if let (Some(tokens), Some(last)) = (decoded, segments.last()) {
            half(&tensor_of(last, "y")?, [Some(tokens), Some(HEAD)])?;
        }
        // Segments 1 and 2 take what the two attentions give; the others take the same.
        half(&tensor_of(second, "o")?, [Some(queries), Some(HEAD)])?;
        half(&tensor_of(third, "o")?, [Some(queries), Some(width)])?;
        let new =
            |engine: &SharedEngine, name: &str| allocate_for(gpu, engine, name, MemoryTag::Scratch);
        Ok(LayerTensors {
            tokens: [new(first, "y")?, new(first, "y")?],
            query: new(first, "q")?,
            key: new(first, "k")?,
            value: new(first, "v")?,
            projected: None,
            frame_result: Attended::Whole(new(second, "o")?.view),
            bank_result: Attended::Whole(new(third, "o")?.view),
        })
    }

    /// Segment or piece `at`, after what was `attended` to, in front of the attention that
    /// `follows`. `tensors`: features and outputs.
    ///
    /// # Errors
    /// A tensor is missing.
    pub fn op(
        &self,
        at: usize,
        own: &LayerTensors,
        attended: Option<Attended>,
        follows: Option<&AttentionBetween>,
        tensors: &[(&'static str, DeviceTensor)],
    ) -> Result<Op> {
        let (x, y) = (&own.tokens[(at + 1) % 2], &own.tokens[at % 2]);
        let kernels = match self {
            Self::Kernels(kernels) => kernels,
            Self::Engines(segments) => {
                let mut all = tensors.to_vec();
                all.extend([("x", x.clone()), ("y", y.clone())]);
                if let Some(attended) = attended {
                    let whole =
                        attended.whole().context("an engine takes no attention in parts")?;
                    all.push(("o", DeviceTensor { view: whole.clone(), dtype: DataType::Half }));
                }
                for (name, placed) in [("q", &own.query), ("k", &own.key), ("v", &own.value)] {
                    all.push((name, placed.clone()));
                }
                return Ok(Program::engine(segments.get(at).context("there is no segment")?, all));
            }
        };
        let feat = || find(tensors, "feat");
        Ok(Op::MemoryAttention {
            kernels: Rc::clone(kernels),
            piece: *kernels.pieces().get(at).context("there is no such piece")?,
            x: if at == 0 { feat()? } else { x.view.clone() },
            attended,
            y: y.view.clone(),
            projected: match follows {
                Some(AttentionBetween::SelfAttention) => own.projected.clone(),
                Some(AttentionBetween::CrossAttention(_)) => Some(own.query.view.clone()),
                None => None,
            },
        })
    }

    /// What the last one gives.
    ///
    /// # Errors
    /// There is none, or it lacks the tensor.
    pub fn output(&self, name: &str) -> Result<TensorDesc> {
        match self {
            Self::Engines(segments) => {
                tensor_of(segments.last().context("there are no segments")?, name)
            }
            Self::Kernels(_) => bail!("the memory attention's kernels give no '{name}'"),
        }
    }
}

impl LayerTensors {
    /// Kernels that join an attention's parts read no whole result: it has no memory then.
    fn of_kernels(
        gpu: &Gpu,
        kernels: &MemoryAttention,
        [frame, bank]: [&Attention; 2],
    ) -> Result<Self> {
        let memory = gpu.tagged(MemoryTag::Scratch);
        let row = size_of::<u16>() * kernels.tokens();
        let placed = |view: View| DeviceTensor { view, dtype: DataType::Half };
        let new = |columns: usize| -> Result<View> { Ok(View::new(&memory, row * columns)?) };
        let projected = View::new(&memory, 3 * row * HEAD)?;
        let section = |at: usize| {
            Ok::<_, anyhow::Error>(placed(projected.part(at * row * HEAD, row * HEAD)?))
        };
        Ok(Self {
            tokens: [placed(new(HEAD)?), placed(new(HEAD)?)],
            query: section(0)?,
            key: section(1)?,
            value: section(2)?,
            frame_result: kernels.frame_result(frame, || new(HEAD))?,
            bank_result: bank.apart(|| new(Values::Memory.columns()))?,
            projected: Some(projected),
        })
    }

    /// The tokens behind segment or piece `at`.
    pub fn behind(&self, at: usize) -> &View {
        &self.tokens[at % 2].view
    }
}

/// A tensor by its name.
///
/// # Errors
/// There is none.
pub fn find(tensors: &[(&'static str, DeviceTensor)], name: &str) -> Result<View> {
    let found = tensors.iter().find(|(tensor, _)| *tensor == name);
    let missing = || format!("the track step's kernels lack the tensor '{name}'");
    found.map(|(_, placed)| placed.view.clone()).with_context(missing)
}

/// The rows and columns of one object's tensor, which must be fp16 and as large as `expected` says
/// where it does.
///
/// # Errors
/// Another type or size.
pub fn half(desc: &TensorDesc, expected: [Option<usize>; 2]) -> Result<[usize; 2]> {
    let TensorDesc { name, dtype, shape, .. } = desc;
    ensure!(
        *dtype == DataType::Half,
        "'{name}' of the segmented track step is {dtype}, the attention kernels take fp16; build \
         the engines with --precision fp16, or with --track-variant padded"
    );
    let found = match shape.as_slice() {
        [1, rows, columns] => [rows, columns].map(|extent| usize::try_from(*extent).unwrap_or(0)),
        _ => [0, 0],
    };
    let fits = found
        .iter()
        .zip(expected)
        .all(|(found, wanted)| *found > 0 && wanted.is_none_or(|w| w == *found));
    let word =
        |wanted: Option<usize>| wanted.map_or_else(|| "any".to_owned(), |size| size.to_string());
    ensure!(
        fits,
        "'{name}' of the segmented track step is {shape:?}, the attention kernels take [1, {}, \
         {}]; build the engines with --track-variant padded",
        word(expected[0]),
        word(expected[1])
    );
    Ok(found)
}
