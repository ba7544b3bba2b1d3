/*!
The two parts around a trunk: the stem, whose output is the trunk's input, and the neck, which takes
the tokens after each stage.
*/

use anyhow::{Result, bail, ensure};

use super::{Edge, FEATURES, IMAGE, PartGraph, PartStep, STAGES, TOKENS};
use crate::bundle::graph::{Graph, Tensor};
use crate::bundle::trunk::Trunk;

/// Connects stem, trunk and neck.
///
/// # Errors
/// There are other parts, or tensors that differ from the trunk's.
pub fn wire(parts: &[&Graph], trunk: &Trunk) -> Result<PartGraph> {
    let [stem, neck] = parts else {
        bail!(
            "the encoder has a [trunk] and {} parts; expected two parts, the stem before the trunk \
             and the neck after it",
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
    let edge = |name: &str, producer, consumers: &[PartStep]| Edge {
        name: name.to_owned(),
        producer,
        consumers: consumers.to_vec(),
        slot: 0,
    };
    // The first stage's tokens overwrite the stem's and stay until the neck has read them.
    let tokens = edge(y, PartStep::Part(0), &[PartStep::Trunk, PartStep::Part(1)]);
    let stages = STAGES[1..].iter().map(|name| edge(name, PartStep::Trunk, &[PartStep::Part(1)]));
    let mut wired = PartGraph {
        edges: [tokens].into_iter().chain(stages).collect(),
        trunk: Some(trunk.clone()),
    };
    wired.share_memory();
    Ok(wired)
}

/// Checks that the part has exactly these tensors.
fn check_names(part: &Graph, verb: &str, ports: &[Tensor], names: &[&str]) -> Result<()> {
    let part = part.role.name();
    let wanted = names.join(", ");
    for port in ports {
        let known = names.contains(&port.name.as_str());
        ensure!(known, "{part} {verb} '{}'; with a trunk expected: {wanted}", port.name);
    }
    for name in names {
        let there = ports.iter().filter(|port| port.name == *name).count() == 1;
        ensure!(there, "{part} {verb} no '{name}'; with a trunk expected: {wanted}");
    }
    Ok(())
}

/// Checks that the part's tensors with a name in the trunk have its types and shapes.
fn check_ports(part: &Graph, verb: &str, ports: &[Tensor], of_trunk: &[Tensor]) -> Result<()> {
    for wanted in of_trunk {
        for port in ports.iter().filter(|port| port.name == wanted.name) {
            ensure!(
                (port.dtype, &port.shape) == (wanted.dtype, &wanted.shape),
                "{} {verb} {port}; the trunk's blocks have {wanted}",
                part.role.name()
            );
        }
    }
    Ok(())
}
