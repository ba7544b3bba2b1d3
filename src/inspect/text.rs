/*!
Reports as tables and lines for people. Sizes are MB of a million bytes for files, MiB for memory.
*/

use std::fmt::Write;

use super::text_plan;
use super::units::{capabilities, facts, mebibytes, megabytes};
use super::{BundleReport, EngineFolderReport, OnnxReport, PartLine, Report, TrunkLine};
use host::screen_table;
use tensorrt::onnx_file::OnnxTensor;

/// Renders a report. `all_layers` lists every layer of a plan.
pub fn render(report: &Report, all_layers: bool) -> String {
    match report {
        Report::Onnx(report) => onnx(report),
        Report::Plan(report) => text_plan::plan(report, all_layers),
        Report::Bundle(report) => bundle(report),
        Report::Engines(report) => engines(report),
    }
}

fn onnx(report: &OnnxReport) -> String {
    let mut pairs = vec![
        ("size", format!("{} MB ({} bytes)", megabytes(report.bytes), report.bytes)),
        ("sha256", report.sha256.clone()),
    ];
    if let Some(bundle) = &report.bundle {
        let agrees =
            if bundle.sha256_agrees { "as its manifest says" } else { "NOT as its manifest says" };
        pairs.push(("bundle", format!("{} of {}, {agrees}", bundle.role, bundle.name)));
    }
    let others =
        report.other_opsets.iter().map(|(domain, version)| format!(", {domain} {version}"));
    pairs.extend([
        ("written by", report.producer.clone()),
        ("IR version", report.ir_version.to_string()),
        ("opset", format!("{}{}", report.opset, others.collect::<String>())),
        ("nodes", report.nodes.to_string()),
    ]);
    let by_type: Vec<String> = report
        .weights
        .iter()
        .map(|(dtype, weights)| {
            format!(
                "{dtype} {} in {} tensors ({} MB)",
                weights.elements,
                weights.tensors,
                megabytes(weights.bytes)
            )
        })
        .collect();
    pairs.push(("parameters", format!("{}: {}", report.parameters, by_type.join(", "))));
    let mut out = format!("{}: ONNX\n{}", report.path.display(), facts(&pairs));
    let mut tensors = screen_table::dense(["", "name", "type", "shape"], []);
    for (direction, side) in [("input", &report.inputs), ("output", &report.outputs)] {
        for tensor in side {
            tensors.add_row([direction, tensor.name.as_str(), &dtype(tensor), &shape(tensor)]);
        }
    }
    let _ = writeln!(out, "{tensors}");
    let operators: Vec<String> = report
        .operators
        .iter()
        .map(|count| format!("{} {}", count.nodes, count.operator))
        .collect();
    let _ = writeln!(out, "  operators: {}", operators.join(", "));
    for note in &report.notes {
        let _ = writeln!(out, "  note: {note}");
    }
    out
}

fn dtype(tensor: &OnnxTensor) -> String {
    tensor.dtype.map_or_else(|| "no tensor".to_owned(), |dtype| dtype.to_string())
}

fn shape(tensor: &OnnxTensor) -> String {
    let Some(shape) = &tensor.shape else { return "open".to_owned() };
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ")
}

fn bundle(report: &BundleReport) -> String {
    let pairs = [
        ("weights", report.weights.clone()),
        ("parameters", report.parameters.to_string()),
        ("written by", format!("{}, opset {}", report.exporter, report.opset)),
    ];
    let mut out = format!("{}: bundle {}\n{}", report.path.display(), report.name, facts(&pairs));
    let mut graphs = screen_table::dense(
        ["graph", "file", "MB", "nodes", "GFLOP", "inputs", "outputs"],
        [2, 3, 4],
    );
    for graph in &report.graphs {
        let number = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        graphs.add_row([
            graph.role.to_owned(),
            graph.file.clone(),
            number(graph.bytes.map(megabytes)),
            number(graph.nodes.map(|nodes| nodes.to_string())),
            format!("{:.1}", graph.flops as f64 / 1e9),
            graph.inputs.join("\n"),
            graph.outputs.join("\n"),
        ]);
    }
    let _ = writeln!(out, "{graphs}");
    let problems = report.graphs.iter().filter_map(|graph| graph.problem.as_ref());
    out.push_str(&weights(report.trunk.as_ref(), &report.parts, problems));
    out
}

fn engines(report: &EngineFolderReport) -> String {
    let mut out = format!(
        "{}: engines of {} for {}, {}\n",
        report.path.display(),
        report.bundle,
        report.platform,
        report.precision
    );
    let mut plans = screen_table::dense(
        [
            "plan",
            "MB",
            "built by",
            "for",
            "profiles",
            "build s",
            "context",
            "layers",
            "fp32 by fallback",
            "attention",
        ],
        [1, 4, 5, 6, 7],
    )
    .optional([5, 7]);
    for plan in &report.plans {
        let assessment = &plan.assessment;
        let unknown = || "-".to_owned();
        plans.add_row([
            plan.role.to_owned(),
            megabytes(plan.bytes),
            plan.tensorrt.clone(),
            capabilities(&plan.sm),
            plan.profiles.to_string(),
            format!("{:.1}", plan.build.seconds),
            plan.build.context_bytes.map_or_else(unknown, mebibytes),
            assessment.layers.map_or_else(unknown, |layers| layers.to_string()),
            assessment
                .fallback
                .as_ref()
                .map_or_else(unknown, |f| format!("{} of {}", f.layers.len(), f.of)),
            assessment.attention.verdict.to_string(),
        ]);
    }
    let _ = writeln!(out, "{plans}");
    let problems = report.plans.iter().filter_map(|plan| plan.problem.as_ref());
    out.push_str(&weights(report.trunk.as_ref(), &report.parts, problems));
    out
}

/// The lines of what is in no graph, then what is wrong with that or with anything else.
fn weights<'r>(
    of_trunk: Option<&'r TrunkLine>,
    parts: &'r [PartLine],
    problems: impl Iterator<Item = &'r String>,
) -> String {
    let mut out = String::new();
    out.extend(of_trunk.map(trunk));
    out.extend(parts.iter().map(part));
    let of_parts = parts.iter().map(|line| &line.problem);
    let more = of_trunk.map(|trunk| &trunk.problem).into_iter().chain(of_parts);
    for problem in problems.chain(more.flatten()) {
        let _ = writeln!(out, "  wrong: {problem}");
    }
    out
}

/// The line of the custom CUDA kernels that replace a graph.
fn part(line: &PartLine) -> String {
    let PartLine { part, file, bytes, flops, .. } = line;
    format!("  {part}: {file}, {} MB, {:.1} GFLOP\n", megabytes(*bytes), *flops as f64 / 1e9)
}

/// The line of a trunk, whose blocks are in no graph.
fn trunk(trunk: &TrunkLine) -> String {
    let stages = trunk.grids.iter().zip(&trunk.columns);
    let stages: Vec<String> =
        stages.map(|(grid, columns)| format!("{grid} x {grid} x {columns}")).collect();
    format!(
        "  trunk: {}, {} MB, {} {} blocks{}, {:.1} GFLOP; tokens after its stages {}\n",
        trunk.file,
        megabytes(trunk.bytes),
        trunk.blocks,
        trunk.kind,
        if trunk.with_stem_and_neck { " with stem and neck" } else { "" },
        trunk.flops as f64 / 1e9,
        stages.join(", ")
    )
}
