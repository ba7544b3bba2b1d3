/*!
The two parts around a trunk: the stem, which makes the tokens that it takes, and the neck, which
takes those behind each of its stages.
*/

use anyhow::{Result, bail, ensure};

use super::{Edge, FEATURES, IMAGE, PartGraph, STAGES, Step, TOKENS};
use crate::bundle::manifest::{Graph, Tensor};
use crate::bundle::trunk::Trunk;

/// Stem, trunk and neck in a row.
///
/// # Errors
/// Other parts than these two, or ports of theirs that are not the trunk's.
pub fn part_graph(parts: &[&Graph], trunk: &Trunk) -> Result<PartGraph> {
    let [stem, neck] = parts else {
        bail!(
            "there is a [trunk], and the encoder has {} parts: expected two, the stem before the trunk and the neck behind it",
            parts.len()
        );
    };
    let (y, _) = TOKENS;
    check_names(stem, "takes", &stem.inputs, &[IMAGE])?;
    check_names(stem, "makes", &stem.outputs, &[y])?;
    check_names(neck, "takes", &neck.inputs, &STAGES)?;
    check_names(neck, "makes", &neck.outputs, &FEATURES)?;
    check_ports(stem, "makes", &stem.outputs, &[trunk.takes()?])?;
    check_ports(neck, "takes", &neck.inputs, &trunk.gives()?)?;
    let hand = |name: &str, producer, consumers: &[Step]| Edge {
        name: name.to_owned(),
        producer,
        consumers: consumers.to_vec(),
        slot: 0,
    };
    // The first stage's tokens take the place of those that the stem made, and stay there until the
    // neck has read them.
    let tokens = hand(y, Step::Part(0), &[Step::Trunk, Step::Part(1)]);
    let behind = STAGES[1..].iter().map(|name| hand(name, Step::Trunk, &[Step::Part(1)]));
    let mut graph = PartGraph {
        edges: [tokens].into_iter().chain(behind).collect(),
        trunk: Some(trunk.clone()),
    };
    graph.share_memory();
    Ok(graph)
}

/// The part has these ports and no others.
fn check_names(part: &Graph, verb: &str, ports: &[Tensor], names: &[&str]) -> Result<()> {
    let part = part.role.name();
    let wanted = names.join(", ");
    for port in ports {
        let known = names.contains(&port.name.as_str());
        ensure!(known, "{part} {verb} '{}', beside a trunk expected: {wanted}", port.name);
    }
    for name in names {
        let there = ports.iter().filter(|port| port.name == *name).count() == 1;
        ensure!(there, "{part} {verb} no '{name}', beside a trunk expected: {wanted}");
    }
    Ok(())
}

/// Those of the part's ports that the trunk names have its types and shapes.
fn check_ports(part: &Graph, verb: &str, ports: &[Tensor], of_trunk: &[Tensor]) -> Result<()> {
    for wanted in of_trunk {
        for port in ports.iter().filter(|port| port.name == wanted.name) {
            ensure!(
                (port.dtype, &port.shape) == (wanted.dtype, &wanted.shape),
                "{} {verb} {port}, the trunk's blocks have {wanted}",
                part.role.name()
            );
        }
    }
    Ok(())
}
