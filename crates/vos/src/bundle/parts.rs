/*!
How the parts of a cut encoder are put together: which tensor of which part goes where, and which of
them may share memory.

A deep image encoder takes TensorRT 8.6 minutes to build in one piece. So bundles may hold the
encoder in parts as well (`encoder_cut0`, `encoder_cut1`, …). The manifest's names alone say how
they belong together:

- `image` is the frame; `feat`, `hr0` and `hr1` are the encoder's outputs, whichever part makes
  them;
- a part's `y` is the next one's `x`;
- where the manifest has a trunk, there are two parts: the first one's `y` goes to the trunk, whose
  `m0` to `m3` the second takes;
- any other output goes to every later part with an input of that name.
*/

mod around_trunk;

use anyhow::{Context, Result, bail, ensure};

use super::manifest::{Axis, Graph, Manifest, Tensor};
use super::trunk::Trunk;

/// The encoder's input.
const IMAGE: &str = "image";

/// The encoder's outputs, which all steps take.
pub const FEATURES: [&str; 3] = ["feat", "hr0", "hr1"];

/// What a part hands to the next one, and what it is called there.
const TOKENS: (&str, &str) = ("y", "x");

/// What a trunk gives, as the neck calls it: the tokens behind each stage.
pub const STAGES: [&str; 4] = ["m0", "m1", "m2", "m3"];

/// The tensors on their way between parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartGraph {
    /// In the order in which they are made.
    pub edges: Vec<Edge>,
    /// The blocks between the two parts, where these are stem and neck.
    pub trunk: Option<Trunk>,
}

/// Something that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This part.
    Part(usize),
    /// The blocks between the first part and the second.
    Trunk,
}

impl Step {
    /// Its place in the order in which all run.
    fn place(self) -> usize {
        match self {
            Self::Part(at) => 2 * at,
            Self::Trunk => 1,
        }
    }
}

/// A tensor that one step makes and later ones take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its name where it is made.
    pub name: String,
    /// What makes it.
    pub producer: Step,
    /// What takes it, in order; never empty.
    pub consumers: Vec<Step>,
    /// Which memory it lies in; tensors of one slot are never needed at the same time.
    pub slot: usize,
}

impl Edge {
    /// What `step` calls it; none where the step has nothing to do with it.
    pub fn name_in(&self, step: Step) -> Option<&str> {
        match (&*self.name, step) {
            (name, step) if step == self.producer => Some(name),
            (name, step) if self.consumers.contains(&step) => Some(match step {
                Step::Part(_) if name != TOKENS.0 => name,
                // The first stage's tokens stay where they are: its blocks work in place.
                Step::Part(_) if self.consumers.contains(&Step::Trunk) => STAGES[0],
                Step::Part(_) => TOKENS.1,
                Step::Trunk => name,
            }),
            _ => None,
        }
    }

    /// From the step that makes it to the last one that takes it.
    fn life(&self) -> (usize, usize) {
        (self.producer.place(), self.consumers.last().unwrap_or(&self.producer).place())
    }

    fn meets(&self, other: &Self) -> bool {
        let ((begun, end), (others, others_end)) = (self.life(), other.life());
        begun <= others_end && others <= end
    }
}

