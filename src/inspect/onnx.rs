/*!
An ONNX file: its metadata, inputs, outputs and weights.
*/

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use serde::Serialize;

use tensorrt::onnx_file::{OnnxExtent, OnnxSummary, OnnxTensor, OnnxType, OnnxWeights};
use vos::bundle::Bundle;
use vos::files::sha256_of_file;

/// The newest opset that TensorRT 8.6's parser reads correctly (seen: it misreads ReduceMean of
/// opset 18).
const TENSORRT_8_OPSET: i64 = 17;

/// One ONNX file.
#[derive(Clone, Debug, Serialize)]
pub struct OnnxReport {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// The bundle whose manifest names it; none without a manifest in the same folder.
    pub bundle: Option<Membership>,
    /// Version of the file format.
    pub ir_version: u64,
    /// Program that wrote it.
    pub producer: String,
    /// Opset of ONNX's own operators.
    pub opset: i64,
    /// Opsets of other domains.
    pub other_opsets: BTreeMap<String, i64>,
    /// Inputs in graph order.
    pub inputs: Vec<OnnxTensor>,
    /// Outputs in graph order.
    pub outputs: Vec<OnnxTensor>,
    /// Number of nodes, with the nodes of subgraphs.
    pub nodes: usize,
    /// How often each operator is used, most used first.
    pub operators: Vec<OperatorCount>,
    /// Number of weights and constants, all types together.
    pub parameters: u64,
    /// Weights and constants by element type.
    pub weights: BTreeMap<String, OnnxWeights>,
    /// Files that hold weights, relative to this one.
    pub external_files: Vec<String>,
    /// What a TensorRT user has to know.
    pub notes: Vec<String>,
}

/// Part in a bundle.
#[derive(Clone, Debug, Serialize)]
pub struct Membership {
    /// The bundle's name.
    pub name: String,
    /// What the graph does in it.
    pub role: &'static str,
    /// The file is the one that the manifest means.
    pub sha256_agrees: bool,
}

/// Uses of one operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperatorCount {
    /// The operator, with its domain where it is not ONNX's own.
    pub operator: String,
    /// How many nodes.
    pub nodes: usize,
}

/// Reads the file.
pub fn inspect(path: &Path) -> Result<OnnxReport> {
    let summary = OnnxSummary::read(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => anyhow!(
            "{} is {error}; copy it again, or export it again with onnx/export.py",
            path.display()
        ),
        _ => anyhow!("cannot read {}: {error}", path.display()),
    })?;
    // Exporters write the opset last: a cut there leaves a file that reads well and means nothing.
    let Some(opset) = summary.opset else {
        bail!(
            "{} is truncated or no ONNX file: it names no opset of ONNX's own operators; copy it \
             again, or export it again with onnx/export.py",
            path.display()
        );
    };
    let hash = sha256_of_file(path)?;
    let bundle = membership(path, &hash.sha256);
    let mut notes = notes(&summary, opset, path);
    if let Some(Membership { name, sha256_agrees: false, .. }) = &bundle {
        notes.insert(
            0,
            format!(
                "this is not the graph that the manifest of {name} beside it means (its sha256 \
             differs): export the model again or restore the file"
            ),
        );
    }
    Ok(OnnxReport {
        path: path.to_owned(),
        bytes: hash.bytes,
        sha256: hash.sha256,
        bundle,
        ir_version: summary.ir_version,
        opset,
        nodes: summary.nodes.len() + summary.inner_nodes.len(),
        operators: operators(&summary),
        parameters: summary.weights.values().map(|weights| weights.elements).sum(),
        weights: summary
            .weights
            .iter()
            .map(|(dtype, weights)| (dtype.to_string(), *weights))
            .collect(),
        producer: summary.producer,
        other_opsets: summary.other_opsets.into_iter().collect(),
        inputs: summary.inputs,
        outputs: summary.outputs,
        external_files: summary.external_files,
        notes,
    })
}

/// The bundle that the file belongs to; a manifest that is broken is none of this file's affairs.
fn membership(path: &Path, sha256: &str) -> Option<Membership> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let bundle = Bundle::open(folder.unwrap_or(Path::new("."))).ok()?;
    let name = path.file_name()?.to_str()?;
    let graph = bundle.manifest.graphs.iter().find(|graph| graph.file == name)?;
    Some(Membership {
        name: bundle.name(),
        role: graph.role.name(),
        sha256_agrees: graph.sha256 == sha256,
    })
}

