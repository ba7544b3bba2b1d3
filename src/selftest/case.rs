/*!
What an engine is run with: one case for each of its profiles, and more where the same shapes mean
different work.
*/

use anyhow::{Context, Result};

use runtime::engine::{PlanRecord, ProfileShapes};
use vos::bundle::manifest::{Axis, Graph};
use vos::bundle::{Contract, Manifest, Role};

/// A bank that is filling: what the frame after three others reads.
const PARTLY_FILLED: usize = 3;

/// What inputs mean beyond their shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Shapes say all.
    Plain,
    /// A part of an encoder: whatever comes from earlier parts is tokens, by any name.
    Tokens,
    /// The whole encoder, from the image on, with what this program computes between its parts.
    Joined,
    /// A bank in which so many slots hold something.
    Bank {
        /// Memory frames.
        memories: usize,
        /// Object pointers.
        pointers: usize,
    },
    /// A frame to be memorised.
    Frame {
        /// It was prompted: its mask is made binary.
        prompted: bool,
    },
}

/// One run of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Which optimization profile.
    pub profile: usize,
    /// What tells it from the plan's other cases.
    pub label: String,
    /// Shapes of all inputs that the graph declares.
    pub shapes: Vec<(String, Vec<i64>)>,
    /// What the inputs mean.
    pub meaning: Meaning,
}

impl Case {
    /// The shape of an input.
    pub fn shape(&self, name: &str) -> Result<&[i64]> {
        let found = self.shapes.iter().find(|(known, _)| known == name);
        let (_, shape) = found.with_context(|| format!("the graph has no input '{name}'"))?;
        Ok(shape)
    }

    /// One extent of an input.
    pub fn extent(&self, name: &str, axis: usize) -> Result<usize> {
        let extent = self.shape(name)?.get(axis).copied();
        let extent = extent.and_then(|extent| usize::try_from(extent).ok());
        extent.with_context(|| format!("input '{name}' has no extent {axis}"))
    }
}

/// The cases of a plan, in the order of its profiles.
///
/// # Errors
/// A plan whose graph its own manifest does not describe.
pub fn cases(manifest: &Manifest, plan: &PlanRecord) -> Result<Vec<Case>> {
    let graph = manifest.graph(plan.role).with_context(|| {
        format!("the bundle's manifest in engine.json describes no {} graph", plan.role.name())
    })?;
    let fixed = [ProfileShapes { label: String::new(), shapes: Vec::new() }];
    let profiles = match plan.settings.profiles.as_slice() {
        [] => &fixed,
        profiles => profiles,
    };
    let mut cases = Vec::new();
    let joined = joined(manifest, plan.role)?;
    for (profile, ProfileShapes { label, shapes }) in profiles.iter().enumerate() {
        let shapes = all_shapes(graph, shapes)?;
        let plain = Case { profile, label: label.clone(), shapes, meaning: Meaning::Plain };
        for (meaning, more) in meanings(plan.role, &manifest.contract, &plain)? {
            let mut case = Case { meaning, ..plain.clone() };
            let parts = [label.as_str(), more.as_str()];
            case.label = parts.into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join("; ");
            cases.push(case);
        }
    }
    cases.extend(joined);
    Ok(cases)
}

/// Behind the last part of an encoder between whose parts this program computes: all of it.
fn joined(manifest: &Manifest, role: Role) -> Result<Option<Case>> {
    let parts = manifest.encoder_parts();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(None) };
    if manifest.trunk.is_none() || last.role != role {
        return Ok(None);
    }
    let case = Case {
        profile: 0,
        label: "joined with all that comes before it".to_owned(),
        shapes: all_shapes(first, &[])?,
        meaning: Meaning::Joined,
    };
    Ok(Some(case))
}

fn meanings(role: Role, contract: &Contract, case: &Case) -> Result<Vec<(Meaning, String)>> {
    Ok(match role {
        Role::Track => {
            let (memories, pointers) = (case.extent("tidx", 0)?, case.extent("ptrs", 1)?);
            vec![(Meaning::Bank { memories, pointers }, String::new())]
        }
        Role::TrackPadded => {
            let (memories, pointers) = (contract.max_memories, contract.max_pointers);
            let part = PARTLY_FILLED.min(memories).min(pointers);
            vec![
                (Meaning::Bank { memories, pointers }, "bank full".to_owned()),
                (
                    Meaning::Bank { memories: part, pointers: part },
                    format!("{part} memories and {part} pointers in the bank"),
                ),
            ]
        }
        Role::TrackKeys => {
            let (memories, pointers) = (contract.max_memories, contract.max_pointers);
            vec![(Meaning::Bank { memories, pointers }, "bank full".to_owned())]
        }
        Role::Memory => vec![
            (Meaning::Frame { prompted: false }, "tracked frame".to_owned()),
            (Meaning::Frame { prompted: true }, "prompted frame".to_owned()),
        ],
        role if role.is_encoder_part() => vec![(Meaning::Tokens, String::new())],
        _ => vec![(Meaning::Plain, String::new())],
    })
}