impl PartGraph {
    /// Puts parts, in their order, together. A single graph is an encoder that is not cut. With a
    /// `trunk` there are two, the stem before it and the neck behind it.
    ///
    /// # Errors
    /// An input that no part before it makes, an output that nobody takes or that two parts make,
    /// types or shapes that differ at both ends, features that nobody makes.
    pub fn of(parts: &[&Graph], trunk: Option<&Trunk>) -> Result<Self> {
        if let Some(trunk) = trunk {
            return around_trunk::part_graph(parts, trunk);
        }
        let last = parts.len().checked_sub(1).context("an encoder of no parts was asked for")?;
        check_outputs(parts)?;
        let mut part_graph = Self::default();
        for (at, part) in parts.iter().enumerate() {
            for input in &part.inputs {
                part_graph.connect(parts, at, input)?;
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
            ensure!(continued, "{} has no input '{x}' for what comes before it", part.role.name());
        }
        for (at, part) in parts.iter().enumerate() {
            for tensor in part.outputs.iter().filter(|t| !FEATURES.contains(&t.name.as_str())) {
                let made = |h: &Edge| h.producer == Step::Part(at) && h.name == tensor.name;
                let taken = part_graph.edges.iter().any(made);
                ensure!(
                    taken,
                    "{} makes '{}', which no part behind it takes",
                    part.role.name(),
                    tensor.name
                );
            }
        }
        part_graph.share_memory();
        Ok(part_graph)
    }

    /// How many pieces of memory the tensors need.
    pub fn slots(&self) -> usize {
        self.edges.iter().map(|edge| edge.slot + 1).max().unwrap_or(0)
    }

    /// Finds who makes an input of part `at`.
    fn connect(&mut self, parts: &[&Graph], at: usize, input: &Tensor) -> Result<()> {
        let wanted = match input.name.as_str() {
            IMAGE => return Ok(()),
            name if name == TOKENS.1 => TOKENS.0,
            name => name,
        };
        // Tokens come from the part right before; under their own name nobody takes them.
        let among = match wanted {
            _ if wanted != TOKENS.0 => 0..at,
            _ if wanted == input.name => 0..0,
            _ => at.saturating_sub(1)..at,
        };
        let mut made =
            among.filter_map(|producer| Some((producer, output(parts.get(producer)?, wanted)?)));
        let Some((producer, tensor)) = made.next_back() else {
            let (what, name) = (&input.name, parts[at].role.name());
            let called = match what.as_str() {
                what if what == wanted => String::new(),
                _ => format!(" (its '{wanted}')"),
            };
            bail!("{name} takes '{what}', which no part before it makes{called}");
        };
        let (from, to) = (parts[producer].role.name(), parts[at].role.name());
        ensure!(
            (tensor.dtype, &tensor.shape) == (input.dtype, &input.shape),
            "{from} makes {tensor}, which {to} takes as {input}"
        );
        if FEATURES.contains(&wanted) {
            // It has memory of its own as one of the encoder's outputs.
            return Ok(());
        }
        let producer = Step::Part(producer);
        let known = |h: &&mut Edge| h.producer == producer && h.name == wanted;
        match self.edges.iter_mut().find(known) {
            Some(edge) => edge.consumers.push(Step::Part(at)),
            None => self.add_edge(wanted, producer, Step::Part(at)),
        }
        Ok(())
    }

    fn add_edge(&mut self, name: &str, producer: Step, consumer: Step) {
        self.edges.push(Edge {
            name: name.to_owned(),
            producer,
            consumers: vec![consumer],
            slot: 0,
        });
    }

    /// Gives each tensor the first memory in which nothing lies that is still needed, or already.
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

/// The outputs of all parts: features once each, and no other name twice but the tokens'.
fn check_outputs(parts: &[&Graph]) -> Result<()> {
    let producers = |name: &str| -> Vec<&str> {
        let producers = parts.iter().filter(|part| output(part, name).is_some());
        producers.map(|part| part.role.name()).collect()
    };
    for name in FEATURES {
        ensure!(!producers(name).is_empty(), "no part of the encoder makes '{name}'");
    }
    for tensor in parts.iter().flat_map(|part| &part.outputs).filter(|t| t.name != TOKENS.0) {
        let producers = producers(&tensor.name);
        ensure!(
            producers.len() == 1,
            "'{}' is made by more than one part: {}",
            tensor.name,
            producers.join(", ")
        );
    }
    Ok(())
}

/// The parts take what the whole encoder takes, and make what it makes.
///
/// # Errors
/// Parts that do not fit together ([`PartGraph::of`]), or one of whose ports at the outside differs
/// from the whole's.
pub fn check_against(whole: &Graph, parts: &[&Graph], trunk: Option<&Trunk>) -> Result<()> {
    PartGraph::of(parts, trunk)?;
    let same = |part: &Graph, one: &Tensor, other: Option<&Tensor>| {
        let fits =
            other.is_some_and(|other| (one.dtype, &one.shape) == (other.dtype, &other.shape));
        let other = other.map_or_else(|| "none such".to_owned(), Tensor::to_string);
        let (part, whole) = (part.role.name(), whole.role.name());
        ensure!(fits, "{part} has {one}, where the {whole} that it is a part of has {other}");
        Ok(())
    };
    for part in parts {
        for input in part.inputs.iter().filter(|t| t.name == IMAGE) {
            same(part, input, whole.input(IMAGE))?;
        }
        for made in part.outputs.iter().filter(|t| FEATURES.contains(&t.name.as_str())) {
            same(part, made, output(whole, &made.name))?;
        }
    }
    Ok(())
}

/// Both bundles are cut at the same places, as far as names and shapes tell; their types may
/// differ.
pub fn are_cut_alike(one: &Manifest, other: &Manifest) -> bool {
    let (one, other) = (one.own_cuts(), other.own_cuts());
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