fn operators(summary: &OnnxSummary) -> Vec<OperatorCount> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for node in summary.nodes.iter().chain(&summary.inner_nodes) {
        let name = match node.domain.as_str() {
            "" | "ai.onnx" => node.operator.clone(),
            domain => format!("{domain}::{}", node.operator),
        };
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<_> =
        counts.into_iter().map(|(operator, nodes)| OperatorCount { operator, nodes }).collect();
    counts.sort_by(|a, b| b.nodes.cmp(&a.nodes).then_with(|| a.operator.cmp(&b.operator)));
    counts
}

fn notes(summary: &OnnxSummary, opset: i64, path: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    if opset > TENSORRT_8_OPSET {
        notes.push(format!(
            "opset {opset}: TensorRT 8.6 reads opsets up to {TENSORRT_8_OPSET} and misreads newer \
             ones (ReduceMean among others); for 8.x export with opset {TENSORRT_8_OPSET}"
        ));
    }
    let named = |wanted: &dyn Fn(&OnnxTensor) -> bool| -> Vec<&str> {
        summary
            .inputs
            .iter()
            .filter(|input| wanted(input))
            .map(|input| input.name.as_str())
            .collect()
    };
    let wide = named(&|input| input.dtype == Some(OnnxType::I64));
    if !wide.is_empty() {
        notes.push(format!(
            "64-bit integer inputs ({}): TensorRT 8.x takes none; export them as 32-bit integers",
            wide.join(", ")
        ));
    }
    let brain =
        |tensors: &[OnnxTensor]| tensors.iter().any(|tensor| tensor.dtype == Some(OnnxType::BF16));
    if summary.weights.contains_key(&OnnxType::BF16)
        || brain(&summary.inputs)
        || brain(&summary.outputs)
    {
        notes.push("brain floats (bf16): TensorRT 8.x has none".to_owned());
    }
    let open = named(&|input| {
        let shape = input.shape.as_deref();
        shape.is_none_or(|shape| shape.iter().any(|extent| !matches!(extent, OnnxExtent::Fixed(_))))
    });
    if !open.is_empty() {
        notes.push(format!(
            "open extents ({}): a build needs optimization profiles for them",
            open.join(", ")
        ));
    }
    for (domain, version) in &summary.other_opsets {
        if summary.nodes.iter().chain(&summary.inner_nodes).any(|node| node.domain == *domain) {
            notes.push(format!(
                "operators of the domain {domain} (version {version}): TensorRT needs a plugin \
                 for each of them"
            ));
        }
    }
    for file in &summary.external_files {
        let there = path.parent().unwrap_or(Path::new("")).join(file).is_file();
        notes.push(match there {
            true => format!("weights in {file}: it has to travel with this file"),
            false => format!("weights in {file}, which is missing beside this file"),
        });
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorrt::onnx_file::OnnxNode;

    fn input(name: &str, dtype: u64, extent: OnnxExtent) -> OnnxTensor {
        OnnxTensor { name: name.into(), dtype: Some(OnnxType(dtype)), shape: Some(vec![extent]) }
    }

    #[test]
    fn each_trap_has_a_note_and_a_plain_graph_none() {
        let plain = OnnxSummary {
            inputs: vec![input("x", 1, OnnxExtent::Fixed(3))],
            ..OnnxSummary::default()
        };
        assert!(notes(&plain, 17, Path::new("x.onnx")).is_empty());
        let mut odd = plain;
        odd.inputs.push(input("ids", 7, OnnxExtent::Named("N".into())));
        odd.other_opsets.push(("com.x".into(), 2));
        odd.nodes.push(OnnxNode { domain: "com.x".into(), ..OnnxNode::default() });
        odd.external_files.push("w.bin".into());
        odd.weights.insert(OnnxType::BF16, OnnxWeights::default());
        let notes = notes(&odd, 18, Path::new("x.onnx"));
        for (note, word) in
            notes.iter().zip(["opset 18", "(ids)", "bf16", "profiles", "plugin", "missing"])
        {
            assert!(note.contains(word), "{word} in {note}");
        }
        assert_eq!(notes.len(), 6);
    }

    #[test]
    fn operators_are_counted_with_their_domain_most_used_first() {
        let node = |operator: &str, domain: &str| OnnxNode {
            operator: operator.into(),
            domain: domain.into(),
            ..OnnxNode::default()
        };
        let summary = OnnxSummary {
            nodes: vec![
                node("Mul", ""),
                node("Add", ""),
                node("Gelu", "com.x"),
                node("Add", "ai.onnx"),
            ],
            ..OnnxSummary::default()
        };
        let text: Vec<_> = operators(&summary)
            .into_iter()
            .map(|c| format!("{} {}", c.nodes, c.operator))
            .collect();
        assert_eq!(text, ["2 Add", "1 Mul", "1 com.x::Gelu"]);
    }
}
