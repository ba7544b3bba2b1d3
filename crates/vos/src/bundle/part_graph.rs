/*!
Connects the parts of a cut encoder: the edges between them, and the tensors that may share memory.

TensorRT 8.6 needs minutes to build a deep image encoder in one piece. So a bundle may also have the
encoder in parts (`encoder_cut0`, `encoder_cut1`, …). Tensor names in the manifest define the edges:

- `image` is the frame; `feat`, `hr0` and `hr1` are the encoder's outputs, of any part;
- a part's `y` is the `x` of the next part;
- with a trunk there are two parts: the first one's `y` is the trunk's input, and the second takes
  the trunk's `m0` to `m3`;
- any other output is an input of the same name of every later part.
*/

mod around_trunk;

use anyhow::{Context, Result, bail, ensure};

use super::graph::{Axis, Graph, Tensor};
use super::manifest::Manifest;
use super::trunk::Trunk;

/// The encoder's input.
const IMAGE: &str = "image";

/// The encoder's outputs, which all steps use.
pub const FEATURES: [&str; 3] = ["feat", "hr0", "hr1"];

/// The output and input name of tokens between neighbouring parts.
const TOKENS: (&str, &str) = ("y", "x");

/// The trunk's outputs as the neck names them: the tokens after each stage.
pub const STAGES: [&str; 4] = ["m0", "m1", "m2", "m3"];

/// The tensors between parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartGraph {
    /// In the order of their producers.
    pub edges: Vec<Edge>,
    /// The blocks between the two parts, if these are stem and neck.
    pub trunk: Option<Trunk>,
}

/// A producer or consumer of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartStep {
    /// A part.
    Part(usize),
    /// The trunk between the first part and the second.
    Trunk,
}

impl PartStep {
    /// Its position in the order of execution.
    fn place(self) -> usize {
        match self {
            Self::Part(at) => 2 * at,
            Self::Trunk => 1,
        }
    }
}

/// A tensor from one step to later ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its name in the producer.
    pub name: String,
    /// The step that writes it.
    pub producer: PartStep,
    /// The steps that read it, in order; never empty.
    pub consumers: Vec<PartStep>,
    /// Index of its memory; tensors with the same index are never alive at the same time.
    pub slot: usize,
}

impl Edge {
    /// Its name in `step`; `None` if the step does not use it.
    pub fn name_in(&self, step: PartStep) -> Option<&str> {
        match (&*self.name, step) {
            (name, step) if step == self.producer => Some(name),
            (name, step) if self.consumers.contains(&step) => Some(match step {
                PartStep::Part(_) if name != TOKENS.0 => name,
                // The blocks of the first stage work in place, so its tokens keep their memory.
                PartStep::Part(_) if self.consumers.contains(&PartStep::Trunk) => STAGES[0],
                PartStep::Part(_) => TOKENS.1,
                PartStep::Trunk => name,
            }),
            _ => None,
        }
    }

    /// From its producer to its last consumer.
    fn life(&self) -> (usize, usize) {
        (self.producer.place(), self.consumers.last().unwrap_or(&self.producer).place())
    }

    fn meets(&self, other: &Self) -> bool {
        let ((begun, end), (others, others_end)) = (self.life(), other.life());
        begun <= others_end && others <= end
    }
}

impl PartGraph {
    /// Connects parts in their order. A single graph is an encoder in one piece. With a `trunk`
    /// there are two parts, the stem before it and the neck after it.
    ///
    /// # Errors
    /// An input that no earlier part produces, an output without a consumer or with two producers,
    /// types or shapes that differ at both ends, or a missing feature.
    pub fn of(parts: &[&Graph], trunk: Option<&Trunk>) -> Result<Self> {
        if let Some(trunk) = trunk {
            return around_trunk::wire(parts, trunk);
        }
        let last = parts.len().checked_sub(1).context("the encoder has no parts")?;
        check_outputs(parts)?;
        let mut wired = Self::default();
        for (at, part) in parts.iter().enumerate() {
            for input in &part.inputs {
                wired.connect(parts, at, input)?;
            }
            let first_takes_image = at > 0 || part.input(IMAGE).is_some();
            ensure!(first_takes_image, "{} has no input '{IMAGE}'", part.role.name());
            let (y, x) = TOKENS;
            let continues = output(part, y).is_some();
            ensure!(
                continues == (at < last),
                "{} has {} output '{y}', and is {} of the encoder's {} parts",
                part.role.name(),
                if continues { "an" } else { "no" },
                if continues { "the last" } else { "not the last" },
                parts.len()
            );
            let continued = at == 0 || part.input(x).is_some();
            ensure!(
                continued,
                "{} has no input '{x}' for the previous part's \
                                tokens",
                part.role.name()
            );
        }
        for (at, part) in parts.iter().enumerate() {
            for tensor in part.outputs.iter().filter(|t| !FEATURES.contains(&t.name.as_str())) {
                let produced = |h: &Edge| h.producer == PartStep::Part(at) && h.name == tensor.name;
                let taken = wired.edges.iter().any(produced);
                ensure!(
                    taken,
                    "{} has the output '{}', which no later part takes",
                    part.role.name(),
                    tensor.name
                );
            }
        }
        wired.share_memory();
        Ok(wired)
    }

    /// Number of memory pieces for the tensors.
    pub fn slots(&self) -> usize {
        self.edges.iter().map(|edge| edge.slot + 1).max().unwrap_or(0)
    }

