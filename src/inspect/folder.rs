/*!
Folders: bundles of graphs and engine folders, one line a file; and what lies below a folder of such
folders.
*/

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::Report;
use runtime::engine::assess::{LayerReport, assess};
use runtime::engine::freshness::{damaged, damaged_weights};
use runtime::engine::{BuildCost, EngineManifest, PlanRecord};
use tensorrt::onnx_file::OnnxSummary;
use vos::bundle::manifest::Tensor;
use vos::bundle::trunk::StemAndNeck;
use vos::bundle::{Bundle, FusedPart, Graph, Role, Trunk, WeightsRecord};

/// How deep below a folder manifests are looked for: engines/<platform>/<model>.
const DEEPEST: usize = 2;

/// A bundle.
#[derive(Clone, Debug, Serialize)]
pub struct BundleReport {
    /// The folder.
    pub path: PathBuf,
    /// Model, size and precision.
    pub name: String,
    /// Trained scalars, as its manifest says.
    pub parameters: u64,
    /// Whose weights.
    pub weights: String,
    /// What wrote it.
    pub exporter: String,
    /// Opset of the graphs.
    pub opset: u32,
    /// The graphs, in the manifest's order.
    pub graphs: Vec<GraphLine>,
    /// The encoder's trunk; none where all of the encoder is in graphs.
    pub trunk: Option<TrunkLine>,
    /// The other parts with weights for custom CUDA kernels.
    pub parts: Vec<PartLine>,
}

/// The work of custom CUDA kernels in place of a graph, in a bundle or an engine folder.
#[derive(Clone, Debug, Serialize)]
pub struct PartLine {
    /// Its name: "mask decoder".
    pub part: &'static str,
    /// File of the weights.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// 2 x multiply-accumulates for one object of one frame.
    pub flops: u64,
    /// What is wrong with the file.
    pub problem: Option<String>,
}

/// The trunk of an encoder, in a bundle or an engine folder.
#[derive(Clone, Debug, Serialize)]
pub struct TrunkLine {
    /// File of the weights.
    pub file: String,
    /// Bytes of the weights.
    pub bytes: u64,
    /// The network of its blocks: `Hiera` or `RepViT`.
    pub kind: &'static str,
    /// Number of blocks.
    pub blocks: usize,
    /// Kernels compute stem and neck, too.
    pub with_stem_and_neck: bool,
    /// Sides of the maps after its stages, tokens.
    pub grids: Vec<usize>,
    /// Channels of the tokens after its stages.
    pub columns: Vec<usize>,
    /// 2 x multiply-accumulates for one image.
    pub flops: u64,
    /// What is wrong with the file.
    pub problem: Option<String>,
}

/// One graph of a bundle.
#[derive(Clone, Debug, Serialize)]
pub struct GraphLine {
    /// What it does.
    pub role: &'static str,
    /// File name.
    pub file: String,
    /// Its size; none where it cannot be read.
    pub bytes: Option<u64>,
    /// Number of nodes; none where it cannot be read.
    pub nodes: Option<usize>,
    /// 2 x multiply-accumulates of one run.
    pub flops: u64,
    /// Inputs in words.
    pub inputs: Vec<String>,
    /// Outputs in words.
    pub outputs: Vec<String>,
    /// What is wrong with the file.
    pub problem: Option<String>,
}

/// An engine folder.
#[derive(Clone, Debug, Serialize)]
pub struct EngineFolderReport {
    /// The folder.
    pub path: PathBuf,
    /// Model, size and precision of the bundle that it was built from.
    pub bundle: String,
    /// Row of the platform table.
    pub platform: String,
    /// Precision asked for.
    pub precision: String,
    /// The command that builds it again.
    pub rebuild: String,
    /// The plans, in the order they were built.
    pub plans: Vec<PlanLine>,
    /// The encoder's trunk, between two of the plans; none where there is none.
    pub trunk: Option<TrunkLine>,
    /// The other parts that custom CUDA kernels compute.
    pub parts: Vec<PartLine>,
}

/// One plan of an engine folder.
#[derive(Clone, Debug, Serialize)]
pub struct PlanLine {
    /// What its graph does.
    pub role: &'static str,
    /// File name.
    pub file: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// "TensorRT 8.6.0".
    pub tensorrt: String,
    /// Compute capabilities that it runs on.
    pub sm: Vec<u32>,
    /// Number of optimization profiles; 1 where all shapes are fixed.
    pub profiles: usize,
    /// What the build took.
    pub build: BuildCost,
    /// What its layers say.
    pub assessment: LayerReport,
    /// What is wrong with the file.
    pub problem: Option<String>,
}

/// One report for each bundle and engine folder at or below `path`.
pub fn inspect(path: &Path) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    collect(path, DEEPEST, &mut reports)?;
    if reports.is_empty() {
        bail!(
            "{} holds neither a bundle (manifest.toml, written by onnx/export.py) nor engines \
             (engine.json, written by segtrt build-engines); name such a folder, or a file in it",
            path.display()
        );
    }
    Ok(reports)
}