/// The shapes of all inputs: those of the profile, and the fixed ones.
fn all_shapes(graph: &Graph, profile: &[(String, Vec<i64>)]) -> Result<Vec<(String, Vec<i64>)>> {
    let shape_of = |input: &vos::bundle::manifest::Tensor| {
        if let Some((_, shape)) = profile.iter().find(|(name, _)| *name == input.name) {
            return Ok((input.name.clone(), shape.clone()));
        }
        let extent = |axis: &Axis| match axis {
            Axis::Fixed(extent) => Some(*extent as i64),
            // A plan without profiles was built for one object.
            Axis::Symbol(symbol) => (symbol == "B" && profile.is_empty()).then_some(1),
        };
        let shape: Option<Vec<i64>> = input.shape.iter().map(extent).collect();
        let shape = shape.with_context(|| format!("no profile fixes input '{}'", input.name))?;
        Ok((input.name.clone(), shape))
    };
    graph.inputs.iter().map(shape_of).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use runtime::engine::{BuildCost, Builder, Settings, profiles};
    use vos::bundle::Bundle;
    use vos::precision::Precision;

    pub(crate) fn manifest() -> Manifest {
        Bundle::open("onnx/bundles/edgetam_mini_256_fp32".as_ref()).unwrap().manifest
    }

    pub(crate) fn plan(manifest: &Manifest, role: Role) -> PlanRecord {
        let graph = manifest.graph(role).unwrap();
        PlanRecord {
            role,
            file: format!("{}.plan", role.name()),
            sha256: String::new(),
            bytes: 0,
            onnx_sha256: graph.sha256.clone(),
            made_by: Builder {
                tensorrt: "TensorRT 8.6.0".to_owned(),
                sm: vec![90],
                device: None,
                driver_cuda: None,
                segtrt: "0.1.0".to_owned(),
            },
            settings: Settings {
                profiles: profiles(graph, &manifest.contract, 1, 2),
                ..Settings::plain(Precision::Fp16)
            },
            build: BuildCost::default(),
            layers: None,
        }
    }

    /// The manifest with a padded track graph, as the exporter describes it.
    pub(in crate::selftest) fn with_padded_track() -> Manifest {
        let mut manifest = manifest();
        let contract = manifest.contract.clone();
        let mut graph = manifest.graph(Role::Track).unwrap().clone();
        graph.role = Role::TrackPadded;
        for axis in graph.inputs.iter_mut().flat_map(|input| &mut input.shape) {
            match axis {
                Axis::Symbol(symbol) if symbol == "F" => *axis = Axis::Fixed(contract.max_memories),
                Axis::Symbol(symbol) if symbol == "N" => *axis = Axis::Fixed(contract.max_pointers),
                _ => {}
            }
        }
        let split = contract.pointer_channels / contract.memory_channels;
        let keys = contract.max_memories * contract.memory_tokens + contract.max_pointers * split;
        let mut bias = graph.inputs[0].clone();
        bias.name = "bias".to_owned();
        bias.shape = [1, 1, 1, keys].map(Axis::Fixed).to_vec();
        graph.inputs.push(bias);
        manifest.graphs.push(graph);
        manifest
    }

    #[test]
    fn every_profile_is_a_case_and_a_fixed_graph_is_one() {
        let manifest = manifest();
        let of = |role| cases(&manifest, &plan(&manifest, role)).unwrap();
        let encoder = of(Role::Encoder);
        assert_eq!(encoder.len(), 1);
        assert_eq!(encoder[0].shape("image").unwrap(), [1, 3, 256, 256]);
        assert_eq!(of(Role::Prompt).len(), 2);
        let track = of(Role::Track);
        assert_eq!(track.len(), manifest.contract.max_pointers);
        assert_eq!(track[0].meaning, Meaning::Bank { memories: 1, pointers: 1 });
        assert_eq!(track[15].meaning, Meaning::Bank { memories: 7, pointers: 16 });
        assert_eq!(track[15].profile, 15);
        assert_eq!(track[15].shape("mem").unwrap(), [1, 7, 128, 16]);
        let memory: Vec<String> = of(Role::Memory).into_iter().map(|case| case.label).collect();
        assert_eq!(memory, ["1 object; tracked frame", "1 object; prompted frame"]);
    }

    #[test]
    fn a_padded_bank_is_tried_full_and_filling_in_the_same_profile() {
        let manifest = with_padded_track();
        let cases = cases(&manifest, &plan(&manifest, Role::TrackPadded)).unwrap();
        let meanings: Vec<Meaning> = cases.iter().map(|case| case.meaning).collect();
        let bank = |memories, pointers| Meaning::Bank { memories, pointers };
        assert_eq!(meanings, [bank(7, 16), bank(3, 3)]);
        assert!(cases.iter().all(|case| case.profile == 0));
        assert_eq!(cases[1].label, "1 object; 3 memories and 3 pointers in the bank");
    }
}