    /// Finds the producer of an input of part `at`.
    fn connect(&mut self, parts: &[&Graph], at: usize, input: &Tensor) -> Result<()> {
        let wanted = match input.name.as_str() {
            IMAGE => return Ok(()),
            name if name == TOKENS.1 => TOKENS.0,
            name => name,
        };
        // Tokens come from the previous part under another name, so no part takes them by their own
        // name.
        let among = match wanted {
            _ if wanted != TOKENS.0 => 0..at,
            _ if wanted == input.name => 0..0,
            _ => at.saturating_sub(1)..at,
        };
        let mut produced =
            among.filter_map(|producer| Some((producer, output(parts.get(producer)?, wanted)?)));
        let Some((producer, tensor)) = produced.next_back() else {
            let (what, name) = (&input.name, parts[at].role.name());
            let called = match what.as_str() {
                what if what == wanted => String::new(),
                _ => format!(" (its '{wanted}')"),
            };
            bail!("{name} takes '{what}', which no earlier part has as an output{called}");
        };
        let (from, to) = (parts[producer].role.name(), parts[at].role.name());
        ensure!(
            (tensor.dtype, &tensor.shape) == (input.dtype, &input.shape),
            "{from} has the output {tensor}, which {to} takes as {input}"
        );
        if FEATURES.contains(&wanted) {
            // As one of the encoder's outputs it has separate memory.
            return Ok(());
        }
        let producer = PartStep::Part(producer);
        let known = |h: &&mut Edge| h.producer == producer && h.name == wanted;
        match self.edges.iter_mut().find(known) {
            Some(edge) => edge.consumers.push(PartStep::Part(at)),
            None => self.add_edge(wanted, producer, PartStep::Part(at)),
        }
        Ok(())
    }

    fn add_edge(&mut self, name: &str, producer: PartStep, consumer: PartStep) {
        self.edges.push(Edge {
            name: name.to_owned(),
            producer,
            consumers: vec![consumer],
            slot: 0,
        });
    }

    /// Gives each tensor the first memory without a tensor that is alive at the same time.
    fn share_memory(&mut self) {
        self.edges.sort_by_key(|edge| edge.producer.place());
        for at in 0..self.edges.len() {
            let (placed, rest) = self.edges.split_at_mut(at);
            let Some(edge) = rest.first_mut() else { continue };
            let taken: Vec<usize> =
                placed.iter().filter(|h| h.meets(edge)).map(|h| h.slot).collect();
            edge.slot = (0..=taken.len()).find(|slot| !taken.contains(slot)).unwrap_or(at);
        }
    }
}

/// Checks the outputs of all parts: each feature once, and no name twice except the tokens'.
fn check_outputs(parts: &[&Graph]) -> Result<()> {
    let producers = |name: &str| -> Vec<&str> {
        let producers = parts.iter().filter(|part| output(part, name).is_some());
        producers.map(|part| part.role.name()).collect()
    };
    for name in FEATURES {
        ensure!(!producers(name).is_empty(), "no part of the encoder has the output '{name}'");
    }
    for tensor in parts.iter().flat_map(|part| &part.outputs).filter(|t| t.name != TOKENS.0) {
        let producers = producers(&tensor.name);
        ensure!(
            producers.len() == 1,
            "'{}' is an output of more than one part: {}",
            tensor.name,
            producers.join(", ")
        );
    }
    Ok(())
}

/// Checks that the parts have the inputs and outputs of the whole encoder.
///
/// # Errors
/// Parts that cannot be connected ([`PartGraph::of`]), or an outer tensor that differs from the
/// whole encoder's.
pub fn check_against(whole: &Graph, parts: &[&Graph], trunk: Option<&Trunk>) -> Result<()> {
    PartGraph::of(parts, trunk)?;
    let same = |part: &Graph, one: &Tensor, other: Option<&Tensor>| {
        let fits =
            other.is_some_and(|other| (one.dtype, &one.shape) == (other.dtype, &other.shape));
        let other = other.map_or_else(|| "none such".to_owned(), Tensor::to_string);
        let (part, whole) = (part.role.name(), whole.role.name());
        ensure!(fits, "{part} has {one}, the whole {whole} has {other}");
        Ok(())
    };
    for part in parts {
        for input in part.inputs.iter().filter(|t| t.name == IMAGE) {
            same(part, input, whole.input(IMAGE))?;
        }
        for produced in part.outputs.iter().filter(|t| FEATURES.contains(&t.name.as_str())) {
            same(part, produced, output(whole, &produced.name))?;
        }
    }
    Ok(())
}

/// Whether both bundles are cut at the same places, according to names and shapes; types may
/// differ.
pub fn are_cut_alike(one: &Manifest, other: &Manifest) -> bool {
    let (one, other) = (one.cut_graphs(), other.cut_graphs());
    let same = |(one, other): (&&Graph, &&Graph)| {
        let ports = |graph: &Graph| -> Vec<(String, Vec<Axis>)> {
            let all = graph.inputs.iter().chain(&graph.outputs);
            let mut all: Vec<_> = all.map(|t| (t.name.clone(), t.shape.clone())).collect();
            all.sort_by(|(a, _), (b, _)| a.cmp(b));
            all
        };
        ports(one) == ports(other)
    };
    one.len() == other.len() && one.iter().zip(&other).all(same)
}

fn output<'a>(graph: &'a Graph, name: &str) -> Option<&'a Tensor> {
    graph.outputs.iter().find(|tensor| tensor.name == name)
}

#[cfg(test)]
mod tests;