fn collect(path: &Path, deeper: usize, reports: &mut Vec<Report>) -> Result<()> {
    if let Some(manifest) = EngineManifest::read(path)? {
        reports.push(Report::Engines(engines(path, &manifest)));
        return Ok(());
    }
    if path.join("manifest.toml").is_file() {
        reports.push(Report::Bundle(bundle(&Bundle::open(path)?)));
        return Ok(());
    }
    if deeper == 0 {
        return Ok(());
    }
    let entries =
        std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut below: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    below.sort();
    below.iter().try_for_each(|path| collect(path, deeper - 1, reports))
}

fn bundle(bundle: &Bundle) -> BundleReport {
    let manifest = &bundle.manifest;
    BundleReport {
        path: bundle.dir.clone(),
        name: bundle.name(),
        parameters: manifest.model.parameters,
        weights: manifest.weights_phrase(),
        exporter: manifest.export.exporter.clone(),
        opset: manifest.export.opset,
        graphs: manifest.graphs.iter().map(|graph| graph_line(bundle, graph)).collect(),
        trunk: manifest.trunk.as_ref().map(|trunk| {
            trunk_line(trunk, trunk.stem_and_neck(), problem_of(bundle, trunk.record()))
        }),
        parts: manifest
            .weights_files()
            .filter(|record| record.graph != Trunk::GRAPH)
            .map(|record| part_line(record, problem_of(bundle, record)))
            .collect(),
    }
}

/// Why a part's weights cannot be used.
fn problem_of(bundle: &Bundle, record: WeightsRecord<'_>) -> Option<String> {
    bundle.weights(record.graph).err().map(|error| format!("{error:#}"))
}

fn part_line(record: WeightsRecord<'_>, problem: Option<String>) -> PartLine {
    let WeightsRecord { what, file, bytes, flops, .. } = record;
    let bytes = bytes.unwrap_or_default();
    PartLine { part: what, file: file.to_owned(), bytes, flops, problem }
}

/// `ends`: stem and neck, if kernels compute them too.
fn trunk_line(trunk: &Trunk, ends: Option<StemAndNeck>, problem: Option<String>) -> TrunkLine {
    let stages = || trunk.stages().into_iter().flatten();
    TrunkLine {
        file: trunk.file.clone(),
        bytes: trunk.bytes(),
        kind: trunk.blocks.kind(),
        blocks: trunk.blocks.count(),
        with_stem_and_neck: ends.is_some(),
        grids: stages().map(|map| map.grid).collect(),
        columns: stages().map(|map| map.columns).collect(),
        flops: trunk.flops + ends.map_or(0, |ends| ends.flops()),
        problem,
    }
}

fn graph_line(bundle: &Bundle, graph: &Graph) -> GraphLine {
    let path = bundle.dir.join(&graph.file);
    let summary = OnnxSummary::read(&path);
    let nodes = summary.as_ref().ok().map(|summary| summary.nodes.len());
    let unread = || summary.err().map(|error| format!("{error:#}"));
    GraphLine {
        role: graph.role.name(),
        file: graph.file.clone(),
        bytes: std::fs::metadata(&path).ok().map(|meta| meta.len()),
        nodes,
        flops: graph.flops,
        inputs: graph.inputs.iter().map(Tensor::to_string).collect(),
        outputs: graph.outputs.iter().map(Tensor::to_string).collect(),
        // A file may have the right hash and be no graph all the same.
        problem: graph_problem(bundle, graph.role).or_else(unread),
    }
}

fn graph_problem(bundle: &Bundle, role: Role) -> Option<String> {
    bundle.verify(&[role]).err().map(|error| format!("{error:#}"))
}

fn engines(path: &Path, manifest: &EngineManifest) -> EngineFolderReport {
    let model = &manifest.bundle.model;
    let wrong = |weights: WeightsRecord<'_>| {
        let why = damaged_weights(weights, path)?;
        let (place, again) = (path.join(weights.file), manifest.rebuild_command());
        Some(format!("{}: {why}; get it again with: {again}", place.display()))
    };
    EngineFolderReport {
        path: path.to_owned(),
        bundle: format!("{}_{}_{}", model.name, model.imgsz, model.precision),
        platform: manifest.platform.clone(),
        precision: manifest.precision.to_string(),
        rebuild: manifest.rebuild_command(),
        plans: manifest.plans.iter().map(|plan| plan_line(path, manifest, plan)).collect(),
        trunk: manifest
            .trunk()
            .map(|trunk| trunk_line(trunk, manifest.stem_and_neck(), wrong(trunk.record()))),
        parts: manifest
            .weights_files()
            .filter(|record| record.graph != Trunk::GRAPH)
            .map(|record| part_line(record, wrong(record)))
            .collect(),
    }
}

fn plan_line(path: &Path, manifest: &EngineManifest, plan: &PlanRecord) -> PlanLine {
    PlanLine {
        role: plan.role.name(),
        file: plan.file.clone(),
        bytes: plan.bytes,
        tensorrt: plan.made_by.tensorrt.clone(),
        sm: plan.made_by.sm.clone(),
        profiles: plan.settings.profiles.len().max(1),
        build: plan.build.clone(),
        assessment: assess(plan, &manifest.bundle),
        problem: damaged(plan, path).map(|why| {
            format!(
                "{}: {why}; build it again with: {}",
                path.join(&plan.file).display(),
                manifest.rebuild_command()
            )
        }),
    }
}
